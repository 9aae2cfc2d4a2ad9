//! The book of `docs/`: its table of contents must list every page once, and pages must not link to
//! documents outside of it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

use super::{links, read};

const SUMMARY: &str = "docs/SUMMARY.md";
/// Dated notes are not in the book; its pages may link to them, for readers of the repository.
const NOTES: &str = "notes/";

/// Returns pages that the table of contents lacks or repeats, and links of pages that the book would
/// break, because it converts a link to `x.md` to `x.html` even if it has no such page.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let summary = root.join(SUMMARY);
    let folder = summary.parent().context("no folder")?;
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && name != "SUMMARY.md" {
            times.insert(name, 0);
        }
    }
    let pages: Vec<String> = times.keys().cloned().collect();
    for link in links::links(&read(&summary)?) {
        // Pages in subfolders need not be in the book.
        *times.entry(link.target).or_default() += 1;
    }
    let mut found = Vec::new();
    for page in &pages {
        for links::Link { line, target } in links::links(&read(&folder.join(page))?) {
            let path = target.split('#').next().unwrap_or_default();
            let is_page = !path.ends_with(".md") || pages.iter().any(|page| page == path);
            if !is_page && !path.contains("://") && !path.starts_with(NOTES) {
                found.push(format!(
                    "docs/{page}:{line}: the book has no page {path}; link to its folder"
                ));
            }
        }
    }
    let wrong = times.into_iter().filter_map(|(page, times)| match times {
        0 => Some(format!("{SUMMARY}: no line for {page}")),
        1 => None,
        _ => Some(format!("{SUMMARY}: {page} more than once")),
    });
    found.extend(wrong);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_the_summary_once() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        for page in ["a.md", "b.md", "c.md", "picture.svg"] {
            fs::write(root.path().join("docs").join(page), "").unwrap();
        }
        let found = |summary: &str| {
            fs::write(root.path().join(SUMMARY), summary).unwrap();
            findings(root.path()).unwrap()
        };
        assert!(found("- [A](a.md)\n  - [B](b.md)\n- [C](c.md)\n").is_empty());
        assert_eq!(
            found("- [A](a.md)\n- [B](b.md)\n- [B again](b.md)\n"),
            ["docs/SUMMARY.md: b.md more than once", "docs/SUMMARY.md: no line for c.md"]
        );
        let text = "[b](b.md#x), [there](../x/), [n](notes/n.md)\n[x](../x/README.md), \
                    [y](https://example.org/y.md)\n";
        fs::write(root.path().join("docs/a.md"), text).unwrap();
        assert_eq!(
            found("- [A](a.md)\n- [B](b.md)\n- [C](c.md)\n"),
            ["docs/a.md:2: the book has no page ../x/README.md; link to its folder"]
        );
    }
}
