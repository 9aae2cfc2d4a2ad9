//! Tests of the `cu*` symbols that this crate defines and exports. Each test builds the crate with the
//! features it needs; those in this program depend on the cargo command.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use warpfold_driver::Api;

/// Builds a target of this package with only these features, and returns the path of `file`.
fn build(what: &[&str], features: &str, file: &str) -> PathBuf {
    // A separate folder, because the cargo command that runs this test may lock the usual one.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("footprint");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "--package=warpfold-driver", "--no-default-features"])
        .args(["--features", features, "--target-dir"])
        .arg(&target)
        .args(what)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug").join(file)
}

/// Returns the names of the defined symbols that begin with `cu` and a capital letter.
fn driver_symbols<'a>(symbols: impl Iterator<Item = impl ObjectSymbol<'a>>) -> BTreeSet<String> {
    symbols
        .filter(ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase)))
        .map(str::to_owned)
        .collect()
}

/// Returns the `cu*` symbols that the crate's rlib defines, even if no program refers to them.
fn defined_by_the_crate(features: &str) -> BTreeSet<String> {
    let data = fs::read(build(&["--lib"], features, "libwarpfold_driver.rlib")).unwrap();
    let archive = ArchiveFile::parse(&*data).unwrap();
    let members = archive.members().map(|member| member.unwrap().data(&*data).unwrap());
    let objects: Vec<_> =
        members.filter_map(|member| ElfFile64::<Endianness>::parse(member).ok()).collect();
    assert!(objects.iter().any(|object| object.symbols().count() > 10), "no code in the library");
    objects.iter().flat_map(|object| driver_symbols(object.symbols())).collect()
}

/// Fails if the crate defines symbols that replace libcuda's in a program that links libcuda.
#[test]
fn without_features_no_symbol_of_the_driver_is_defined() {
    assert_eq!(defined_by_the_crate(""), BTreeSet::new());
    let data = fs::read(build(&["--example", "devices"], "", "examples/devices")).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
    assert!(file.symbols().count() > 100, "stripped");
    assert_eq!(driver_symbols(file.symbols()), BTreeSet::new());
}

#[test]
fn symbols_feature_defines_the_driver_symbols() {
    let defined = defined_by_the_crate("symbols");
    for name in Api::NAMES.iter().chain(&["cuLinkCreate_v2"]) {
        assert!(defined.contains(*name), "{name}");
    }
}

/// Fails if the library exports the symbols, because calls inside libcuda.so.1 could bind to them.
#[test]
fn shared_library_does_not_export_driver_symbols() {
    let data = fs::read(build(&["--example", "plugin"], "symbols", "examples/libplugin.so")).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
    assert!(driver_symbols(file.symbols()).contains("cuInit"));
    assert!(file.dynamic_symbols().any(|symbol| symbol.name() == Ok("plugin_count_devices")));
    assert_eq!(driver_symbols(file.dynamic_symbols()), BTreeSet::new());
}
