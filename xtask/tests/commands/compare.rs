//! Errors of `cargo xtask compare` for calls and machines that it cannot serve, tested from outside.

use std::fs;

use crate::refused;

fn refused(args: &[&str]) -> String {
    refused::refused("compare", args)
}

#[test]
fn invalid_value_error_lists_allowed_values() {
    for (args, parts) in [
        (["--n", "2^12..2^10"], ["range 2^12..2^10 is empty", "4096"]),
        (["--n", "0"], ["'0'", "give at least 1"]),
        (["--peer", "cuda"], ["unknown peer `cuda`", "did you mean `cuda-c`?"]),
        (
            ["--peer", "rust-nvvm"],
            ["unknown peer `rust-nvvm`", "--codegen chooses among the Rust kernels"],
        ),
        (["--codegen", "nvm"], ["unknown code generator `nvm`", "did you mean `nvvm`?"]),
        (["--codegen", "cuda-c"], ["unknown code generator `cuda-c`", "there are llvm and nvvm"]),
        (["--against", "folder"], ["not provided", "--static"]),
        (["--variant", "vectorised"], ["unknown variant `vectorised`", "did you mean `vectorized`?"]),
        (["--op", "product"], ["unknown operation `product`", "sumsq"]),
        (["--variant", "cpu_serial"], ["cpu_serial is not a kernel", "no twin"]),
        (["--out", "/no/such/folder/times.jsonl"], ["--out /no/such/folder/times.jsonl", "cannot"]),
        (["--shape", "4x4"], ["not provided", "--rows"]),
        (["--seconds", "4"], ["not provided", "--rows"]),
        (["--rows", "--n=2^10"], ["'--rows'", "--n"]),
        (["--rows", "--dtype=f64"], ["'--rows'", "--dtype"]),
        (["--rows", "--variant=reducer"], ["'--rows'", "--variant"]),
        (["--rows", "--inputs=warm"], ["'--rows'", "--inputs"]),
        (["--inputs", "hot"], ["'hot'", "rotated, swept, warm"]),
        (
            ["--inputs=warm", "--peer=torch"],
            ["--inputs cannot be combined with --peer torch", "take torch out"],
        ),
        (["--rows", "--static"], ["'--rows'", "--static"]),
        (["--rows", "--seconds=0"], ["'0'", "--seconds"]),
        (["--rows", "--shape=4096"], ["'4096'", "a shape is ROWSxLEN"]),
        (["--rows", "--shape=4x4,0x4"], ["'0x4'", "the smallest is 1x1"]),
        (["--rows", "--shape=2^20x2^20"], ["2^20x2^20", "more elements than the 2^30"]),
        (["--rows", "--op=min"], ["--rows cannot compare min yet", "sum and argmax"]),
        (["--rows", "--peer=cuda-c"], ["no CUDA C twin", "cub and torch"]),
    ] {
        let said = refused(&args);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    for option in [
        "--quick",
        "--op=sum",
        "--n=2^10",
        "--peer=cub",
        "--iters=5",
        "--inputs=warm",
        "--out=times.jsonl",
    ] {
        let said = refused(&["--static", option]);
        let name = option.split('=').next().unwrap();
        assert!(said.contains("'--static'") && said.contains(name), "{option}: {said}");
    }
    for option in ["--strict", "--dtype=f32", "--sim-n=4"] {
        let said = refused(&["--static", "--against", "folder", option]);
        let name = option.split('=').next().unwrap();
        assert!(said.contains("'--against <FOLDER>'") && said.contains(name), "{option}: {said}");
    }
    let said = refused(&["--variant", "redux", "--dtype", "f32"]);
    assert!(said.contains("nothing to compare"), "{said}");
}

#[test]
fn compare_without_a_gpu_keeps_earlier_results() {
    if warpfold_suite::device::probe().is_ok() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.jsonl");
    fs::write(&path, "earlier\n").unwrap();
    let said = refused(&["--quick", "--out", path.to_str().unwrap()]);
    assert!(said.starts_with("error: timing needs a GPU, "), "{said}");
    assert!(said.contains("--static does not"), "{said}");
    let said = refused(&["--rows", "--quick", "--out", path.to_str().unwrap()]);
    assert!(said.starts_with("error: timing needs a GPU: "), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "earlier\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
