//! `cargo xtask list`: the catalogue.

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use warpfold::catalogue::VARIANTS;

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
/// None but those of writing JSON.
pub fn run(args: &Args) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(VARIANTS)?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "variant",
        "what it does",
        "shows",
        "operations",
        "types",
        "geometry",
        "completion",
    ]);
    for row in VARIANTS {
        table.add_row([
            row.id.to_owned(),
            row.summary.to_owned(),
            row.shows.to_owned(),
            names(row.ops),
            names(row.dtypes),
            row.geometry.to_string(),
            row.completion.to_string(),
            row.determinism.to_string(),
        ]);
    }
    println!("{table}");
    Ok(())
}

fn names(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
