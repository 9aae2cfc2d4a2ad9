//! `cargo xtask list`: the catalogue.

use std::io::Write;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use warpfold_suite::{
    catalogue::{Shape, VARIANTS},
    cli,
};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// Prints every row of the catalogue.
///
/// # Errors
/// Standard output that cannot be written.
pub fn run(args: &Args) -> Result<()> {
    if args.json {
        return Ok(writeln!(cli::stdout(), "{}", serde_json::to_string_pretty(VARIANTS)?)?);
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "variant",
        "family",
        "what it does",
        "shows",
        "operations",
        "types",
        "geometry",
        "completion",
        "same bits",
        "needs",
    ]);
    for row in VARIANTS {
        let shape = |of: fn(&Shape) -> String| row.shape().map(of).unwrap_or_default();
        table.add_row([
            row.id.to_owned(),
            row.work.to_string(),
            row.summary.to_owned(),
            row.shows.to_owned(),
            names(row.ops),
            names(row.dtypes),
            shape(|shape| shape.geometry.to_string()),
            shape(|shape| shape.completion.to_string()),
            row.determinism.to_string(),
            if row.has_ptx() { row.min_arch.to_string() } else { String::new() },
        ]);
    }
    Ok(writeln!(cli::stdout(), "{table}")?)
}

fn names(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
