//! Tables: a row per item, and a column per head and format, for the page and for Markdown.
//!
//! A head that begins with `<` is aligned to the left, and a cell in `**` is marked. On a phone the page
//! shows a card per row, in which every value has its column's head above it.

use maud::{Markup, html};

#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub(super) name: String,
    /// True if the page shows the table unfolded.
    pub(super) open: bool,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

pub(super) type Column<'c, T> = (&'c str, &'c dyn Fn(&T) -> String);

pub(super) struct Items<'a, T>(&'a str, &'a [T]);

impl<T> Items<'_, T> {
    pub(super) fn columns(self, columns: &[Column<'_, T>]) -> Table {
        let head = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        let row = |item| columns.iter().map(|(_, cell)| cell(item)).collect();
        Table { name: self.0.to_owned(), open: false, head, rows: self.1.iter().map(row).collect() }
    }
}

/// Cells with more characters than this wrap.
const LONG: usize = 18;

impl Table {
    /// Begins a table with a row per item.
    pub(super) fn of<'a, T>(name: &'a str, items: &'a [T]) -> Items<'a, T> {
        Items(name, items)
    }

    pub(super) fn opened(self) -> Self {
        Self { open: true, ..self }
    }

    pub(super) fn without_empty(mut self) -> Self {
        for at in (0..self.head.len()).rev() {
            if self.rows.iter().all(|row| row[at] == "–") {
                self.head.remove(at);
                self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
        self
    }

    pub(super) fn markdown(&self) -> String {
        let heads: Vec<&str> = self.head.iter().map(|head| unaligned(head)).collect();
        let aligned = self.head.iter().map(|head| if head.starts_with('<') { "---|" } else { "--:|" });
        // Markdown is searched for numbers, which therefore have no narrow spaces.
        let row = |row: &Vec<String>| format!("| {} |\n", row.join(" | ").replace('\u{202f}', ""));
        let rows: String = self.rows.iter().map(row).collect();
        format!("| {} |\n|{}\n{rows}", heads.join(" | "), aligned.collect::<String>())
    }

    /// Returns the table for the page, and the CSS that shows column heads on a phone's cards.
    pub(super) fn html(&self, id: &str) -> (Markup, String) {
        let left: Vec<bool> = self.head.iter().map(|head| head.starts_with('<')).collect();
        let class = |at: usize, cell: &str| {
            let long = unmarked(cell).chars().count() > LONG;
            let marked = unmarked(cell) != cell;
            let all = [(left[at], "text"), (long, "long"), (marked, "marked")];
            let classes: Vec<&str> =
                all.iter().filter(|(holds, _)| *holds).map(|(_, class)| *class).collect();
            (!classes.is_empty()).then(|| classes.join(" "))
        };
        let html = html! {
            details open[self.open] {
                summary { (self.name) ", " (self.rows.len()) " rows" }
                div.scroll tabindex="0" role="region" aria-label=(self.name) {
                    table id=(id) {
                        thead {
                            tr {
                                @for (head, left) in self.head.iter().zip(&left) {
                                    th scope="col" class=[left.then_some("text")] { (unaligned(head)) }
                                }
                            }
                        }
                        tbody {
                            @for row in &self.rows {
                                tr {
                                    @for (at, cell) in row.iter().enumerate() {
                                        @if at == 0 { th scope="row" class=[class(at, cell)] { (unmarked(cell)) } }
                                        @else { td class=[class(at, cell)] { (unmarked(cell)) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        };
        // Heads are the program's own texts. In a CSS string only quotes and backslashes need escaping.
        let heads =
            self.head.iter().map(|head| unaligned(head).replace('\\', "\\\\").replace('"', "\\\""));
        let head = |(at, head): (usize, String)| {
            format!("#{id} tbody>tr>:nth-child({at})::before{{content:\"{head}\"}}\n")
        };
        (html, (1..).zip(heads).map(head).collect())
    }
}

fn unaligned(head: &str) -> &str {
    head.trim_start_matches('<')
}

fn unmarked(cell: &str) -> &str {
    cell.strip_prefix("**").and_then(|cell| cell.strip_suffix("**")).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_aligned_and_cells_marked() {
        let table = Table::of("", &[1])
            .columns(&[("<a\"b", &|n| format!("**{n}**")), ("m", &|_| "–".to_owned())]);
        let table = table.without_empty();
        assert_eq!(table.markdown(), "| a\"b |\n|---|\n| **1** |\n");
        let (html, css) = table.html("t");
        assert!(html.0.contains("class=\"text marked\">1<"), "{}", html.0);
        assert_eq!(css, "#t tbody>tr>:nth-child(1)::before{content:\"a\\\"b\"}\n");
    }
}
