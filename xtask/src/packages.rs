//! The packages of the workspace, as cargo tells of them.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// What is used of a package's manifest.
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
    /// Registries that it may be published to: none, where it may not be; no list is any.
    publish: Option<Vec<String>>,
    /// Its features with what each of them turns on, `default` among them.
    pub features: BTreeMap<String, Vec<String>>,
    /// What it compiles to.
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
    /// Whether it may be published.
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// The name of its library, as code has it.
    pub fn library(&self) -> Option<&str> {
        let is_library = |target: &&Target| target.kind.iter().any(|kind| kind == "lib");
        self.targets.iter().find(is_library).map(|target| target.name.as_str())
    }

    /// Features that a user can turn on, but `default`.
    pub fn features(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(String::as_str).filter(|name| *name != "default")
    }
}

/// The packages of the workspace in this folder, and where cargo puts what it makes of them.
///
/// # Errors
/// A cargo that does not start, or a manifest that it refuses.
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

/// The cargo that runs this program, in a folder.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}
