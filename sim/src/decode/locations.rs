//! Source lines: of the PTX text itself, and of the source it was compiled from.
//!
//! A `.loc` names the innermost place. Where calls were inlined, nvcc says by `inlined_at` where, by one
//! directive for each call, the caller's own directive first; LLVM has the whole chain in a comment.
//! What is called and not inlined is at the place of the call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::inlined::InlinedCalls;
use crate::ast::{Ast, SourceLocation};
use crate::lexer::one_line;
use crate::location::{Location, MAX_DEPTH};

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

/// Files of one name that are told apart, at most.
const MAX_ALIKE: usize = 16;

/// A place as directives have it: file, line and column.
pub(super) type Place = (u32, u32, u32);

/// The files and names that `.loc` directives refer to.
pub(super) struct Locations<'s> {
    files: HashMap<u32, Arc<str>>,
    /// The files by the last part of their paths.
    by_name: HashMap<&'s str, Vec<&'s str>>,
    functions: HashMap<String, Arc<str>>,
    /// Files of comments, as they are shown.
    of_comments: RefCell<HashMap<&'s str, Arc<str>>>,
    inlined: InlinedCalls,
}

/// A function's body, or what is expanded of it at a call.
pub(super) struct Body {
    /// The places of directives so far, with what called them.
    known: HashMap<Place, Option<Arc<Location>>>,
    /// Where it is called, and the name by which.
    call: Option<(Arc<str>, Option<Arc<Location>>)>,
}

impl Body {
    /// That of an entry.
    pub(super) fn of_entry() -> Self {
        Self { known: HashMap::new(), call: None }
    }

    /// That of a function of this name, called at a place.
    pub(super) fn of_call(name: &str, place: Option<&Arc<Location>>) -> Self {
        Self { known: HashMap::new(), call: Some((name.into(), place.cloned())) }
    }

    /// Where it is called, which is the place of what in it has no line of its own.
    pub(super) fn called_at(&self) -> Option<Arc<Location>> {
        self.call.as_ref().and_then(|(_, place)| place.clone())
    }
}

impl<'s> Locations<'s> {
    pub(super) fn new(ast: &Ast<'s>) -> Self {
        // Names that are shown, one to a line.
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

    /// The location of a directive in a body; none for line 0 alone, which compilers give to
    /// instructions without a source.
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

    /// The location of an instruction at an offset of the text, behind a directive: with the calls that
    /// debug information says it is in, where the directive says nothing of them.
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
        // From the outermost place inward.
        let mut outer = None;
        for (index, call) in calls.iter().enumerate().rev() {
            let function = calls.get(index + 1).and_then(|around| around.function.clone());
            outer = self.innermost(call.at, function, outer, body);
        }
        let (file, at) = (Arc::clone(&location.file), (location.line, location.column));
        Some(joined(file, at, calls[0].function.clone(), outer, body))
    }

    /// A place with what called it; in the outermost function of a body, that is what called the body.
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

    /// The places of a comment such as `src/tree.rs:13:8 @[ src/sum.rs:33:9 @[ src/lib.rs:62:30 ] ]`
    /// behind the first, which is that of its directive.
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

    /// The file that a comment names from the folder that its compiler was run in: the one of the module
    /// that ends so, if there is one and no more.
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

/// A place in front of those that called it.
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
