//! Kernel crates outside the workspace: compiled with the same flags and checked by the same rules, but
//! not split, because no catalogue lists their variants.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use warpfold_suite::Codegen;

use super::{Choice, Job, Output, Request, fingerprint::Fingerprint, toolchain};
use crate::{failure::Failure, workspace::Workspace};

/// Compiles the crate in a folder to `target/ptx-of/<package>/<codegen>/<arch>/<package>.ptx` and
/// returns that path. For the `nvvm` code generator the manifest is read from the sibling folder `nvvm`.
///
/// Cargo decides which of the crate's dependencies are recompiled; the crate itself always is.
///
/// # Errors
/// Fails for a folder without a package, and with the errors of [`ensure`](super::ensure).
pub fn build(workspace: &Workspace, request: &Request<'_>, kernels: &Path) -> Result<PathBuf> {
    let kernels =
        fs::canonicalize(kernels).with_context(|| format!("no folder {}", kernels.display()))?;
    let name = package(&kernels)?;
    let codegen = Codegen::from(request.codegen);
    let (toolchain, arch) = toolchain(workspace, request)?;
    let job = Job { workspace, toolchain: &toolchain, arch, request, features: &[] };

    let root = workspace.target.join("ptx-of").join(&name);
    let output = Output::at(root.join(codegen.to_string()).join(arch.to_string()));
    let _lock = output.lock()?;
    let folder = root.join("build").join(codegen.to_string()).join(arch.to_string());
    let ptx = match request.codegen {
        Choice::Llvm => job.with_llvm(&kernels, None, folder.clone(), vec![name.clone()])?,
        Choice::Nvvm => job.with_nvvm(manifest_of_nvvm(&kernels)?, folder.clone())?,
    };
    let made = [(format!("{name}.ptx"), job.headed(&name, &ptx, &job.compiler()))];
    job.accept_or_keep(&made, &folder)?;
    output.replace(&made, &Fingerprint::default())?;
    Ok(output.folder().join(&made[0].0))
}

fn package(folder: &Path) -> Result<String> {
    let path = folder.join("Cargo.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let package = text.split_once("[package]").map_or("", |(_, package)| package);
    let value =
        |line: &str| Some(line.trim().strip_prefix("name")?.trim().strip_prefix('=')?.trim().to_owned());
    let name = package.lines().find_map(value).map(|name| name.trim_matches('"').to_owned());
    name.with_context(|| {
        format!("{} names no package; give the folder of a crate of kernels", path.display())
    })
}

fn manifest_of_nvvm(kernels: &Path) -> Result<PathBuf> {
    let folder = kernels.with_file_name("nvvm");
    if folder.join("Cargo.toml").is_file() {
        return Ok(folder);
    }
    let (missing, given) = (folder.display(), kernels.display());
    let line = format!(
        "codegen nvvm compiles {given} by the manifest in {missing}, which is not there; write it, or \
         use --codegen llvm"
    );
    Err(Failure::new([line]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_that_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let of = |manifest: &str| {
            fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
            package(folder.path()).map_err(|error| error.to_string())
        };
        assert_eq!(of("[lib]\nname = \"other\"\n[package]\nname = \"mine\"\n"), Ok("mine".to_owned()));
        assert!(of("[workspace]\n").unwrap_err().contains("names no package"));
        fs::remove_file(folder.path().join("Cargo.toml")).unwrap();
        assert!(package(folder.path()).unwrap_err().to_string().ends_with("Cargo.toml cannot be read"));
    }

    #[test]
    fn the_manifest_for_nvvm_is_beside_the_crate() {
        let folder = tempfile::tempdir().unwrap();
        let kernels = folder.path().join("kernels");
        let missing = manifest_of_nvvm(&kernels).unwrap_err().to_string();
        assert!(missing.contains("which is not there; write it, or use --codegen llvm"), "{missing}");
        fs::create_dir(folder.path().join("nvvm")).unwrap();
        fs::write(folder.path().join("nvvm/Cargo.toml"), "").unwrap();
        assert_eq!(manifest_of_nvvm(&kernels).unwrap(), folder.path().join("nvvm"));
    }
}
