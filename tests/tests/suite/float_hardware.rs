//! Runs the comparison of a device's floating-point arithmetic with the simulator's, with the simulator
//! as the device: through the driver interface on one side, by direct calls on the other.

use std::process::Command;

use serde_json::Value;

fn run(only: &str) -> (bool, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("float.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_float_hardware"));
    command.args(["--cases", "100000", "--only", only, "--out"]).arg(&out);
    let output = command.output().unwrap();
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(&out).unwrap_or_default();
    (output.status.success(), lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn every_case_is_compared_and_counted() {
    let (right, lines) = run("fma.rn.");
    assert!(right);
    assert_eq!(lines[0]["kind"], "machine");
    // Singles with and without `.ftz` and `.sat`, doubles, and 16 forms of halves.
    assert_eq!(lines.len(), 1 + 4 + 1 + 12 + 4);
    for line in &lines[1..] {
        assert!(line["cases"].as_u64().unwrap() > 100_000 / 21, "{line}");
        assert_eq!(line["cases"], line["equal"], "{line}");
    }
}

#[test]
fn a_name_that_no_instruction_has_is_refused() {
    let (right, lines) = run("fma.nearest");
    assert!(!right);
    assert!(lines.is_empty());
}
