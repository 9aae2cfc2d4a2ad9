//! Completeness of the catalogue: a row without its kernel, PTX entries, binary, twin or section of the
//! ladder fails, and so does any of these without a row.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use warpfold::internal::KernelFile;
use warpfold_measure::ladder;
use warpfold_sim::Module;
use warpfold_suite::{
    Arch,
    catalogue::{self, VARIANTS, Variant, Work},
};
use warpfold_tests::{device, library_ptx, on_gpu, ptx, root};

type Names = BTreeSet<String>;

fn names<'v>(variants: impl Iterator<Item = &'v Variant>) -> Names {
    variants.map(|variant| variant.id.to_owned()).collect()
}

fn files(folder: &Path, extension: &str, accept: impl Fn(&str) -> bool) -> Names {
    let files = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter(|path| accept(&fs::read_to_string(path).unwrap()))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// Fails with the missing and the superfluous names of `place`; `{}` in it stands for a name.
fn assert_partners(place: &str, found: &Names, expected: &Names) {
    let shown = |names: Vec<&String>| -> Vec<String> {
        names.into_iter().map(|name| place.replace("{}", name)).collect()
    };
    let missing = shown(expected.difference(found).collect());
    let without_row = shown(found.difference(expected).collect());
    assert!(missing.is_empty() && without_row.is_empty(), "{}", said(&missing, &without_row));
}

fn said(missing: &[String], without_row: &[String]) -> String {
    let part = |what: &str, paths: &[String]| match paths {
        [] => String::new(),
        paths => format!("{what}: {}\n", paths.join(", ")),
    };
    part("missing for a row of the catalogue", missing) + &part("without a row", without_row)
}

#[test]
fn every_row_has_a_kernel_file_and_the_reverse() {
    let declares_entries = |text: &str| text.contains("\nentries!(");
    let moves = |variant: &&Variant| matches!(variant.work, Work::Copy { .. } | Work::Transpose);
    let folders = [
        ("kernels/src/reduce", names(catalogue::reductions())),
        ("kernels/src/memory", names(VARIANTS.iter().filter(moves))),
    ];
    for (folder, expected) in folders {
        let found = files(&root().join(folder), "rs", declares_entries);
        assert_partners(&format!("{folder}/{{}}.rs"), &found, &expected);
    }
}

#[test]
fn every_row_has_a_binary_and_the_reverse() {
    let folder = root().join("host/src/bin");
    assert_partners("host/src/bin/{}.rs", &files(&folder, "rs", |_| true), &names(VARIANTS.iter()));
    for id in catalogue::ids() {
        let text = fs::read_to_string(folder.join(id).with_extension("rs")).unwrap();
        assert!(text.contains(&format!("main(\"{id}\")")), "{id}.rs runs another variant");
    }
}

#[test]
fn kernels_and_twins_match_in_name_and_architecture() {
    let folder = root().join("cuda");
    assert_partners("cuda/{}.cu", &files(&folder, "cu", |_| true), &names(catalogue::kernels()));
    for variant in catalogue::kernels() {
        let text = fs::read_to_string(folder.join(variant.id).with_extension("cu")).unwrap();
        let needs = text.lines().find_map(|line| line.strip_prefix("// needs "));
        let needs = needs.map_or(Arch::OLDEST, |name| name.trim().parse().unwrap());
        assert_eq!(needs, variant.min_arch, "{}", variant.id);
    }
}

#[test]
fn rows_and_ladder_sections_match_in_order() {
    let pages = ladder::read(root()).unwrap();
    let heading = |line: &str| line.strip_prefix("### `")?.strip_suffix('`').map(str::to_owned);
    let lines = pages.iter().flat_map(|(_, text)| text.lines());
    let sections: Vec<String> = lines.filter_map(heading).collect();
    let found: Names = sections.iter().cloned().collect();
    assert_partners("section {} of the ladder's pages", &found, &names(VARIANTS.iter()));
    let places = sections.iter().zip(catalogue::ids());
    if let Some((section, id)) = places.into_iter().find(|(section, id)| section != id) {
        panic!("the ladder's pages have section {section} where the catalogue's order has {id}");
    }
    assert_eq!(sections.len(), found.len(), "the ladder's pages have a section twice");
}

#[test]
fn ptx_entries_match_operations_and_types() {
    // SAFETY: none of the kernels is run.
    for variant in catalogue::kernels().chain(unsafe { catalogue::testing() }) {
        let expected: Names = variant.cases().map(|(op, dtype)| variant.entry(op, dtype)).collect();
        let place = format!("{}.ptx, entry {{}}", variant.id);
        assert_partners(&place, &entries(&ptx(variant.id).text), &expected);
    }
}

fn entries(ptx: &str) -> Names {
    Module::parse(ptx).unwrap_or_else(|error| panic!("{error}"));
    let lines = ptx.lines().filter_map(|line| line.strip_prefix(".visible .entry "));
    lines.map(|rest| rest.trim_end_matches(['(', ')', '{', ' ']).to_owned()).collect()
}

#[test]
fn reducer_ptx_files_and_kernels_match_the_catalogue() {
    let reducer = catalogue::find("reducer").unwrap();
    let row = reducer.cases().map(|(op, dtype)| catalogue::reducer_ptx(op.unwrap(), dtype));
    let files: BTreeMap<_, _> = KernelFile::all().map(|file| (file.name(), file.kernels())).collect();
    assert_eq!(files.len(), KernelFile::all().count());
    assert!(row.into_iter().all(|file| files.contains_key(&file)), "the row has what is in no file");
    let built = catalogue::ptx_ids().filter(|id| id.starts_with("reducer_")).map(str::to_owned);
    assert_eq!(built.collect::<Names>(), files.keys().cloned().collect());
    let arch = device().info().arch;
    for (id, kernels) in files {
        let kernels = kernels.into_iter().filter(|kernel| kernel.min_arch <= arch);
        let expected: Names = kernels.map(|kernel| format!("{id}_{}", kernel.name)).collect();
        assert_eq!(entries(&library_ptx(&id)), expected, "{id}");
    }
    assert!(root().join("kernels/src/reduce/reducer/mod.rs").is_file());
    assert!(!root().join("cuda/reducer.cu").exists(), "a twin makes it a kernel of the catalogue");
}

#[test]
fn readme_shows_the_example_and_its_output() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let example = fs::read_to_string(root().join("warpfold/examples/sum.rs")).unwrap();
    assert!(readme.contains(&format!("```rust\n{example}```\n")), "README.md has another example");
    if on_gpu() {
        return;
    }
    let values: Vec<f32> = (0..1_000_000).map(|i| i as f32 / 1e6).collect();
    let device = warpfold::Device::open(warpfold::Selection::Sim).unwrap();
    let sum = warpfold::Reducer::new(&device).unwrap().sum(&device.upload(&values).unwrap()).unwrap();
    let printed = format!("{sum} on {}", device.info().name);
    assert!(readme.contains(&format!("```\n{printed}\n```\n")), "README.md does not print: {printed}");
}

#[test]
fn every_source_is_explained() {
    let text = fs::read_to_string(root().join("docs/sources.md")).unwrap();
    for source in VARIANTS.iter().flat_map(|variant| variant.sources.split(", ")) {
        assert!(text.contains(&format!("\n| {source} |")), "docs/sources.md does not explain {source}");
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
