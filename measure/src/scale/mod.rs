//! The tables of docs/scale.md: a model of the cost of reductions over several GPUs and hosts, fitted to
//! measurements, and a simulation of stragglers and failures.

mod failures;
mod measured;
mod model;
mod network;
mod tables;

use std::fs;

use anyhow::{Context, Result, ensure};
use warpfold_suite::{cli::files, say};

use crate::{markers::replace, workspace::Workspace};
use measured::Measured;

const TEXT: &str = "docs/scale.md";

const START: &str = "<!-- scale:";
const END: &str = "<!-- /scale -->";

/// Writes the tables of docs/scale.md; with `check`, writes nothing. Returns false only if `check` found
/// stale tables.
pub(crate) fn update(workspace: &Workspace, check: bool) -> Result<bool> {
    let path = workspace.root.join(TEXT);
    let old = fs::read_to_string(&path).with_context(|| TEXT)?;
    let tables = tables::all(&Measured::read(&workspace.root)?);
    let new = renewed(&old, &tables)?;
    if old != new && check {
        say!("stale: {TEXT}; `cargo xtask report --readme` renews it");
        return Ok(false);
    }
    if old != new {
        files::replace(&path, new)?;
    }
    Ok(true)
}

/// Returns a text with its tables regenerated. It must name each table exactly once.
fn renewed(text: &str, tables: &[(&str, String)]) -> Result<String> {
    for (name, _) in tables {
        let marker = format!("{START} {name} -->");
        let named = text.matches(&marker).count();
        ensure!(
            named == 1,
            "`{marker}` occurs {named} times; write it exactly once, in place of the table"
        );
    }
    replace(text, START, END, |name, _| {
        let (_, table) = tables
            .iter()
            .find(|(of, _)| *of == name)
            .with_context(|| format!("`{name}` does not name a table of docs/scale.md"))?;
        Ok(format!("\n{table}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_document_is_up_to_date() {
        let root = Workspace::locate().unwrap().root;
        let text = fs::read_to_string(root.join(TEXT)).unwrap();
        let tables = tables::all(&Measured::read(&root).unwrap());
        assert!(
            renewed(&text, &tables).unwrap() == text,
            "stale: `cargo xtask report --readme` renews it"
        );
    }

    #[test]
    fn tables_are_put_where_their_names_are() {
        let tables = [("a", "new\n".to_owned())];
        let text = "before\n<!-- scale: a -->\nold\n<!-- /scale -->\nbehind\n";
        assert_eq!(renewed(text, &tables).unwrap(), text.replace("old", "new"));
        assert!(renewed("nothing", &tables).is_err());
        assert!(renewed(&format!("{text}<!-- scale: b -->\n"), &tables).is_err());
    }
}
