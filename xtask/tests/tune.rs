//! What `cargo xtask tune` says to a call or a machine that it cannot serve, seen from outside.

use std::{fs, process::Command};

/// The one line of a call that must fail with status 2.
fn refused(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("tune").args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn a_wrong_value_is_answered_with_what_is_allowed() {
    for (args, parts) in [
        (["--ops", "product"], ["unknown operation `product`", "sumsq"]),
        (["--dtypes", "i16"], ["unknown type `i16`", "bf16"]),
        (["--n", "2^12..2^10"], ["range 2^12..2^10 is empty", "4096"]),
        (["--rounds", "4"], ["4", "5..=1000000"]),
        (["--out", "/no/such/folder/tuning.json"], ["--out /no/such/folder/tuning.json", "cannot"]),
    ] {
        let said = refused(&args);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn without_a_gpu_it_says_so_and_leaves_what_was_measured() {
    if warpfold::device::probe().is_ok() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuning.json");
    fs::write(&path, "earlier\n").unwrap();
    let said = refused(&["--out", path.to_str().unwrap()]);
    assert!(said.starts_with("error: tuning needs a GPU: "), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "earlier\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(refused(&[]).starts_with("error: tuning needs a GPU: "));
}
