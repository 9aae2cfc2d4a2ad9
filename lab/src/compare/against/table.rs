//! The entries that are not what they were, and how many are.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::{Pair, Version};

/// A column: its head, and what of a version it shows.
type Column = (&'static str, fn(&Version) -> u64);

const COLUMNS: [Column; 6] = [
    ("PTX instructions", |version| version.ptx_instructions as u64),
    ("SASS instructions", |version| version.sass_instructions.into()),
    ("registers", |version| version.registers.into()),
    ("static shared", |version| version.static_shared_bytes.into()),
    ("stack", |version| version.stack_bytes.into()),
    ("spills", |version| version.spill_bytes.into()),
];

/// A row for each entry that is not the same in PTX; none where all are.
pub(super) fn table(pairs: &[Pair]) -> Option<Table> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["entry", "machine code"].into_iter().chain(COLUMNS.map(|(name, _)| name)));
    for pair in pairs.iter().filter(|pair| !pair.same_ptx || !pair.same_sass) {
        table.add_row(cells(pair));
    }
    (!table.is_empty()).then_some(table)
}

fn cells(pair: &Pair) -> Vec<Cell> {
    let verdict = match (&pair.earlier, &pair.now) {
        (Some(_), None) => "gone",
        (None, Some(_)) => "new",
        _ if pair.same_sass => "same",
        _ => "differs",
    };
    let numbers = COLUMNS.map(|(_, of)| {
        let [earlier, now] = [&pair.earlier, &pair.now].map(|version| version.as_ref().map(of));
        Cell::new(change(earlier, now)).set_alignment(CellAlignment::Right)
    });
    [Cell::new(&pair.entry), Cell::new(verdict)].into_iter().chain(numbers).collect()
}

/// One value where it is the same, else the earlier one, the one now, and by how much it grew.
fn change(earlier: Option<u64>, now: Option<u64>) -> String {
    match (earlier, now) {
        (Some(earlier), Some(now)) if earlier != now => {
            format!("{earlier} → {now} ({:+})", now as i64 - earlier as i64)
        }
        (Some(one), _) | (None, Some(one)) => one.to_string(),
        (None, None) => String::new(),
    }
}

/// How many entries are the same, in PTX and in machine code.
pub(super) fn summary(pairs: &[Pair]) -> String {
    let both = pairs.iter().filter(|pair| pair.earlier.is_some() && pair.now.is_some());
    let count = |is: fn(&Pair) -> bool| pairs.iter().filter(|pair| is(pair)).count();
    format!(
        "of {} entries on both sides: PTX but for names and lines identical in {}, machine code in {}; \
         {} gone, {} new",
        both.count(),
        count(|pair| pair.same_ptx),
        count(|pair| pair.same_sass),
        count(|pair| pair.now.is_none()),
        count(|pair| pair.earlier.is_none()),
    )
}
