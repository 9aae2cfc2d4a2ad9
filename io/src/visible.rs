//! Escaping of external text for terminals.

use std::{borrow::Cow, fmt::Write};

/// Escapes characters that control a terminal or are invisible: line ends, escape codes and marks of
/// text direction become `\n`, `\u{1b}`, `\u{202e}`. Names of files and of GPUs, headers, environment
/// variables and PTX may contain any of these.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_hidden(character) {
            // Escapes everything that has an escape.
            true => shown.extend(character.escape_debug()),
            false => shown.push(character),
        }
    }
    shown.into()
}

/// Shortens a text to its first 300 characters: a message may quote an entire file.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Escapes text like [`visible`], but keeps line ends, and uses the escapes of JSON, which are valid
/// inside its strings.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    let is_hidden = |character| is_hidden(character) && character != '\n';
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_hidden(character) {
            // All hidden characters are below 2^16. Writing to a string cannot fail.
            true => _ = write!(shown, "\\u{:04x}", u32::from(character)),
            false => shown.push(character),
        }
    }
    shown.into()
}

/// Returns whether a character is a control character, a line or paragraph separator, or a mark of text
/// direction.
fn is_hidden(character: char) -> bool {
    let is_mark = matches!(character, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}');
    let turns = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || is_mark || turns
}

/// Writes a line to standard error, ignoring failures. Control characters from external text are
/// escaped: see [`visible()`].
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", $crate::visible(&format!($($argument)*)));
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (given, shown) in [
            ("H200, 141 GB – µs „x“ 日本 🦀", "H200, 141 GB – µs „x“ 日本 🦀"),
            ("a\nerror: b\r\t", "a\\nerror: b\\r\\t"),
            ("\u{1b}[2J\u{9b}31m\u{7f}\0", "\\u{1b}[2J\\u{9b}31m\\u{7f}\\0"),
            ("txt\u{202e}gpj\u{2066}\u{2028}", "txt\\u{202e}gpj\\u{2066}\\u{2028}"),
        ] {
            assert_eq!(visible(given), shown);
            assert_eq!(visible(&visible(given)), shown, "once is enough");
        }
    }

    #[test]
    fn long_text_is_cut_at_a_character_boundary() {
        let text = "µ".repeat(300);
        assert_eq!(shortened(&text), text);
        assert_eq!(shortened(&format!("{text}x")), format!("{text}…"));
    }

    #[test]
    fn lines_of_json_stay_json() {
        assert_eq!(visible_lines("a\nb"), "a\nb");
        assert_eq!(visible_lines("\u{1b}[2J\n"), "\\u001b[2J\n");
        let given = "gpu \u{9b}31m \u{7f} \u{202e}";
        let json = serde_json::to_string(given).unwrap();
        let shown = visible_lines(&json);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), given);
    }
}
