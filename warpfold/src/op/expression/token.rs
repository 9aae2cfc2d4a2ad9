//! Tokens of expressions.

use std::{fmt, iter, ops::Range};

use warpfold_ptx::decimal_len;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Integer(&'t str),
    /// A number with a point or an exponent.
    Decimal(&'t str),
    Name(&'t str),
    Symbol(&'t str),
}

const LONG_SYMBOLS: [&str; 7] = ["**", "&&", "||", "<=", ">=", "==", "!="];

/// Returns the tokens of a text, each with its range of bytes; `None` for a character that begins none.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = (Option<Token<'_>>, Range<usize>)> {
    let mut at = 0;
    iter::from_fn(move || {
        at += len_of(&text[at..], |byte| b" \t\r\n".contains(&byte));
        let start = at;
        let (token, len) = first(&text[start..])?;
        at += len;
        Some((token, start..at))
    })
}

/// Returns the token at the beginning of a text, and its length; `None` for an empty text.
fn first<'t>(text: &'t str) -> Option<(Option<Token<'t>>, usize)> {
    let begin = text.chars().next()?;
    let (kind, len): (fn(&'t str) -> Token<'t>, usize) = match begin {
        'a'..='z' | 'A'..='Z' | '_' => {
            (Token::Name, len_of(text, |byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        }
        '0'..='9' | '.' => match (decimal_len(text), len_of(text, |byte| byte.is_ascii_digit())) {
            (Some(len), _) => (Token::Decimal, len),
            (None, 0) => return Some((None, 1)),
            (None, digits) => (Token::Integer, digits),
        },
        _ if LONG_SYMBOLS.iter().any(|symbol| text.starts_with(symbol)) => (Token::Symbol, 2),
        _ if "-+*/%&|^<>!?:(),".contains(begin) => (Token::Symbol, 1),
        _ => return Some((None, begin.len_utf8())),
    };
    Some((Some(kind(&text[..len])), len))
}

/// Returns the number of bytes at the beginning that are as `wanted`.
fn len_of(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !wanted(byte)).unwrap_or(text.len())
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Integer(text) | Self::Decimal(text) | Self::Name(text) | Self::Symbol(text)) = self;
        write!(f, "`{text}`")
    }
}
