//! Source lines: of the PTX text itself, and of the source it was compiled from.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Ast, SourceLocation};
use crate::lexer::one_line;
use crate::module::Location;

/// Byte offsets at which the lines of the text start.
pub(super) struct Lines(Vec<u32>);

impl Lines {
    pub(super) fn new(source: &str) -> Self {
        let after = |(index, byte): (usize, u8)| (byte == b'\n').then_some(index as u32 + 1);
        Self(std::iter::once(0).chain(source.bytes().enumerate().filter_map(after)).collect())
    }

    /// The line of a byte offset, from 1.
    pub(super) fn line(&self, offset: u32) -> u32 {
        self.0.partition_point(|&start| start <= offset) as u32
    }
}

/// The files and names that `.loc` directives refer to.
pub(super) struct Locations {
    files: HashMap<u32, Arc<str>>,
    functions: HashMap<String, Arc<str>>,
}

impl Locations {
    pub(super) fn new(ast: &Ast<'_>) -> Self {
        // Names that are shown, one to a line.
        let files = ast.files.iter().map(|&(index, path)| (index, Arc::from(one_line(path)))).collect();
        let names = ast.strings.iter();
        let functions =
            names.map(|(label, name)| ((*label).to_owned(), Arc::from(one_line(name)))).collect();
        Self { files, functions }
    }

    /// The location of a directive; none for line 0, which compilers give to
    /// instructions without a source.
    pub(super) fn resolve(&self, place: &SourceLocation<'_>) -> Option<Location> {
        let mut location = self.place((place.file, place.line, place.column))?;
        location.function = place.function.and_then(|label| self.functions.get(label).cloned());
        location.inlined_at = place.inlined_at.and_then(|at| self.place(at)).map(Arc::new);
        Some(location)
    }

    fn place(&self, (file, line, column): (u32, u32, u32)) -> Option<Location> {
        let file = self.files.get(&file).filter(|_| line != 0)?;
        Some(Location { file: Arc::clone(file), line, column, function: None, inlined_at: None })
    }
}
