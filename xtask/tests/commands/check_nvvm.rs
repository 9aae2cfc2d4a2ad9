//! `check_nvvm::check` with a script in place of cargo: the project that cargo is given to check.

use std::fs;

use warpfold_suite_build::workspace::Workspace;
use xtask::check_nvvm;

use crate::fake;

const CARGO: &str = r#"cfg=$(echo "$CARGO_ENCODED_RUSTFLAGS" | tr '\037' '\n' | grep '^--cfg=')
echo "$1 $cfg" >>"$ROOT/cargo.log"
case "$1" in
metadata) printf '{"packages":[{"name":"half","version":"2.9.9","manifest_path":"%s/half/Cargo.toml"}]}' "$ROOT";;
check) ! grep -q broken "$(sed -n 's/^path = "\(.*lib.rs\)"/\1/p' Cargo.toml)" || { echo 'error[E0425]: broken' >&2; exit 101; };;
esac"#;

/// Creates a workspace, and beside it the `cuda_std` and `half` that its dependencies resolve to.
fn fixture(kernels: &str) -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::Builder::new().prefix("check nvvm ").tempdir().unwrap();
    let workspace = fake::workspace(folder.path(), kernels, CARGO);
    fake::write(folder.path(), "work/kernels/Cargo.toml", "warpfold-device = { path = \"../device\" }");
    fake::write(folder.path(), "cuda_std/Cargo.toml", "[package]\nname = \"cuda_std\"\n");
    fake::write(folder.path(), "half/Cargo.toml", "[features]\ndefault = [\"std\"]\nstd = []\n");
    fake::write(folder.path(), "half/src/lib.rs", "");
    (folder, workspace)
}

#[test]
fn generated_project_has_kernels_and_half_without_std() {
    let (folder, workspace) = fixture("");
    let check = || {
        check_nvvm::check(&workspace, &workspace.kernels(), &folder.path().join("cuda_std")).unwrap();
    };
    check();
    let made = workspace.target.join("check-nvvm");
    let manifest = fs::read_to_string(made.join("project/Cargo.toml")).unwrap();
    for line in [
        format!("path = \"{}/src/lib.rs\"", workspace.kernels().display()),
        format!(
            "warpfold-device = {{ path = \"{}\", features = [\"nvvm\"] }}",
            workspace.root.join("device").display()
        ),
        format!("half = {{ path = \"{}/half-2.9.9\" }}", made.display()),
    ] {
        assert!(manifest.lines().any(|found| found == line), "{line} is missing in\n{manifest}");
    }
    let half = fs::read_to_string(made.join("half-2.9.9/Cargo.toml")).unwrap();
    assert_eq!(half, "[features]\ndefault = []\nstd = []\n");
    assert!(made.join("half-2.9.9/src/lib.rs").is_file());

    check();
    let log = fs::read_to_string(folder.path().join("cargo.log")).unwrap();
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        ["metadata ", "check ", "check --cfg=warpfold_sm_90"].repeat(2)
    );
}

#[test]
fn kernels_that_disagree_are_an_error() {
    let (folder, workspace) = fixture("broken");
    let cuda_std = folder.path().join("cuda_std");
    let error = check_nvvm::check(&workspace, &workspace.kernels(), &cuda_std).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the nvvm side of the kernels does not agree for sm_80 with the cuda_std at {} (the compiler's \
             messages are above)",
            cuda_std.display()
        )
    );
}

#[test]
fn folder_without_cuda_std_is_refused() {
    let (folder, workspace) = fixture("");
    for wrong in ["nowhere", "half"] {
        let path = folder.path().join(wrong);
        let error = check_nvvm::check(&workspace, &workspace.kernels(), &path).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("no cuda_std at {}: ", path.display())),
            "{error}"
        );
    }
    assert!(!folder.path().join("cargo.log").exists());
}
