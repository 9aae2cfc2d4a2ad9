//! Tables that fit the terminal.
//!
//! A column is never narrower than its longest word, so that no word is broken. If a terminal is too
//! narrow for all columns, text is wrapped first; then the least important columns are left out, and a
//! line below the table names them. Output that is not a terminal gets every column, one line per row.

use std::{env, fmt};

use comfy_table::{Cell as Shown, CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};

pub use comfy_table::Color;

/// The width to which a text column may be wrapped before other columns are left out.
const READABLE: usize = 24;

/// The padding of a cell and its left border.
const AROUND: usize = 3;

#[derive(Debug, Clone)]
pub struct Column {
    head: String,
    right: bool,
    wraps: bool,
    /// Columns with the highest rank are left out first; those with rank 0 never are.
    rank: u8,
}

impl Column {
    /// Creates a left-aligned column of text.
    pub fn new(head: impl Into<String>) -> Self {
        Self { head: head.into(), right: false, wraps: false, rank: 0 }
    }

    /// Creates a right-aligned column of numbers.
    pub fn number(head: impl Into<String>) -> Self {
        Self { right: true, ..Self::new(head) }
    }

    /// Allows leaving the column out, before all columns of lower rank.
    pub fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// Allows wrapping the column's text.
    pub fn wraps(self) -> Self {
        Self { wraps: true, ..self }
    }
}

#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    colour: Option<Color>,
}

impl Cell {
    /// Creates a cell with a text colour, used on a terminal.
    pub fn coloured(text: impl fmt::Display, colour: Color) -> Self {
        Self { text: text.to_string(), colour: Some(colour) }
    }
}

impl<T: fmt::Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.to_string(), colour: None }
    }
}

#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the text of a cell, by row and column heading.
    pub fn cell(&self, row: usize, head: &str) -> &str {
        let column = self.columns.iter().position(|column| column.head == head);
        &self.rows[row][column.unwrap_or_else(|| panic!("no column {head}"))].text
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Renders the table in lines of at most `width` characters.
    pub fn fitted(&self, width: Option<usize>) -> String {
        let width = width.unwrap_or(usize::MAX);
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        while self.total(&shown, |column| self.least(column)) > width {
            // Of columns of equal rank the rightmost is left out: readers look at the leftmost first.
            let last = shown.iter().copied().filter(|&column| self.columns[column].rank > 0);
            let Some(gone) = last.max_by_key(|&column| (self.columns[column].rank, column)) else {
                break;
            };
            shown.retain(|&column| column != gone);
        }
        let table = self.with(&shown, &self.widths(&shown, width));
        let mut gone: Vec<&str> = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            if !shown.contains(&index) && !gone.contains(&column.head.as_str()) {
                gone.push(&column.head);
            }
        }
        match &gone[..] {
            [] => table.to_string(),
            gone => format!("{table}\n{}", note(gone, width)),
        }
    }

    /// Returns the widths of the shown columns; those that may wrap are made narrower to fit.
    fn widths(&self, shown: &[usize], width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = shown.iter().map(|&column| self.longest(column, line)).collect();
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + frame(widths.len());
        while total(&widths) > width {
            let can = |&place: &usize| widths[place] > self.least(shown[place]);
            let Some(widest) = (0..widths.len()).filter(can).max_by_key(|&place| widths[place]) else {
                break;
            };
            widths[widest] -= 1;
        }
        widths
    }

    fn total(&self, shown: &[usize], width: impl Fn(usize) -> usize) -> usize {
        shown.iter().map(|&column| width(column)).sum::<usize>() + frame(shown.len())
    }

    fn least(&self, column: usize) -> usize {
        let all = self.longest(column, line);
        match self.columns[column].wraps {
            true => self.longest(column, word).max(all.min(READABLE)),
            false => all,
        }
    }

    fn longest(&self, column: usize, measure: fn(&str) -> usize) -> usize {
        let cells = self.rows.iter().map(|row| measure(&row[column].text));
        cells.chain([measure(&self.columns[column].head)]).max().unwrap_or(0)
    }

    fn with(&self, shown: &[usize], widths: &[usize]) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        let total = widths.iter().sum::<usize>() + frame(widths.len());
        table.set_width(u16::try_from(total).unwrap_or(u16::MAX));
        table.set_header(shown.iter().map(|&column| &self.columns[column].head));
        for row in &self.rows {
            table.add_row(shown.iter().map(|&column| {
                let cell = Shown::new(&row[column].text);
                match row[column].colour {
                    Some(colour) => cell.fg(colour),
                    None => cell,
                }
            }));
        }
        for ((place, &column), &width) in shown.iter().enumerate().zip(widths) {
            let column = &self.columns[column];
            let shown = table.column_mut(place).expect("a column for each head");
            let padded = u16::try_from(width + 2).unwrap_or(u16::MAX);
            shown.set_constraint(ColumnConstraint::Absolute(Width::Fixed(padded)));
            if column.right {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fitted(terminal_width()))
    }
}

/// Returns the line width: `COLUMNS` if set, otherwise the terminal's; `None` without a terminal.
pub fn terminal_width() -> Option<usize> {
    let said = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    said.filter(|&columns| columns > 0).or_else(|| comfy_table::Table::new().width().map(usize::from))
}

/// Wraps text into lines of at most `width` characters. No word is broken: a longer one gets its own
/// line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if line(last) + 1 + line(word) <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn note(gone: &[&str], width: usize) -> String {
    let text = format!("left out, for want of room: {}", gone.join(", "));
    wrapped(&text, width).join("\n")
}

fn frame(columns: usize) -> usize {
    AROUND * columns + 1
}

fn line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn word(text: &str) -> usize {
    text.split_whitespace().map(line).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let mut table = Table::new([
            Column::new("variant"),
            Column::new("what it does").wraps().rank(1),
            Column::number("time us").rank(2),
            Column::number("GB/s").rank(2),
        ]);
        table.row([
            "vectorized".into(),
            "four loads of 16 bytes in flight".into(),
            1.5.into(),
            9.into(),
        ]);
        table.row([Cell::coloured("serial", Color::Red), "one thread".into(), 250.into(), 1.into()]);
        table
    }

    fn widest(text: &str) -> usize {
        line(text)
    }

    #[test]
    fn without_a_limit_every_row_is_a_line() {
        let text = example().fitted(None);
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(
            text.contains("four loads of 16 bytes in flight") && !text.contains("left out"),
            "{text}"
        );
    }

    #[test]
    fn text_wraps_before_a_column_is_left_out() {
        let text = example().fitted(Some(58));
        assert!(widest(&text) <= 58 && text.lines().count() > 6, "{text}");
        assert!(text.contains("GB/s") && !text.contains("left out"), "{text}");
    }

    #[test]
    fn least_important_columns_are_omitted_first_and_named() {
        let text = example().fitted(Some(52));
        assert!(widest(&text) <= 52, "{text}");
        assert!(
            text.contains("time us") && text.ends_with("left out, for want of room: GB/s"),
            "{text}"
        );
        let text = example().fitted(Some(28));
        assert!(text.contains("vectorized") && text.contains("time us, GB/s"), "{text}");
        assert!(widest(&text) <= 28, "{text}");
    }

    #[test]
    fn no_word_is_broken_however_narrow_it_is() {
        for width in 1..80 {
            let text = example().fitted(Some(width));
            for word in ["vectorized", "serial", "variant"] {
                assert!(text.contains(word), "{width}: {text}");
            }
        }
        assert_eq!(wrapped("a/long/path is here", 6), ["a/long/path", "is", "here"]);
    }

    #[test]
    fn numbers_are_right_aligned() {
        let text = example().fitted(None);
        assert!(text.contains("│ serial     ┆") && text.contains("┆     250 ┆    1 │"), "{text}");
    }
}
