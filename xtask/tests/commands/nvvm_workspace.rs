//! Constraints on the workspace of the nvvm code generator, read from its files, because machines
//! without that toolchain cannot check them by compiling.

use std::{collections::BTreeMap, fs};

use warpfold_suite_build::workspace::Workspace;

fn read(name: &str) -> String {
    fs::read_to_string(Workspace::locate().unwrap().nvvm().join(name)).unwrap()
}

fn locked() -> BTreeMap<String, Vec<(String, Option<String>)>> {
    let mut packages: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for package in read("Cargo.lock").split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
            Some(line.trim_matches('"').to_owned())
        };
        let version = (field("version").unwrap(), field("source"));
        packages.entry(field("name").unwrap()).or_default().push(version);
    }
    packages
}

/// cuda_std requires glam 0.22 or later, and compiles with neither two copies nor one after 0.30.
#[test]
fn locked_glam_version_compiles_with_cuda_std() {
    let glam = &locked()["glam"];
    assert_eq!(glam.len(), 1, "{glam:?}: cargo update -p glam --precise 0.30.9");
    assert!(glam[0].0.starts_with("0.30."), "{glam:?}");
}

/// The lock file is also made on machines where rust-cuda is patched to a local folder.
#[test]
fn locked_packages_come_from_public_sources() {
    let (packages, manifest) = (locked(), read("Cargo.toml"));
    let revision = manifest.split("rev = \"").nth(1).unwrap().split('"').next().unwrap();
    let rust_cuda = format!("git+https://github.com/Rust-GPU/rust-cuda?rev={revision}#{revision}");
    for (name, versions) in &packages {
        for (version, source) in versions {
            let ours = name.starts_with("warpfold-") || name == "nvvm-builder";
            let public = source.as_deref().is_some_and(|source| {
                source == rust_cuda || source == "registry+https://github.com/rust-lang/crates.io-index"
            });
            assert!(ours || public, "{name} {version} comes from {source:?}");
        }
    }
    for name in ["cuda_std", "cuda_builder", "rustc_codegen_nvvm"] {
        assert_eq!(packages[name][0].1.as_ref(), Some(&rust_cuda));
    }
}

/// rustc_codegen_nvvm is compiled with the same profile, and does not link with `panic = "abort"`.
#[test]
fn the_profile_leaves_the_panic_strategy_to_cuda_builder() {
    let manifest = read("Cargo.toml");
    let set = manifest.lines().find(|line| line.trim_start().starts_with("panic"));
    assert_eq!(set, None);
}
