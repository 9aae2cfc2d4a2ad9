//! Checks of documents, comments and mutations: links lead to existing targets, the book lists every
//! page, ARCHITECTURE.md's map agrees with the manifests, and comments are no wider than code, do not
//! refer to unnamed numbers, and have no more signs of poor style than `style` allows; and the
//! statements that mutations change exist.

mod book;
mod comments;
mod links;
mod map;
mod messages;
mod style;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use warpfold_suite::say;

use crate::{files, mutate, workspace::Workspace};

/// Checks all documents and sources, and prints findings with file and line; returns whether there are
/// none. With `fix`, wraps comments that are too wide first.
pub fn check(fix: bool) -> Result<bool> {
    let root = Workspace::locate()?.root;
    let (sources, documents) = (below(&root, "rs")?, below(&root, "md")?);
    if fix {
        for path in &sources {
            let text = read(path)?;
            let wrapped = comments::wrap(&text);
            if wrapped != text {
                files::replace(path, wrapped)?;
            }
        }
    }
    let texts = read_all(&root, &sources)?;
    let mut found = style::findings(&texts);
    found.extend(messages::findings(&texts));
    for (shown, text) in &texts {
        let findings = comments::findings(text);
        found.extend(findings.into_iter().map(|(line, what)| format!("{shown}:{line}: {what}")));
    }
    found.extend(links::findings(&root, &documents)?);
    found.extend(book::findings(&root)?);
    found.extend(map::findings(&root)?);
    found.extend(mutate::findings(&root)?);
    found.iter().for_each(|line| say!("{line}"));
    let (sources, documents) = (sources.len(), documents.len());
    say!("{} findings in {sources} sources and {documents} documents", found.len());
    Ok(found.is_empty())
}

/// Returns the shown path and the text of each source.
fn read_all(root: &Path, sources: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let one = |path: &PathBuf| -> Result<(String, String)> {
        Ok((path.strip_prefix(root).unwrap_or(path).display().to_string(), read(path)?))
    };
    sources.iter().map(one).collect()
}

#[cfg(test)]
fn sources() -> Result<Vec<(String, String)>> {
    let root = Workspace::locate()?.root;
    read_all(&root, &below(&root, "rs")?)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// Returns the hand-written files with this extension below a folder, sorted. Build outputs,
/// measurements and hidden files are excluded, except for `.github`.
fn below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && name != ".github";
        if is_hidden || ["target", "book", "results"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            found.extend(below(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
