//! `cargo xtask report`: the page shows all results, the docs match them, and bad results overwrite
//! nothing. The page's rendering is tested where there is a browser.

mod browser;
mod chromium;
mod firefox;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;
use warpfold_measure::{
    report::{self, Args},
    workspace::Workspace,
};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/report/results")
}

fn report(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg("report").args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn page(results: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/page.html");
    let output = report(&["--results", text(results), "--out", text(&out)]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    fs::read_to_string(out).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn chart<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.find(&format!("data-chart=\"{id}\"")).unwrap_or_else(|| panic!("no chart {id}"));
    let chart = &page[start..];
    &chart[..chart.find("</section>").unwrap()]
}

type Files<'a> = &'a [(&'a str, Option<&'a str>)];

fn folder(files: Files<'_>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let given = || fs::read_to_string(sample().join("sample-gpu").join(name)).unwrap();
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.map_or_else(given, str::to_owned)).unwrap();
    }
    folder
}

/// Charts, each with some of the series that it must have.
const SERIES: [(&str, &[&str]); 19] = [
    ("reducer", &["as fast as CUB", "as fast as PyTorch", "target against CUB", "as fast"]),
    ("times", &["limit", "CUB", "PyTorch", "the library"]),
    ("reducer-types", &["sum f32", "argmax i8", "below 1", "from 1.6", "misses its target"]),
    (
        "bandwidth",
        &[
            "vectorized",
            "bulk_copy",
            "redux",
            "serial",
            "grid_stride CUDA C",
            "CUB",
            "PyTorch",
            "reducer",
        ],
    ),
    (
        "latency",
        &[
            "single_pass_last_block",
            "it by rust-cuda",
            "its CUDA C twin",
            "CUB",
            "PyTorch",
            "empty kernel",
        ],
    ),
    ("latency-graph", &["vectorized", "CUB", "empty kernel"]),
    ("ladder", &["interleaved_modulo", "first_add", "redux", "bulk_copy"]),
    (
        "ratio",
        &["interleaved_modulo", "vectorized", "vectorized, rust-cuda", "redux", "1.02", "reducer"],
    ),
    (
        "ratio-others",
        &[
            "vectorized sum i32",
            "vectorized sum i32, rust-cuda",
            "copy_strided stride 64 f64",
            "transpose_padded f32",
        ],
    ),
    ("strides", &["4 bytes, Rust", "8 bytes, Rust", "8 bytes, Rust, rust-cuda", "8 bytes, CUDA C"]),
    (
        "transposes",
        &["transpose_naive Rust", "transpose_naive Rust, rust-cuda", "transpose_shared CUDA C"],
    ),
    ("transfers-4194304", &["transfer_pageable copies alone", "transfer_overlapped the whole"]),
    ("transfers-67108864", &["transfer_pinned reductions alone"]),
    ("cpu", &["cpu_serial", "cpu_parallel, 16 threads", "best kernel", "transfer_overlapped"]),
    ("scaling", &["by stores", "by NCCL", "by copies", "PyTorch and NCCL", "in a CUDA graph"]),
    ("rows", &[]),
    ("library-segments", &[]),
    ("library-operations", &[]),
    ("machine-code", &[]),
];

#[test]
fn every_chart_has_its_series_its_source_and_its_table() {
    let page = page(&sample());
    for (id, series) in SERIES {
        let chart = chart(&page, id);
        for name in series {
            let named = format!("data-series=\"{name}\"");
            // A series is drawn for wide and for narrow screens; labels beside curves are additional.
            assert!(chart.matches(&named).count() >= 2, "{id} without {name}");
        }
        assert!(chart.contains("<p class=\"source\">From "), "{id} without its source");
        assert!(chart.contains("<tbody><tr>"), "{id} without a table");
    }
    assert_eq!(page.matches("data-chart=").count(), SERIES.len());
    // Wrong results are reported, but not shown.
    assert!(page.contains("2 results were wrong") && !page.contains("cluster"));
    for part in ["Sample GPU", "4\u{202f}000 GB/s", "nvcc 13.0", "2026-01-02 03:04:05Z", "made up"] {
        assert!(page.contains(part), "no {part}");
    }
    // first_add exceeds the limit at one size, so its number is marked.
    assert!(chart(&page, "ratio").contains("<td class=\"marked\">1.031</td>"));
    assert!(chart(&page, "machine-code").contains("class=\"marked\""));
    assert!(
        chart(&page, "reducer")
            .contains("<td class=\"long marked\">missed: x cub &gt;= 2, / empty &lt;= 1.1</td>")
    );
    let types = chart(&page, "reducer-types");
    assert!(types.contains("<td class=\"marked\">0.980</td>"));
    // The cell is shaded as a slower result, and has a marked corner.
    let (before, after) = types.split_once(">0.98</text>").expect("its number stands in its cell");
    let (_, cell) = before.rsplit_once("<rect ").expect("behind its cell");
    assert!(cell.starts_with("class=\"k heat-0\""), "{cell}");
    assert!(after.starts_with("<path class=\"k\""), "{after:.200}");
}

#[test]
fn code_generators_are_distinguishable_without_colour() {
    let page = page(&sample());
    // rust-cuda's marks are hollow versions of rustc's, and so are its bars.
    let [ratio, transposes] = ["ratio", "transposes"].map(|id| chart(&page, id));
    let nvvm = |chart: &str| -> Vec<String> {
        let groups = chart.split("<g class=\"nvvm\"").skip(1);
        groups.filter_map(|group| Some(group.split_once("</g>")?.0.to_owned())).collect()
    };
    let marks = nvvm(ratio);
    assert!(
        marks.len() > 4 && marks.iter().all(|mark| mark.contains("class=\"k hollow\"")),
        "{marks:?}"
    );
    let bars = nvvm(transposes);
    assert!(bars.iter().any(|bar| bar.contains("class=\"k bar hollow\"")), "{bars:?}");
    assert!(
        ratio.contains("medians by rustc and ")
            && ratio.contains("medians by rust-cuda are at most 1.02")
    );
    // The reducer has no twin, so rust-cuda's code is compared with rustc's.
    let machine_code = chart(&page, "machine-code");
    assert!(
        machine_code.contains("<th scope=\"row\" class=\"text\">reducer bulk</th>"),
        "{machine_code}"
    );
}

#[test]
fn page_loads_nothing_from_the_network() {
    let page = page(&sample());
    let own = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!own.contains(outside), "{outside}");
    }
}

#[test]
fn the_same_results_give_the_same_page() {
    assert!(page(&sample()) == page(&sample().join("sample-gpu")));
}

#[test]
fn a_chart_without_data_is_not_there() {
    let one = folder(&[("moves.jsonl", None)]);
    let page = page(one.path());
    let charts: Vec<&str> =
        page.split("data-chart=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
    assert_eq!(charts, ["ratio-others", "strides", "transposes"]);
    assert!(!page.contains("results were wrong"));
}

#[test]
fn bad_results_are_one_line_and_overwrite_nothing() {
    let machine = r#"{"kind":"machine","gpu":"Sample GPU","date":"2026-01-01"}"#;
    let cut = format!("{machine}\n{{\"kind\":\"time\",\"variant\":\"vec");
    let other = format!("{}\n", machine.replace("Sample", "Other"));
    let unknown = format!("{machine}\n{{\"kind\":\"temperature\"}}\n");
    let tuple = r#"{"device":"Sample GPU","dtype":"f32","n":16,"tuple":"sum","us":9,"gb_per_s":9}"#;
    let repeated = format!("{machine}\n{tuple}\n{tuple}\n");
    let cases: [(Files<'_>, &[&str]); 10] = [
        (&[], &["no results in ", "JSON lines"]),
        (&[("a.jsonl", Some(""))], &["a.jsonl holds no results"]),
        (&[("a.jsonl", Some(&cut))], &["a.jsonl line 2", "is cut off"]),
        (&[("a.jsonl", Some(&unknown))], &["a.jsonl line 2", "unknown kind, `temperature`"]),
        (&[("a.jsonl", Some("nonsense\n"))], &["a.jsonl line 1", "is not JSON"]),
        (&[("a.jsonl", Some("[1]\n"))], &["a.jsonl line 1", "is not a JSON object"]),
        (&[("a.jsonl", Some("{\"kind\":\"time\"}\n"))], &["a.jsonl line 1", "missing field"]),
        (&[("runs.jsonl", None), ("z.jsonl", Some(&other))], &["z.jsonl holds no results"]),
        (&[("a.jsonl", Some("{\"n\":1}\n"))], &["a.jsonl line 1", "no kind"]),
        (&[("library/tuples.jsonl", Some(&repeated))], &["line 3", "repeats the case f32, 16, sum"]),
    ];
    for (files, parts) in cases {
        let folder = folder(files);
        refused(folder.path(), parts);
    }
    // Results of two machines: in two files, and in two folders where only one is allowed.
    let runs = fs::read_to_string(sample().join("sample-gpu/runs.jsonl")).unwrap();
    let others = runs.replace("Sample GPU", "Other GPU");
    let mixed = folder(&[("runs.jsonl", None), ("z.jsonl", Some(&others))]);
    refused(mixed.path(), &["several machines", "Sample GPU (runs.jsonl)", "Other GPU (z.jsonl)"]);
    let above = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(above.path().join(name)).unwrap();
    }
    refused(above.path(), &["several machines: one, two", "--results"]);
    refused(&above.path().join("missing"), &["no results", "--results"]);
}

fn refused(results: &Path, parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("page.html");
    fs::write(&out, "earlier").unwrap();
    let output = report(&["--results", text(results), "--out", text(&out)]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "earlier");
}

fn rows(chart: &str) -> Vec<String> {
    let cell = |cell: &str| {
        let (tag, text) = cell.split_once('>')?;
        let text = text.split_once('<')?.0.replace('\u{202f}', "");
        Some(if tag.contains("marked") { format!("*{text}*") } else { text })
    };
    let cells = |row: &str| row.split("<t").filter_map(cell).collect::<Vec<_>>().join("|");
    // The heads precede the first row of a body.
    let bodies = chart.split("<tbody>").skip(1).filter_map(|body| body.split("</tbody>").next());
    bodies.flat_map(|body| body.split("<tr>").skip(1)).map(cells).collect()
}

#[test]
fn the_librarys_benches_are_shown_by_both_compilers() {
    let page = page(&sample());
    let segments = chart(&page, "library-segments");
    assert_eq!(
        rows(segments),
        [
            "16 × 2²⁰|equal|20.0|3355|40.0|21.0|1.050|30.0|1.500",
            "2²⁰ × 16|Zipf's|30.0|2377|40.0|36.0|1.200|27.0|*0.900*",
            "256 × 256|equal|8.00|32.9|40.0|–|–|–|–",
            // PyTorch has no index of the largest element, so it has no columns here.
            "16 × 2²⁰|equal|22.0|3050|40.0|22.0|1.000",
        ]
    );
    for part in [
        " 4 cases. ",
        "in 3 cases it is 1.050 in the middle and 1.200 at most",
        "marked where it is behind, in 1 of 2 cases.",
        "From library/segments.jsonl, 2026-01-05; library/segments.rust-cuda.jsonl, 2026-01-06.",
        "<summary>sum, 3 rows</summary>",
    ] {
        assert!(segments.contains(part), "no {part} in {segments}");
    }
    assert!(page.contains("<a href=\"#library-segments\">Segments by offsets</a>"));
    assert!(page.contains("made up for tests, segments by rust-cuda"), "it is among the sets");
}

#[test]
fn newest_file_with_a_case_is_shown() {
    let page = page(&sample());
    let operations = chart(&page, "library-operations");
    assert_eq!(
        rows(operations),
        [
            "2²⁸|min|310|3464|1.016",
            "2²⁸|count of NaN|312|3441|1.023",
            "2²⁸|sum|300|3579|1.000",
            "2²⁸|product|303|3544|1.010",
            "2²⁰|sum|8.00|524|1.000",
        ]
    );
    assert!(!operations.contains("rust-cuda") && !operations.contains("PyTorch"), "{operations}");
    // A file that is not shown does not count as a source.
    let later = fs::read_to_string(sample().join("sample-gpu/library/operations.later.jsonl")).unwrap();
    let newest = later.replace("2026-01-07", "2026-01-08");
    let folder = folder(&[
        ("library/operations.later.jsonl", None),
        ("library/operations.newest.jsonl", Some(&newest)),
    ]);
    let page = self::page(folder.path());
    assert!(page.contains("From library/operations.newest.jsonl, 2026-01-08.</p>"), "{page}");
}

#[test]
fn invalid_library_bench_error_is_one_line() {
    let good = fs::read_to_string(sample().join("sample-gpu/library/segments.jsonl")).unwrap();
    let (machine, cases) = good.split_once('\n').unwrap();
    let cut = good[..good.len() - 20].to_owned();
    let other = good.replace("Sample GPU", "Other GPU");
    let device = good.replacen("\"device\": \"Sample GPU\"", "\"device\": \"Other GPU\"", 1);
    let zero = good.replacen("\"median\": 20.0", "\"median\": 0.0", 1);
    let escape = good.replacen("argmax", "arg\\u001bmax", 1);
    let long = good.replacen("Sample GPU", &"x".repeat(5000), 1);
    let cases: [(&str, &str, &[&str]); 10] = [
        ("segments", &cut, &["library/segments.jsonl line 7: is cut off"]),
        ("speed", &good, &["library/speed.jsonl", "allowed are segments, by-key, pairs, top, views"]),
        ("segments", cases, &["library/segments.jsonl line 1", "is not a machine line"]),
        ("segments", machine, &["library/segments.jsonl holds no results"]),
        ("segments", &other, &["Sample GPU (runs.jsonl) and Other GPU (library/segments.jsonl)"]),
        ("segments", &device, &["Sample GPU (runs.jsonl) and Other GPU (library/segments.jsonl)"]),
        ("segments", &long, &["several machines", "xxx… (library/segments.jsonl)"]),
        ("top", &good, &["library/top.jsonl line 2", "lacks the field `dtype`"]),
        ("segments", &zero, &["library/segments.jsonl line 2", "above 0"]),
        ("segments", &escape, &["library/segments.jsonl line 3", "control characters"]),
    ];
    for (bench, text, parts) in cases {
        let name = format!("library/{bench}.jsonl");
        refused(folder(&[("runs.jsonl", None), (&name, Some(text))]).path(), parts);
    }
    let line = good.lines().nth(1).unwrap();
    let lines = (0..50_001).map(|n| line.replacen("\"sum\"", &format!("\"sum {n}\""), 1));
    let many = format!("{machine}\n{}", lines.collect::<Vec<_>>().join("\n"));
    refused(folder(&[("library/segments.jsonl", Some(&many))]).path(), &["more than 50000 results"]);
}

#[test]
fn all_benches_of_this_repositorys_results_are_shown() {
    let page = page(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results"));
    for bench in report::library_benches() {
        let chart = chart(&page, &format!("library-{bench}"));
        assert!(rows(chart).len() > 20, "{bench}");
    }
    for bench in ["segments", "by-key", "pairs", "top", "views"] {
        assert!(chart(&page, &format!("library-{bench}")).contains("<th scope=\"col\">× rustc</th>"));
    }
}

fn workspace(readme: &str, ladder: &str) -> (TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    fs::write(folder.path().join("README.md"), readme).unwrap();
    fs::write(folder.path().join("docs/ladder.md"), ladder).unwrap();
    fs::write(folder.path().join("docs/performance.md"), PERFORMANCE).unwrap();
    fs::write(folder.path().join("docs/codegen.md"), CODEGEN).unwrap();
    for page in ["hopper", "reducer", "movements", "results", "scale"] {
        fs::write(folder.path().join("docs").join(page).with_extension("md"), "Text.\n").unwrap();
    }
    let workspace = Workspace::at(folder.path()).unwrap();
    (folder, workspace)
}

fn args(readme: bool, check: bool) -> Args {
    Args { results: Some(sample()), out: None, open: false, readme, check }
}

const README: &str = "# Title\n\n<!-- results: headline -->\nold\n<!-- /results -->\n\nText.\n\n\
    <!-- results: plots -->\n<!-- /results -->\nEnd.\n";
const LADDER: &str = "Before.\n\n<!-- results: ladder -->\n<!-- /results -->\nAfter.\n";

const CODEGEN: &str = "<!-- results: codegen -->\n<!-- /results -->\n";

const PERFORMANCE: &str = "<!-- results: reducer -->\n<!-- /results -->\n\n<!-- results: reducer-graph -->\n\
    <!-- /results -->\n\n<!-- results: reducer-types -->\n<!-- /results -->\n\n\
    <!-- results: reducer-summary -->\n<!-- /results -->\n\n<!-- results: reducer-aims -->\n\
    <!-- /results -->\n\n<!-- results: twins -->\n<!-- /results -->\n\n<!-- results: machine-code -->\n\
    <!-- /results -->\n\n<!-- results: rows -->\n<!-- /results -->\n\n<!-- results: groups -->\n\
    <!-- /results -->\n\n<!-- results: untuned -->\n<!-- /results -->\n\nOne thread takes <!-- value: ms serial 1000003 -->long<!-- /value -->.\n";

/// Returns the command's exit code as text, because exit codes cannot be compared.
fn exit(workspace: &Workspace, args: &Args) -> String {
    format!("{:?}", report::run_in(workspace, args).unwrap())
}

#[test]
fn blocks_and_plots_are_renewed_and_checked() {
    let (folder, workspace) = workspace(README, LADDER);
    let (fresh, stale) = (
        format!("{:?}", std::process::ExitCode::SUCCESS),
        format!("{:?}", std::process::ExitCode::FAILURE),
    );
    assert_eq!(exit(&workspace, &args(false, true)), stale);
    assert_eq!(exit(&workspace, &args(true, false)), fresh);
    assert_eq!(exit(&workspace, &args(false, true)), fresh);

    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let readme = read("README.md");
    assert!(readme.starts_with("# Title\n\n<!-- results: headline -->\nf32 sums, "), "{readme}");
    assert!(readme.ends_with("<!-- /results -->\nEnd.\n") && !readme.contains("old"));
    assert!(
        readme.contains("| 2^28 | `bulk_copy` | 290 | 3708 | 92.7 | 292 (×&nbsp;1.01) | "),
        "{readme}"
    );
    assert!(readme.contains("![Bandwidth against the number of elements](docs/plots/bandwidth.svg)"));
    let ladder = read("docs/ladder.md");
    assert!(
        ladder.contains(
            "| variant | 1\u{202f}000\u{202f}003 | 2^22 | 2^26 | 2^28 | llvm / CUDA C | nvvm / CUDA C |"
        ),
        "{ladder}"
    );
    assert!(ladder.contains("| `redux` (i32) | ") && ladder.contains("| `cpu_serial` | "), "{ladder}");
    assert!(
        ladder.contains("Sample GPU, driver 1.2.3; runs.jsonl, 2026-01-01, `made up for tests, runs`"),
        "{ladder}"
    );
    assert!(
        ladder.contains(
            "| `redux` (i32) | 10.0 (10.0) | 16.4 (25.6) | 142 (47.2) | 545 (49.3) | 0.998 | 0.968 |"
        ),
        "{ladder}"
    );
    // The rows are sorted from the worst. Ratios over the limit are bold. A row of a variant that was
    // not run at the table's size names the variant's largest size.
    let codegen = read("docs/codegen.md");
    let rows: Vec<&str> = codegen.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows[0], "| `first_add` | **1.062** | 0.992 | **1.030** | 0.990 |");
    assert_eq!(rows[2], "| `copy_strided` at 2^22 | **1.032** | – | **1.030** | – |");
    assert!(rows.contains(&"| `reducer` | – | – | – | 1.005 |"), "{codegen}");
    assert!(
        codegen.contains("11 of 16 kernels take by rust-cuda at most 1.02 times the time"),
        "{codegen}"
    );
    let performance = read("docs/performance.md");
    for part in [
        "![The reducer beside CUB and PyTorch](plots/reducer.svg)\n",
        "| 2^16 | 4.50 | 58.3 | 1.5 | 1.250 | 7.20 | 1.600 | 9.00 | 2.000 | 1.005 | met |",
        "| 2^20 | 5.60 | 749 | 18.7 | 1.060 | 8.00 | 1.429 | 11.0 | 1.964 | 0.990 | met |",
        "| 2^10 | 1.00 | 0.90 | 1.11 | 1.47 | 1.47 | 1.00 | missed: × CUB ≥ 2, / empty ≤ 1.1 |",
        "Compiled by rust-cuda the same 16 take between 0.990 and 1.030 times as long as by rustc, 1.005 in",
        "On one Sample GPU it sums 2^16 to 2^20 floats 1.43 to 1.60 times as fast as CUB, and from there to 2^30 \
         1.02 to 1.36 times as fast, where it reads up to 99.9 % of the memory's peak. In a CUDA graph it is 1.5 to \
         2.1 times as fast up to 2^20.",
        "| 2^16, 2^20 | one by one | times as fast as CUB ≥ 1.3 | 1.429 to 1.600 | 2 of 2 |",
        "| 2^10 | in a CUDA graph | time over an empty kernel's ≤ 1.1 | 1.111 | 0 of 1 |",
        "| 2^26 | rust-cuda | 11 | 0.965 | 1.062 | `vectorized`; `first_add` |",
        "9 of 32 entries need over 10 % more registers or instructions in Rust than their CUDA C twin",
        "One thread takes <!-- value: ms serial 1000003 -->1.00 ms<!-- /value -->.",
        "reducer.jsonl, 2026-01-03, `made up for tests, reducer`",
        "at 2^16 / 2^20 / 2^24 / 2^28 elements",
        "| type | sum | argmax |",
        "| i8 | 1.60&nbsp;/ 1.60&nbsp;/ 1.60&nbsp;/ 1.60 | 1.60&nbsp;/ 0.98&nbsp;/ 1.60&nbsp;/ 1.60 |",
        "It is behind in 1 of 5 cases. **Bold**: there it is.",
        "| 16 × 2^24 | one by one | 300 | 3579 | 89.5 | 303 | 312 | 3000 | 330 | 1.040 | CUB |",
        "| 2^20 × 256 | one by one | 360 | 2994 | 74.9 | – | 320 | 1200 | 500 | **0.889** | **CUB** |",
        "| 4 × 2^14 | in a graph | 1.25 | 210 | 5.2 | – | 2.00 | – | – | 1.600 | CUB |",
        "rows.jsonl, 2026-01-04, `made up for tests, rows`",
        "![Sums on 2 GPUs beside one](plots/scaling.svg)",
        "| 2^20 | 12.0 | 15.0 | 24.0 | 19.2 | 18.0 | 6.0 | 7.2 |",
        "experiments/group-two.jsonl, 2026-01-05, `made up for tests, groups`",
        "| 2^16 | 4.50 | 1.250 | 4.00 | 1.429 | 1.125 |",
        "experiments/compare-untuned.jsonl, 2026-01-05, `made up for tests, untuned`",
        "experiments/compare-tuned.jsonl, 2026-01-05, `made up for tests, tuned`",
    ] {
        assert!(performance.contains(part), "no {part} in {performance}");
    }
    // The README names no size that only the reducer's own results have.
    assert!(!readme.contains("| 2^30 |"), "{readme}");
    let plots = [
        "bandwidth",
        "latency",
        "ladder",
        "ratio",
        "reducer",
        "scaling",
        "strides",
        "times",
        "transposes",
    ];
    for name in plots {
        let svg = read(&format!("docs/plots/{name}.svg"));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{name}");
        assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("data-series="), "{name}");
    }
    fs::write(folder.path().join("docs/ladder.md"), LADDER).unwrap();
    assert_eq!(exit(&workspace, &args(false, true)), stale);
    assert_eq!(exit(&workspace, &args(true, false)), fresh);
    fs::remove_file(folder.path().join("docs/plots/ratio.svg")).unwrap();
    assert_eq!(exit(&workspace, &args(false, true)), stale);
}

#[test]
fn blocks_and_plots_without_results_are_removed() {
    let (folder, workspace) = workspace(README, LADDER);
    assert!(report::run_in(&workspace, &args(true, false)).is_ok());
    // Without a machine line the date is unknown, so the documents get no results.
    let runs = fs::read_to_string(sample().join("sample-gpu/runs.jsonl")).unwrap();
    let (_, undated) = runs.split_once('\n').unwrap();
    let results = self::folder(&[("runs.jsonl", Some(undated))]);
    let args = Args { results: Some(results.path().to_owned()), ..args(true, false) };
    assert!(report::run_in(&workspace, &args).is_ok());
    assert_eq!(fs::read_to_string(folder.path().join("docs/ladder.md")).unwrap(), LADDER);
    let readme = fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(readme.contains("headline -->\n<!-- /results -->"), "{readme}");
    let performance = fs::read_to_string(folder.path().join("docs/performance.md")).unwrap();
    // A number within a sentence stays unchanged, because the sentence needs one.
    assert_eq!(performance, PERFORMANCE.replace("-->long<!--", "-->1.00 ms<!--"));
    assert_eq!(fs::read_dir(folder.path().join("docs/plots")).unwrap().count(), 0);
    let page = fs::read_to_string(workspace.target.join("report/index.html")).unwrap();
    assert!(page.contains("runs.jsonl, without a date"));
}

#[test]
fn a_broken_block_changes_nothing() {
    for (readme, part) in [
        ("<!-- results: headlin -->\n<!-- /results -->\n", "no block is called `headlin`"),
        ("<!-- results: headline -->\n", "`headline` has no <!-- /results -->"),
        (
            "<!-- results: headline -->\n<!-- results: plots -->\n<!-- /results -->\n",
            "`headline` has no",
        ),
        ("<!-- /results -->\n", "without a beginning"),
    ] {
        let (folder, workspace) = workspace(readme, LADDER);
        let error = format!("{:#}", report::run_in(&workspace, &args(true, false)).unwrap_err());
        assert!(error.starts_with("README.md: ") && error.contains(part), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert_eq!(fs::read_to_string(folder.path().join("docs/ladder.md")).unwrap(), LADDER);
        assert!(!folder.path().join("target").exists() && !folder.path().join("docs/plots").exists());
    }
}

#[test]
fn repository_docs_match_its_results() {
    let output = report(&["--check"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}
