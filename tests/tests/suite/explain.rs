//! Counters of `cargo xtask explain` against known values: active warps and conflicts of each tree step,
//! conflicts of the transposes, sectors of every stride.
//!
//! Proves that the counters are exact and attributed to the right lines, in the Rust kernels and in the
//! CUDA C twins. docs/counters.md compares a GPU's counters for the same launches.

use std::{collections::BTreeMap, fs, process::Command};

use warpfold_measure::{
    explain::{Explained, case::Case, validate::METRICS},
    workspace::Workspace,
};
use warpfold_suite::{Dtype, PtxStore, catalogue, memory::STRIDES};
use warpfold_tests::{root, store, twins};

const N: u64 = 1 << 14;

fn case(id: &str) -> Case {
    Case::new(catalogue::find(id).unwrap(), N).unwrap()
}

fn explain_from(case: &Case, store: &PtxStore) -> Explained {
    Explained::of(case, store, &Workspace::at(root()).unwrap(), None).unwrap()
}

fn explain(id: &str) -> Explained {
    explain_from(&case(id), store())
}

fn both(case: &Case) -> Vec<(&'static str, Explained)> {
    let twin = twins().ok().map(|store| ("twin", explain_from(case, store)));
    [("kernel", explain_from(case, store()))].into_iter().chain(twin).collect()
}

#[test]
fn active_warps_of_each_step_are_those_of_write_up_b() {
    let expected = [
        ("interleaved_modulo", vec![8.0, 8.0, 8.0, 8.0, 8.0, 4.0, 2.0, 1.0], 47.0),
        ("interleaved_strided", vec![4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 12.0),
        ("sequential", vec![4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 12.0),
    ];
    for (id, warps, sum) in expected {
        for (side, one) in both(&case(id)) {
            assert_eq!(one.facts.active_warps(), warps, "{side} {id}");
            assert_eq!(one.facts.active_warps().iter().sum::<f64>(), sum, "{side} {id}");
        }
    }
}

#[test]
fn only_the_strided_tree_has_bank_conflicts() {
    for (side, one) in both(&case("interleaved_strided")) {
        assert_eq!(one.facts.conflict_degrees(), [2, 4, 8, 8, 8, 4, 2, 1], "{side}");
    }
    for id in ["interleaved_modulo", "sequential", "unroll_full", "warp_shuffle"] {
        for (side, one) in both(&case(id)) {
            assert_eq!(one.facts.total.shared().conflicts(), 0, "{side} {id}");
            assert!(one.facts.conflict_degrees().iter().all(|&degree| degree == 1), "{side} {id}");
        }
    }
}

#[test]
fn padding_removes_the_transposes_bank_conflicts() {
    for (id, degree) in [("transpose_shared", 32), ("transpose_padded", 1)] {
        for (side, one) in both(&case(id)) {
            let loads = one.facts.total.shared_loads;
            assert_eq!((loads.requests, loads.degree), (N / 32, degree), "{side} {id}");
            assert_eq!(loads.wavefronts, N / 32 * u64::from(degree), "{side} {id}");
            assert_eq!(one.facts.total.shared_stores.conflicts(), 0, "{side} {id}");
        }
    }
    // `transpose_naive` writes one sector per lane, the others four per warp.
    for (id, sectors) in
        [("transpose_naive", N), ("transpose_shared", N / 8), ("transpose_padded", N / 8)]
    {
        for (side, one) in both(&case(id)) {
            assert_eq!(one.facts.total.global_stores.sectors, sectors, "{side} {id}");
        }
    }
}

#[test]
fn every_stride_has_its_sectors() {
    for dtype in [Dtype::F32, Dtype::F64] {
        let size = dtype.size() as u64;
        for stride in STRIDES {
            let case = Case { stride, dtype, ..case("copy_strided") };
            for (side, one) in both(&case) {
                let (loads, stores) = (one.facts.total.global_loads, one.facts.total.global_stores);
                assert_eq!(
                    (loads.requests, stores.requests),
                    (N / 32, N / 32),
                    "{side}, stride {stride}"
                );
                let per_request = (size * stride).min(32);
                assert_eq!(loads.sectors, loads.requests * per_request, "{side}, stride {stride}");
                assert_eq!(stores.sectors, stores.requests * size, "{side}, stride {stride}");
                let efficiency = size as f64 / per_request as f64;
                assert_eq!(loads.efficiency(), Some(efficiency), "{side}, stride {stride}");
            }
        }
    }
}

#[test]
fn atomics_queue_up_on_one_address() {
    let one = explain("atomic_blocks");
    let blocks = one.run.launches[0].grid;
    let atomics = one.facts.total.global_atomics;
    assert_eq!((atomics.requests, atomics.operations, atomics.passes), (blocks, blocks, blocks));
    assert_eq!(one.facts.hottest_atomic, blocks);
    let one = explain("atomic_per_thread");
    let launch = &one.run.launches[0];
    let threads = launch.grid * u64::from(launch.block);
    let atomics = one.facts.total.global_atomics;
    assert_eq!((atomics.operations, atomics.passes), (threads, threads));
    assert_eq!(one.facts.hottest_atomic, threads);
}

#[test]
fn loads_under_way_are_counted_until_their_first_use() {
    assert_eq!(explain("sequential").facts.bytes_in_flight, 4);
    assert_eq!(explain("first_add").facts.bytes_in_flight, 8);
    let bulk = explain_from(&Case { grid: Some(1), ..case("bulk_copy") }, store()).facts;
    assert_eq!(bulk.copy_bytes_in_flight, 4 * 8192, "three tiles ahead, and that of the turn");
}

#[test]
fn counters_are_attributed_to_their_source_lines() {
    let one = explain("interleaved_strided");
    let file = one.run.own_file();
    let source = fs::read_to_string(root().join(&file)).unwrap();
    let lines = &one.attribution.files[&file];
    let of = |text: &str| {
        let at = source.lines().position(|line| line.contains(text)).unwrap() as u32 + 1;
        lines[&at]
    };
    let tree = of("values.set(k, R::combine(values.get(k), values.get(k + s)))");
    assert_eq!((tree.shared_loads.degree, tree.block_barriers), (8, 0));
    assert_eq!(tree.shared(), {
        let mut all = one.facts.total.shared_loads;
        all += one.facts.total.shared_stores;
        // The rest is the first store of each thread and the result's load in each block's first warp.
        let rest: u64 =
            one.run.launches.iter().map(|launch| launch.profile.warps + launch.profile.blocks).sum();
        all.requests -= rest;
        all.wavefronts -= rest;
        all.ideal -= rest;
        all
    });
    assert!(of("if k < block_dim_x()").divergent_branches > 0);
    assert_eq!(of("R::map(*input.add(i as usize))").global_loads, one.facts.total.global_loads);
}

#[test]
fn inlined_code_counts_at_call_site_and_definition() {
    let one = explain("unroll_last_warp");
    let file = one.run.own_file();
    let source = fs::read_to_string(root().join(&file)).unwrap();
    let at = source.lines().position(|line| line.contains("steps::load_one::<T, R>(input, n)")).unwrap();
    let loads = one.attribution.files[&file][&(at as u32 + 1)].global_loads;
    assert_eq!(loads, one.facts.total.global_loads);
    let inlined = &one.attribution.files["kernels/src/reduce/steps.rs"];
    assert!(inlined.values().any(|tally| tally.global_loads == loads));
}

#[test]
fn every_access_of_every_kernel_has_a_line_of_its_own_file() {
    let stores: Vec<_> = [Some(store()), twins().ok()].into_iter().flatten().collect();
    for variant in catalogue::kernels() {
        for store in &stores {
            let one = explain_from(&case(variant.id), store);
            assert_eq!(one.attribution.total, one.facts.total, "{}", variant.id);
            let rest = one.attribution.elsewhere;
            let file = one.run.own_file();
            assert_eq!(rest.shared().requests + rest.global().requests, 0, "{file}");
            assert_eq!(rest.block_barriers + rest.global_atomics.requests + rest.copies, 0, "{file}");
            let innermost: u64 = one.attribution.innermost.values().map(|t| t.warp_instructions).sum();
            assert!(innermost <= one.facts.total.warp_instructions, "{file}");
        }
    }
}

#[test]
fn every_metric_that_is_validated_is_documented() {
    let text = fs::read_to_string(root().join("docs/counters.md")).unwrap();
    for metric in METRICS {
        // The page names the first of a metric family in full and only the last parts of the others.
        let short = metric.name.rsplit_once("_op_").map(|(family, _)| family).unwrap_or(metric.name);
        assert!(text.contains(short), "docs/counters.md says nothing of {}", metric.name);
    }
}

fn xtask(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "xtask", "--"]).args(args).current_dir(root());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_command_shows_three_kernels_side_by_side() {
    store();
    let (code, text, _) =
        xtask(&["explain", "--variant", "interleaved_modulo,interleaved_strided,sequential"]);
    assert_eq!(code, Some(0));
    let row = |label: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(label)).unwrap_or_default();
        line.trim_start().trim_start_matches(label).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("active warps"), "8 8 8 8 8 4 2 1 4 2 1 1 1 1 1 1 4 2 1 1 1 1 1 1");
    assert_eq!(row("sum"), "47 12 12");
    assert_eq!(row("worst, ways"), "1 8 1");
    assert!(text.contains("if tid % NonZeroU32::new_unchecked(2 * s) == 0 {"));
    let widths: BTreeMap<usize, usize> = text
        .lines()
        .filter(|line| line.contains('|') && line.len() > 90)
        .filter_map(|line| line.find('|'))
        .fold(BTreeMap::new(), |mut widths, at| {
            *widths.entry(at).or_default() += 1;
            widths
        });
    assert_eq!(widths.len(), 1, "the columns are aligned");
}

#[test]
fn json_has_the_same_numbers() {
    store();
    let (code, text, _) = xtask(&["explain", "--variant", "sequential", "--json", "--n", "2^14"]);
    assert_eq!(code, Some(0));
    let line = text.lines().next().unwrap_or_default();
    assert!(line.contains(r#""active_warps":[4.0,2.0,1.0,1.0,1.0,1.0,1.0,1.0]"#), "{line}");
    let total = explain("sequential").facts.total.warp_instructions;
    assert!(line.contains(&format!("\"warp_instructions\":{total}")), "{line}");
}

#[test]
fn a_page_shows_block_0_step_by_step() {
    store();
    let folder = root().join("target/explain-test");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("page.html");
    let (code, text, error) = xtask(&[
        "explain",
        "--variant",
        "interleaved_strided",
        "--n",
        "2^10",
        "--html",
        path.to_str().unwrap(),
    ]);
    assert_eq!((code, text.trim()), (Some(0), path.to_str().unwrap()), "{error}");
    let page = fs::read_to_string(&path).unwrap();
    // The load, eight steps of the tree and the output; three have an 8-way conflict.
    assert_eq!(page.matches(" active</span>").count(), 10);
    assert_eq!(page.matches("8-way").count(), 3);
    assert!(page.contains("let k = 2 * s * tid;") && !page.contains("Reduction<T>>"), "escaped");
}

#[test]
fn a_validation_compares_each_launch() {
    store();
    let folder = root().join("target/explain-test");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("validate.jsonl");
    let line = |launch: usize, loads: u64| {
        format!(
            r#"{{"variant":"sequential","dtype":"f32","n":65536,"grid":null,"stride":null,"run":1,"launch":{launch},"kernel":"sequential_sum_f32","metrics":{{"{}":{loads}.0}}}}"#,
            METRICS[0].name
        )
    };
    for (second, status) in [(8, 0), (9, 1)] {
        fs::write(&path, format!("{}\n{}\n", line(0, 2048), line(1, second))).unwrap();
        let (code, text, error) = xtask(&["explain", "--validate", path.to_str().unwrap()]);
        assert_eq!(code, Some(status), "{error}");
        assert!(text.contains("| `sequential` 1 | 2048 |"), "{text}");
    }
    fs::write(&path, "{\"metrics\": 1}\n").unwrap();
    let (code, text, error) = xtask(&["explain", "--validate", path.to_str().unwrap()]);
    assert_eq!((code, text.as_str(), complaints(&error).len()), (Some(2), "", 1), "{error}");
}

fn complaints(error: &str) -> Vec<&str> {
    let told = |line: &&str| line.starts_with("registers are") || line.starts_with("codegen ");
    error.lines().filter(|line| !told(line)).collect()
}

#[test]
fn invalid_explain_arguments_give_a_one_line_error() {
    for (args, reason) in [
        (&["explain", "--variant", "sequentiel"][..], "sequential"),
        (&["explain", "--variant", "cpu_serial"], "no kernel"),
        (&["explain", "--variant", "sequential", "--stride", "2"], "no stride"),
        (&["explain", "--variant", "transpose_naive", "--op", "sum"], "no operation"),
        (&["explain", "--variant", "sequential", "--grid", "7"], "grid follows"),
        (&["explain", "--variant", "redux", "--dtype", "f64"], "f64"),
        (&["explain", "--n", "4"], "required"),
    ] {
        let (code, text, error) = xtask(args);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{args:?}: {error}");
        let lines = complaints(&error);
        assert!(lines.len() == 1 && lines[0].contains(reason), "{args:?}: {error}");
    }
}
