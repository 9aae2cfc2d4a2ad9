//! The packages of the workspace, from cargo's metadata.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The used fields of a package's metadata.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    pub name: String,
    #[serde(default)]
    pub version: String,
    #[serde(rename = "manifest_path")]
    pub manifest: PathBuf,
    /// Registries to which the package may be published; none if empty, any if `None`.
    publish: Option<Vec<String>>,
    /// The package's features, including `default`, each with the features that it enables.
    pub features: BTreeMap<String, Vec<String>>,
    targets: Vec<Target>,
    #[serde(default)]
    dependencies: Vec<Dependency>,
    /// The table `package.metadata`, or null.
    #[serde(default)]
    metadata: serde_json::Value,
}

#[derive(Debug, Clone, Deserialize)]
struct Dependency {
    /// The folder of the package; `None` for a package from a registry.
    path: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

impl Package {
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns whether the package is compiled for the GPU, by the targets of its documentation.
    pub fn is_for_gpu(&self) -> bool {
        let targets = self.metadata.pointer("/docs/rs/targets").and_then(|targets| targets.as_array());
        targets.is_some_and(|targets| targets.iter().any(|target| target == "nvptx64-nvidia-cuda"))
    }

    pub fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(&self.manifest)
    }

    /// Returns the folders of this repository's packages on which this package or its tests depend.
    pub fn local_dependencies(&self) -> impl Iterator<Item = &Path> {
        let folders = self.dependencies.iter().filter_map(|dependency| dependency.path.as_deref());
        let mut folders: Vec<&Path> = folders.filter(|folder| *folder != self.folder()).collect();
        folders.sort();
        folders.dedup();
        folders.into_iter()
    }

    /// Returns the crate name of the package's library.
    pub fn library(&self) -> Option<&str> {
        let is_library = |target: &&Target| target.kind.iter().any(|kind| kind == "lib");
        self.targets.iter().find(is_library).map(|target| target.name.as_str())
    }

    /// Returns the features other than `default`.
    pub fn features(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(String::as_str).filter(|name| *name != "default")
    }
}

/// Returns the packages of the workspace in a folder, and the workspace's target folder.
pub fn of(folder: &Path) -> Result<(Vec<Package>, PathBuf)> {
    let said = cargo(folder)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cargo does not start")?;
    let errors = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "cargo metadata: {}", errors.lines().next().unwrap_or("failed"));
    let Metadata { packages, target_directory } =
        serde_json::from_slice(&said.stdout).context("the output of cargo metadata cannot be parsed")?;
    Ok((packages, target_directory))
}

/// Returns a command for the cargo that runs this program, in a folder.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}
