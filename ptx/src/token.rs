//! Tokens of PTX text, with their positions.

use std::{fmt, ops::Range};

use logos::{Lexer, Logos, SpannedIter};

/// A token of PTX; text is borrowed from the source.
///
/// Its implementation of `Logos` is not a stable part of this crate.
#[derive(Logos, Debug, Clone, Copy, PartialEq)]
#[logos(error = NoToken)]
#[logos(skip r"[ \t\r\n\f]+")]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
#[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
pub enum Token<'s> {
    /// A directive, type or modifier with its leading dot removed.
    #[regex(r"\.[a-zA-Z_][a-zA-Z0-9_]*(::[a-zA-Z0-9_]+)*", |lex| &lex.slice()[1..])]
    #[regex(r"\.[1-5]d", |lex| &lex.slice()[1..])]
    Dot(&'s str),
    /// The name of an instruction, variable, function, label or register.
    #[regex(r"[a-zA-Z_$%][a-zA-Z0-9_$]*")]
    Name(&'s str),
    /// An integer literal of any radix.
    #[regex(r"0[xX][0-9a-fA-F]+U?", |lex| radix(lex.slice(), 2, 16))]
    #[regex(r"0[bB][01]+U?", |lex| radix(lex.slice(), 2, 2))]
    #[regex(r"0[0-7]*U?", |lex| radix(lex.slice(), 0, 8))]
    #[regex(r"[1-9][0-9]*U?", |lex| radix(lex.slice(), 0, 10))]
    Int(u64),
    /// The bits of a 32-bit float, written `0f3F800000`.
    #[regex(r"0[fF][0-9a-fA-F]{8}", |lex| u32::from_str_radix(&lex.slice()[2..], 16).ok())]
    Single(u32),
    /// The bits of a 64-bit float, written `0d3FF0000000000000`.
    #[regex(r"0[dD][0-9a-fA-F]{16}", |lex| u64::from_str_radix(&lex.slice()[2..], 16).ok())]
    Double(u64),
    /// A decimal constant with a point or an exponent, such as the number of `.version`.
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?")]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+")]
    Decimal(&'s str),
    /// A string without its quotes; escapes are not decoded.
    #[regex(r#""([^"\\\n]|\\[^\n])*""#, |lex| &lex.slice()[1..lex.slice().len() - 1])]
    Text(&'s str),
    /// A character of punctuation.
    // `/*` and `"` match here only if the comment or string is never closed.
    #[token("/*", |lexer| endless(lexer, NoToken::EndlessComment))]
    #[token("\"", |lexer| endless(lexer, NoToken::EndlessString))]
    #[regex(r"[,;:()\[\]{}+\-!|@<>=~*/&^?]", |lex| lex.slice().as_bytes()[0])]
    Punct(u8),
}

fn radix(text: &str, skip: usize, radix: u32) -> Option<u64> {
    u64::from_str_radix(text[skip..].trim_end_matches('U'), radix).ok()
}

/// Consumes the rest of the text after an unclosed comment or string. Otherwise the lexer would search
/// the rest of the text again for each further `/*` or `"`.
fn endless<'s>(lexer: &mut Lexer<'s, Token<'s>>, what: NoToken) -> Result<u8, NoToken> {
    lexer.bump(lexer.remainder().len());
    Err(what)
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
pub struct Tokens<'s>(SpannedIter<'s, Token<'s>>);

/// Returns the tokens of a text, each with its range of bytes. Comments are left out. An unclosed
/// comment or string is the last item and covers the rest of the text.
pub fn tokens(source: &str) -> Tokens<'_> {
    Tokens(Token::lexer(source).spanned())
}

impl<'s> Iterator for Tokens<'s> {
    type Item = (Result<Token<'s>, NoToken>, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl fmt::Debug for Tokens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("at", &self.0.span().end).finish_non_exhaustive()
    }
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
