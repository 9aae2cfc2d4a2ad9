//! The checks that a PTX file must pass before it is accepted.
//!
//! Each rule is about something that compiles and then fails or is slow on the GPU without a diagnostic:
//!
//! - An undefined function stops the driver from loading the file.
//! - The hardware resolves a generic address, one without a state space, at each access.
//!   rustc_codegen_nvvm is known to write generic stores to shared memory with wrong addresses, so the
//!   address of a shared array must not be made generic at all.
//! - A stack frame is memory traffic that the source does not show.
//! - A barrier that the compiler copied into both arms of a branch waits for threads at the other copy.
//! - ptxas allocates an external shared array with a size statically, outside of dynamic shared memory.
//! - The driver rejects instructions and directives that are newer than the target.
//!
//! The PTX may be that of rustc, libNVVM or nvcc.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use warpfold_ptx::{
    Arch,
    syntax::{self, Item, Kind, Malformed, Statement, Token},
};

use crate::{
    divergence::{divergent_barriers, synchronizing},
    needs,
};

/// One reason to reject a PTX file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the PTX file, as passed to [`check()`].
    pub file: String,
    /// The line number in the file.
    pub line: usize,
    /// The enclosing entry or function.
    pub function: Option<String>,
    /// The problem.
    pub problem: String,
    /// The offending text.
    pub text: String,
    /// The source position from `.loc`: file, line, column.
    pub source: Option<(String, u32, u32)>,
    /// The number of further findings of the same kind from the same position in this function.
    pub more: usize,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if let Some(function) = &self.function {
            write!(f, "{function}: ")?;
        }
        write!(f, "{}", self.problem)?;
        if !self.text.is_empty() {
            write!(f, ": `{}`", self.text)?;
        }
        if self.more > 0 {
            write!(f, " and {} more like it", self.more)?;
        }
        match &self.source {
            Some((file, line, column)) => write!(f, " (from {file}:{line}:{column})"),
            None => Ok(()),
        }
    }
}

/// Exceptions to the rules of [`check()`]; none by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowance {
    /// The maximum local memory per thread, in bytes.
    pub local_bytes: u64,
    /// True to accept barriers that not all threads of the block reach.
    pub divergent_barriers: bool,
}

/// Returns all reasons to reject a PTX file; `file` is its name in the findings.
pub fn check(file: &str, source: &str, allowance: Allowance) -> Vec<Finding> {
    let items = match syntax::items(source) {
        Ok(items) => items,
        Err(error) => return vec![unreadable(file, &error)],
    };
    let module = Module::of(file, &items, allowance);
    let mut findings = module.entries(&items);
    for item in &items {
        findings.extend(module.declaration(item));
        findings.extend(merge(module.body(item)));
    }
    findings
}

struct Module<'a> {
    file: &'a str,
    allowance: Allowance,
    defined: HashSet<&'a str>,
    /// Functions that never return, such as panic handlers.
    no_return: HashSet<&'a str>,
    synchronizing: HashSet<&'a str>,
    shared: HashSet<&'a str>,
    target: Option<Arch>,
    sources: HashMap<u32, &'a str>,
}

impl<'a> Module<'a> {
    fn of(file: &'a str, items: &[Item<'a>], allowance: Allowance) -> Self {
        let mut module = Self {
            file,
            allowance,
            defined: HashSet::new(),
            no_return: HashSet::new(),
            synchronizing: synchronizing(items),
            shared: items.iter().flat_map(shared_variables).collect(),
            target: None,
            sources: HashMap::new(),
        };
        for item in items {
            match (&item.kind, item.names.first()) {
                (Kind::Function { body, .. }, Some(name)) => {
                    if body.is_some() {
                        module.defined.insert(name);
                    }
                    if item.tokens.iter().any(|token| token.text == ".noreturn") {
                        module.no_return.insert(name);
                    }
                }
                (Kind::Directive, _) if item.tokens[0].text == ".target" => {
                    module.target = item.tokens.get(1).and_then(|token| token.text.parse().ok());
                }
                (Kind::File(number), _) => {
                    let path = item.tokens.get(2).map_or("", |token| token.text.trim_matches('"'));
                    module.sources.insert(*number, path);
                }
                _ => {}
            }
        }
        module
    }

    fn finding(
        &self,
        line: usize,
        function: Option<&str>,
        problem: impl Into<String>,
        text: String,
    ) -> Finding {
        let function = function.map(demangled);
        Finding {
            file: self.file.to_owned(),
            line,
            function,
            problem: problem.into(),
            text,
            source: None,
            more: 0,
        }
    }

    /// Reports a file without entries, and entries that are not `.visible`.
    fn entries(&self, items: &[Item<'a>]) -> Vec<Finding> {
        let entries =
            || items.iter().filter(|item| matches!(item.kind, Kind::Function { entry: true, .. }));
        if entries().next().is_none() {
            return vec![self.finding(1, None, "no .visible .entry: nothing to launch", String::new())];
        }
        let hidden = entries().filter(|item| !item.has(".visible"));
        let report = |item: &Item<'_>| {
            self.finding(
                item.line(),
                item.names.first().copied(),
                "entry is not .visible, the host cannot launch it",
                head(item),
            )
        };
        hidden.map(report).collect()
    }

    /// Finds names that are declared but not defined, and module-level local memory.
    fn declaration(&self, item: &Item<'a>) -> Option<Finding> {
        let name = item.names.first().copied();
        let problem = match item.kind {
            Kind::Function { body: None, .. } if is_intrinsic(name?) => unknown_intrinsic(name?),
            Kind::Function { .. } if self.too_new_directive(item).is_some() => {
                self.too_new_directive(item)?
            }
            Kind::Function { body: None, .. } if !self.defined.contains(name?) => {
                format!("{} is declared, not defined: the driver will not load this", demangled(name?))
            }
            // The launch provides dynamic shared memory; nothing provides other external variables.
            Kind::Variable if item.has(".extern") && !item.has(".shared") => {
                format!("variable {} is declared, not defined: the driver will not load this", name?)
            }
            Kind::Variable if item.has(".extern") && sized(item).is_some() => {
                sized_external(name?, sized(item)?)
            }
            Kind::Variable if item.has(".local") && self.allowance.local_bytes == 0 => {
                "local memory".to_owned()
            }
            _ => return None,
        };
        Some(self.finding(item.line(), None, problem, head(item)))
    }

    fn body(&self, item: &Item<'a>) -> Vec<Finding> {
        let function = item.names.first().copied();
        let (mut findings, mut source, mut local_bytes) = (Vec::new(), None, 0);
        let (barriers, registers) = (self.barriers(item), registers(item));
        for statement in item.statements() {
            if let Some((file, line, column)) = syntax::location(&statement) {
                // Line 0 marks compiler-generated code.
                let path = self.sources.get(&file).filter(|_| line > 0);
                source = path.map(|path| ((*path).to_owned(), line, column));
                continue;
            }
            local_bytes += local_declaration(&statement);
            let barrier = barriers.get(&statement.tokens.as_ptr()).cloned();
            for problem in self.statement(&statement, local_bytes, &registers).into_iter().chain(barrier)
            {
                let finding =
                    self.finding(statement.line(), function, problem, shown(item, statement.tokens));
                findings.push(Finding { source: source.clone(), ..finding });
            }
        }
        findings
    }

    /// Returns the problem of each rejected barrier, keyed by the first token of its statement.
    fn barriers<'t>(&self, item: &'t Item<'a>) -> HashMap<*const Token<'a>, String> {
        if self.allowance.divergent_barriers {
            return HashMap::new();
        }
        let divergent = divergent_barriers(item, &self.synchronizing).into_iter();
        divergent
            .map(|found| {
                let problem = format!(
                    "barrier in divergent flow: line {} selects the threads that reach it",
                    found.decided
                );
                (found.barrier.tokens.as_ptr(), problem)
            })
            .collect()
    }

    /// Returns the problem with a statement, if any. `registers` counts how often each register is named
    /// in the function.
    fn statement(
        &self,
        statement: &Statement<'_, 'a>,
        local_bytes: u64,
        registers: &HashMap<&'a str, usize>,
    ) -> Option<String> {
        if let Some(arch) = needs::of_instruction(statement).filter(|arch| self.lacks(*arch)) {
            return Some(self.too_new(statement.opcode(), arch));
        }
        if let Some(name) = statement.tokens.iter().find(|token| is_intrinsic(token.text)) {
            return Some(unknown_intrinsic(name.text));
        }
        if lacks_operand(statement.tokens) {
            return Some("an operand is missing".to_owned());
        }
        let mut modifiers = statement.opcode().split('.');
        match modifiers.next()? {
            "call" => self.call(statement),
            // A directive begins with a dot, so its part before the first dot is empty.
            "" if local_declaration(statement) > 0 && local_bytes > self.allowance.local_bytes => Some(
                format!("stack frame of {local_bytes} bytes, {} allowed", self.allowance.local_bytes),
            ),
            "ld" | "ldu" | "st" | "atom" | "red" | "prefetch" | "prefetchu" => {
                match modifiers.find_map(state_space) {
                    None => Some("access without a state space".to_owned()),
                    Some("local") if self.allowance.local_bytes == 0 => {
                        Some("access to local memory".to_owned())
                    }
                    Some(_) => None,
                }
            }
            "cvta" if modifiers.clone().any(|modifier| state_space(modifier) == Some("shared")) => {
                Some("conversion between a shared and a generic address".to_owned())
            }
            // A shared array is accessed by a 32-bit address; a 64-bit one is generic.
            "mov" if modifiers.next_back().is_some_and(|width| width.ends_with("64")) => {
                let symbol =
                    statement.tokens[1..].iter().find(|token| self.shared.contains(token.text))?;
                // With rust-cuda, kernels keep an array alive by an operand that is named only in a
                // comment of inline asm. Its register is never read.
                let read = registers.get(statement.tokens[1].text) != Some(&1);
                read.then(|| format!("address of {} in 64 bits, which makes it generic", symbol.text))
            }
            _ => None,
        }
    }

    fn lacks(&self, arch: Arch) -> bool {
        self.target.is_some_and(|target| !target.has(arch))
    }

    fn too_new(&self, what: &str, arch: Arch) -> String {
        let target = self.target.map(|target| target.to_string()).unwrap_or_default();
        format!("{what} needs {arch}, and the target is {target}")
    }

    fn too_new_directive(&self, item: &Item<'_>) -> Option<String> {
        let head = item.tokens.iter().take_while(|token| token.text != "{");
        let new = |token: &Token<'_>| Some((needs::of_directive(token.text)?, token.text.to_owned()));
        let (arch, directive) = head.filter_map(new).find(|(arch, _)| self.lacks(*arch))?;
        Some(self.too_new(&directive, arch))
    }

    fn call(&self, statement: &Statement<'_, 'a>) -> Option<String> {
        let callee = callee(statement.tokens)?;
        let name = demangled(callee);
        if callee.starts_with('%') {
            Some("call through a register".to_owned())
        } else if self.no_return.contains(callee) || is_panic(&name) {
            Some(format!("call of {name}: a panic remains"))
        } else if !self.defined.contains(callee) {
            Some(format!("call of {name}, which this file does not define"))
        } else {
            None
        }
    }
}

fn shared_variables<'a>(item: &Item<'a>) -> Vec<&'a str> {
    if item.kind == Kind::Variable && item.has(".shared") {
        return item.names.clone();
    }
    let declarations = item.statements().filter(|statement| statement.opcode() == ".shared");
    let name = |statement: Statement<'_, 'a>| {
        statement.tokens.iter().find(|token| token.is_name()).map(|token| token.text)
    };
    declarations.filter_map(name).collect()
}

fn sized(item: &Item<'_>) -> Option<u64> {
    let texts = item.tokens.iter().map(|token| token.text);
    texts.skip_while(|text| *text != "[").find_map(|text| text.parse().ok())
}

fn sized_external(name: &str, elements: u64) -> String {
    format!(
        "external shared array {name} has a size, {elements}: ptxas then ignores .extern, and the \
         launch's memory overlaps static arrays; declare {name}[]"
    )
}

/// Returns whether a function is an LLVM intrinsic. LLVM's NVPTX back end writes `llvm_` for `llvm.`.
fn is_intrinsic(name: &str) -> bool {
    name.starts_with("llvm.") || name.starts_with("llvm_")
}

fn unknown_intrinsic(name: &str) -> String {
    format!("the intrinsic {name} remains, because the code generator does not support it")
}

/// Returns whether an operand is missing after a comma: code generators leave out an operand that they
/// cannot write.
fn lacks_operand(tokens: &[Token<'_>]) -> bool {
    let ends = |token: Option<&Token<'_>>| token.is_none_or(|token| matches!(token.text, "," | ";"));
    (0..tokens.len()).any(|at| tokens[at].text == "," && ends(tokens.get(at + 1)))
}

fn registers<'a>(item: &Item<'a>) -> HashMap<&'a str, usize> {
    let mut registers = HashMap::new();
    for token in item.tokens.iter().filter(|token| token.text.starts_with('%')) {
        *registers.entry(token.text).or_default() += 1;
    }
    registers
}

fn state_space(modifier: &str) -> Option<&'static str> {
    // `shared::cluster` counts as `shared`.
    let space = modifier.split("::").next()?;
    ["global", "shared", "local", "param", "const"].into_iter().find(|known| *known == space)
}

/// Returns the bytes of a `.local` declaration in a body; 0 for anything else.
fn local_declaration(statement: &Statement<'_, '_>) -> u64 {
    if statement.opcode() != ".local" {
        return 0;
    }
    let texts = || statement.tokens.iter().map(|token| token.text);
    let bits = |text: &str| text.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().ok();
    let element = |text: &str| {
        let is_type = text.starts_with(".b")
            || text.starts_with(".u")
            || text.starts_with(".s")
            || text.starts_with(".f");
        bits(text).filter(|_| is_type).map(|bits| bits.div_ceil(8))
    };
    let lanes = texts().find_map(|text| text.strip_prefix(".v")?.parse::<u64>().ok()).unwrap_or(1);
    let sizes = texts().skip_while(|text| *text != "[").filter_map(|text| text.parse::<u64>().ok());
    // A declaration that cannot be parsed still counts as one byte.
    (texts().find_map(element).unwrap_or(1) * lanes * sizes.product::<u64>()).max(1)
}

fn callee<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let operands = &tokens[1..];
    let after_results = match operands.first()?.text {
        "(" => operands.iter().position(|token| token.text == ")")? + 1,
        _ => 0,
    };
    operands[after_results..].iter().find(|token| token.is_name()).map(|token| token.text)
}

fn is_panic(name: &str) -> bool {
    ["panic", "unwrap_failed", "expect_failed", "begin_unwind", "slice_index_fail", "assertfail"]
        .iter()
        .any(|part| name.contains(part))
}

fn demangled(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

fn head(item: &Item<'_>) -> String {
    let ends = |token: &Token<'_>| matches!(token.text, "{" | ";");
    let end = item.tokens.iter().position(ends).unwrap_or(item.tokens.len());
    shown(item, &item.tokens[..end])
}

fn shown<'a>(item: &Item<'a>, tokens: &[Token<'a>]) -> String {
    let text = item.written(tokens);
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Merges findings by kind and source position, because one line of Rust can be many instructions.
fn merge(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        let alike =
            |other: &&mut Finding| other.problem == finding.problem && other.source == finding.source;
        match merged.iter_mut().find(alike) {
            Some(first) => first.more += 1,
            None => merged.push(finding),
        }
    }
    merged
}

fn unreadable(file: &str, error: &Malformed) -> Finding {
    let problem = format!("not PTX: {error}");
    Finding {
        file: file.to_owned(),
        line: 1,
        function: None,
        problem,
        text: String::new(),
        source: None,
        more: 0,
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
