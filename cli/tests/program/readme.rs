//! The program's output matches the READMEs.

use std::{fs, path::Path, sync::Arc};

use arrow_array::{ArrayRef, Float64Array, StringArray};
use parquet::basic::Compression;
use serde_json::Value;

use crate::{
    command,
    files::{npy, parquet, put, vector},
    text,
};

fn examples(folder: &Path) {
    let days = [[12.5_f32, 14.0, 9.5], [13.0, 17.25, 11.0], [11.5, 16.0, 10.0], [15.0, 12.0, 10.5]];
    put(folder, "temperatures.npy", npy("<f4", false, "(4, 3)", bytemuck::cast_slice(&days)));
    let cities = ["Bern", "Bern", "Bern", "Wien", "Wien", "Bern"];
    let fares = [Some(12.5), None, Some(30.0), Some(8.0), Some(19.5), Some(7.25)];
    let columns: [(&str, ArrayRef); 2] = [
        ("city", Arc::new(StringArray::from(cities.to_vec()))),
        ("fare", Arc::new(Float64Array::from(fares.to_vec()))),
    ];
    put(folder, "counters.npy", vector("<u8", &[u64::MAX, 1, 5]));
    put(folder, "trips.parquet", parquet(&columns, Compression::SNAPPY));
}

fn sessions(document: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => inside = line == "```console",
            Some(call) if inside => found.push((call.to_owned(), String::new())),
            None if inside => {
                let (_, printed) = found.last_mut().expect("a command comes first");
                *printed += &format!("{line}\n");
            }
            _ => {}
        }
    }
    found
}

#[test]
fn readme_sessions_match_the_output() {
    let folder = tempfile::tempdir().unwrap();
    examples(folder.path());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (readme, least) in [("cli/README.md", 5), ("README.md", 1)] {
        let sessions = sessions(&fs::read_to_string(root.join(readme)).unwrap());
        assert!(sessions.len() >= least, "{readme} has {} commands", sessions.len());
        for (call, printed) in sessions {
            let arguments = call.strip_prefix("warpfold ").unwrap_or_else(|| panic!("{readme}: {call}"));
            let output = command(folder.path(), arguments).output().unwrap();
            let (status, found) = match printed.starts_with("error: ") {
                true => (2, text(&output.stderr)),
                false => (0, text(&output.stdout)),
            };
            assert_eq!(output.status.code(), Some(status), "{call}: {}", text(&output.stderr));
            assert_eq!(found, printed, "{readme}: {call}");
        }
    }
}

#[test]
fn the_help_names_every_operation_and_the_readme_every_option() {
    let help = command(Path::new("."), "--help").output().unwrap();
    let (status, help) = (help.status.code(), text(&help.stdout));
    assert_eq!(status, Some(0));
    for name in ["sum", "argmax", "xor", "spread", "mean", "maxnorm", "Examples:", "Exit status:"] {
        assert!(help.contains(name), "{name}");
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let options = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    for option in options.map(|word| word.trim_end_matches(|c: char| !c.is_alphanumeric())) {
        assert!(readme.contains(&format!("`{option}")), "cli/README.md does not name {option}");
    }
    let version = command(Path::new("."), "--version").output().unwrap();
    assert_eq!(text(&version.stdout), format!("warpfold {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_name_the_options_and_the_operations() {
    for shell in ["bash", "zsh", "fish"] {
        let output = command(Path::new("."), &format!("--completions {shell}")).output().unwrap();
        let script = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(script.contains("by-column") && script.contains("maxnorm"), "{shell}: {script}");
    }
}

#[test]
fn json_has_the_fields_that_the_readme_names() {
    let folder = tempfile::tempdir().unwrap();
    examples(folder.path());
    let fields = |arguments: &str| -> Vec<String> {
        let output = command(folder.path(), &format!("{arguments} --json")).output().unwrap();
        let first = text(&output.stdout).lines().next().unwrap().to_owned();
        let line: Value = serde_json::from_str(&first).unwrap();
        line.as_object().unwrap().keys().cloned().collect()
    };
    fn sorted(names: &[&'static str]) -> Vec<&'static str> {
        let mut names = [&["op", "dtype", "count", "nulls"], names].concat();
        names.sort_unstable();
        names
    }
    let array = "temperatures.npy --device cpu";
    assert_eq!(fields(array), sorted(&["value"]));
    assert_eq!(
        fields(&format!("{array} --op argmin --axis 0")),
        sorted(&["position", "index", "value"])
    );
    assert_eq!(fields(&format!("{array} --op minmax")), sorted(&["min", "max"]));
    assert_eq!(fields(&format!("{array} --op spread")), sorted(&["mean", "variance"]));
    let table = "trips.parquet --column fare --by-column city --device cpu";
    assert_eq!(fields(table), sorted(&["key", "value"]));
    let readme = include_str!("../../README.md");
    for field in ["position", "segment", "key", "index", "value", "min", "max", "mean", "variance"] {
        assert!(readme.contains(&format!("| `{field}` |")), "{field}");
    }
}
