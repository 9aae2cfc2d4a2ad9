//! Checks of every published package without features, with each feature alone, and with all of them, so
//! that no feature depends on another without enabling it.

use anyhow::{Context, Result};
use warpfold_suite::say;

use crate::{
    packages::{self, Package},
    workspace::Workspace,
};

/// Runs clippy on each combination, and stops at the first warning; returns whether there was none.
pub fn check() -> Result<bool> {
    let root = Workspace::locate()?.root;
    let (packages, _) = packages::of(&root)?;
    for package in packages.iter().filter(|package| package.is_published()) {
        for features in combinations(package) {
            say!("{} with {}", package.name, features.join(" "));
            let status = packages::cargo(&root)
                .args(["clippy", "--quiet", "-p", &package.name])
                .args(&features)
                .args(["--", "-D", "warnings"])
                .status()
                .context("cargo does not start")?;
            if !status.success() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns the arguments for no features, each one alone, and all, without duplicates.
fn combinations(package: &Package) -> Vec<Vec<String>> {
    let features: Vec<&str> = package.features().collect();
    let alone = |name: &&str| vec!["--no-default-features".to_owned(), format!("--features={name}")];
    let mut all = vec![vec!["--no-default-features".to_owned()]];
    all.extend(features.iter().map(alone));
    if features.len() > 1 {
        all.push(vec!["--all-features".to_owned()]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_checked_alone() {
        let package = |features: &str| -> Package {
            let text = format!(
                r#"{{"name":"a","manifest_path":"","publish":null,"features":{features},"targets":[]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let of = |features: &str| -> Vec<String> {
            combinations(&package(features)).iter().map(|combination| combination.join(" ")).collect()
        };
        assert_eq!(of("{}"), ["--no-default-features"]);
        assert_eq!(
            of(r#"{"default":["b"],"b":[],"c":["b"]}"#),
            [
                "--no-default-features",
                "--no-default-features --features=b",
                "--no-default-features --features=c",
                "--all-features",
            ]
        );
    }
}
