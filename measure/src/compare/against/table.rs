//! The table of entries that differ, and the summary.

use super::{Pair, Version};
use crate::table::{Cell, Column, Table};

/// A column's head, its rank (a narrow terminal omits the highest ranks), and its value.
type Shown = (&'static str, u8, fn(&Version) -> u64);

const COLUMNS: [Shown; 6] = [
    ("PTX instructions", 3, |version| version.ptx_instructions as u64),
    ("SASS instructions", 1, |version| version.sass_instructions.into()),
    ("registers", 2, |version| version.registers.into()),
    ("static shared", 4, |version| version.static_shared_bytes.into()),
    ("stack", 5, |version| version.stack_bytes.into()),
    ("spills", 6, |version| version.spill_bytes.into()),
];

/// Returns a table with a row per entry whose code differs; `None` if there is none.
pub(super) fn table(pairs: &[Pair]) -> Option<Table> {
    let numbers = COLUMNS.map(|(name, rank, _)| Column::number(name).rank(rank));
    let mut table =
        Table::new([Column::new("entry"), Column::new("machine code")].into_iter().chain(numbers));
    for pair in pairs.iter().filter(|pair| !pair.same_ptx || !pair.same_sass) {
        table.row(cells(pair));
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
    let numbers = COLUMNS.map(|(_, _, of)| {
        let [earlier, now] = [&pair.earlier, &pair.now].map(|version| version.as_ref().map(of));
        change(earlier, now).into()
    });
    [(&pair.entry).into(), verdict.into()].into_iter().chain(numbers).collect()
}

/// Formats one value if both are equal, otherwise the earlier one, the current one and the difference.
fn change(earlier: Option<u64>, now: Option<u64>) -> String {
    match (earlier, now) {
        (Some(earlier), Some(now)) if earlier != now => {
            format!("{earlier} → {now} ({:+})", now as i64 - earlier as i64)
        }
        (Some(one), _) | (None, Some(one)) => one.to_string(),
        (None, None) => String::new(),
    }
}

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
