//! Fingerprints of builds: `name = hash` lines, one per input. A rebuild names the input that changed.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::Path,
};

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fingerprint(BTreeMap<String, String>);

/// The part of a Rust source file that is fingerprinted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sources {
    /// Every byte, because line tables depend on it.
    Bytes,
    /// The code without comments and documentation. The output must not contain line numbers, which
    /// `line!()` and panics with a location would add.
    Code,
}

impl Sources {
    fn read(self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = fs::read(path)?;
        if self == Self::Bytes || path.extension() != Some("rs".as_ref()) {
            return Ok(bytes);
        }
        let tokens = str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
        // A file that is not valid Rust is hashed as bytes.
        Ok(tokens.map_or(bytes, |tokens| {
            let mut code = String::new();
            push_code(tokens, &mut code);
            code.into_bytes()
        }))
    }
}

/// Appends the tokens, one per line, without documentation attributes.
fn push_code(tokens: TokenStream, code: &mut String) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#') {
            let is_inner =
                matches!(tokens.peek(), Some(TokenTree::Punct(bang)) if bang.as_char() == '!');
            let bang = tokens.next_if(|_| is_inner);
            if tokens.next_if(is_documentation).is_some() {
                continue;
            }
            code.push_str(if bang.is_some() { "#\n!\n" } else { "#\n" });
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(\n", ")\n"),
                    Delimiter::Brace => ("{\n", "}\n"),
                    Delimiter::Bracket => ("[\n", "]\n"),
                    Delimiter::None => ("", ""),
                };
                code.push_str(open);
                push_code(group.stream(), code);
                code.push_str(close);
            }
            TokenTree::Punct(punct) => {
                code.push(punct.as_char());
                // `>>` is one operator, `> >` are two.
                code.push_str(if punct.spacing() == Spacing::Joint { "" } else { "\n" });
            }
            other => writeln!(code, "{other}").expect("a string takes all"),
        }
    }
}

/// Returns whether the token is the bracket group of `#[doc = …]`, which is also what `///` parses to.
fn is_documentation(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let mut tokens = group.stream().into_iter();
    let is_doc = matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "doc");
    is_doc && matches!(tokens.next(), Some(TokenTree::Punct(equals)) if equals.as_char() == '=')
}

impl Fingerprint {
    pub(crate) fn add(&mut self, name: &str, value: impl Hash) {
        // The hash algorithm may change with the compiler release; everything is then rebuilt once.
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        self.0.insert(name.to_owned(), format!("{:016x}", hasher.finish()));
    }

    /// Adds every file below a folder as `<prefix>/<path>`; hidden editor files are skipped.
    pub(crate) fn add_folder(&mut self, folder: &Path, prefix: &str, sources: Sources) -> Result<()> {
        let unreadable = || format!("{} cannot be read", folder.display());
        for entry in fs::read_dir(folder).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let (path, name) = (entry.path(), format!("{prefix}/{name}"));
            if path.is_dir() {
                self.add_folder(&path, &name, sources)?;
            } else {
                let bytes = sources.read(&path);
                self.add(&name, bytes.with_context(|| format!("{} cannot be read", path.display()))?);
            }
        }
        Ok(())
    }

    /// Adds files of a folder as `<prefix>/<name>`. A missing file is recorded as missing.
    pub(crate) fn add_files(&mut self, folder: &Path, prefix: &str, names: &[&str]) {
        for name in names {
            self.add(&format!("{prefix}/{name}"), fs::read(folder.join(name)).ok());
        }
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.clone());
    }

    pub(crate) fn difference(&self, before: &Self) -> Option<String> {
        let gone = || before.0.keys().find(|name| !self.0.contains_key(*name));
        self.change(before).or_else(|| Some(format!("{} is gone", gone()?)))
    }

    /// Returns a message about the first changed entry; entries that only `before` has are ignored.
    pub(crate) fn change(&self, before: &Self) -> Option<String> {
        let changed = self.0.iter().find(|(name, hash)| before.0.get(*name) != Some(hash));
        changed.map(|(name, _)| format!("{name} changed"))
    }

    pub(crate) fn to_text(&self) -> String {
        self.0.iter().map(|(name, hash)| format!("{name} = {hash}\n")).collect()
    }

    /// Parses the text of [`to_text`](Self::to_text); malformed lines are dropped.
    pub(crate) fn from_text(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        Self(lines.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let mut fingerprint = Fingerprint::default();
        fingerprint.add("a", 1);
        fingerprint.add("b = c", "x");
        assert_eq!(Fingerprint::from_text(&Fingerprint::default().to_text()), Fingerprint::default());
        let mut plain = Fingerprint::default();
        plain.add("a", 1);
        assert_eq!(Fingerprint::from_text(&plain.to_text()), plain);
    }

    #[test]
    fn a_changed_added_or_removed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let take = || {
            let mut fingerprint = Fingerprint::default();
            fingerprint.add_folder(folder.path(), "kernels", Sources::Bytes).unwrap();
            fingerprint
        };
        fs::create_dir_all(folder.path().join("src")).unwrap();
        write("src/a.rs", "a");
        let before = take();
        assert_eq!(take().difference(&before), None);
        write("src/.a.rs.swp", "an editor's");
        assert_eq!(take().difference(&before), None);
        write("src/a.rs", "b");
        assert_eq!(take().difference(&before).unwrap(), "kernels/src/a.rs changed");
        write("src/a.rs", "a");
        write("src/b.rs", "");
        assert_eq!(take().difference(&before).unwrap(), "kernels/src/b.rs changed");
        assert_eq!(before.difference(&take()).unwrap(), "kernels/src/b.rs is gone");
    }

    #[test]
    fn comments_do_not_change_the_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rs");
        let code = |text: &str| {
            fs::write(&path, text).unwrap();
            Sources::Code.read(&path).unwrap()
        };
        let plain = code("#![no_std]\n#[inline]\nfn f(a: u32) -> bool { a >> 1 == 0 }");
        let documented = "//! A file.\n#![no_std]\n\n/// Says whether.\n#[inline]\n// So.\n#[doc = \"More.\"]\n\
            fn f(\n    a: u32,\n) -> bool {\n    /* a */ a >> 1 == 0\n}\n";
        assert_ne!(code(documented), plain, "a comma");
        assert_eq!(code(&documented.replace("u32,", "u32")), plain);
        for other in [
            "#![no_std]\n#[inline]\nfn f(a: u32) -> bool { a > > 1 == 0 }",
            "#![no_std]\nfn f(a: u32) -> bool { a >> 1 == 0 }",
            "#[no_std]\n#[inline]\nfn f(a: u32) -> bool { a >> 1 == 0 }",
            "#![no_std]\n#[inline]\n#[doc(hidden)]\nfn f(a: u32) -> bool { a >> 1 == 0 }",
            "#![no_std]\n#[inline]\nfn f(a: u32) -> bool { (a >> 1) == 0 }",
        ] {
            assert_ne!(code(other), plain, "{other}");
        }
        assert_eq!(code("fn f( {"), b"fn f( {");
    }
}
