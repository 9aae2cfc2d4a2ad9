//! Checks of Rust comments: they are at most as wide as code, and do not refer to unnamed numbers.

use std::collections::VecDeque;

/// Columns of a line; rustfmt.toml has the same for the code.
const WIDTH: usize = 105;

/// Phrases that stand for an unnamed number.
const NAMELESS: [&str; 2] = ["So many", "of so many"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comment<'l> {
    /// The part before its text: white space and `//`, `///` or `//!`.
    head: &'l str,
    pub(super) text: &'l str,
}

impl<'l> Comment<'l> {
    pub(super) fn of(line: &'l str) -> Option<Self> {
        let indent = line.len() - line.trim_start().len();
        let rest = line[indent..].strip_prefix("//")?;
        let marks =
            usize::from(rest.starts_with('!') || rest.starts_with('/') && !rest.starts_with("//"));
        let (head, text) = line.split_at(indent + 2 + marks);
        Some(Self { head, text })
    }

    pub(super) fn is_documentation(&self) -> bool {
        self.head.trim_start() != "//"
    }

    fn indent(&self) -> usize {
        let text = self.text.trim_start();
        let white = self.text.len() - text.len();
        white + if text.starts_with("- ") || text.starts_with("* ") { 2 } else { 0 }
    }

    /// Returns whether the line is blank, or begins a paragraph or a list item.
    fn begins(&self) -> bool {
        let text = self.text.trim_start();
        text.is_empty() || is_mark(text.split(' ').next().unwrap_or_default())
    }

    fn can_wrap(&self) -> bool {
        !self.text.trim_start().starts_with('|') && self.text.split_whitespace().count() > 1
    }
}

fn is_mark(word: &str) -> bool {
    let starts = ["```", "|", "#", ">"];
    let number = word.strip_suffix('.').is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()));
    ["-", "*", "+"].contains(&word) || number || starts.iter().any(|start| word.starts_with(start))
}

fn width(line: &str) -> usize {
    line.chars().count()
}

pub(super) fn findings(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, line) in source.lines().enumerate() {
        let comment = Comment::of(line);
        if comment.is_some_and(|comment| width(line) > WIDTH && comment.can_wrap()) {
            found.push((at + 1, format!("a comment of {} columns; {WIDTH} are allowed", width(line))));
        }
        if comment.is_some_and(|comment| NAMELESS.iter().any(|words| comment.text.contains(words))) {
            found.push((at + 1, "\"so many\" in place of a number; name the number".to_owned()));
        }
    }
    found
}

/// Wraps comments that are too wide: words that do not fit move to the next line.
pub(super) fn wrap(source: &str) -> String {
    let mut lines: VecDeque<String> = source.split('\n').map(str::to_owned).collect();
    let mut done: Vec<String> = Vec::new();
    let mut in_code = false;
    while let Some(line) = lines.pop_front() {
        let Some(comment) = Comment::of(&line) else {
            in_code = false;
            done.push(line);
            continue;
        };
        in_code ^= comment.text.trim_start().starts_with("```");
        if in_code || width(&line) <= WIDTH || !comment.can_wrap() {
            done.push(line);
            continue;
        }
        let (fits, rest) = cut(&line, comment);
        if rest.is_empty() {
            done.push(line);
            continue;
        }
        let below = lines.front().and_then(|below| Comment::of(below));
        let margin = format!("{}{}", comment.head, " ".repeat(comment.indent()));
        let joins = |below: &Comment<'_>| {
            below.head == comment.head && !below.begins() && below.indent() == comment.indent()
        };
        let below = match below.filter(joins) {
            Some(below) => {
                let joined = format!("{margin}{rest} {}", below.text.trim_start());
                lines.pop_front();
                joined
            }
            None => format!("{margin}{rest}"),
        };
        lines.push_front(below);
        done.push(fits);
    }
    done.join("\n")
}

fn cut(line: &str, comment: Comment<'_>) -> (String, String) {
    let from = comment.head.len() + comment.indent();
    let mut spaces: Vec<usize> = line[from..].match_indices(' ').map(|(at, _)| from + at).collect();
    // A line must not begin with Markdown syntax.
    spaces.retain(|at| !is_mark(line[at + 1..].split(' ').next().unwrap_or_default()));
    let fits = spaces.iter().rfind(|at| width(&line[..**at]) <= WIDTH).or(spaces.first());
    match fits {
        Some(at) => (line[..*at].to_owned(), line[at + 1..].to_owned()),
        None => (line.to_owned(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_wide_comments_are_reported_with_their_line() {
        let wide = format!("    // {}", "word ".repeat(21).trim_end());
        assert_eq!(width(&wide), 111);
        let table = format!("/// | {} |", "cell ".repeat(30));
        let found = findings(&format!("//! A module.\n\n{wide}\n{table}\nlet code = 1; // fine\n"));
        assert_eq!(found, [(3, "a comment of 111 columns; 105 are allowed".to_owned())]);
    }

    #[test]
    fn so_many_in_place_of_a_number_is_reported() {
        let lines = [
            "/// Blocks of so many threads each.",
            "fn blocks(threads: u32) {}",
            "// - So many bytes are there.",
            "// There are so many of them that none is free.",
            "let text = \"of so many\";",
        ];
        let what = "\"so many\" in place of a number; name the number".to_owned();
        assert_eq!(findings(&lines.join("\n")), [(1, what.clone()), (3, what)]);
    }

    #[test]
    fn words_that_do_not_fit_go_to_the_line_below() {
        let (long, short) = ("x".repeat(90), "y".repeat(60));
        let of = |lines: &[&str]| lines.join("\n");
        assert_eq!(
            wrap(&of(&[
                &format!("/// {long} one two three"),
                &format!("/// {short} four"),
                "fn f() {}",
                ""
            ])),
            of(&[&format!("/// {long} one two"), &format!("/// three {short} four"), "fn f() {}", ""])
        );
        // The items of a list stay separate, and lines that begin a paragraph are kept.
        assert_eq!(
            wrap(&of(&[&format!("//! - {long} one two three"), "//! - next", "//!", "//! last"])),
            of(&[&format!("//! - {long} one two"), "//!   three", "//! - next", "//!", "//! last"])
        );
        // Code and tables are kept.
        let kept = of(&[
            "/// ```",
            &format!("/// {long} one two three"),
            "/// ```",
            &format!("/// | {long} | {short} |"),
        ]);
        assert_eq!(wrap(&kept), kept);
        let word = "x".repeat(97);
        assert_eq!(wrap(&format!("// {word} one - two")), format!("// {word}\n// one - two"));
    }
}
