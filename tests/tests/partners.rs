//! A catalogue row without its kernel, PTX entries or binary fails, and so does any of those without
//! a row.

use std::{collections::BTreeSet, fs, path::Path};

use warpfold::catalogue::{self, TESTING, VARIANTS};
use warpfold_tests::{ptx, root};

type Names = BTreeSet<String>;

fn rows() -> Names {
    catalogue::ids().map(str::to_owned).collect()
}

/// Names of the `.rs` files of a folder whose text the filter accepts.
fn sources(folder: &Path, accept: impl Fn(&str) -> bool) -> Names {
    let files = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(|path| accept(&fs::read_to_string(path).unwrap()))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_row_has_a_kernel_file_and_the_reverse() {
    let declares_entries = |text: &str| text.contains("\nentries!(");
    assert_eq!(sources(&root().join("kernels/src/reduce"), declares_entries), rows());
}

#[test]
fn every_row_has_a_binary_and_the_reverse() {
    let folder = root().join("host/src/bin");
    assert_eq!(sources(&folder, |_| true), rows());
    for id in rows() {
        let text = fs::read_to_string(folder.join(&id).with_extension("rs")).unwrap();
        assert!(text.contains(&format!("main(\"{id}\")")), "{id}.rs runs another variant");
    }
}

#[test]
fn the_ptx_has_an_entry_for_every_operation_and_type_and_no_other() {
    for variant in VARIANTS.iter().chain(TESTING) {
        let text = ptx(variant.id).text;
        let entries: Names = text
            .lines()
            .filter_map(|line| line.strip_prefix(".visible .entry "))
            .map(|rest| rest.trim_end_matches(['(', ')', '{', ' ']).to_owned())
            .collect();
        let expected: Names = variant.cases().map(|(op, dtype)| variant.entry(op, dtype)).collect();
        assert_eq!(entries, expected, "{}", variant.id);
    }
}

#[test]
fn ids_are_names_and_unique() {
    let all: Vec<_> = catalogue::ptx_ids().collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    for id in all {
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{id}");
    }
}
