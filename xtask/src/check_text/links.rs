//! Links between documents: to existing files, and to headings in them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::read;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

pub(super) fn findings(root: &Path, documents: &[PathBuf]) -> Result<Vec<String>> {
    let mut anchors = BTreeMap::new();
    let mut found = Vec::new();
    for document in documents {
        let shown = document.strip_prefix(root).unwrap_or(document).display();
        for Link { line, target } in links(&read(document)?) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let file = match path {
                "" => document.clone(),
                path => document.parent().unwrap_or(root).join(path),
            };
            if !file.exists() {
                found.push(format!("{shown}:{line}: {path} does not exist"));
            } else if !anchor.is_empty() && file.extension().is_some_and(|extension| extension == "md") {
                if !anchors.contains_key(&file) {
                    anchors.insert(file.clone(), self::anchors(&read(&file)?));
                }
                if !anchors[&file].iter().any(|heading| heading == anchor) {
                    found.push(format!("{shown}:{line}: no heading has the anchor of {target}"));
                }
            }
        }
    }
    Ok(found)
}

pub(super) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        // Text between two backticks is code.
        let spans: Vec<&str> = text.split('`').collect();
        let text: Vec<&str> =
            spans.iter().enumerate().map(|(at, span)| if at % 2 == 0 { *span } else { "" }).collect();
        for rest in text.join("`").split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let target = target.split_whitespace().next().unwrap_or_default().to_owned();
            links.push(Link { line, target });
        }
    }
    links
}

/// Returns the numbered lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((at + 1, line))
    })
}

/// Returns the anchors of a text's headings, as web sites and the book derive them.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let Some(title) = line.strip_prefix('#') else { continue };
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    anchors
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn broken_links_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("docs")).unwrap();
        fs::write(
            at("docs/b.md"),
            "# A `heading`: of words\n\n```\n# none\n```\n\n## Twice\n\n## Twice\n",
        )
        .unwrap();
        let text = "[a](docs/b.md) and [b](docs/c.md)\n\n```\n[no](nowhere.md)\n```\n`[no](nowhere.md)`\n\
            [c](docs/b.md#a-heading-of-words), [d](docs/b.md#none), ![e](docs/e.svg)\n\
            [f](https://example.org/x.md) [g](#here) [h](docs/b.md#twice-1 \"title\")\n";
        fs::write(at("a.md"), text).unwrap();
        let found = findings(root.path(), &[at("a.md"), at("docs/b.md")]).unwrap();
        assert_eq!(
            found,
            [
                "a.md:1: docs/c.md does not exist",
                "a.md:7: no heading has the anchor of docs/b.md#none",
                "a.md:7: docs/e.svg does not exist",
                "a.md:8: no heading has the anchor of #here",
            ]
        );
    }
}
