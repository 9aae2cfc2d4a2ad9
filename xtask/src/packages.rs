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
    /// The name of the package.
    pub name: String,
    /// The version of the package.
    #[serde(default)]
    pub version: String,
    /// The path of its manifest.
    #[serde(rename = "manifest_path")]
    pub manifest: PathBuf,
    /// Registries that it may be published to; an empty list forbids publishing, no list allows any.
    publish: Option<Vec<String>>,
    /// Its features with those that each enables, including `default`.
    pub features: BTreeMap<String, Vec<String>>,
    targets: Vec<Target>,
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
    /// Returns whether it may be published.
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns the crate name of its library.
    pub fn library(&self) -> Option<&str> {
        let is_library = |target: &&Target| target.kind.iter().any(|kind| kind == "lib");
        self.targets.iter().find(is_library).map(|target| target.name.as_str())
    }

    /// Returns the features other than `default`.
    pub fn features(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(String::as_str).filter(|name| *name != "default")
    }
}

/// Returns the packages of the workspace in a folder, and its target folder.
///
/// # Errors
/// Fails if cargo does not start or rejects a manifest.
pub fn of(folder: &Path) -> Result<(Vec<Package>, PathBuf)> {
    let said = cargo(folder)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cargo does not start")?;
    let errors = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "cargo metadata: {}", errors.lines().next().unwrap_or("failed"));
    let Metadata { packages, target_directory } =
        serde_json::from_slice(&said.stdout).context("cargo metadata is not understood")?;
    Ok((packages, target_directory))
}

/// Returns a command for the cargo that runs this program, in a folder.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}
