//! Source locations: lines of the PTX text, and of the source that it was compiled from.
//!
//! A `.loc` names the innermost location. For inlined calls nvcc adds `inlined_at`, with one directive
//! per call and the caller's directive first; LLVM writes the whole chain into a comment. A called
//! function that is not inlined has the location of its call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::inlined::InlinedCalls;
use crate::ast::{Ast, SourceLocation};
use crate::lexer::one_line;
use crate::location::{Location, MAX_DEPTH};

pub(super) struct Lines(Vec<u32>);

impl Lines {
    pub(super) fn new(source: &str) -> Self {
        let after = |(index, byte): (usize, u8)| (byte == b'\n').then_some(index as u32 + 1);
        Self(std::iter::once(0).chain(source.bytes().enumerate().filter_map(after)).collect())
    }

    pub(super) fn line(&self, offset: u32) -> u32 {
        self.0.partition_point(|&start| start <= offset) as u32
    }
}

/// Maximum number of files with the same name that are distinguished.
const MAX_ALIKE: usize = 16;

/// File, line and column, as in a `.loc` directive.
pub(super) type Place = (u32, u32, u32);

pub(super) struct Locations<'s> {
    files: HashMap<u32, Arc<str>>,
    /// Files by the last component of their paths.
    by_name: HashMap<&'s str, Vec<&'s str>>,
    functions: HashMap<String, Arc<str>>,
    /// Paths to display for the files that comments name.
    of_comments: RefCell<HashMap<&'s str, Arc<str>>>,
    inlined: InlinedCalls,
}

/// A function's body, or its expansion at a call.
pub(super) struct Body {
    /// The `.loc` directives so far, each with its resolved location.
    known: HashMap<Place, Option<Arc<Location>>>,
    /// The name by which the function is called, and the location of the call.
    call: Option<(Arc<str>, Option<Arc<Location>>)>,
}

impl Body {
    pub(super) fn of_entry() -> Self {
        Self { known: HashMap::new(), call: None }
    }

    pub(super) fn of_call(name: &str, place: Option<&Arc<Location>>) -> Self {
        Self { known: HashMap::new(), call: Some((name.into(), place.cloned())) }
    }

    /// Returns the location of the call, which also stands for instructions without a line of their own.
    pub(super) fn called_at(&self) -> Option<Arc<Location>> {
        self.call.as_ref().and_then(|(_, place)| place.clone())
    }
}

impl<'s> Locations<'s> {
    pub(super) fn new(ast: &Ast<'s>) -> Self {
        let files = ast.files.iter().map(|&(index, path)| (index, Arc::from(one_line(path)))).collect();
        let names = ast.strings.iter();
        let functions =
            names.map(|(label, name)| ((*label).to_owned(), Arc::from(one_line(name)))).collect();
        let mut by_name: HashMap<&str, Vec<&str>> = HashMap::new();
        for (_, path) in &ast.files {
            let alike = by_name.entry(last_part(path)).or_default();
            if alike.len() < MAX_ALIKE && !alike.contains(path) {
                alike.push(path);
            }
        }
        let inlined = InlinedCalls::new(ast);
        Self { files, by_name, functions, of_comments: RefCell::default(), inlined }
    }

    /// Returns the location of a directive in a body. Returns `None` for line 0 without inlined calls:
    /// compilers give line 0 to instructions without a source.
    pub(super) fn resolve(&self, place: &SourceLocation<'s>, body: &mut Body) -> Option<Arc<Location>> {
        let at = (place.file, place.line, place.column);
        let outer = match (place.inlined_at, place.comment) {
            (Some(caller), _) => match body.known.get(&caller) {
                Some(known) => known.clone(),
                None => self.innermost(caller, None, None, body),
            },
            (None, Some(comment)) => self.chain(comment, body),
            (None, None) => None,
        };
        let function = place.function.and_then(|label| self.functions.get(label)).cloned();
        let location = match outer {
            Some(_) if place.line == 0 => outer,
            outer => self.innermost(at, function, outer, body),
        };
        body.known.insert(at, location.clone());
        location
    }

    /// Returns the location of the instruction at `offset` in the text, to which `directive` applies.
    /// Adds the inlined calls of the debug information if the directive states none.
    pub(super) fn of_instruction(
        &self,
        directive: Option<&Arc<Location>>,
        offset: u32,
        body: &Body,
    ) -> Option<Arc<Location>> {
        let location = directive?;
        let mut calls = self.inlined.around(offset).peekable();
        if calls.peek().is_none() || location.inlined_at.is_some() && body.call.is_none() {
            return Some(Arc::clone(location));
        }
        let calls: Vec<_> = calls.collect();
        // Builds the chain from the outermost call inward.
        let mut outer = None;
        for (index, call) in calls.iter().enumerate().rev() {
            let function = calls.get(index + 1).and_then(|around| around.function.clone());
            outer = self.innermost(call.at, function, outer, body);
        }
        let (file, at) = (Arc::clone(&location.file), (location.line, location.column));
        Some(joined(file, at, calls[0].function.clone(), outer, body))
    }

    /// Returns a location with its callers; for the outermost function of a body, these are the callers
    /// of the body.
    fn innermost(
        &self,
        (file, line, column): Place,
        function: Option<Arc<str>>,
        outer: Option<Arc<Location>>,
        body: &Body,
    ) -> Option<Arc<Location>> {
        let file = self.files.get(&file).filter(|_| line != 0)?;
        Some(joined(Arc::clone(file), (line, column), function, outer, body))
    }

    /// Returns the chain of calls in a comment such as `src/tree.rs:13:8 @[ src/sum.rs:33:9 @[
    /// src/lib.rs:62:30 ] ]`, without the first location, which the directive states.
    fn chain(&self, comment: &'s str, body: &Body) -> Option<Arc<Location>> {
        let mut chain = None;
        let calls: Vec<&str> = comment.split("@[").skip(1).take(MAX_DEPTH).collect();
        for call in calls.into_iter().rev() {
            let call = call.trim_end_matches(|c: char| c == ']' || c.is_whitespace()).trim_start();
            let mut parts = call.rsplitn(3, ':');
            let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let file = self.file_of_comment(parts.next()?);
            if line != 0 {
                chain = Some(joined(file, (line, column), None, chain, body));
            }
        }
        chain
    }

    /// Returns the file that a comment names relative to the compiler's working directory: the only file
    /// of the module whose path ends with it, or else the path as written.
    fn file_of_comment(&self, path: &'s str) -> Arc<str> {
        let mut known = self.of_comments.borrow_mut();
        let found = known.entry(path).or_insert_with(|| {
            let ends_so = |file: &&&str| {
                let before = file.strip_suffix(path);
                before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
            };
            let mut alike = self.by_name.get(last_part(path)).into_iter().flatten().filter(ends_so);
            match (alike.next(), alike.next()) {
                (Some(only), None) => one_line(only).into(),
                _ => one_line(path).into(),
            }
        });
        Arc::clone(found)
    }
}

fn joined(
    file: Arc<str>,
    (line, column): (u32, u32),
    function: Option<Arc<str>>,
    outer: Option<Arc<Location>>,
    body: &Body,
) -> Arc<Location> {
    let (function, inlined_at) = match (&outer, &body.call) {
        (None, Some((name, call))) => (function.or_else(|| Some(Arc::clone(name))), call.clone()),
        _ => (function, outer),
    };
    let inlined_at = inlined_at.filter(|outer| outer.depth() < MAX_DEPTH);
    Arc::new(Location { file, line, column, function, inlined_at })
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
