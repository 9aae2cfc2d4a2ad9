//! The parameters of a PTX entry, as its text declares them, against those that a launch passes.
//!
//! A driver cannot tell that they differ: it reads behind each pointer that it is handed as many bytes
//! as the PTX declares, whatever lies there. So a kernel is compared with its arguments when it is
//! loaded.

use std::fmt;

use warpfold_abi::Parameter;

use crate::{Error, Result, ptx::Ptx};

/// Compares the parameters of an entry with those that a launch will
/// pass: how many there are, how large each is, and where compilers mark the addresses (`.ptr`), that an
/// address is passed there. Compilers that mark none leave the order of addresses and counts untold.
///
/// # Errors
/// [`Error::WrongParameters`] when they differ, [`Error::PtxRejected`] when the declaration cannot be
/// read.
pub(crate) fn check(text: &Ptx, entry: &str, passed: &[Parameter]) -> Result<()> {
    let origin = || text.origin.clone();
    let declared = declared(&text.text, entry).ok_or_else(|| Error::PtxRejected {
        origin: origin(),
        reason: format!(
            "it declares no entry `{entry}` that can be read; give PTX of warpfold's kernels"
        ),
        source: None,
    })?;
    let agree = |(declared, passed): (&Declared, &Parameter)| {
        declared.size == passed.size && (passed.pointer || !declared.pointer)
    };
    if declared.len() == passed.len() && declared.iter().zip(passed).all(agree) {
        return Ok(());
    }
    let passes = passed
        .iter()
        .map(|&Parameter { name, size, pointer, .. }| format!("{name}: {}", Declared { size, pointer }));
    Err(Error::WrongParameters {
        origin: origin(),
        entry: entry.to_owned(),
        takes: listed(declared.iter().map(Declared::to_string)),
        passes: listed(passes),
    })
}

fn listed(items: impl Iterator<Item = String>) -> String {
    format!("({})", items.collect::<Vec<_>>().join(", "))
}

/// A parameter as the PTX declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Declared {
    /// Bytes.
    size: usize,
    /// Whether it is marked as an address.
    pointer: bool,
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer {
            true => write!(f, "{}-byte address", self.size),
            false => write!(f, "{} bytes", self.size),
        }
    }
}

/// The parameters of an entry; none if the text does not declare it, or not in a way that is understood.
///
/// Only the entry's head is read: most of a file is code, and a reducer's first call waits for this.
fn declared(ptx: &str, entry: &str) -> Option<Vec<Declared>> {
    let mut tokens = ptx.match_indices(".entry").find_map(|(at, _)| {
        let mut tokens = Tokens(&ptx[at..]);
        let named = tokens.next() == Some(".entry") && tokens.next() == Some(entry);
        (named && !in_comment(&ptx[..at])).then_some(tokens)
    })?;
    if tokens.next() != Some("(") {
        return Some(Vec::new());
    }
    let mut closed = false;
    let list: Vec<&str> = tokens
        .take_while(|&token| {
            closed = token == ")";
            !closed
        })
        .collect();
    match list[..] {
        _ if !closed => None,
        [] => Some(Vec::new()),
        _ => list.split(|&token| token == ",").map(parameter).collect(),
    }
}

/// Whether what follows a text is part of a comment.
fn in_comment(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.contains("//") || before.rfind("/*") > before.rfind("*/")
}

/// `.param .u64 n`, `.param .u64 .ptr .global .align 4 input` or `.param .align 8 .b8 pair[16]`.
fn parameter(tokens: &[&str]) -> Option<Declared> {
    let (&".param", words) = tokens.split_first()? else { return None };
    let element = words.iter().find_map(|word| bytes_of(word))?;
    let elements = match words {
        [.., "[", elements, "]"] => elements.parse().ok()?,
        _ => 1,
    };
    Some(Declared { size: element.checked_mul(elements)?, pointer: words.contains(&".ptr") })
}

/// Bytes of a type such as `.u64`.
fn bytes_of(word: &str) -> Option<usize> {
    let bits: usize = word.strip_prefix('.')?.strip_prefix(['b', 'u', 's', 'f'])?.parse().ok()?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// Names and directives, with their dots, and single characters of punctuation; comments are left out.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start();
            let (comment, end) = match self.0.get(..2) {
                Some("//") => (&self.0[2..], "\n"),
                Some("/*") => (&self.0[2..], "*/"),
                _ => break,
            };
            self.0 = comment.split_once(end).map_or("", |(_, rest)| rest);
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '%');
        let word = self.0.find(|c: char| !is_word(c)).unwrap_or(self.0.len());
        let len = if word > 0 { word } else { self.0.chars().next()?.len_utf8() };
        let (token, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use warpfold_abi::{Arguments, arguments::CopyStrided};

    use super::*;
    use crate::names::Arch;

    const ADDRESS: Declared = Declared { size: 8, pointer: true };
    const WORD: Declared = Declared { size: 8, pointer: false };

    #[test]
    fn heads_of_every_compiler_are_read() {
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
            ("by hand", ".entry k /* none */\n() // none, ( of them\n{ ret; }", vec![]),
            ("without a list", ".visible .entry k\n{ ret; }", vec![]),
            (
                "structs and small types",
                ".entry k(.param .align 8 .b8 k_param_0[24], .param .u16 h,.param .s8 b)",
                [24, 2, 1].map(|size| Declared { size, pointer: false }).to_vec(),
            ),
        ] {
            let before = "// .entry k(.param .u32 old)\n/* .entry k(.param .u8 older) */\n\
                          .entry kk(.param .u32 x) { ret; }\n.entry a(.param .u32 k) { ret; }\n";
            assert_eq!(declared(&format!("{before}{head}"), "k"), Some(expected), "{what}");
        }
    }

    #[test]
    fn what_is_no_declaration_is_not_guessed_at() {
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
            "\u{1f41a}.entry \u{e9}k(\u{1f41a})",
        ] {
            assert_eq!(declared(garbage, "k"), None, "{garbage}");
        }
    }

    fn given(text: String) -> Ptx {
        Ptx { origin: "a/copy.ptx".to_owned(), text: text.into(), arch: Arch::OLDEST }
    }

    #[test]
    fn what_differs_is_one_line_with_both_sides() {
        let differs = |list: &str| {
            let ptx = format!(".visible .entry copy({list})\n{{ ret; }}");
            check(&given(ptx), "copy", CopyStrided::<f32>::PARAMETERS)
        };
        const POINTER: &str = ".param .u64 .ptr .align 1 p";
        const COUNT: &str = ".param .u64 n";
        assert!(differs(&[POINTER, COUNT, COUNT, POINTER].join(",")).is_ok());
        assert!(differs(&[COUNT; 4].join(",")).is_ok(), "a compiler that marks no addresses");
        let cases: [&[&str]; 6] = [
            &[],
            &[POINTER, COUNT, POINTER],
            &[POINTER, COUNT, COUNT, POINTER, COUNT],
            &[POINTER, COUNT, ".param .u32 stride", POINTER],
            &[POINTER, COUNT, POINTER, COUNT],
            &[".param .align 8 .b8 all[32]"],
        ];
        for case in cases {
            let error = differs(&case.join(",")).unwrap_err();
            assert!(matches!(error, Error::WrongParameters { .. }), "{case:?}: {error}");
            assert_eq!(error.to_string().lines().count(), 1);
        }
        assert_eq!(
            differs(&[POINTER, ".param .u32 n"].join(",")).unwrap_err().to_string(),
            "a/copy.ptx: `copy` takes (8-byte address, 4 bytes), but is launched with (input: 8-byte \
             address, n: 8 bytes, stride: 8 bytes, output: 8-byte address); it is of another version \
             of warpfold"
        );
    }
}
