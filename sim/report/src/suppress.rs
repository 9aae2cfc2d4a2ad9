//! Suppression files: known findings that are not to be reported.
//!
//! A line names a rule, or `*` for any, and conditions that must all hold. The reason follows `#`.
//!
//! ```text
//! # NVIDIA's sample has no acquire after its ticket.
//! no-acquire kernel=reduceSinglePass* file=*/threadFenceReduction_kernel.cuh
//! read-write-race file=*/histogram.cu line=120   # counts may be off by a few
//! unwritten-read buffer="byte * of `scratch`*"
//! ```
//!
//! - `kernel`: the kernel's name in PTX or in its source.
//! - `file`: the path of any source line of the finding, including lines of inlined functions.
//! - `line`: the number of a source line of the finding, in a file that `file` matches.
//! - `buffer`: the description of the memory in the finding.
//!
//! In values `*` matches any characters, including none; a value with a space is quoted.

use std::cell::Cell;

use crate::diagnostic::Diagnostic;
use crate::rules::{RULES, Rule};

#[derive(Debug, Default)]
pub struct Suppressions {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: usize,
    text: String,
    rule: Option<&'static Rule>,
    kernel: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    buffer: Option<String>,
    reason: String,
    used: Cell<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {wrong}")]
pub struct WrongLine {
    /// Number of the line, from 1.
    pub number: usize,
    wrong: String,
}

impl Suppressions {
    pub fn parse(text: &str) -> Result<Self, WrongLine> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let entry = Entry::parse(index + 1, line);
            entries.extend(entry.map_err(|wrong| WrongLine { number: index + 1, wrong })?);
        }
        Ok(Self { entries })
    }

    /// Returns the reason for which a finding is suppressed, if any: the text after `#`, or the whole
    /// line if there is no `#`.
    pub fn reason(&self, found: &Diagnostic) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.meets(found))?;
        entry.used.set(true);
        Some(if entry.reason.is_empty() { &entry.text } else { &entry.reason })
    }

    /// Returns the lines that have matched no finding, with their numbers.
    pub fn unused(&self) -> impl Iterator<Item = (usize, &str)> {
        let unused = self.entries.iter().filter(|entry| !entry.used.get());
        unused.map(|entry| (entry.number, entry.text.as_str()))
    }
}

impl Entry {
    fn parse(number: usize, line: &str) -> Result<Option<Self>, String> {
        let (words, reason) = words(line)?;
        let Some((first, rest)) = words.split_first() else { return Ok(None) };
        let rule = match first.as_str() {
            "*" => None,
            id => Some(Rule::called(id).ok_or_else(|| {
                let known: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
                format!("unknown rule {id}; give * or one of {}", known.join(", "))
            })?),
        };
        let mut entry = Self {
            number,
            text: line.trim().to_owned(),
            rule,
            kernel: None,
            file: None,
            line: None,
            buffer: None,
            reason,
            used: Cell::new(false),
        };
        for word in rest {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let place = match key {
                "kernel" => &mut entry.kernel,
                "file" => &mut entry.file,
                "buffer" => &mut entry.buffer,
                "line" => {
                    let number = value.parse().map_err(|_| format!("{value} is not a line number"))?;
                    entry.line = Some(number);
                    continue;
                }
                _ => {
                    return Err(format!(
                        "{word} is not a condition; give kernel=, file=, line= or buffer="
                    ));
                }
            };
            *place = Some(value.to_owned());
        }
        Ok(Some(entry))
    }

    fn meets(&self, found: &Diagnostic) -> bool {
        let is = |pattern: &Option<String>, text: &str| {
            pattern.as_deref().is_none_or(|pattern| matches(pattern, text))
        };
        let lines = || found.places.iter().flat_map(|place| &place.chain);
        self.rule.is_none_or(|rule| rule.id == found.rule)
            && (is(&self.kernel, &found.kernel) || is(&self.kernel, &found.name()))
            && self.buffer.as_deref().is_none_or(|buffer| {
                found.message.split_once(", ").is_some_and(|(_, said)| matches(buffer, said))
            })
            && (self.file.is_none() && self.line.is_none()
                || lines().any(|spot| {
                    is(&self.file, &spot.file) && self.line.is_none_or(|line| line == spot.line)
                }))
    }
}

/// Returns the words of a line without quotes, and the text after `#`.
fn words(line: &str) -> Result<(Vec<String>, String), String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    let mut rest = line.chars();
    for next in rest.by_ref() {
        match next {
            '"' => (quoted, begun) = (!quoted, true),
            '#' if !quoted => break,
            space if space.is_whitespace() && !quoted => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => {
                word.push(other);
                begun = true;
            }
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    if begun {
        words.push(word);
    }
    Ok((words, rest.as_str().trim().to_owned()))
}

/// Returns whether a text matches a pattern in which `*` stands for any characters. The time is bounded
/// by the product of both lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_text() {
        for (pattern, text, meets) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "ac", true),
            ("a*b*c", "aXbYbc", true),
            ("a*b*c", "acb", false),
            ("*/x.cu", "/home/x.cu", true),
            ("x.cu", "/home/x.cu", false),
            ("ab*ba", "aba", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), meets, "{pattern} {text}");
        }
    }

    #[test]
    fn invalid_lines_are_reported() {
        for (text, says) in [
            ("\n race", "line 2: unknown rule race; give * or one of read-write-race, "),
            (
                "* kernel=a block=3",
                "line 1: block=3 is not a condition; give kernel=, file=, line= or buffer=",
            ),
            ("* line=x", "line 1: x is not a line number"),
            ("* kernel=\"a b", "line 1: a quote is not closed"),
        ] {
            let said = Suppressions::parse(text).unwrap_err().to_string();
            assert!(said.starts_with(says), "{said}");
        }
        assert!(Suppressions::parse("\n# nothing\n   \n").unwrap().entries.is_empty());
    }
}
