//! What docs/ladder.md takes from elsewhere: its snippets from the sources, and what it says that its
//! commands print.

pub mod commands;
pub mod snippets;

/// The document, below the workspace's root.
pub const LADDER: &str = "docs/ladder.md";
