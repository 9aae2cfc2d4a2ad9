//! What the ladder's pages take from elsewhere: their snippets from the sources, and what they say that
//! their commands print.

use std::{fs, path::Path};

use anyhow::{Context, Result};

pub mod commands;
pub mod snippets;

/// The pages in the order in which they are read, below the workspace's root. Together they have a
/// section for each variant, in the catalogue's order.
pub const PAGES: [&str; 4] =
    ["docs/ladder.md", "docs/hopper.md", "docs/reducer.md", "docs/movements.md"];

/// The pages with their texts.
///
/// # Errors
/// A page that cannot be read.
pub fn read(root: &Path) -> Result<Vec<(&'static str, String)>> {
    let text =
        |page| fs::read_to_string(root.join(page)).with_context(|| format!("{page} cannot be read"));
    PAGES.into_iter().map(|page| Ok((page, text(page)?))).collect()
}
