//! Maps lines of PTX to source lines, through inlined calls.
//!
//! A `.loc` names only the innermost place. rustc's backend adds the chain of calls as a comment. nvcc
//! adds it as `inlined_at`, one call per directive, the caller's own directive first.

use std::{collections::HashMap, path::Path};

use crate::workspace::DEPENDENCIES;

/// A source line; paths inside the workspace are relative to its root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
}

/// The source lines of every line of a PTX text, from the innermost place to the outermost caller.
#[derive(Debug)]
pub struct Lines {
    /// Indices into the chains, for each line of the text from line 1 on.
    of_line: Vec<u32>,
    chains: Vec<Vec<Place>>,
}

impl Lines {
    /// Reads a PTX text; `root` is the workspace's root folder.
    pub fn read(ptx: &str, root: &Path) -> Self {
        let files = files(ptx, root);
        let mut lines = Self { of_line: Vec::new(), chains: vec![Vec::new()] };
        let mut current = 0;
        // nvcc's chains so far, by the position that a later `inlined_at` refers to.
        let mut known: HashMap<(u32, u32, u32), Vec<Place>> = HashMap::new();
        for text in ptx.lines() {
            let text = text.trim();
            if text.contains(".entry ") {
                current = 0;
                known.clear();
            } else if let Some(directive) = text.strip_prefix(".loc")
                && let Some(chain) = chain(directive, &files, root, &mut known)
            {
                current = lines.chains.len() as u32;
                lines.chains.push(chain);
            }
            lines.of_line.push(current);
        }
        lines
    }

    /// Returns the places of a line of the text, from 1; empty if the compiler gives none.
    pub fn of(&self, line: u32) -> &[Place] {
        let index = (line as usize).checked_sub(1).and_then(|line| self.of_line.get(line));
        &self.chains[index.copied().unwrap_or(0) as usize]
    }
}

fn files(ptx: &str, root: &Path) -> HashMap<u32, String> {
    let file = |line: &str| {
        let rest = line.trim().strip_prefix(".file")?;
        let (number, path) = rest.trim().split_once(char::is_whitespace)?;
        let path = path.split('"').nth(1)?;
        let inside =
            Path::new(path).strip_prefix(root).map_or(path.to_owned(), |p| p.display().to_string());
        Some((number.parse().ok()?, inside))
    };
    ptx.lines().filter_map(file).collect()
}

/// Parses the chain of a `.loc` directive, given the text after `.loc`.
fn chain(
    directive: &str,
    files: &HashMap<u32, String>,
    root: &Path,
    known: &mut HashMap<(u32, u32, u32), Vec<Place>>,
) -> Option<Vec<Place>> {
    let (directive, comment) = directive.split_once("//").unwrap_or((directive, ""));
    let (own, inlined) = directive.split_once(',').unwrap_or((directive, ""));
    let numbers = |text: &str| {
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        Some((numbers.next()?, numbers.next()?, numbers.next()?))
    };
    let at: (u32, u32, u32) = numbers(own)?;
    let mut chain = Vec::new();
    if at.1 > 0 {
        chain.push(Place { file: files.get(&at.0)?.clone(), line: at.1 });
    }
    if let Some(called) = inlined.split_once("inlined_at").and_then(|(_, rest)| numbers(rest)) {
        match known.get(&called) {
            Some(outer) => chain.extend(outer.iter().cloned()),
            None => chain.push(Place { file: files.get(&called.0)?.clone(), line: called.1 }),
        }
    }
    chain.extend(comment.split("@[").skip(1).filter_map(|call| called(call, root)));
    known.insert(at, chain.clone());
    Some(chain)
}

/// Resolves a place such as `src/reduce/tree.rs:13:8` in the first of the kernels and their dependencies
/// that has such a file; `None` for other crates.
fn called(call: &str, root: &Path) -> Option<Place> {
    let mut parts =
        call.trim().trim_end_matches(|c: char| c == ']' || c.is_whitespace()).rsplitn(3, ':');
    let (_column, line) = (parts.next()?, parts.next()?.parse().ok()?);
    let path = parts.next()?;
    let mut files = ["kernels"].into_iter().chain(DEPENDENCIES).map(|name| format!("{name}/{path}"));
    files.find(|file| root.join(file).is_file()).map(|file| Place { file, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("measure/ is in the workspace")
    }

    fn shown(lines: &Lines, line: u32) -> Vec<String> {
        lines.of(line).iter().map(|place| format!("{}:{}", place.file, place.line)).collect()
    }

    #[test]
    fn comments_of_rustc_name_the_calls() {
        let ptx = "\
.visible .entry f(
\t.loc\t5 13 8                         // src/reduce/tree.rs:13:8 @[ src/reduce/first_add.rs:33:9 @[ src/reduce/mod.rs:62:30 ] ]
\tadd
\t.loc\t5 0 8                          // src/reduce/tree.rs:0:8
\tadd
\t.loc\t2 83 5                         // src/nvptx/mod.rs:83:5 @[ src/x/nowhere.rs:1:1 @[ src/thread.rs:14:22 ] ]
\tadd
.visible .entry g(
.file\t2 \"rust/nvptx/mod.rs\"
.file\t5 \"kernels/src/reduce/tree.rs\"";
        let lines = Lines::read(ptx, root());
        assert_eq!(
            shown(&lines, 3),
            [
                "kernels/src/reduce/tree.rs:13",
                "kernels/src/reduce/first_add.rs:33",
                "kernels/src/reduce/mod.rs:62"
            ]
        );
        assert!(shown(&lines, 5).is_empty(), "line 0 is no line");
        assert_eq!(shown(&lines, 7), ["rust/nvptx/mod.rs:83", "device/src/thread.rs:14"]);
        assert!(shown(&lines, 8).is_empty() && shown(&lines, 1).is_empty());
    }

    #[test]
    fn directives_of_nvcc_chain() {
        let ptx = format!(
            ".entry f(\n.loc 1 30 5\nadd\n.loc 2 20 3, function_name $L, inlined_at 1 30 5\n\
             .loc 2 7 9, function_name $L+8, inlined_at 2 20 3\nadd\n.file 1 \"{0}/cuda/a.cu\"\n\
             .file 2 \"{0}/cuda/common.cuh\"",
            root().display()
        );
        let lines = Lines::read(&ptx, root());
        assert_eq!(shown(&lines, 3), ["cuda/a.cu:30"]);
        assert_eq!(shown(&lines, 6), ["cuda/common.cuh:7", "cuda/common.cuh:20", "cuda/a.cu:30"]);
    }
}
