//! Tokens of PTX text, with their positions.

use std::{fmt, ops::Range};

use memchr::memmem;

/// A token of PTX; text is borrowed from the source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token<'s> {
    /// A directive, type or modifier with its leading dot removed: `global`, `L1::no_allocate`, `2d`.
    Dot(&'s str),
    /// The name of an instruction, variable, function, label or register.
    Name(&'s str),
    /// An integer literal of any radix.
    Int(u64),
    /// The bits of a 32-bit float, written `0f3F800000`.
    Single(u32),
    /// The bits of a 64-bit float, written `0d3FF0000000000000`.
    Double(u64),
    /// A decimal constant with a point or an exponent, such as the number of `.version`.
    Decimal(&'s str),
    /// A string without its quotes; escapes are not decoded.
    Text(&'s str),
    /// A character of punctuation.
    Punct(u8),
}

/// The error for text that is not a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NoToken {
    /// Characters that begin no token, and numbers that do not fit into 64 bits.
    #[default]
    Unknown,
    /// A comment that is never closed.
    EndlessComment,
    /// A string that is not closed on its line.
    EndlessString,
}

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "not a PTX token",
            Self::EndlessComment => "comment without end",
            Self::EndlessString => "string without end",
        })
    }
}

impl std::error::Error for NoToken {}

/// An iterator over the tokens of a text.
#[derive(Clone)]
pub struct Tokens<'s> {
    source: &'s str,
    at: usize,
}

/// Returns the tokens of a text, each with its range of bytes. Comments are left out. An unclosed
/// comment or string is the last item and covers the rest of the text.
pub fn tokens(source: &str) -> Tokens<'_> {
    Tokens { source, at: 0 }
}

impl<'s> Iterator for Tokens<'s> {
    type Item = (Result<Token<'s>, NoToken>, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (start, rest) = match skip_spaces(self.source, self.at) {
            Ok(start) => (start, &self.source[start..]),
            Err(comment) => {
                self.at = self.source.len();
                return Some((Err(NoToken::EndlessComment), comment..self.at));
            }
        };
        let (token, len) = read(rest)?;
        self.at = start + len;
        Some((token, start..self.at))
    }
}

impl fmt::Debug for Tokens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Returns where the first token from `at` on begins, or where a comment begins that has no end.
#[inline]
fn skip_spaces(source: &str, mut at: usize) -> Result<usize, usize> {
    let bytes = source.as_bytes();
    loop {
        match bytes[at..] {
            [b' ' | b'\t' | b'\r' | b'\n' | b'\x0c', ..] => at += 1,
            [b'/', b'/', ..] => {
                at = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |len| at + len)
            }
            [b'/', b'*', ..] => match memmem::find(&bytes[at + 2..], b"*/") {
                Some(len) => at += len + 4,
                None => return Err(at),
            },
            _ => return Ok(at),
        }
    }
}

/// Returns the token at the beginning of a text, and its length; `None` for an empty text.
#[inline]
fn read(text: &str) -> Option<(Result<Token<'_>, NoToken>, usize)> {
    let bytes = text.as_bytes();
    let (token, len) = match *bytes.first()? {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'%' => {
            let len = 1 + count(&bytes[1..], |byte| is_word(byte) || byte == b'$');
            (Token::Name(&text[..len]), len)
        }
        b'.' => match modifier_len(&bytes[1..]) {
            0 => return Some((Err(NoToken::Unknown), 1)),
            len => (Token::Dot(&text[1..=len]), 1 + len),
        },
        b'0'..=b'9' => {
            let (number, len) = number(text);
            return Some((number.ok_or(NoToken::Unknown), len));
        }
        b'"' => match text_len(bytes) {
            None => return Some((Err(NoToken::EndlessString), text.len())),
            Some(len) => (Token::Text(&text[1..len - 1]), len),
        },
        byte if b",;:()[]{}+-!|@<>=~*/&^?".contains(&byte) => (Token::Punct(byte), 1),
        _ => return Some((Err(NoToken::Unknown), text.chars().next()?.len_utf8())),
    };
    Some((Ok(token), len))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the number of bytes at the beginning that are as `wanted`.
#[inline]
fn count(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !wanted(byte)).unwrap_or(bytes.len())
}

/// Returns the length of a modifier, without its dot; 0 if there is none.
fn modifier_len(bytes: &[u8]) -> usize {
    match *bytes {
        // The geometry of a texture.
        [b'1'..=b'5', b'd', ..] => return 2,
        [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {}
        _ => return 0,
    }
    let mut len = count(bytes, is_word);
    while let [b':', b':', rest @ ..] = &bytes[len..] {
        match count(rest, is_word) {
            0 => break,
            scope => len += 2 + scope,
        }
    }
    len
}

/// Returns the length of a string with its quotes, if it is closed on its line.
fn text_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes[at..] {
            [b'"', ..] => return Some(at + 1),
            [] | [b'\n', ..] | [b'\\'] | [b'\\', b'\n', ..] => return None,
            [b'\\', ..] => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the number at the beginning of a text, `None` if it does not fit, and its length.
fn number(text: &str) -> (Option<Token<'_>>, usize) {
    let bytes = text.as_bytes();
    let digits = |from: usize, radix| count(&bytes[from..], |byte| char::from(byte).is_digit(radix));
    // Counts no further, because the digits after them may begin the next number.
    let has_hex =
        |len: usize| bytes.get(2..2 + len).is_some_and(|bytes| bytes.iter().all(u8::is_ascii_hexdigit));
    let (from, radix) = match *bytes {
        [b'0', b'f' | b'F', ..] if has_hex(8) => {
            return (u32::from_str_radix(&text[2..10], 16).ok().map(Token::Single), 10);
        }
        [b'0', b'd' | b'D', ..] if has_hex(16) => {
            return (u64::from_str_radix(&text[2..18], 16).ok().map(Token::Double), 18);
        }
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (2, 16),
        [b'0', b'b' | b'B', b'0' | b'1', ..] => (2, 2),
        _ => {
            if let Some(len) = decimal_len(text) {
                return (Some(Token::Decimal(&text[..len])), len);
            }
            (0, if bytes[0] == b'0' { 8 } else { 10 })
        }
    };
    let end = from + digits(from, radix);
    let is_unsigned = bytes.get(end) == Some(&b'U');
    (u64::from_str_radix(&text[from..end], radix).ok().map(Token::Int), end + usize::from(is_unsigned))
}

/// Returns the length of the number at the beginning of a text, if it has a point or an exponent.
#[doc(hidden)]
pub fn decimal_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| count(&bytes[from..], |byte| byte.is_ascii_digit());
    let whole = digits(0);
    let (mut len, mut fraction) = (whole, 0);
    if bytes.get(len) == Some(&b'.') {
        fraction = digits(len + 1);
        len += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = bytes.get(len) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        match digits(len + 1 + sign) {
            0 => {}
            exponent => len += 1 + sign + exponent,
        }
    }
    (len > whole).then_some(len)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{NoToken::*, *};

    fn kinds(text: &str) -> Vec<Token<'_>> {
        tokens(text)
            .map(|(token, range)| token.unwrap_or_else(|error| panic!("{range:?}: {error}")))
            .collect()
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
    fn comments_are_skipped() {
        assert_eq!(kinds("/* a * b **/ ret // end"), [Token::Name("ret")]);
    }

    #[test]
    fn invalid_tokens_have_positions() {
        let all = |text| tokens(text).collect::<Vec<_>>();
        let ret = (Ok(Token::Name("ret")), 0..3);
        assert_eq!(all("ret # ;"), [ret.clone(), (Err(Unknown), 4..5), (Ok(Token::Punct(b';')), 6..7)]);
        assert_eq!(all("18446744073709551616"), [(Err(Unknown), 0..20)], "above 64 bits");
        for (text, what) in [("ret /* a", EndlessComment), ("ret \"a\n\" b", EndlessString)] {
            assert_eq!(all(text), [ret.clone(), (Err(what), 4..text.len())], "{text}");
        }
    }

    /// Reads texts in which a naive lexer would scan the rest of the text for each part, for minutes.
    #[test]
    fn time_is_linear_in_the_text_length() {
        for part in ["/*", "/* ", "/**", "\"\\", "\\\"", "\"\\\"", "//", "0x", "0f", "1e+", ".a::", "*/"]
        {
            let text = part.repeat((1 << 18) / part.len());
            let start = Instant::now();
            std::hint::black_box(tokens(&text).count());
            let seconds = start.elapsed().as_secs_f64();
            assert!(seconds < 1.0, "{part:?}: {seconds} s");
        }
    }
}
