//! PTX text to tokens, each with its place.

use warpfold_ptx::NoToken;

use crate::error::{ParseError, shortened};

pub(crate) use warpfold_ptx::Token;

/// The tokens of a text with the byte range of each.
pub(crate) type Tokens<'s> = Vec<(Token<'s>, std::ops::Range<u32>)>;

/// Splits PTX text into tokens.
///
/// # Errors
/// Text that is no token of PTX, and text of 4 GiB or more.
pub(crate) fn tokens(source: &str) -> Result<Tokens<'_>, ParseError> {
    if u32::try_from(source.len()).is_err() {
        let message = format!("text of {} bytes; at most 4294967295 are read", source.len());
        return Err(ParseError { line: 1, column: 1, message });
    }
    let mut found = Vec::with_capacity(source.len() / 4);
    for (token, range) in warpfold_ptx::tokens(source) {
        let token = token.map_err(|wrong| {
            let text: String = source[range.start..].chars().take(12).collect();
            let text = text.lines().next().unwrap_or_default();
            let message = match wrong {
                NoToken::Unknown => format!("`{text}` is {wrong}"),
                NoToken::EndlessComment | NoToken::EndlessString => wrong.to_string(),
            };
            at(source, range.start as u32, message)
        })?;
        found.push((token, range.start as u32..range.end as u32));
    }
    Ok(found)
}

/// Line and column of a byte offset, both from 1.
pub(crate) fn position(source: &str, offset: u32) -> (u32, u32) {
    let mut end = (offset as usize).min(source.len());
    while !source.is_char_boundary(end) {
        end -= 1;
    }
    let before = &source[..end];
    let line = before.bytes().filter(|&byte| byte == b'\n').count() as u32 + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() as u32 + 1)
}

/// A text as a message repeats it: nothing in it is a line end or an escape code.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |character: char| match character.is_control() {
        true => character.escape_debug().to_string(),
        false => character.to_string(),
    };
    text.chars().map(shown).collect()
}

/// A parse error at a byte offset.
pub(crate) fn at(source: &str, offset: u32, message: impl Into<String>) -> ParseError {
    let (line, column) = position(source, offset);
    ParseError { line, column, message: one_line(&shortened(&message.into())) }
}

#[cfg(test)]
mod tests {
    use super::{position, tokens};

    #[test]
    fn positions_are_counted_in_characters() {
        assert_eq!(position("a\nbç d", 6), (2, 4));
    }

    #[test]
    fn a_stray_character_is_named() {
        let error = tokens("ret;\n  # x").expect_err("no token");
        assert_eq!(error.to_string(), "ptx line 2, column 3: `# x` is no token of ptx");
        let error = tokens("ret;\n\"a\n").expect_err("no string");
        assert_eq!(error.to_string(), "ptx line 2, column 1: string without end");
    }
}
