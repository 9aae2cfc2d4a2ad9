//! The comparison as a table. A cell says `Rust / what stands beside it`, or one value where they are
//! equal.

use std::fmt::Display;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::{Row, Side};

/// A column: its head, and what of a side it shows.
type Column = (&'static str, fn(&Side) -> String);

/// What is shown of both sides, beside the ratios.
const COLUMNS: &[Column] = &[
    ("static shared", |side| side.code.resources.static_shared_bytes.to_string()),
    ("stack", |side| side.code.resources.stack_bytes.to_string()),
    ("spills st+ld", |side| {
        let resources = side.code.resources;
        format!("{}+{}", resources.spill_store_bytes, resources.spill_load_bytes)
    }),
    ("LDG ×bits", |side| side.code.instructions.global_loads.to_string()),
    ("STG ×bits", |side| side.code.instructions.global_stores.to_string()),
    ("LDS+STS", |side| {
        let instructions = &side.code.instructions;
        format!("{}+{}", instructions.shared_loads.total(), instructions.shared_stores.total())
    }),
    ("BAR", |side| side.code.instructions.block_barriers.to_string()),
    ("SHFL+WARPSYNC", |side| {
        let instructions = &side.code.instructions;
        let exchanges = instructions.shuffles + instructions.warp_reductions;
        format!("{exchanges}+{}", instructions.warp_barriers)
    }),
    ("atomics", |side| side.code.instructions.atomics().to_string()),
    ("generic", |side| side.code.instructions.generic().to_string()),
    ("bulk", |side| side.code.instructions.bulk_copies.to_string()),
    ("bytes", |side| side.code.instructions.code_bytes.to_string()),
];

pub(super) fn table(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let start =
        ["variant", "type", "op", "Rust by", "beside", "registers", "ratio", "instructions", "ratio"];
    let end = ["executed PTX", "ratio", "Rust needs more"];
    let columns = COLUMNS.iter().map(|(name, _)| *name);
    table.set_header(start.into_iter().chain(columns).chain(end));
    for row in rows {
        table.add_row(cells(row));
    }
    table
}

fn cells(row: &Row<'_>) -> Vec<Cell> {
    let Row { rust, twin } = row;
    let both = |show: fn(&Side) -> String| right(pair(show(rust), show(twin)));
    let entry = &rust.entry;
    let mut cells = vec![
        Cell::new(
            entry
                .kernel
                .map_or(entry.variant.to_owned(), |kernel| format!("{} {kernel}", entry.variant)),
        ),
        Cell::new(entry.dtype),
        Cell::new(entry.op.map_or("-", |op| op.name())),
        Cell::new(rust.compiler.trim_start_matches("rust-")),
        Cell::new(twin.compiler),
        both(|side| side.code.resources.registers.to_string()),
        right(format!("{:.2}", row.registers())),
        both(|side| side.code.instructions.total.to_string()),
        right(format!("{:.2}", row.instructions())),
    ];
    cells.extend(COLUMNS.iter().map(|(_, show)| both(*show)));
    cells.push(both(|side| {
        side.executed.map_or("-".to_owned(), |executed| executed.warp_instructions.to_string())
    }));
    cells.push(right(row.executed().map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))));
    cells.push(Cell::new(row.marks().join(", ")).fg(Color::Yellow));
    cells
}

fn right(text: impl Display) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn pair(rust: String, twin: String) -> String {
    if rust == twin { rust } else { format!("{rust} / {twin}") }
}
