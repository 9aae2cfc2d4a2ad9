//! The map of ARCHITECTURE.md: its lines are in dependency order, and name all dependencies.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

use crate::packages;

const PAGE: &str = "ARCHITECTURE.md";

/// Returns differences between the map and the manifests, and dependencies on a higher line of the map.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(PAGE)).with_context(|| format!("{PAGE} cannot be read"))?;
    let (packages, _) = packages::of(root)?;
    let folder = |path: &Path| {
        let folder = path.strip_prefix(root).unwrap_or(path);
        folder.display().to_string()
    };
    let lines = lines(&text);
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in &packages {
        let entry = used.entry(entry_of(&lines, &folder(package.folder())).to_owned()).or_default();
        entry.extend(package.local_dependencies().map(folder));
    }
    Ok(compare(&lines, &used))
}

/// Returns the folder that stands for a package in the map: its own, else the nearest parent listed.
fn entry_of<'a>(lines: &[Line], folder: &'a str) -> &'a str {
    let has_line = |folder: &&str| lines.iter().any(|(name, _)| name == folder);
    let around = Path::new(folder).ancestors().filter_map(Path::to_str);
    around.filter(|around| !around.is_empty()).find(has_line).unwrap_or(folder)
}

type Line = (String, Vec<String>);

/// Reads the map, a table of fixed columns; a line of dashes gives their positions.
fn lines(text: &str) -> Vec<Line> {
    let mut rows = text.lines().skip_while(|line| !line.starts_with("----"));
    let dashes = rows.next().unwrap_or_default();
    let starts: Vec<usize> = dashes.match_indices(" -").map(|(at, _)| at + 1).collect();
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.take_while(|line| !line.starts_with("```")) {
        let cell = |column: usize| -> String {
            let (start, end) = (starts[column], starts.get(column + 1).copied().unwrap_or(usize::MAX));
            row.chars().skip(start).take(end - start).collect::<String>().trim().to_owned()
        };
        let (name, uses) = (cell(0), cell(2));
        let uses = uses.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        match (name.strip_suffix('/'), lines.last_mut()) {
            (Some(name), _) => lines.push((name.to_owned(), uses.collect())),
            (None, Some((_, all))) => all.extend(uses),
            (None, None) => {}
        }
    }
    lines
}

fn compare(lines: &[Line], used: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let line_of = |folder: &str| lines.iter().position(|(name, _)| name == folder);
    let mut found = Vec::new();
    for (folder, uses) in used {
        let Some(line) = line_of(folder) else {
            found.push(format!("{PAGE}: the map has no line for {folder}/"));
            continue;
        };
        for other in uses {
            if line_of(other).is_some_and(|other| other <= line) {
                found.push(format!("{PAGE}: {folder}/ depends on {other}/, which is not below it"));
            }
            if !lines[line].1.contains(other) {
                found.push(format!("{PAGE}: {folder}/ depends on {other}/, which its line lacks"));
            }
        }
        for other in lines[line].1.iter().filter(|other| !uses.contains(other)) {
            found.push(format!("{PAGE}: {folder}/ does not depend on {other}/, which its line names"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "text\n```\n      folder  contents  uses\n----  ------  --------  ----\n\
                       a     top/    what      mid,\n                        low\n      mid/    what      low\n\
                       b     low/    what\n```\nmore\n";

    fn used(of: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        of.iter()
            .map(|(name, uses)| ((*name).into(), uses.iter().map(|&name| name.into()).collect()))
            .collect()
    }

    #[test]
    fn a_map_that_is_right_is_passed() {
        let used = used(&[("top", &["mid", "low"]), ("mid", &["low"]), ("low", &[])]);
        assert!(compare(&lines(MAP), &used).is_empty());
    }

    #[test]
    fn packages_without_a_line_belong_to_the_folder_around_them() {
        let lines = lines(MAP);
        let found = ["mid", "mid/host", "more/host"].map(|folder| entry_of(&lines, folder));
        assert_eq!(found, ["mid", "mid", "more/host"]);
    }

    #[test]
    fn upward_and_unlisted_dependencies_are_reported() {
        let used = used(&[("top", &["mid"]), ("low", &["mid"]), ("more", &[])]);
        let expected = [
            "ARCHITECTURE.md: low/ depends on mid/, which is not below it",
            "ARCHITECTURE.md: low/ depends on mid/, which its line lacks",
            "ARCHITECTURE.md: the map has no line for more/",
            "ARCHITECTURE.md: top/ does not depend on low/, which its line names",
        ];
        assert_eq!(compare(&lines(MAP), &used), expected);
    }
}
