//! PTX text as words, for tools that inspect a text and must accept unknown instructions and symbols.
//!
//! A name with its modifiers is one word, such as `ld.global.L1::no_allocate.v4.b32` or `%tid.x`.

use std::{fmt, iter::Peekable, ops::Range};

use crate::token::{NoToken, Tokens, tokens};

/// A word, a string with its quotes, or one character of punctuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word<'s> {
    /// The text as written.
    pub text: &'s str,
    /// Start of the word, in bytes of the source.
    pub start: usize,
}

impl Word<'_> {
    /// Returns whether the word is the name of a variable, function, label, register or instruction.
    pub fn is_name(&self) -> bool {
        self.text
            .starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '_' | '$' | '%'))
    }

    /// Returns the end of the word, in bytes of the source.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// A comment or string that is never closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endless {
    what: NoToken,
    /// Start of the comment or string, in bytes of the source.
    pub start: usize,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

impl std::error::Error for Endless {}

/// An iterator over the [`Word`]s of PTX.
#[derive(Debug, Clone)]
pub struct Words<'s> {
    source: &'s str,
    tokens: Peekable<Tokens<'s>>,
}

/// Returns the words of a text, without comments. An unclosed comment or string is an error and the last
/// item.
pub fn words(source: &str) -> Words<'_> {
    Words { source, tokens: tokens(source).peekable() }
}

impl<'s> Iterator for Words<'s> {
    type Item = Result<Word<'s>, Endless>;

    fn next(&mut self) -> Option<Self::Item> {
        let (token, range) = self.tokens.next()?;
        if let Err(what @ (NoToken::EndlessComment | NoToken::EndlessString)) = token {
            return Some(Err(Endless { what, start: range.start }));
        }
        let first = self.source.as_bytes()[range.start];
        let end = if is_in_word(first) { self.end_of_word(&range) } else { range.end };
        Some(Ok(Word { text: &self.source[range.start..end], start: range.start }))
    }
}

impl Words<'_> {
    /// Returns the end of the word that consists of the token at `first` and adjacent word tokens.
    fn end_of_word(&mut self, first: &Range<usize>) -> usize {
        let (mut end, bytes) = (first.end, self.source.as_bytes());
        let joined = |end: usize, range: &Range<usize>| range.start == end && is_in_word(bytes[end]);
        while let Some((_, range)) = self.tokens.next_if(|(_, range)| joined(end, range)) {
            end = range.end;
        }
        end
    }
}

fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$%.".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        words(source).map(|word| word.expect("whole").text).collect()
    }

    #[test]
    fn adjacent_tokens_form_a_word() {
        let line = "@!%p1 ld.global.L1::no_allocate.v2.b64 {%rd1,%rd2}, [%rd3+-16]; // end";
        let words = [
            "@",
            "!",
            "%p1",
            "ld.global.L1::no_allocate.v2.b64",
            "{",
            "%rd1",
            ",",
            "%rd2",
            "}",
            ",",
            "[",
            "%rd3",
            "+",
            "-",
            "16",
            "]",
            ";",
        ];
        assert_eq!(texts(line), words);
        assert_eq!(
            texts("$L__BB0: /* a\nb */ \"a \\\" // b\" é"),
            ["$L__BB0", ":", "\"a \\\" // b\"", "é"]
        );
        assert_eq!(texts("mov.u32 %r1, %tid.x;"), ["mov.u32", "%r1", ",", "%tid.x", ";"]);
        assert_eq!(
            texts(".version 8.0\n0f3F800000 a.123.4x"),
            [".version", "8.0", "0f3F800000", "a.123.4x"]
        );
    }

    #[test]
    fn word_positions_match_the_source() {
        let source = "/* é */ .entry k(/* none */)";
        for word in words(source) {
            let word = word.unwrap();
            assert_eq!(&source[word.start..word.end()], word.text);
        }
        assert!(words("%r1 $x _y z").all(|word| word.unwrap().is_name()));
        assert!(words(".b8 16 { \"s\"").all(|word| !word.unwrap().is_name()));
    }

    #[test]
    fn unclosed_comment_is_the_last_item() {
        for (source, message, start) in [
            ("a /* b", "comment without end", 2),
            ("a \"b c", "string without end", 2),
            ("\"", "string without end", 0),
        ] {
            let mut words = words(source).skip_while(|word| word.is_ok());
            let error = words.next().unwrap().unwrap_err();
            assert_eq!((error.to_string().as_str(), error.start), (message, start), "{source}");
            assert_eq!(words.next(), None, "{source}");
        }
    }
}
