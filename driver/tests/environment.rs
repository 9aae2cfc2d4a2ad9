//! Tests of `WARPFOLD_LIBCUDA`. Each case runs this test program again in a new process.

mod fake;

use std::ffi::OsStr;
use std::process::Command;

use warpfold_driver::{PATH_VARIABLE, cust};

fn load_with(path: impl AsRef<OsStr>) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "load_from_the_environment", "--ignored", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "started by the other tests"]
fn load_from_the_environment() {
    match warpfold_driver::load() {
        Ok(driver) => {
            println!("loaded {} devices {:?}", driver.name(), cust::device::Device::num_devices())
        }
        Err(error) => println!("error {error}"),
    }
}

#[test]
fn the_named_library_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let library = fake::build(folder.path(), "my driver.so", &[]);
    let output = load_with(&library);
    let expected = format!("loaded {} devices Ok(7)", library.display());
    assert!(output.contains(&expected), "{output}");
}

#[test]
fn a_wrong_path_is_an_error_that_names_it_and_the_variable() {
    let output = load_with("/nowhere/libcuda.so.1");
    let line = output.lines().find(|line| line.starts_with("error"));
    let line = line.unwrap_or_else(|| panic!("{output}"));
    assert!(line.contains("/nowhere/libcuda.so.1"), "{line}");
    assert!(line.contains(PATH_VARIABLE), "{line}");
}

#[test]
fn empty_variable_is_ignored() {
    let output = load_with("");
    assert!(!output.contains("unset WARPFOLD_LIBCUDA"), "{output}");
}
