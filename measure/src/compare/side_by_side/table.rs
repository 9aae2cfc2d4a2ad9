//! The comparison as a table. A cell shows `Rust / other`, or one value if both are equal.

use super::{Row, Side};
use crate::table::{Cell, Color, Column, Table};

type Shown = (&'static str, u8, fn(&Side) -> String);

const COLUMNS: &[Shown] = &[
    ("static shared", 10, |side| side.code.resources.static_shared_bytes.to_string()),
    ("stack", 12, |side| side.code.resources.stack_bytes.to_string()),
    ("spills st+ld", 4, |side| {
        let resources = side.code.resources;
        format!("{}+{}", resources.spill_store_bytes, resources.spill_load_bytes)
    }),
    ("LDG ×bits", 7, |side| side.code.instructions.global_loads.to_string()),
    ("STG ×bits", 8, |side| side.code.instructions.global_stores.to_string()),
    ("LDS+STS", 9, |side| {
        let instructions = &side.code.instructions;
        format!("{}+{}", instructions.shared_loads.total(), instructions.shared_stores.total())
    }),
    ("BAR", 9, |side| side.code.instructions.block_barriers.to_string()),
    ("SHFL+WARPSYNC", 10, |side| {
        let instructions = &side.code.instructions;
        let exchanges = instructions.shuffles + instructions.warp_reductions;
        format!("{exchanges}+{}", instructions.warp_barriers)
    }),
    ("atomics", 11, |side| side.code.instructions.atomics().to_string()),
    ("generic", 13, |side| side.code.instructions.generic().to_string()),
    ("bulk", 14, |side| side.code.instructions.bulk_copies.to_string()),
    ("bytes", 15, |side| side.code.instructions.code_bytes.to_string()),
];

pub(super) fn table(rows: &[Row<'_>]) -> Table {
    let start = [
        Column::new("variant"),
        Column::new("type"),
        Column::new("op").rank(3),
        Column::new("Rust by").rank(3),
        Column::new("beside").rank(5),
        Column::number("registers"),
        Column::number("ratio").rank(2),
        Column::number("instructions").rank(1),
        Column::number("ratio").rank(2),
    ];
    let columns = COLUMNS.iter().map(|&(name, rank, _)| Column::number(name).rank(rank));
    let end = [
        Column::number("executed PTX").rank(6),
        Column::number("ratio").rank(6),
        Column::new("Rust needs more").wraps().rank(2),
    ];
    let mut table = Table::new(start.into_iter().chain(columns).chain(end));
    for row in rows {
        table.row(cells(row));
    }
    table
}

fn cells(row: &Row<'_>) -> Vec<Cell> {
    let Row { rust, twin } = row;
    let both = |show: fn(&Side) -> String| Cell::from(pair(show(rust), show(twin)));
    let entry = &rust.entry;
    let kernel = entry.kernel.as_ref().map(|kernel| format!(" {kernel}")).unwrap_or_default();
    let mut cells = vec![
        format!("{}{kernel}", entry.variant).into(),
        entry.dtype.into(),
        entry.op.map_or("-", |op| op.name()).into(),
        rust.compiler.trim_start_matches("rust-").into(),
        twin.compiler.into(),
        both(|side| side.code.resources.registers.to_string()),
        format!("{:.2}", row.registers()).into(),
        both(|side| side.code.instructions.total.to_string()),
        format!("{:.2}", row.instructions()).into(),
    ];
    cells.extend(COLUMNS.iter().map(|&(_, _, show)| both(show)));
    cells.push(both(|side| {
        side.executed.map_or("-".to_owned(), |executed| executed.warp_instructions.to_string())
    }));
    cells.push(row.executed().map_or("-".to_owned(), |ratio| format!("{ratio:.2}")).into());
    cells.push(Cell::coloured(row.marks().join(", "), Color::Yellow));
    cells
}

fn pair(rust: String, twin: String) -> String {
    if rust == twin { rust } else { format!("{rust} / {twin}") }
}
