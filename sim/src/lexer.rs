//! PTX text to tokens, each with its place.

use logos::Logos;

use crate::error::ParseError;

/// A token of PTX; text is borrowed from the source.
#[derive(Logos, Debug, Clone, Copy, PartialEq)]
#[logos(skip r"[ \t\r\n\f]+")]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
#[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
pub(crate) enum Token<'s> {
    /// A directive, type or modifier with its leading dot removed.
    #[regex(r"\.[a-zA-Z_][a-zA-Z0-9_]*(::[a-zA-Z0-9_]+)*", |lex| &lex.slice()[1..])]
    #[regex(r"\.[1-5]d", |lex| &lex.slice()[1..])]
    Dot(&'s str),
    #[regex(r"[a-zA-Z_$%][a-zA-Z0-9_$]*")]
    Name(&'s str),
    #[regex(r"0[xX][0-9a-fA-F]+U?", |lex| radix(lex.slice(), 2, 16))]
    #[regex(r"0[bB][01]+U?", |lex| radix(lex.slice(), 2, 2))]
    #[regex(r"0[0-7]*U?", |lex| radix(lex.slice(), 0, 8))]
    #[regex(r"[1-9][0-9]*U?", |lex| radix(lex.slice(), 0, 10))]
    Int(u64),
    #[regex(r"0[fF][0-9a-fA-F]{8}", |lex| u32::from_str_radix(&lex.slice()[2..], 16).ok())]
    Single(u32),
    #[regex(r"0[dD][0-9a-fA-F]{16}", |lex| u64::from_str_radix(&lex.slice()[2..], 16).ok())]
    Double(u64),
    /// A decimal constant with a point; also the form of `.version`'s number.
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?")]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+")]
    Decimal(&'s str),
    #[regex(r#""([^"\\\n]|\\[^\n])*""#, |lex| &lex.slice()[1..lex.slice().len() - 1])]
    Text(&'s str),
    #[regex(r"[,;:()\[\]{}+\-!|@<>=~*/&^?]", |lex| lex.slice().as_bytes()[0])]
    Punct(u8),
}

/// The value of an integer literal after its first `skip` characters.
fn radix(text: &str, skip: usize, radix: u32) -> Option<u64> {
    u64::from_str_radix(text[skip..].trim_end_matches('U'), radix).ok()
}

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
    for (token, range) in Token::lexer(source).spanned() {
        let Ok(token) = token else {
            let text: String = source[range.start..].chars().take(12).collect();
            let text = text.lines().next().unwrap_or_default();
            return Err(at(source, range.start as u32, format!("`{text}` is no token of ptx")));
        };
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

/// A text of the module as a message repeats it: nothing in it is a line end or an escape code.
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
    ParseError { line, column, message: one_line(&message.into()) }
}

#[cfg(test)]
mod tests {
    use super::{Token, position, tokens};

    fn kinds(text: &str) -> Vec<Token<'_>> {
        tokens(text).expect("tokens").into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn modifiers_keep_their_scope_operators() {
        assert_eq!(
            kinds("ld.global.L1::no_allocate.v4"),
            [Token::Name("ld"), Token::Dot("global"), Token::Dot("L1::no_allocate"), Token::Dot("v4")]
        );
    }

    #[test]
    fn numbers_of_every_form() {
        assert_eq!(
            kinds("0x1F 017 0b101 42U 0f3F800000 0d3FF0000000000000 7.8 0"),
            [
                Token::Int(31),
                Token::Int(15),
                Token::Int(5),
                Token::Int(42),
                Token::Single(0x3f80_0000),
                Token::Double(0x3ff0_0000_0000_0000),
                Token::Decimal("7.8"),
                Token::Int(0)
            ]
        );
    }

    #[test]
    fn comments_are_skipped_and_positions_counted_in_characters() {
        assert_eq!(kinds("/* a * b **/ ret // end"), [Token::Name("ret")]);
        assert_eq!(position("a\nbç d", 6), (2, 4));
    }

    #[test]
    fn a_stray_character_is_named() {
        let error = tokens("ret;\n  # x").expect_err("no token");
        assert_eq!(error.to_string(), "ptx line 2, column 3: `# x` is no token of ptx");
    }
}
