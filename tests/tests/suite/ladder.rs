//! The ladder's pages against the sources: snippets match the marked source, and a variant's kernel,
//! twin and section link to each other. `cargo xtask lint text` follows all links. The output of the
//! pages' commands is compared in ladder_runs.rs and xtask/tests/commands/ladder.rs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use warpfold_measure::ladder::{self, snippets};
use warpfold_suite::catalogue::{self, VARIANTS, Variant, Work};
use warpfold_tests::root;

const MARKED: [&str; 3] = ["device/src", "kernels/src", "host/src"];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let shown = |sign: &str, lines: &[&str]| -> String {
        lines.iter().skip(same).take(3).map(|line| format!("\n{sign} {line}")).collect()
    };
    format!("line {}:{}{}", same + 1, shown("-", &old), shown("+", &new))
}

#[test]
fn the_snippets_are_cut_from_the_sources() {
    for (page, old) in ladder::read(root()).unwrap() {
        let new = snippets::renew(&old, root()).unwrap_or_else(|error| panic!("{page}: {error:#}"));
        let stale = snippets::stale(&old, &new);
        assert!(
            old == new,
            "{page} shows other code than {stale:?}; `cargo xtask report --readme` renews it; {}",
            difference(&old, &new)
        );
    }
}

#[test]
fn every_section_shows_code_and_every_marker_is_shown() {
    for (id, Section { page, text }) in sections() {
        let shown = text.matches("```rust\n").count();
        let cut = snippets::origins(&text).unwrap().len();
        assert_eq!(shown, cut, "{page}, section {id}: code that is not cut from a source");
        assert!(cut > 0, "{page}, section {id} shows no code");
    }
    let pages = ladder::read(root()).unwrap();
    let shown = pages.iter().flat_map(|(_, text)| snippets::origins(text).unwrap());
    let shown: BTreeSet<_> = shown.collect();
    for path in MARKED.iter().flat_map(|folder| sources(&root().join(folder))) {
        for name in snippets::marked(&read(&path)) {
            let origin = snippets::Origin { path: path.clone(), name: name.to_owned() };
            assert!(shown.contains(&origin), "{path}: no page shows `// ladder: {name}`");
        }
    }
}

fn sources(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

struct Section {
    page: &'static str,
    text: String,
}

fn sections() -> BTreeMap<String, Section> {
    let mut sections = BTreeMap::new();
    for (page, text) in ladder::read(root()).unwrap() {
        for part in text.split("\n### `").skip(1) {
            let (id, section) =
                part.split_once("`\n").unwrap_or_else(|| panic!("{page}: heading {part}"));
            let end = section.find("\n## ").unwrap_or(section.len());
            sections.insert(id.to_owned(), Section { page, text: section[..end].to_owned() });
        }
    }
    sections
}

fn rung(variant: &Variant) -> String {
    let folder = match variant.work {
        Work::Copy { .. } | Work::Transpose => "memory",
        _ => "reduce",
    };
    format!("kernels/src/{folder}/{}.rs", variant.id)
}

fn assert_says(path: &str, text: &str, needles: &[String]) {
    let lacks: Vec<_> = needles.iter().filter(|needle| !text.contains(needle.as_str())).collect();
    assert!(lacks.is_empty(), "{path} lacks {lacks:?}");
}

#[test]
fn rung_twin_and_section_link_to_each_other() {
    let sections = sections();
    for variant in catalogue::kernels() {
        let (id, rung) = (variant.id, rung(variant));
        let Section { page, text } = &sections[id];
        let (twin, section) = (format!("cuda/{id}.cu"), format!("{page}#{id}"));
        assert_says(&rung, &header(&rung, "//!"), &[format!("`{section}`"), format!("`{twin}`")]);
        assert_says(&twin, &header(&twin, "//"), &[format!("{rung}."), format!("{section}.")]);
        let links = [format!("[Rust](../{rung})"), format!("[CUDA C](../{twin})")];
        assert_says(&section, text, &links);
    }
}

fn header(path: &str, comment: &str) -> String {
    let text = read(path);
    let lines = text.lines().take_while(|line| line.starts_with(comment));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn sources_page_lists_every_rung() {
    let (text, sections) = (read("docs/sources.md"), sections());
    for variant in VARIANTS {
        let page = sections[variant.id].page.trim_start_matches("docs/");
        for source in variant.sources.split(", ") {
            let row = format!("\n| [`{0}`]({page}#{0}) | {source} | ", variant.id);
            assert!(text.contains(&row), "docs/sources.md has no row for {} of {source}", variant.id);
        }
    }
}
