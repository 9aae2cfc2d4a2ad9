//! docs/ladder.md against the sources: its snippets are what the sources mark, and rung, twin and
//! section link to each other. What its commands print is compared where the commands are:
//! host/tests/ladder.rs and xtask/tests/ladder.rs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use warpfold_lab::ladder::{LADDER, snippets};
use warpfold_suite::catalogue::{self, VARIANTS, Variant, Work};
use warpfold_tests::root;

/// Folders whose sources mark snippets.
const MARKED: [&str; 3] = ["device/src", "kernels/src", "host/src"];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The first line in which two texts differ, as a diff shows it.
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
    let old = read(LADDER);
    let new = snippets::renew(&old, root()).unwrap_or_else(|error| panic!("{LADDER}: {error:#}"));
    let stale = snippets::stale(&old, &new);
    assert!(
        old == new,
        "{LADDER} shows other code than {stale:?}; `cargo xtask report --readme` renews it; {}",
        difference(&old, &new)
    );
}

#[test]
fn every_section_shows_code_and_every_marker_is_shown() {
    for (id, section) in sections() {
        let shown = section.matches("```rust\n").count();
        let cut = snippets::origins(&section).unwrap().len();
        assert_eq!(shown, cut, "{LADDER}, section {id}: code that is not cut from a source");
        assert!(cut > 0, "{LADDER}, section {id} shows no code");
    }
    let shown: BTreeSet<_> = snippets::origins(&read(LADDER)).unwrap().into_iter().collect();
    for path in MARKED.iter().flat_map(|folder| sources(&root().join(folder))) {
        for name in snippets::marked(&read(&path)) {
            let origin = snippets::Origin { path: path.clone(), name: name.to_owned() };
            assert!(shown.contains(&origin), "{path}: {LADDER} does not show `// ladder: {name}`");
        }
    }
}

/// The Rust files below a folder, from the workspace's root on.
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

/// The sections by the variant that heads them.
fn sections() -> BTreeMap<String, String> {
    let text = read(LADDER);
    let mut sections = BTreeMap::new();
    for part in text.split("\n### `").skip(1) {
        let (id, section) = part.split_once("`\n").unwrap_or_else(|| panic!("{LADDER}: heading {part}"));
        let end = section.find("\n## ").unwrap_or(section.len());
        sections.insert(id.to_owned(), section[..end].to_owned());
    }
    sections
}

/// The file of a variant's kernel.
fn rung(variant: &Variant) -> String {
    let folder = match variant.work {
        Work::Copy { .. } | Work::Transpose => "memory",
        _ => "reduce",
    };
    format!("kernels/src/{folder}/{}.rs", variant.id)
}

/// Fails with the path of the file that lacks any of these.
fn assert_says(path: &str, text: &str, needles: &[String]) {
    let lacks: Vec<_> = needles.iter().filter(|needle| !text.contains(needle.as_str())).collect();
    assert!(lacks.is_empty(), "{path} lacks {lacks:?}");
}

#[test]
fn rung_twin_and_section_link_to_each_other() {
    let sections = sections();
    for variant in catalogue::kernels() {
        let (id, rung) = (variant.id, rung(variant));
        let (twin, section) = (format!("cuda/{id}.cu"), format!("{LADDER}#{id}"));
        assert_says(&rung, &header(&rung, "//!"), &[format!("`{section}`"), format!("`{twin}`")]);
        assert_says(&twin, &header(&twin, "//"), &[format!("{rung}."), format!("{section}.")]);
        let links = [format!("[Rust](../{rung})"), format!("[CUDA C](../{twin})")];
        assert_says(&section, &sections[id], &links);
    }
}

/// The comment that opens a file.
fn header(path: &str, comment: &str) -> String {
    let text = read(path);
    let lines = text.lines().take_while(|line| line.starts_with(comment));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn links_of_the_ladder_and_of_the_sources_lead_somewhere() {
    for document in [LADDER, "docs/sources.md"] {
        let text = read(document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if path.starts_with("http") {
                continue;
            }
            let file = if path.is_empty() { document.to_owned() } else { format!("docs/{path}") };
            assert!(root().join(&file).exists(), "{document}: {link} leads nowhere");
            assert!(
                anchor.is_empty() || anchors(&file).contains(anchor),
                "{document}: no anchor {link}"
            );
        }
    }
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(path: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    read(path).lines().filter(|line| line.starts_with('#')).map(heading).collect()
}

#[test]
fn the_sources_name_the_place_of_every_rung() {
    let text = read("docs/sources.md");
    for variant in VARIANTS {
        for source in variant.sources.split(", ") {
            let row = format!("\n| [`{}`](ladder.md#{}) | {source} | ", variant.id, variant.id);
            assert!(text.contains(&row), "docs/sources.md has no row for {} of {source}", variant.id);
        }
    }
}
