//! Splits PTX text into tokens, each with its byte range.

use std::ops::Range;

use warpfold_ptx::NoToken;

use crate::error::{ParseError, shortened};

pub(crate) use warpfold_ptx::Token;

pub(crate) type Tokens<'s> = Vec<(Token<'s>, Range<u32>)>;

pub(crate) type Failure = (u32, String);

/// Splits PTX text into tokens. Also returns offsets of characters that form no token: the first one in
/// each gap between tokens.
pub(crate) fn tokens(source: &str) -> Result<(Tokens<'_>, Vec<u32>), Failure> {
    if u32::try_from(source.len()).is_err() {
        return Err((0, format!("text of {} bytes; at most 4294967295 are read", source.len())));
    }
    let (mut found, mut strays) = (Vec::with_capacity(source.len() / 4), Vec::new());
    let mut last_stray = None;
    for (token, range) in warpfold_ptx::tokens(source) {
        let offset = range.start as u32;
        match token {
            Ok(token) => found.push((token, offset..range.end as u32)),
            Err(NoToken::Unknown) => {
                if last_stray.replace(found.len()) != Some(found.len()) {
                    strays.push(offset);
                }
            }
            Err(endless) => return Err((offset, endless.to_string())),
        }
    }
    Ok((found, strays))
}

pub(crate) fn no_token(source: &str, offset: u32) -> Failure {
    let text: String = source[offset as usize..].chars().take(12).collect();
    let text = text.lines().next().unwrap_or_default();
    (offset, format!("`{text}` is not a PTX token"))
}

/// Returns lines and columns of byte offsets, both from 1, by one walk over the text.
fn positions(source: &str, offsets: &[u32]) -> Vec<(u32, u32)> {
    let mut order: Vec<usize> = (0..offsets.len()).collect();
    order.sort_unstable_by_key(|&index| offsets[index]);
    let mut places = vec![(1, 1); offsets.len()];
    let (mut reached, mut line, mut column) = (0, 1, 1);
    for index in order {
        let end = source.floor_char_boundary(offsets[index] as usize);
        let passed = &source[reached..end];
        reached = end;
        let last = passed.rfind('\n').map_or(passed, |newline| {
            line += passed.bytes().filter(|&byte| byte == b'\n').count() as u32;
            column = 1;
            &passed[newline + 1..]
        });
        column += last.chars().count() as u32;
        places[index] = (line, column);
    }
    places
}

/// Returns a text for a message, with line ends and control characters escaped.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |character: char| match character.is_control() {
        true => character.escape_debug().to_string(),
        false => character.to_string(),
    };
    text.chars().map(shown).collect()
}

pub(crate) fn shown(message: &str) -> String {
    one_line(&shortened(message))
}

/// Converts failures whose messages are already [`shown`] to errors.
pub(crate) fn errors(source: &str, failures: Vec<Failure>) -> Vec<ParseError> {
    let (offsets, messages): (Vec<u32>, Vec<String>) = failures.into_iter().unzip();
    let places = positions(source, &offsets).into_iter();
    let error = |((line, column), message)| ParseError { line, column, message };
    places.zip(messages).map(error).collect()
}

pub(crate) fn error(source: &str, (offset, message): Failure) -> ParseError {
    let (line, column) = positions(source, &[offset])[0];
    ParseError { line, column, message: shown(&message) }
}

#[cfg(test)]
mod tests {
    use super::{error, no_token, positions, tokens};

    #[test]
    fn positions_are_counted_in_characters() {
        assert_eq!(positions("a\nbç d", &[6]), [(2, 4)]);
        let text = "a\nbç d\n\né";
        assert_eq!(
            positions(text, &[9, 0, 6, 3, 6, 8, 11]),
            [(4, 1), (1, 1), (2, 4), (2, 2), (2, 4), (3, 1), (4, 2)]
        );
    }

    #[test]
    fn stray_characters_are_named() {
        let text = "ret;\n  # x # # y";
        let (found, strays) = tokens(text).expect("tokens");
        assert_eq!((found.len(), strays.as_slice()), (4, [7, 11].as_slice()));
        let said = error(text, no_token(text, strays[0])).to_string();
        assert_eq!(said, "ptx line 2, column 3: `# x # # y` is not a PTX token");
        let text = "ret;\n\"a\n";
        let said = error(text, tokens(text).expect_err("no string")).to_string();
        assert_eq!(said, "ptx line 2, column 1: string without end");
    }
}
