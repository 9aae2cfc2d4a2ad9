//! Which symbols a program has that uses this crate. Programs are built here, because the features of
//! this test's own build depend on who builds it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use warpfold_driver::Api;

/// Builds a target of this package with these features alone; the file in the folder of its profile.
fn build(what: &[&str], features: &str, file: &str) -> PathBuf {
    // A folder of its own, so as not to wait for a build that runs this test.
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

/// Those of the symbols that a file defines whose names are like `cuInit`.
fn named_like_the_drivers<'a>(symbols: impl Iterator<Item = impl ObjectSymbol<'a>>) -> BTreeSet<String> {
    symbols
        .filter(ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase)))
        .map(str::to_owned)
        .collect()
}

/// What the crate itself defines, whether a program that is linked with it refers to it or not.
fn defined_by_the_crate(features: &str) -> BTreeSet<String> {
    let data = fs::read(build(&["--lib"], features, "libwarpfold_driver.rlib")).unwrap();
    let archive = ArchiveFile::parse(&*data).unwrap();
    let members = archive.members().map(|member| member.unwrap().data(&*data).unwrap());
    let objects: Vec<_> =
        members.filter_map(|member| ElfFile64::<Endianness>::parse(member).ok()).collect();
    assert!(objects.iter().any(|object| object.symbols().count() > 10), "no code in the library");
    objects.iter().flat_map(|object| named_like_the_drivers(object.symbols())).collect()
}

/// So a program that links libcuda by itself is not disturbed.
#[test]
fn without_features_no_symbol_of_the_driver_is_defined() {
    assert_eq!(defined_by_the_crate(""), BTreeSet::new());
    let data = fs::read(build(&["--example", "devices"], "", "examples/devices")).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
    assert!(file.symbols().count() > 100, "stripped");
    assert_eq!(named_like_the_drivers(file.symbols()), BTreeSet::new());
}

#[test]
fn the_feature_defines_them() {
    let defined = defined_by_the_crate("symbols");
    for name in Api::NAMES.iter().chain(&["cuLinkCreate_v2"]) {
        assert!(defined.contains(*name), "{name}");
    }
}

/// Were they exported, calls inside libcuda.so.1 could be bound to them.
#[test]
fn a_shared_library_keeps_the_symbols_to_itself() {
    let data = fs::read(build(&["--example", "plugin"], "symbols", "examples/libplugin.so")).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*data).unwrap();
    assert!(named_like_the_drivers(file.symbols()).contains("cuInit"));
    assert!(file.dynamic_symbols().any(|symbol| symbol.name() == Ok("plugin_count_devices")));
    assert_eq!(named_like_the_drivers(file.dynamic_symbols()), BTreeSet::new());
}
