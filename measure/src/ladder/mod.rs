//! Parts of the ladder's pages that are generated or checked: code snippets from the sources, and claims
//! about commands' output.

use std::{fs, path::Path};

use anyhow::{Context, Result};

pub mod commands;
pub mod snippets;

/// The pages in reading order, relative to the workspace's root. Together they have a section for each
/// variant, in the catalogue's order.
pub const PAGES: [&str; 4] =
    ["docs/ladder.md", "docs/hopper.md", "docs/reducer.md", "docs/movements.md"];

pub fn read(root: &Path) -> Result<Vec<(&'static str, String)>> {
    let text =
        |page| fs::read_to_string(root.join(page)).with_context(|| format!("{page} cannot be read"));
    PAGES.into_iter().map(|page| Ok((page, text(page)?))).collect()
}
