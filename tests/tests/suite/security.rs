//! SECURITY.md documents every environment variable that is read, and no other.

use std::{collections::BTreeSet, fs, path::Path};

use warpfold_tests::root;

fn variables(text: &str) -> impl Iterator<Item = String> {
    const PREFIX: &str = "WARPFOLD_";
    text.match_indices(PREFIX).filter_map(|(at, _)| {
        let is_name = |c: &char| c.is_ascii_uppercase() || *c == '_';
        let name: String = text[at..].chars().take_while(is_name).collect();
        (name.len() > PREFIX.len()).then_some(name)
    })
}

fn named_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != ".git" {
            named_below(&path, found);
        } else if path.extension().is_some_and(|found| found == "rs" || found == "sh") {
            found.extend(variables(&fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_environment_variable_is_documented() {
    let mut read = BTreeSet::new();
    named_below(root(), &mut read);
    assert!(read.contains("WARPFOLD_LIBCUDA"), "{read:?}");
    let told: BTreeSet<String> =
        variables(&fs::read_to_string(root().join("SECURITY.md")).unwrap()).collect();
    assert_eq!(told, read);
}
