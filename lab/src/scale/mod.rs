//! `cargo xtask scale`: models the cost of reductions over several GPUs and hosts, fitted to
//! measurements, and simulates the effects of stragglers and failures. Generates the tables of
//! docs/scale.md.

mod failures;
mod measured;
mod model;
mod network;
mod tables;

use std::{fs, process::ExitCode};

use anyhow::{Context, Result, bail};
use warpfold_suite::say;

use crate::workspace::Workspace;
use measured::Measured;

const TEXT: &str = "docs/scale.md";

const START: &str = "<!-- scale: ";
const END: &str = "<!-- /scale -->";

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write nothing; exit 1 if the tables of docs/scale.md are stale
    #[arg(long)]
    pub check: bool,
}

/// Runs the command. Exits 1 when it checks and a table is stale.
///
/// # Errors
/// Results that are missing or damaged, or a text without markers for its tables.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let path = workspace.root.join(TEXT);
    let old = fs::read_to_string(&path).with_context(|| TEXT)?;
    let tables = tables::all(&Measured::read(&workspace.root)?);
    let new = renewed(&old, &tables)?;
    if old == new {
        say!("{TEXT} has what comes out");
        return Ok(ExitCode::SUCCESS);
    }
    if args.check {
        say!("stale: {TEXT}; `cargo xtask scale` renews it");
        return Ok(ExitCode::FAILURE);
    }
    fs::write(&path, new).with_context(|| TEXT)?;
    say!("{TEXT}: written");
    Ok(ExitCode::SUCCESS)
}

/// Returns a text with its tables regenerated, each of which it must name once.
fn renewed(text: &str, tables: &[(&str, String)]) -> Result<String> {
    let mut text = text.to_owned();
    for (name, table) in tables {
        let start = format!("{START}{name} -->\n");
        let Some((before, behind)) = text.split_once(&start) else {
            bail!("no `{}`; put it where the table is to be", start.trim_end());
        };
        let Some((_, after)) = behind.split_once(END) else { bail!("`{name}` has no `{END}`") };
        text = format!("{before}{start}{table}{END}{after}");
    }
    let named = text.matches(START).count();
    if named != tables.len() {
        bail!("{named} tables are named, and there are {}; take out the others", tables.len());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_comes_out() {
        let root = Workspace::locate().unwrap().root;
        let text = fs::read_to_string(root.join(TEXT)).unwrap();
        let tables = tables::all(&Measured::read(&root).unwrap());
        assert!(renewed(&text, &tables).unwrap() == text, "stale: `cargo xtask scale` renews it");
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
