//! The parameters that an entry declares.
//!
//! Loading a kernel waits for this parser, and most of a PTX file is code. Therefore a vectorised search
//! finds the entry, and only the entry's head is parsed. A single scan skips the comments and strings
//! before the entry, so the time is linear in the length of any text.

use std::fmt;

use memchr::{memchr, memchr2, memmem, memrchr};

use crate::words;

const ENTRY: &str = ".entry";

/// A parameter as an entry declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// Size in bytes.
    pub size: usize,
    /// Set if `.ptr` marks the parameter as an address. Not every compiler marks addresses.
    pub pointer: bool,
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer {
            true => write!(f, "{}-byte address", self.size),
            false => write!(f, "{} bytes", self.size),
        }
    }
}

/// Returns the parameters of an entry, in order; `None` if the text does not declare the entry, or
/// declares it in an unknown form. The text after the list of parameters is not examined.
pub fn parameters(ptx: &str, entry: &str) -> Option<Vec<Declared>> {
    let mut code = Code { text: ptx.as_bytes(), reached: 0 };
    let mut words = memmem::find_iter(ptx.as_bytes(), ENTRY).find_map(|at| {
        let name = ptx[at + ENTRY.len()..].trim_ascii_start();
        let may_be_named = name.starts_with(entry) || name.starts_with('/');
        if !may_be_named || !code.reaches(at) {
            return None;
        }
        // The words end at an unclosed comment or string.
        let mut words = words(&ptx[at..]).map_while(|word| Some(word.ok()?.text));
        let named = words.next() == Some(ENTRY) && words.next() == Some(entry);
        named.then_some(words)
    })?;
    if words.next() != Some("(") {
        return Some(Vec::new());
    }
    let mut closed = false;
    let list: Vec<&str> = words
        .take_while(|&word| {
            closed = word == ")";
            !closed
        })
        .collect();
    match list[..] {
        _ if !closed => None,
        [] => Some(Vec::new()),
        _ => list.split(|&word| word == ",").map(parameter).collect(),
    }
}

/// A scan of a text that skips comments and strings.
struct Code<'s> {
    text: &'s [u8],
    /// End of the scanned part, which is outside comments and strings.
    reached: usize,
}

impl Code<'_> {
    /// Advances the scan to `place`, which must be greater than in earlier calls. Returns whether
    /// `place` is in code, not in a comment or string.
    fn reaches(&mut self, place: usize) -> bool {
        if let Some(ahead) = self.text.get(self.reached..place) {
            // Line comments and strings end with their line, so the scan may skip to the start of the
            // last line before the first `/*`.
            let lines = memmem::find(ahead, b"/*").map_or(ahead, |opening| &ahead[..opening]);
            self.reached += memrchr(b'\n', lines).map_or(0, |newline| newline + 1);
        }
        while self.reached < place {
            let found = memchr2(b'/', b'"', &self.text[self.reached..place]);
            self.reached = found.map_or(place, |found| self.end_of(self.reached + found));
        }
        self.reached == place
    }

    /// Returns the end of the comment or string at `start`, or of the slash that begins no comment.
    fn end_of(&self, start: usize) -> usize {
        let rest = &self.text[start..];
        let inner = rest.get(2..).unwrap_or_default();
        let length = match rest {
            [b'/', b'/', ..] => memchr(b'\n', rest),
            [b'/', b'*', ..] => memmem::find(inner, b"*/").map(|end| end + 4),
            [b'/', ..] => Some(1),
            _ => end_of_string(rest),
        };
        length.map_or(self.text.len(), |length| start + length)
    }
}

/// Returns the length of the string at the start of a text, if it is closed on its line.
fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\n' => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Parses `.param .u64 n`, `.param .u64 .ptr .global .align 4 input` or `.param .align 8 .b8 pair[16]`.
fn parameter(words: &[&str]) -> Option<Declared> {
    let (&".param", words) = words.split_first()? else { return None };
    let element = words.iter().find_map(|word| bytes_of(word))?;
    let elements = match words {
        [.., "[", elements, "]"] => elements.parse().ok()?,
        _ => 1,
    };
    Some(Declared { size: element.checked_mul(elements)?, pointer: words.contains(&".ptr") })
}

/// Returns the size in bytes of a type such as `.u64`.
fn bytes_of(word: &str) -> Option<usize> {
    let bits: usize = word.strip_prefix('.')?.strip_prefix(['b', 'u', 's', 'f'])?.parse().ok()?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Declared = Declared { size: 8, pointer: true };
    const WORD: Declared = Declared { size: 8, pointer: false };

    #[test]
    fn entry_heads_of_every_compiler_are_parsed() {
        for (what, head, expected) in [
            (
                "rustc",
                ".visible .entry k(\n\t.param .u64 .ptr .align 1 k_param_0,\n\t\
                 .param .u64 k_param_1\n)  // @k\n{",
                vec![ADDRESS, WORD],
            ),
            (
                "nvcc",
                ".visible .entry k(\n\t.param .u64 .ptr .align 1 k_param_0,\n\t\
                 .param .u64 k_param_1\n)\n.maxntid 1024\n{",
                vec![ADDRESS, WORD],
            ),
            (
                "libNVVM",
                ".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .b64 k_param_1\n)\n{",
                vec![WORD; 2],
            ),
            (
                "OpenCL",
                ".entry k(.param .u64 .ptr .global .align 16 p, .param .f64 x)",
                vec![ADDRESS, WORD],
            ),
            ("by hand", ".entry/* named */k /* none */\n() // none, ( of them\n{ ret; }", vec![]),
            ("without a list", ".visible .entry k\n{ ret; }", vec![]),
            (
                "structs and small types",
                ".entry k(.param .align 8 .b8 k_param_0[24], .param .u16 h,.param .s8 b)",
                [24, 2, 1].map(|size| Declared { size, pointer: false }).to_vec(),
            ),
        ] {
            let before = "// .entry k(.param .u32 old)\n/* .entry k(.param .u8 older) */\n\
                          .entry kk(.param .u32 x) { ret; }\n.entry a(.param .u32 k) { ret; }\n";
            assert_eq!(parameters(&format!("{before}{head}"), "k"), Some(expected), "{what}");
        }
    }

    #[test]
    fn entries_after_comments_and_strings_are_found() {
        for before in [
            "",
            "// a /* that opens nothing\n",
            "/* a // that hides no end */",
            "/**/",
            "/*/ still open */",
            "/* \" */",
            "// \"\n",
            ".file 1 \"https://a.b/*.rs\"\n",
            ".file 1 \"a \\\" /* \\\\\"",
            "a / b; ",
            "\"/*\" /* .entry k() */",
            "// /*\n/* .entry k() */ // /*\n",
            "/* a */ // /* .entry k()\n// */ .entry k()\n",
            "/* a\n.entry k()\n*/",
            "a /\"/*\" ",
            "/* a *// ",
        ] {
            let ptx = format!("{before}.entry k(.param .u64 n)");
            assert_eq!(parameters(&ptx, "k"), Some(vec![WORD]), "{before}");
        }
    }

    #[test]
    fn unknown_declarations_return_none() {
        for garbage in [
            "",
            "k",
            ".entry",
            ".entryk()",
            ".entry kk()",
            ".func k(.param .u64 a)",
            ".entry k(",
            ".entry k(.param .u64 a",
            ".entry k(.param .u64 a,)",
            ".entry k(.param a)",
            ".entry k(.param .u63 a)",
            ".entry k(.u64 a)",
            ".entry k(.param .b8 a[x])",
            ".entry k(.param .b64 a[18446744073709551615])",
            ".entry k(.param .u64 a /* )",
            "// .entry k()",
            "/* .entry k()",
            "/*/ .entry k()",
            "\".entry k()\"",
            "\" .entry k()",
            "\"\\",
            "/",
            "\u{1f41a}.entry \u{e9}k(\u{1f41a})",
        ] {
            assert_eq!(parameters(garbage, "k"), None, "{garbage}");
        }
    }

    /// Parses texts of a megabyte. A naive parser would scan the rest of the text for each part.
    #[test]
    fn time_is_linear_in_the_text_length() {
        for part in [
            ".entry kx ",
            ".entry k/*",
            ".entry/*",
            ".entry//",
            "/*.entry kx",
            "//.entry kx",
            "/*.entry kx*/",
            ".entry kx \"",
            "\"\\.entry/",
            ".entry kx\n",
            ".entry kx/**/",
        ] {
            let text = part.repeat((1 << 20) / part.len());
            let start = std::time::Instant::now();
            std::hint::black_box(parameters(&text, "k"));
            let seconds = start.elapsed().as_secs_f64();
            assert!(seconds < 2.0, "{part:?}: {seconds} s");
        }
    }
}
