//! `cargo xtask run --list`: the variants of the catalogue.

use std::io::Write;

use anyhow::Result;
use warpfold_suite::{
    catalogue::{Shape, VARIANTS},
    cli,
};

use crate::table::{Column, Table};

pub(crate) fn print(json: bool) -> Result<()> {
    if json {
        return Ok(writeln!(cli::stdout(), "{}", serde_json::to_string_pretty(VARIANTS)?)?);
    }
    let mut table = Table::new([
        Column::new("variant"),
        Column::new("family").rank(3),
        Column::new("what it does").wraps(),
        Column::new("shows").wraps().rank(1),
        Column::new("operations").wraps().rank(4),
        Column::new("types").wraps().rank(5),
        Column::new("geometry").wraps().rank(6),
        Column::new("completion").rank(7),
        Column::new("same bits").rank(7),
        Column::new("needs").rank(2),
    ]);
    for row in VARIANTS {
        let shape = |of: fn(&Shape) -> String| row.shape().map(of).unwrap_or_default();
        table.row([
            row.id.into(),
            (&row.work).into(),
            row.summary.into(),
            row.shows.into(),
            names(row.ops).into(),
            names(row.dtypes).into(),
            shape(|shape| shape.geometry.to_string()).into(),
            shape(|shape| shape.completion.to_string()).into(),
            (&row.determinism).into(),
            if row.has_ptx() { row.min_arch.to_string() } else { String::new() }.into(),
        ]);
    }
    Ok(writeln!(cli::stdout(), "{table}")?)
}

fn names(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
