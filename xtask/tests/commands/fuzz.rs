//! The kept fuzz inputs pass, and an input that fails is found and kept.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn fuzz(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg("fuzz").args(args).output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

#[test]
fn committed_inputs_break_nothing() {
    let output = fuzz(&["--seconds", "0", "--committed"]);
    let lines = lines(&output);
    assert_eq!(output.status.code(), Some(0), "{lines:?}");
    let own =
        ["ptx", "execute", "sim", "npy", "tuning", "expression", "results", "driver"].map(str::to_owned);
    let files = ["npy", "npz", "arrow", "parquet", "raw", "offsets", "keys"];
    for target in own.into_iter().chain(files.map(|file| format!("program-{file}"))) {
        let line = lines.iter().find(|line| line.starts_with(&format!("{target}: "))).unwrap();
        let tried: u32 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(tried > 1 && line.contains(" 0 findings"), "{line}");
    }
}

#[test]
fn changed_inputs_are_tried_until_the_time_is_over() {
    let output = fuzz(&["ptx", "--seconds", "2", "--seed", "1"]);
    let lines = lines(&output);
    assert_eq!(output.status.code(), Some(0), "{lines:?}");
    let tried: u32 = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    assert!(tried > 100 && lines[0].ends_with("(seed 1)"), "{lines:?}");
}

#[test]
fn a_panic_is_found_and_its_input_kept() {
    let output = fuzz(&["planted", "--seconds", "0"]);
    let lines = lines(&output);
    assert_eq!(output.status.code(), Some(1), "{lines:?}");
    assert!(
        lines[0].starts_with("planted: signal: 6") && lines[0].ends_with(": told to panic"),
        "{lines:?}"
    );
    let path = lines[1].strip_prefix("planted: the input is in ").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path);
    assert_eq!(fs::read(&path).unwrap(), b"panic\n");
    fs::remove_file(path).unwrap();
    assert!(lines[2].contains(", 1 findings (seed "), "{lines:?}");
}
