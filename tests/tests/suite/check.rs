//! Hazard checks: neither a kernel of the catalogue nor its CUDA C twin has a hazard, and the hazard
//! planted in each test kernel is found at its line.
//!
//! Proves that the checks tell right from wrong on these kernels. It does not prove the absence of
//! hazards that the checks do not cover: sim/src/hazard says what is recorded of an access.

use std::{collections::BTreeSet, fs, ops::Range, path::Path, process::Command};

use warpfold_measure::{
    check::{
        cases, check,
        watch::{Hazard, Kind},
    },
    explain::case::Case,
    workspace::Workspace,
};
use warpfold_suite::{
    Dtype, Op, PtxStore,
    catalogue::{self, VARIANTS, Variant},
    reducer::tuning::KernelKind,
};
use warpfold_tests::{ptx, root, store, twins};

fn hazards(cases: &[Case], store: &PtxStore) -> Vec<Hazard> {
    check(cases, store, &Workspace::at(root()).unwrap()).unwrap()
}

fn assert_clean(variant: &Variant, cases: &[Case], store: &PtxStore) {
    let found = hazards(cases, store);
    assert!(found.is_empty(), "{}: {found:#?}", variant.id);
}

fn with_ptx() -> impl Iterator<Item = &'static Variant> {
    VARIANTS.iter().filter(|variant| variant.has_ptx())
}

#[test]
fn no_kernel_of_the_catalogue_has_a_hazard() {
    for variant in with_ptx() {
        assert_clean(variant, &cases(variant, &[]).unwrap(), store());
    }
}

#[test]
fn no_operation_or_type_has_a_hazard() {
    for variant in with_ptx() {
        let of = |(op, dtype)| Case { op, dtype, n: 1500, ..Case::new(variant, 1).unwrap() };
        assert_clean(variant, &variant.cases().map(of).collect::<Vec<_>>(), store());
    }
}

#[test]
fn no_twin_has_a_hazard() {
    let Ok(store) = twins() else { return };
    for variant in catalogue::kernels() {
        let cases = cases(variant, &[]).unwrap().into_iter().filter(|case| case.dtype.size() == 4);
        assert_clean(variant, &cases.collect::<Vec<_>>(), store);
    }
}

#[test]
fn no_launch_geometry_has_a_hazard() {
    for id in ["single_pass_last_block", "cooperative", "atomic_blocks", "bulk_copy", "cluster"] {
        let variant = catalogue::find(id).unwrap();
        let clustered = variant.shape().unwrap().cluster > 1;
        for (block, grid) in [(32, 40), (512, 8), (1024, 16)] {
            let grid = if clustered { 8 } else { grid };
            let case = Case { n: 70_001, block, grid: Some(grid), ..Case::new(variant, 1).unwrap() };
            assert_clean(variant, &[case], store());
        }
    }
}

fn testing() -> &'static [Variant] {
    // SAFETY: these tests run the kernels only in the simulator, which detects their errors.
    unsafe { catalogue::testing() }
}

/// Returns the source lines that contain `mark` in the test kernel `id`.
fn marked(id: &str, mark: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in ["broken", "hazards", "unwaited"] {
        let file = format!("kernels/src/testing/{name}.rs");
        let source = fs::read_to_string(root().join(&file)).unwrap();
        let mut inside = false;
        for (number, line) in source.lines().enumerate() {
            if line.starts_with("unsafe fn ") {
                inside = line.starts_with(&format!("unsafe fn {id}<"));
            }
            if inside && line.contains(mark) {
                found.insert(format!("{file}:{}", number + 1));
            }
        }
    }
    found
}

#[test]
fn each_planted_hazard_is_found_at_its_line() {
    let planted = [
        ("testing_missing_barrier", Kind::ReadWriteRace, "values.get(tid + offset)"),
        ("testing_two_writers", Kind::WriteWriteRace, "the hazard"),
        ("testing_missing_warp_barrier", Kind::ReadWriteRace, "the hazard"),
        ("testing_relaxed_count", Kind::ReadWriteRace, "the hazard"),
        ("testing_one_output", Kind::WriteWriteRace, "the hazard"),
        ("testing_unwritten_shared", Kind::Unwritten, "the hazard"),
        ("testing_unwritten_output", Kind::Unwritten, "the hazard"),
        ("testing_out_of_bounds", Kind::OutOfBounds, "the hazard"),
        ("testing_misaligned", Kind::Misaligned, "the hazard"),
        ("testing_divergent_barrier", Kind::DivergentBarrier, "the hazard"),
        ("testing_inactive_lane", Kind::InactiveLane, "the hazard"),
        ("testing_unwaited_copy", Kind::UnwaitedCopy, "the hazard"),
    ];
    for (id, kind, mark) in planted {
        let variant = testing().iter().find(|variant| variant.id == id).unwrap();
        let lines = marked(id, mark);
        assert_eq!(lines.len(), 1, "{id}");
        let found = hazards(&cases(variant, &[]).unwrap(), store());
        let at_line = |hazard: &&Hazard| {
            hazard.kind == kind && hazard.places[0].source.iter().any(|place| lines.contains(place))
        };
        let hazard = found.iter().find(at_line);
        let hazard = hazard.unwrap_or_else(|| panic!("{id}: no {kind} at {lines:?} in {found:#?}"));
        assert!(hazard.entry.starts_with(id) && hazard.count > 0, "{hazard:?}");
        let two = matches!(kind, Kind::ReadWriteRace | Kind::WriteWriteRace | Kind::UnwaitedCopy);
        assert_eq!(hazard.places.len(), if two { 2 } else { 1 }, "{hazard:?}");
        if kind == Kind::ReadWriteRace || kind == Kind::WriteWriteRace {
            let [first, second] = hazard.places.as_slice() else { unreachable!("two places") };
            assert_ne!((first.block, first.thread), (second.block, second.thread), "{hazard:?}");
            assert!(second.source[0].starts_with("kernels/src/testing/"), "{hazard:?}");
        }
    }
    // `planted` has every test kernel except the one that is wrong without a hazard.
    let names: Vec<&str> = planted.iter().map(|(id, ..)| *id).collect();
    let others = testing().iter().map(|variant| variant.id).filter(|id| !names.contains(id));
    assert!(others.eq(["testing_drops_tail"]));
}

fn changed(folder: &Path, id: &str, text: &str) -> PtxStore {
    let original = store().find(id, warpfold_tests::device().info()).unwrap();
    let places: Vec<_> = original.path.ancestors().skip(1).take(2).filter_map(Path::file_name).collect();
    let [arch, codegen] = places.as_slice() else { panic!("{}", original.path.display()) };
    let folder_of_file = folder.join(codegen).join(arch);
    fs::create_dir_all(&folder_of_file).unwrap();
    fs::write(folder_of_file.join(original.path.file_name().unwrap()), text).unwrap();
    PtxStore::at(folder, Some(original.codegen)).unwrap()
}

#[test]
fn removing_any_ordering_is_detected() {
    let folder = root().join("target/check-test");
    let mut tried = 0;
    for id in
        ["sequential", "shuffle_two_level", "single_pass_last_block", "bulk_copy", "transpose_shared"]
    {
        let variant = catalogue::find(id).unwrap();
        let cases: Vec<Case> = cases(variant, &[Dtype::F32])
            .unwrap()
            .into_iter()
            .filter(|case| case.n > 4096 && case.block == 256)
            .collect();
        let text = ptx(id).text;
        let start = text.find(&format!(".visible .entry {}(", cases[0].entry())).unwrap();
        let end = start + text[start..].find("\n}\n").unwrap();
        for (order, without) in [("\tbar.sync \t0;", ""), ("atom.acq_rel", "atom.relaxed")] {
            for (at, _) in text[start..end].match_indices(order) {
                let mut text = text.clone();
                text.replace_range(start + at..start + at + order.len(), without);
                let found = hazards(&cases, &changed(&folder, id, &text));
                assert!(!found.is_empty(), "{id}: nobody misses `{}`", order.trim());
                tried += 1;
            }
        }
    }
    assert!(tried >= 11, "only {tried} orders were found in the PTX");
}

/// Returns an entry's range. It ends at the next entry, because inline assembly has its own blocks.
fn entry(text: &str, name: &str) -> Range<usize> {
    let start = text.find(&format!(".visible .entry {name}(")).unwrap();
    let next = text[start + 1..].find(".visible .entry ");
    start..next.map_or(text.len(), |len| start + 1 + len)
}

/// The reducer's blocks pass values by relaxed accesses, which do not race. If one of these becomes a
/// plain access, or a barrier between them is removed, the accesses race.
#[test]
fn plain_access_or_removed_barrier_is_detected() {
    let folder = root().join("target/check-test");
    let plain = Case { dtype: Dtype::F32, grid: Some(2), ..case_of_reducer() };
    let text = ptx(&plain.ptx()).text;
    for kernel in KernelKind::ALL {
        let case = Case { kernel: *kernel, ..plain };
        let Range { start, end } = entry(&text, &case.entry());
        let mut tried = 0;
        for (order, without) in
            [("st.relaxed.gpu", "st"), ("ld.relaxed.gpu", "ld"), ("\tbar.sync \t0;", "")]
        {
            for (at, _) in text[start..end].match_indices(order) {
                let mut text = text.clone();
                text.replace_range(start + at..start + at + order.len(), without);
                let found = hazards(&[case], &changed(&folder, &case.ptx(), &text));
                assert!(!found.is_empty(), "{}: nobody misses `{}` at {at}", case.entry(), order.trim());
                tried += 1;
            }
        }
        assert!(tried >= 5, "only {tried} orders were found in {}", case.entry());
    }
}

/// Bulk copies are waited for at mbarriers, which must be initialised first.
#[test]
fn removing_any_mbarrier_operation_is_detected() {
    let folder = root().join("target/check-test-mbarriers");
    let copy = cases(catalogue::find("bulk_copy").unwrap(), &[Dtype::F32]).unwrap();
    // Few blocks, so that each uses all of its mbarriers more than once.
    let copy = copy.into_iter().find(|case| case.grid == Some(2)).unwrap();
    let reducer = Case { kernel: KernelKind::Bulk, grid: Some(2), ..case_of_reducer() };
    for case in [copy, reducer] {
        let text = ptx(&case.ptx()).text;
        let start = text.find(&format!(".visible .entry {}(", case.entry())).unwrap();
        let rest = &text[start + 1..];
        let end = rest.find(".visible .entry ").map_or(text.len(), |len| start + 1 + len);
        let mut tried = 0;
        for (made, without) in [
            ("mbarrier.init", "//"),
            ("mbarrier.try_wait.parity.shared::cta.b64 over,", "setp.eq.u32 over, 0, 0; //"),
        ] {
            for (at, _) in text[start..end].match_indices(made) {
                let mut text = text.clone();
                text.replace_range(start + at..start + at + made.len(), without);
                let found = hazards(&[case], &changed(&folder, &case.ptx(), &text));
                assert!(!found.is_empty(), "{}: nobody misses `{made}` at {at}", case.entry());
                tried += 1;
            }
        }
        assert!(tried >= 4, "only {tried} mbarriers were found in {}", case.entry());
    }
}

/// The host reads the reducer's result from page-locked memory, without a copy that the driver sees.
#[test]
fn removing_any_result_store_is_detected() {
    let folder = root().join("target/check-test-results");
    for (op, parts) in [(Op::Sum, 1), (Op::Max, 1), (Op::ArgMin, 2)] {
        let plain = Case { op: Some(op), dtype: Dtype::F32, n: 1000, ..case_of_reducer() };
        let text = ptx(&plain.ptx()).text;
        for kernel in KernelKind::ALL {
            let case = Case { kernel: *kernel, ..plain };
            let Range { start, end } = entry(&text, &case.entry());
            // Results, which the host may poll, are written by volatile stores; other values are not.
            // Stores of other forms of the result do not run.
            let stores: Vec<usize> = text[start..end]
                .match_indices("\tst.volatile.global")
                .map(|(at, _)| start + at)
                .collect();
            let is_detected = |at: &usize| {
                let mut text = text.clone();
                text.insert_str(*at, "//");
                let found = hazards(&[case], &changed(&folder, &case.ptx(), &text));
                if let Some(first) = found.first() {
                    let kinds: Vec<Kind> = found.iter().map(|hazard| hazard.kind).collect();
                    assert_eq!(kinds, [Kind::UnwrittenResult], "{} without {at}", case.entry());
                    assert_eq!((first.entry.as_str(), first.places.len()), (&*case.entry(), 0));
                }
                !found.is_empty()
            };
            assert_eq!(stores.iter().filter(|at| is_detected(at)).count(), parts, "{}", case.entry());
        }
    }
}

/// Returns a case with enough elements for the bulk kernel's ring to wrap around.
fn case_of_reducer() -> Case {
    Case { op: Some(Op::Sum), ..Case::new(catalogue::find("reducer").unwrap(), 70_001).unwrap() }
}

#[test]
fn wrong_result_without_a_race_is_not_a_hazard() {
    let variant = testing().iter().find(|variant| variant.id == "testing_drops_tail").unwrap();
    assert_clean(variant, &cases(variant, &[]).unwrap(), store());
}

#[test]
fn check_command_prints_lines_and_exits_with_1() {
    store();
    let xtask = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--package", "xtask", "--", "check"]).args(args);
        let output = command.current_dir(root()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, text, _) = xtask(&["--variant", "testing_relaxed_count,sequential"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("read-write race: global address"), "{text}");
    assert!(
        text.contains("total = R::combine(total, *partials.add(block as usize)); // the hazard"),
        "{text}"
    );
    assert!(text.contains("*partials.add(block_idx_x() as usize) = value;"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("sequential") && line.ends_with("clean")),
        "{text}"
    );
    let (code, text, _) = xtask(&["--variant", "testing_misaligned", "--json"]);
    assert_eq!((code, text.contains(r#""kind":"misaligned""#)), (Some(1), true), "{text}");
    for args in [&["sequentiel"][..], &["transfer_pinned"], &["redux", "--dtype", "f64"]] {
        let (code, text, error) = xtask(&[&["--variant"], args].concat());
        assert_eq!((code, text.as_str(), error.lines().count()), (Some(2), "", 1), "{args:?}: {error}");
    }
    let (code, text, help) = xtask(&[]);
    assert_eq!((code, text.as_str()), (Some(2), ""), "{help}");
    assert!(["Usage: ", "--variant <ID>", "--all"].iter().all(|part| help.contains(part)), "{help}");
    let sum =
        Case { op: Some(Op::Sum), ..Case::new(catalogue::find("sequential").unwrap(), 10).unwrap() };
    assert_eq!(sum.entry(), "sequential_sum_f32");
}
