//! Dependencies that only cust brings in, and their dependents: `deny.toml` has the reasons.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;
use warpfold_tests::root;

/// Packages that only cust needs: names and major versions.
const BY_CUST: [&str; 11] = [
    "approx 0",
    "bitflags 1",
    "cust_core 0",
    "cust_derive 0",
    "cust_raw 0",
    "find_cuda_helper 0",
    "glam 0",
    "glob 0",
    "mint 0",
    "syn 1",
    "vek 0",
];

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

struct Graph {
    names: BTreeMap<String, String>,
    needs: BTreeMap<String, Vec<String>>,
    members: Vec<String>,
}

impl Graph {
    fn new() -> Self {
        let metadata = cargo(&["metadata", "--locked", "--all-features", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().unwrap().clone();
        let package = |package: &Value| {
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            let major = version.split('.').next().unwrap();
            (text(&package["id"]), format!("{name} {major}"))
        };
        let node =
            |node: &Value| (text(&node["id"]), list(&node["dependencies"]).iter().map(text).collect());
        Self {
            names: list(&metadata["packages"]).iter().map(package).collect(),
            needs: list(&metadata["resolve"]["nodes"]).iter().map(node).collect(),
            members: list(&metadata["workspace_members"]).iter().map(text).collect(),
        }
    }

    fn reached(&self, without: Option<&str>) -> BTreeSet<&str> {
        let mut open: Vec<&str> = self.members.iter().map(String::as_str).collect();
        let mut reached = BTreeSet::new();
        while let Some(id) = open.pop() {
            if Some(id) != without && reached.insert(id) {
                open.extend(self.needs[id].iter().map(String::as_str));
            }
        }
        reached
    }
}

#[test]
fn dependencies_of_cust_are_listed() {
    let graph = Graph::new();
    let (cust, _) = graph.names.iter().find(|(_, name)| *name == "cust 0").expect("the suite has it");
    let others = graph.reached(Some(cust));
    let by_cust = graph.reached(None).into_iter().filter(|id| *id != cust && !others.contains(id));
    let by_cust: BTreeSet<&str> = by_cust.map(|id| graph.names[id].as_str()).collect();
    assert_eq!(by_cust, BTreeSet::from(BY_CUST));
}

#[test]
fn cust_is_an_optional_dependency() {
    for package in ["warpfold", "warpfold-driver"] {
        let tree = ["tree", "--locked", "--edges", "normal,build", "--prefix", "none", "-p", package];
        let has_cust = |tree: &[&str]| cargo(tree).lines().any(|line| line.starts_with("cust v"));
        assert!(!has_cust(&tree), "{package}");
        assert!(has_cust(&[&tree[..], &["--features", "cust"]].concat()), "{package} by the feature");
    }
}

/// Returns name, version and features of each package that a call of `cargo tree` prints.
fn compiled(selection: &[&str]) -> BTreeSet<String> {
    let tree =
        cargo(&[&["tree", "--locked", "--prefix", "none", "--format", "{p}\t{f}"], selection].concat());
    let line = |line: &str| line.trim_end_matches(" (*)").replace(" (proc-macro)", "");
    tree.lines().map(line).collect()
}

/// A dependency with other features is another artifact, and everything that uses it is compiled again.
#[test]
fn tests_use_the_artifacts_of_xtask() {
    let of_xtask = compiled(&["--package", "xtask", "--edges", "normal,build"]);
    let of_tests = compiled(&["--workspace", "--edges", "normal,build,dev"]);
    let others: Vec<&String> = of_xtask.difference(&of_tests).collect();
    assert!(others.is_empty(), "give xtask/Cargo.toml the features that tests have: {others:?}");
}
