//! `cargo xtask check-text`: checks documents and comments. Links of the documents must lead somewhere,
//! the book must have every page, and comments must have the width of the code, name the numbers that
//! they mean, and have no more signs of poor style than before.

mod book;
mod comments;
mod links;
mod style;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use warpfold_suite::say;

use crate::{files, workspace::Workspace};

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Wrap comments that are too wide before checking
    #[arg(long)]
    pub wrap: bool,
}

/// Runs the command. Exits 1 if something is found, and prints it with file and line.
///
/// # Errors
/// Fails if files cannot be read or written.
pub fn run(args: &Args) -> Result<ExitCode> {
    let root = Workspace::locate()?.root;
    let (sources, documents) = (below(&root, "rs")?, below(&root, "md")?);
    if args.wrap {
        for path in &sources {
            let text = read(path)?;
            let wrapped = comments::wrap(&text);
            if wrapped != text {
                files::replace(path, wrapped)?;
            }
        }
    }
    let source = |path: &PathBuf| -> Result<(String, String)> {
        Ok((path.strip_prefix(&root).unwrap_or(path).display().to_string(), read(path)?))
    };
    let texts = sources.iter().map(source).collect::<Result<Vec<_>>>()?;
    let mut found = style::findings(&texts);
    for (shown, text) in &texts {
        let findings = comments::findings(text);
        found.extend(findings.into_iter().map(|(line, what)| format!("{shown}:{line}: {what}")));
    }
    found.extend(links::findings(&root, &documents)?);
    found.extend(book::findings(&root)?);
    found.iter().for_each(|line| say!("{line}"));
    let (sources, documents) = (sources.len(), documents.len());
    say!("{} findings in {sources} sources and {documents} documents", found.len());
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// Returns the hand-written files with this extension below a folder, sorted: without build outputs,
/// measurements and hidden files, except for issue templates, which are hidden but included.
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
