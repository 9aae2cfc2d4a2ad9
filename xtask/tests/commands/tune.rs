//! Errors of `cargo xtask tune` for calls and machines that it cannot serve, tested from outside.

use std::fs;

use crate::refused;

fn refused(args: &[&str]) -> String {
    refused::refused("tune", args)
}

#[test]
fn invalid_value_error_lists_allowed_values() {
    for (args, parts) in [
        (["--op", "product"], ["unknown operation `product`", "sumsq"]),
        (["--dtype", "i128"], ["unknown type `i128`", "bf16"]),
        (["--n", "2^12..2^10"], ["range 2^12..2^10 is empty", "4096"]),
        (["--iters", "4"], ["4", "5..=1000000"]),
        (["--out", "/no/such/folder/tuning.json"], ["--out /no/such/folder/tuning.json", "cannot"]),
    ] {
        let said = refused(&args);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn tune_without_a_gpu_keeps_earlier_results() {
    if warpfold_suite::device::probe().is_ok() {
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
