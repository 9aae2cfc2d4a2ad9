//! Code snippets that documents copy from source files.
//!
//! The source marks a snippet with two comments, `// ladder: NAME` and `// ladder: end`. Pieces of the
//! same name are joined, with `// …` between them. The document names the file and the snippet before
//! the code block: `<!-- snippet: kernels/src/reduce/sequential.rs tree -->`.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

const START: &str = "<!-- snippet: ";
const END: &str = " -->";
const FENCE: &str = "```";
const MARKER: &str = "// ladder: ";
const MARKER_END: &str = "end";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The source file, relative to the workspace's root.
    pub path: String,
    /// The name in the source's `// ladder: NAME`.
    pub name: String,
}

/// Returns the origins that a document names, in order.
pub fn origins(text: &str) -> Result<Vec<Origin>> {
    text.lines().filter(|line| line.starts_with(START)).map(origin).collect()
}

fn origin(line: &str) -> Result<Origin> {
    let named = line.strip_prefix(START).and_then(|rest| rest.trim_end().strip_suffix(END));
    let (path, name) = named
        .and_then(|named| named.split_once(' '))
        .with_context(|| format!("`{line}` is not `{START}PATH NAME{END}`"))?;
    Ok(Origin { path: path.to_owned(), name: name.to_owned() })
}

/// Returns the marked names of a source file, once per piece.
pub fn marked(source: &str) -> Vec<&str> {
    source.lines().filter_map(marker).filter(|name| *name != MARKER_END).collect()
}

fn marker(line: &str) -> Option<&str> {
    line.trim().strip_prefix(MARKER)
}

/// Returns the document with its snippets updated from the sources. `root` is the workspace's root.
pub fn renew(text: &str, root: &Path) -> Result<String> {
    let mut lines = text.split_inclusive('\n');
    let mut done = String::new();
    while let Some(line) = lines.next() {
        done += line;
        if !line.starts_with(START) {
            continue;
        }
        let Origin { path, name } = origin(line.trim_end())?;
        let shown = format!("snippet `{path} {name}`");
        let fence = lines.next().filter(|line| line.starts_with(FENCE));
        done += fence.with_context(|| format!("{shown} has no code block below it"))?;
        let close = lines.by_ref().find(|line| line.trim_end() == FENCE);
        let close = close.with_context(|| format!("the code block of {shown} has no end"))?;
        let source = fs::read_to_string(root.join(&path)).with_context(|| format!("{shown}: {path}"))?;
        done += &cut(&source, &name).context(shown)?;
        done += close;
    }
    Ok(done)
}

/// Returns the origins of the snippets that differ between two versions of a document.
pub fn stale(old: &str, new: &str) -> Vec<String> {
    let blocks = |text: &str| -> Vec<String> {
        let end = format!("\n{FENCE}\n");
        let block = |part: &str| part.split(&end).next().unwrap_or_default().to_owned();
        text.split(START).skip(1).map(block).collect()
    };
    let pairs = blocks(old).into_iter().zip(blocks(new)).filter(|(old, new)| old != new);
    pairs.map(|(old, _)| old.split(END).next().unwrap_or_default().to_owned()).collect()
}

fn cut(source: &str, name: &str) -> Result<String> {
    let pieces = pieces(source, name)?;
    if pieces.is_empty() {
        bail!("the file has no `{MARKER}{name}`; it has {:?}", marked(source));
    }
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let lines = || pieces.iter().flatten().copied().filter(|line| !line.trim().is_empty());
    let shared = lines().map(|line| indent(&line)).min().unwrap_or(0);
    let mut text = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            let own = piece.iter().find(|line| !line.trim().is_empty()).map_or(shared, indent);
            text += &format!("{}// …\n", " ".repeat(own - shared));
        }
        for line in piece {
            text += line.get(shared..).unwrap_or_default();
            text += "\n";
        }
    }
    Ok(text)
}

fn pieces<'s>(source: &'s str, name: &str) -> Result<Vec<Vec<&'s str>>> {
    let mut pieces: Vec<Vec<&str>> = Vec::new();
    let mut open = None;
    for line in source.lines() {
        match (marker(line), open) {
            (Some(MARKER_END), Some(_)) => open = None,
            (Some(MARKER_END), None) => bail!("`{MARKER}{MARKER_END}` without a beginning"),
            (Some(inner), Some(outer)) => bail!("`{MARKER}{inner}` inside `{outer}`"),
            (Some(marked), None) => {
                open = Some(marked);
                if marked == name {
                    pieces.push(Vec::new());
                }
            }
            (None, Some(marked)) if marked == name => {
                pieces.last_mut().expect("pushed above").push(line)
            }
            (None, _) => {}
        }
    }
    match open {
        Some(marked) => bail!("`{MARKER}{marked}` has no `{MARKER}{MARKER_END}`"),
        None => Ok(pieces),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f() {\n    // ladder: a\n    one();\n\n        two();\n\
        \u{20}   // ladder: end\n    skip();\n        // ladder: a\n        three();\n\
        \u{20}       // ladder: end\n    // ladder: b\n    four();\n    // ladder: end\n}\n";

    #[test]
    fn pieces_of_one_name_are_joined_and_moved_to_the_left() {
        assert_eq!(cut(SOURCE, "a").unwrap(), "one();\n\n    two();\n    // …\n    three();\n");
        assert_eq!(cut(SOURCE, "b").unwrap(), "four();\n");
        assert_eq!(marked(SOURCE), ["a", "a", "b"]);
    }

    #[test]
    fn markers_that_do_not_pair_are_named() {
        let says = |source: &str, name: &str| cut(source, name).unwrap_err().to_string();
        assert!(says(SOURCE, "c").contains("no `// ladder: c`; it has [\"a\", \"a\", \"b\"]"));
        assert!(says("// ladder: a\n", "a").contains("`// ladder: a` has no `// ladder: end`"));
        assert!(says("// ladder: end\n", "a").contains("without a beginning"));
        let nested = "// ladder: a\n// ladder: b\n// ladder: end\n";
        assert!(says(nested, "a").contains("`// ladder: b` inside `a`"));
    }

    #[test]
    fn a_document_gets_its_snippets_anew_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f.rs"), SOURCE).unwrap();
        let old = "before\n\n<!-- snippet: f.rs b -->\n```rust\nold();\n```\n\n```rust\nkept();\n```\n";
        let new = renew(old, folder.path()).unwrap();
        assert_eq!(new, old.replace("old();", "four();"));
        assert_eq!(stale(old, &new), ["f.rs b"]);
        assert!(stale(&new, &new).is_empty());
        assert_eq!(renew(&new, folder.path()).unwrap(), new);
        for (text, says) in [
            ("<!-- snippet: f.rs -->\n", "is not"),
            ("<!-- snippet: f.rs b -->\n\n", "no code block"),
            ("<!-- snippet: f.rs b -->\n```rust\n", "no end"),
            ("<!-- snippet: g.rs b -->\n```rust\n```\n", "g.rs"),
        ] {
            let error = renew(text, folder.path()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
