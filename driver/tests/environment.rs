//! `WARPFOLD_LIBCUDA`. Each case is a process of its own: this test, started again.

mod fake;

use std::ffi::OsStr;
use std::process::Command;

use warpfold_driver::{PATH_VARIABLE, cust};

/// Runs `load` in a process with the variable set to `path`; its output.
fn load_with(path: impl AsRef<OsStr>) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "loads_what_the_environment_names", "--ignored", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "started by the other tests"]
fn loads_what_the_environment_names() {
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
fn an_empty_variable_is_as_good_as_none() {
    let output = load_with("");
    assert!(!output.contains("unset WARPFOLD_LIBCUDA"), "{output}");
}
