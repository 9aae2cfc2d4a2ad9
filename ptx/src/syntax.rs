//! The structure of PTX text: top-level items, and the statements of functions.
//!
//! Only the grammar that separates items and statements is parsed, so unknown instructions are accepted.
//!
//! ```
//! use warpfold_ptx::syntax::{Kind, items};
//!
//! let ptx = ".version 7.8\n.visible .entry fill(.param .u64 output)\n{ ret; }";
//! let items = items(ptx)?;
//! assert!(matches!(items[1].kind, Kind::Function { entry: true, .. }));
//! assert_eq!(items[1].names, ["fill"]);
//! assert_eq!(items[1].statements().next().unwrap().opcode(), "ret");
//! # Ok::<(), warpfold_ptx::syntax::Malformed>(())
//! ```

use std::{
    error::Error,
    fmt, iter,
    ops::{Deref, Range},
};

use crate::{Word, words};

/// The error for PTX whose structure cannot be read: an unbalanced bracket or an unclosed comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl Error for Malformed {}

/// A word, a string, or one character of punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    word: Word<'a>,
    /// Line on which the token starts, from 1.
    pub line: usize,
}

impl<'a> Deref for Token<'a> {
    type Target = Word<'a>;

    fn deref(&self) -> &Word<'a> {
        &self.word
    }
}

/// Kinds of top-level items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `.version`, `.target`, `.address_size`, `.pragma`: applies to the whole module.
    Directive,
    /// `.file`, with its number.
    File(u32),
    /// A section of debug information.
    Section,
    /// A variable of the module.
    Variable,
    /// `.entry` or `.func`.
    Function {
        /// Set for an `.entry`, which the host can launch.
        entry: bool,
        /// Range of the body's tokens, without the braces.
        body: Option<Range<usize>>,
    },
}

/// A top-level item.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// Kind of the item.
    pub kind: Kind,
    /// Names that the item defines or declares; for a section, its labels.
    pub names: Vec<&'a str>,
    /// All tokens of the item.
    pub tokens: Vec<Token<'a>>,
    /// Source text, from the first token to the last.
    pub text: &'a str,
}

impl<'a> Item<'a> {
    /// Returns whether a directive such as `.visible` precedes the item's name.
    pub fn has(&self, directive: &str) -> bool {
        let name = self.names.first().copied().unwrap_or_default();
        self.tokens.iter().take_while(|token| token.text != name).any(|token| token.text == directive)
    }

    /// Returns the line of the first token.
    pub fn line(&self) -> usize {
        self.tokens.first().map_or(0, |token| token.line)
    }

    /// Returns the source text of a slice of the item's tokens, joined to one line.
    pub fn written(&self, tokens: &[Token<'a>]) -> String {
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return String::new();
        };
        let before = self.tokens[0].start;
        let text = &self.text[first.start - before..last.end() - before];
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the statements of a function's body.
    pub fn statements(&self) -> impl Iterator<Item = Statement<'_, 'a>> {
        self.steps().filter_map(|step| match step {
            Step::Statement(statement) => Some(statement),
            _ => None,
        })
    }

    /// Returns all parts of a function's body, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_, 'a>> {
        let body = match &self.kind {
            Kind::Function { body: Some(body), .. } => &self.tokens[body.clone()],
            _ => &[],
        };
        let mut rest = body;
        iter::from_fn(move || {
            let (step, after) = next_step(rest)?;
            rest = after;
            Some(step)
        })
    }
}

/// A part of a function's body.
#[derive(Debug, Clone, Copy)]
pub enum Step<'t, 'a> {
    /// An opening brace, which begins a scope of labels and registers.
    Open,
    /// A closing brace.
    Close,
    /// A label, which applies to the next statement.
    Label(&'a str),
    /// An instruction or directive.
    Statement(Statement<'t, 'a>),
}

/// An instruction's predicate, as in `@!%p1 ret`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard<'a> {
    /// The predicate register.
    pub register: &'a str,
    /// Set if the instruction is executed when the predicate is false.
    pub negated: bool,
}

/// An instruction or directive in a function's body, without semicolon.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'t, 'a> {
    /// The predicate.
    pub guard: Option<Guard<'a>>,
    /// The opcode or directive, then its operands; never empty.
    pub tokens: &'t [Token<'a>],
}

impl<'a> Statement<'_, 'a> {
    /// Returns the opcode with its modifiers, or the directive.
    pub fn opcode(&self) -> &'a str {
        self.tokens[0].text
    }

    /// Returns the line of the first token.
    pub fn line(&self) -> usize {
        self.tokens[0].line
    }
}

/// Returns the source position of a `.loc` directive: file number, line, column.
pub fn location(statement: &Statement<'_, '_>) -> Option<(u32, u32, u32)> {
    let number = |at: usize| statement.tokens.get(at)?.text.parse().ok();
    (statement.opcode() == ".loc").then_some(())?;
    Some((number(1)?, number(2)?, number(3)?))
}

/// Returns the file numbers in a `.loc` directive: that of the location, and that of an inlined call.
pub fn location_files<'s>(statement: &'s Statement<'_, '_>) -> impl Iterator<Item = u32> + 's {
    let is_loc = statement.opcode() == ".loc";
    let after_keyword = |token: &Token<'_>| matches!(token.text, ".loc" | "inlined_at");
    let pairs = statement.tokens.windows(2).filter(move |pair| is_loc && after_keyword(&pair[0]));
    pairs.filter_map(|pair| pair[1].text.parse().ok())
}

/// Returns the top-level items of a PTX file, in order.
///
/// # Errors
/// Returns an error for an unbalanced bracket, and for a comment or string without end.
pub fn items(source: &str) -> Result<Vec<Item<'_>>, Malformed> {
    let tokens = tokens(source)?;
    let mut rest = tokens.as_slice();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = rest.split_at(item_length(rest)?);
        items.push(read_item(source, item));
        rest = after;
    }
    Ok(items)
}

fn tokens(source: &str) -> Result<Vec<Token<'_>>, Malformed> {
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    let mut line_of = |start: usize| {
        line += source.as_bytes()[at..start].iter().filter(|byte| **byte == b'\n').count();
        at = start;
        line
    };
    for word in words(source) {
        let word = word.map_err(|endless| Malformed {
            line: line_of(endless.start),
            problem: endless.to_string(),
        })?;
        tokens.push(Token { word, line: line_of(word.start) });
    }
    Ok(tokens)
}

fn line_length(tokens: &[Token<'_>]) -> usize {
    tokens.iter().take_while(|token| token.line == tokens[0].line).count()
}

fn item_length(tokens: &[Token<'_>]) -> Result<usize, Malformed> {
    if matches!(tokens[0].text, ".version" | ".target" | ".address_size" | ".file") {
        return Ok(line_length(tokens));
    }
    // A closing brace ends a function or section, but not a variable, whose initializer may have braces.
    let braces_end = kind_word(tokens).is_some();
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth == 0 => {
                return Err(malformed(token, "has no opening bracket"));
            }
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && (token.text == ";" || braces_end && token.text == "}") {
            return Ok(at + 1);
        }
    }
    Err(malformed(&tokens[0], "has no end"))
}

fn malformed(token: &Token<'_>, problem: &str) -> Malformed {
    Malformed { line: token.line, problem: format!("{} {problem}", token.text) }
}

fn kind_word<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let linkage =
        |token: &&Token<'_>| matches!(token.text, ".visible" | ".extern" | ".weak" | ".common");
    let first = tokens.iter().find(|token| !linkage(token))?.text;
    matches!(first, ".entry" | ".func" | ".section").then_some(first)
}

fn read_item<'a>(source: &'a str, tokens: &[Token<'a>]) -> Item<'a> {
    let number = || tokens.get(1).and_then(|token| token.text.parse().ok()).unwrap_or(0);
    let (kind, names) = match (tokens[0].text, kind_word(tokens)) {
        (".version" | ".target" | ".address_size" | ".pragma", _) => (Kind::Directive, Vec::new()),
        (".file", _) => (Kind::File(number()), Vec::new()),
        (_, Some(".section")) => (Kind::Section, labels(tokens)),
        (_, Some(word)) => {
            let body = body(tokens);
            let name = function_name(tokens).into_iter().collect();
            (Kind::Function { entry: word == ".entry", body }, name)
        }
        (_, None) => (Kind::Variable, variable_names(tokens)),
    };
    let text = &source[tokens[0].start..tokens[tokens.len() - 1].end()];
    Item { kind, names, tokens: tokens.to_vec(), text }
}

fn labels<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let pairs = tokens.windows(2).filter(|pair| pair[0].is_name() && pair[1].text == ":");
    pairs.map(|pair| pair[0].text).collect()
}

fn body(tokens: &[Token<'_>]) -> Option<Range<usize>> {
    let open = tokens.iter().position(|token| token.text == "{")?;
    Some(open + 1..tokens.len() - 1)
}

/// Returns the first name outside parentheses, which enclose the return values.
fn function_name<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    names_outside(tokens, "(", ")").next()
}

/// Returns the names before an initializer, except those in `[sizes]` and `.attribute(...)`.
fn variable_names<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let declared = tokens.split(|token| token.text == "=").next().unwrap_or_default();
    names_outside(declared, "([", ")]").collect()
}

fn names_outside<'t, 'a>(
    tokens: &'t [Token<'a>],
    open: &'static str,
    close: &'static str,
) -> impl Iterator<Item = &'a str> + use<'t, 'a> {
    let mut depth = 0_usize;
    tokens.iter().filter_map(move |token| {
        if open.contains(token.text) {
            depth += 1;
        } else if close.contains(token.text) {
            depth = depth.saturating_sub(1);
        }
        (depth == 0 && token.is_name()).then_some(token.text)
    })
}

fn next_step<'t, 'a>(mut rest: &'t [Token<'a>]) -> Option<(Step<'t, 'a>, &'t [Token<'a>])> {
    while rest.first()?.text == ";" {
        rest = &rest[1..];
    }
    let is = |at: usize, text: &str| rest.get(at).is_some_and(|token: &Token<'_>| token.text == text);
    match rest[0].text {
        "{" => return Some((Step::Open, &rest[1..])),
        "}" => return Some((Step::Close, &rest[1..])),
        label if is(1, ":") => return Some((Step::Label(label), &rest[2..])),
        _ => {}
    }
    let mut guard = None;
    if is(0, "@") {
        let negated = is(1, "!");
        let at = if negated { 2 } else { 1 };
        guard = Some(Guard { register: rest.get(at)?.text, negated });
        rest = rest.get(at + 1..)?;
    }
    let by_line = matches!(rest.first()?.text, ".loc" | ".file");
    let semicolon = || rest.iter().position(|token| token.text == ";").unwrap_or(rest.len());
    let length = if by_line { line_length(rest) } else { semicolon() };
    let (tokens, after) = rest.split_at(length);
    Some((Step::Statement(Statement { guard, tokens }), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_line_that_it_starts_on() {
        let lines = |source| tokens(source).unwrap().iter().map(|token| token.line).collect::<Vec<_>>();
        assert_eq!(lines("a b\n/* c\nd */ e \"f\" g\nh"), [1, 1, 3, 3, 3, 4]);
    }

    #[test]
    fn unclosed_brackets_are_errors_with_lines() {
        for (source, message) in [
            ("\n/* a", "line 2: comment without end"),
            ("\"a", "line 1: string without end"),
            ("\n\n.entry f() { ret;", "line 3: .entry has no end"),
            (".shared .b32 a", "line 1: .shared has no end"),
            ("}", "line 1: } has no opening bracket"),
        ] {
            assert_eq!(items(source).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn items_list_the_names_they_define() {
        let source = r#"
.version 8.0
.target sm_90, debug
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .global .attribute(.managed) .align 4 .b8 table[4] = {1, 2, other};
.global .u32 a, b;
.extern .func (.param .b32 result) callee(.param .b64 x) ;
.visible .entry kernel(.param .u64 p)
.maxntid 256, 1, 1
{ { ret; } }
.section .debug_str
{
$L__info_string0:
.b8 95,90
}
.file 3 "a;b.rs", 12, 34
"#;
        let items = items(source).unwrap();
        let names: Vec<_> = items.iter().map(|item| item.names.join(" ")).collect();
        assert_eq!(
            names,
            ["", "", "", "dynamic", "table", "a b", "callee", "kernel", "$L__info_string0", ""]
        );
        assert!(items[4].has(".visible") && !items[3].has(".visible"));
        assert_eq!(items[6].kind, Kind::Function { entry: false, body: None });
        assert!(matches!(items[7].kind, Kind::Function { entry: true, body: Some(_) }));
        assert_eq!(items[9].kind, Kind::File(3));
        assert_eq!(items[9].text, ".file 3 \"a;b.rs\", 12, 34");
    }

    #[test]
    fn statements_exclude_labels_guards_and_scopes() {
        let source = ".entry f()\n{\n.loc 2 7 1, function_name $L1, inlined_at 3 8 2\n$L0:\n@!%p1 bra $L0;\n{ // callseq\n call.uni (r), g, (p); }\nmov.b64 {%r1, %r2}, %rd1;\n}";
        let items = items(source).unwrap();
        let statements: Vec<_> = items[0].statements().collect();
        let opcodes: Vec<_> = statements.iter().map(Statement::opcode).collect();
        assert_eq!(opcodes, [".loc", "bra", "call.uni", "mov.b64"]);
        assert_eq!(location(&statements[0]), Some((2, 7, 1)));
        assert_eq!(location_files(&statements[0]).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(location_files(&statements[1]).count(), 0);
        assert_eq!(statements[3].line(), 8);
        let guards: Vec<_> = statements.iter().map(|statement| statement.guard).collect();
        assert_eq!(guards[1], Some(Guard { register: "%p1", negated: true }));
        assert_eq!((guards[0], guards[2]), (None, None));
        let steps: Vec<_> = items[0].steps().collect();
        assert!(matches!(steps[1], Step::Label("$L0")));
        assert!(matches!(steps[3], Step::Open) && matches!(steps[5], Step::Close));
    }
}
