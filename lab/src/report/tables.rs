//! Tables of the page: columns side by side if there is room for all of them, else a card per row, so
//! that no column is hidden past an edge.

use std::fmt::Write;

use maud::{Markup, html};

use super::figures::{Table, TableRow};

/// Font size of tables in pixels.
const EM: f64 = 12.48;

/// Width of bold text relative to plain text.
const BOLD: f64 = 1.12;

/// Pixels between the texts of two columns.
const PADDING: f64 = 16.0;

/// Cells with more characters than this wrap.
const LONG: usize = 18;

/// Minimum width of wrapped cells in pixels.
const BROKEN: f64 = 150.0;

/// Minimum width of a column in pixels.
const LEAST: f64 = 44.0;

/// Pixels beside a table at the edges of the screen.
const MARGIN: f64 = 50.0;

#[derive(Debug, Default)]
pub(super) struct Tables {
    count: usize,
    pub(super) css: String,
}

impl Tables {
    pub(super) fn html(&mut self, table: &Table) -> Markup {
        self.count += 1;
        let id = format!("table-{}", self.count);
        self.css += &cards(table, &id);
        html! {
            details open[table.open] {
                summary { (table.name) ", " (table.rows.len()) " rows" }
                div.scroll tabindex="0" role="region" aria-label=(table.name) {
                    table id=(id) {
                        thead {
                            tr {
                                @for (at, head) in table.head.iter().enumerate() {
                                    th scope="col" class=[(at < table.names).then_some("text")] { (head) }
                                }
                            }
                        }
                        tbody { @for row in &table.rows { (html_row(table, row)) } }
                    }
                }
            }
        }
    }
}

fn html_row(table: &Table, row: &TableRow) -> Markup {
    let classes = |at: usize, cell: &str| {
        let mut classes = Vec::new();
        classes.extend((at < table.names).then_some("text"));
        classes.extend((cell.chars().count() > LONG).then_some("long"));
        classes.extend(row.marked.contains(&at).then_some("marked"));
        (!classes.is_empty()).then(|| classes.join(" "))
    };
    html! {
        tr {
            @for (at, cell) in row.cells.iter().enumerate() {
                @if at == 0 { th scope="row" class=[classes(at, cell)] { (cell) } }
                @else { td class=[classes(at, cell)] { (cell) } }
            }
        }
    }
}

/// Returns the CSS that turns rows into cards on screens narrower than the table. Every value then has
/// its column's head above it.
fn cards(table: &Table, id: &str) -> String {
    let mut css = format!("@media(max-width:{:.0}px){{\n", width(table) + MARGIN);
    let put = |css: &mut String, of: &str, rule: &str| {
        writeln!(css, "#{id} {of}{{{rule}}}").expect("a String takes all");
    };
    put(
        &mut css,
        "thead",
        "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)",
    );
    put(&mut css, "tbody", "display:block");
    let columns = "display:grid;grid-template-columns:repeat(auto-fill,minmax(5.6em,1fr));gap:4px 12px;\
                   padding:9px 11px;border-bottom:1px solid var(--grid)";
    put(&mut css, "tr", columns);
    let cell = "display:block;position:static;padding:0;border:0;text-align:left;white-space:normal;\
                min-width:0;overflow-wrap:anywhere";
    put(&mut css, ":is(th,td)", cell);
    put(&mut css, "tbody th", "grid-column:1/-1;font-weight:600");
    put(&mut css, ".long", "grid-column:1/-1");
    put(&mut css, "td::before", "display:block;font-size:.72rem;font-weight:400;color:var(--muted)");
    put(&mut css, "tbody th::before", "margin-right:.6em;font-weight:400;color:var(--muted)");
    for (at, head) in table.head.iter().enumerate() {
        // Heads are the program's own texts; in a CSS string only quotes and backslashes need escaping.
        let head = head.replace('\\', "\\\\").replace('"', "\\\"");
        let cell = format!("tbody :is(th,td):nth-child({})::before", at + 1);
        put(&mut css, &cell, &format!("content:\"{head}\""));
    }
    css + "}\n"
}

/// Returns the maximum width in pixels of a table with its columns side by side.
fn width(table: &Table) -> f64 {
    let cell = |text: &String| match text.chars().count() > LONG {
        true => across(text).min(BROKEN),
        false => across(text),
    };
    let column = |at: usize| {
        let cells = table.rows.iter().map(|row| cell(&row.cells[at]));
        let words = table.head[at].split(' ').map(|word| BOLD * across(word));
        PADDING + cells.chain(words).fold(LEAST - PADDING, f64::max)
    };
    (0..table.head.len()).map(column).sum()
}

/// Returns the width in pixels of a text in DejaVu Sans, the widest fallback font.
fn across(text: &str) -> f64 {
    let width = |letter: char| match letter {
        'i' | 'j' | 'l' => 0.28,
        ' ' | '.' | ',' | ':' | '/' | '|' | '\u{202f}' => 0.34,
        'f' | 't' | 'r' | '-' | '(' | ')' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' => 0.99,
        letter if letter.is_ascii_lowercase() || letter == '_' => 0.62,
        letter if letter.is_ascii_digit() => 0.64,
        _ => 0.84,
    };
    EM * text.chars().map(width).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_table_is_made_of_cards_on_wider_screens() {
        let width_of = |columns: usize| {
            let mut table = Table::new("name", &vec!["head"; columns], 1);
            table.push(vec!["12 345 678".to_owned(); columns]);
            width(&table)
        };
        assert!(width_of(3) < 390.0 - MARGIN && width_of(17) > 1280.0);
        let mut long = Table::new("name", &["head"], 1);
        long.push(["x".repeat(500)]);
        assert!(width(&long) < 200.0, "a long cell is broken into lines");
    }

    #[test]
    fn heads_cannot_leave_their_css_string() {
        let mut table = Table::new("name", &["n", "a\"b\\"], 1);
        table.push(["1".to_owned(), "2".to_owned()]);
        assert!(cards(&table, "t").contains("content:\"a\\\"b\\\\\""), "{}", cards(&table, "t"));
    }
}
