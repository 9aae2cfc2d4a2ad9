//! An entry's statements as one list of instructions: scopes resolved, calls of
//! the module's own functions expanded in place.

use crate::ast::{Ast, Function, Instruction, Operand, SourceLocation, Statement, Variable};
use crate::effort::{Effort, INSTRUCTION};
use crate::lexer::Failure;
use crate::memory::Space;

use super::control::{ASSERTION, PRINT};
use super::symbols::{ModuleSymbols, Scopes, SharedVariable, Symbol};

/// Steps for what is no instruction: a label, a scope, a variable.
const STEPS_PER_DECLARATION: u64 = 64;
/// Steps for a shared variable of the module in an entry.
const STEPS_PER_VARIABLE: u64 = 64;
/// Calls within calls, at most.
const MAX_CALL_DEPTH: usize = 64;
/// Bytes of local memory of a thread, at most.
pub(super) const MAX_LOCAL: u64 = 512 << 10;

/// The flattened body of an entry.
#[derive(Debug, Default)]
pub(super) struct Flat<'a, 's> {
    pub(super) items: Vec<Item<'a, 's>>,
    pub(super) scopes: Scopes<'s>,
    /// Index of the item at each label.
    pub(super) labels: Vec<Option<usize>>,
    pub(super) tables: Vec<(usize, &'a [&'s str])>,
    pub(super) shared: Vec<SharedVariable>,
    pub(super) local_bytes: u64,
    pub(super) local_align: u32,
}

/// An instruction in its scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<'a, 's> {
    pub(super) instruction: &'a Instruction<'s>,
    pub(super) scope: usize,
    pub(super) location: Option<SourceLocation<'s>>,
    /// For `ret` of an expanded function, the label behind it.
    pub(super) returns_to: Option<usize>,
}

/// Flattens an entry.
pub(super) fn flatten<'a, 's>(
    ast: &'a Ast<'s>,
    module: &ModuleSymbols<'s>,
    effort: &Effort,
    entry: &'a Function<'s>,
    params: &[u32],
) -> Result<Flat<'a, 's>, Failure> {
    // Each entry has its own places of the module's variables.
    let places = module.shared.len() as u64;
    effort.spend(64 + STEPS_PER_VARIABLE * places).map_err(|message| (entry.offset, message))?;
    let mut flat = Flat { shared: module.shared.clone(), local_align: 1, ..Flat::default() };
    let scope = flat.scopes.open(None);
    for (formal, &offset) in entry.params.iter().zip(params) {
        flat.scopes
            .declare(scope, formal.name, Symbol::Param(offset))
            .map_err(|message| (entry.offset, message))?;
    }
    let mut flattener = Flattener { ast, module, effort, flat, calls: Vec::new() };
    flattener.body(entry, scope, None)?;
    Ok(flattener.flat)
}

struct Flattener<'a, 'm, 's> {
    ast: &'a Ast<'s>,
    module: &'m ModuleSymbols<'s>,
    effort: &'m Effort,
    flat: Flat<'a, 's>,
    /// Functions being expanded, outermost first.
    calls: Vec<&'s str>,
}

impl<'a, 's> Flattener<'a, '_, 's> {
    fn body(
        &mut self,
        function: &'a Function<'s>,
        outer: usize,
        returns_to: Option<usize>,
    ) -> Result<(), Failure> {
        let mut scope = outer;
        let mut location = None;
        for statement in function.body.iter().flatten() {
            self.spend(statement).map_err(|message| (function.offset, message))?;
            match statement {
                Statement::Open => scope = self.flat.scopes.open(Some(scope)),
                Statement::Close => scope = self.flat.scopes.parent(scope).unwrap_or(outer),
                Statement::Label(name, offset) => {
                    let label = self.label(scope, name).map_err(|message| (*offset, message))?;
                    self.flat.labels[label] = Some(self.flat.items.len());
                }
                Statement::Registers { ty, name, count, offset } => {
                    let declared = self.flat.scopes.register(scope, name, *ty, *count);
                    declared.map_err(|message| (*offset, message))?;
                }
                Statement::Variable(variable) => {
                    self.variable(scope, variable).map_err(|m| (variable.offset, m))?;
                }
                Statement::Location(place) => location = Some(*place),
                Statement::Targets { name, labels } => {
                    self.flat.tables.push((scope, labels));
                    let table = Symbol::Targets(self.flat.tables.len() - 1);
                    let declared = self.flat.scopes.declare(scope, name, table);
                    declared.map_err(|message| (function.offset, message))?;
                }
                Statement::Instruction(instruction) if instruction.opcode == "call" => {
                    self.call(instruction, scope, location).map_err(|failure| match failure {
                        Nested::Here(message) => (instruction.span.0, message),
                        Nested::Inside(failure) => failure,
                    })?;
                }
                Statement::Instruction(instruction) => {
                    self.flat.items.push(Item { instruction, scope, location, returns_to });
                }
            }
        }
        Ok(())
    }

    /// Takes the steps for a statement, which comes again with each call of its function, and with it
    /// each name that it declares.
    fn spend(&self, statement: &Statement<'_>) -> Result<(), String> {
        self.effort.spend(match statement {
            Statement::Instruction(Instruction { span: (start, end), .. }) => {
                INSTRUCTION + u64::from(end - start)
            }
            Statement::Label(name, _)
            | Statement::Registers { name, .. }
            | Statement::Targets { name, .. }
            | Statement::Variable(Variable { name, .. }) => STEPS_PER_DECLARATION + name.len() as u64,
            Statement::Open | Statement::Close | Statement::Location(_) => STEPS_PER_DECLARATION,
        })
    }

    fn label(&mut self, scope: usize, name: &'s str) -> Result<usize, String> {
        self.flat.labels.push(None);
        let label = self.flat.labels.len() - 1;
        self.flat.scopes.declare(scope, name, Symbol::Label(label))?;
        Ok(label)
    }

    fn variable(&mut self, scope: usize, variable: &Variable<'s>) -> Result<(), String> {
        let symbol = match variable.space {
            Space::Shared => {
                self.flat.shared.push(SharedVariable::new(variable));
                Symbol::Shared(self.flat.shared.len() - 1)
            }
            // The parameters of a call are memory of the calling thread.
            Space::Local | Space::Param => {
                let align = variable.align.max(1);
                let start = self.flat.local_bytes.next_multiple_of(u64::from(align));
                self.flat.local_bytes = start + variable.bytes;
                self.flat.local_align = self.flat.local_align.max(align);
                if self.flat.local_bytes > MAX_LOCAL {
                    let bytes = self.flat.local_bytes;
                    return Err(format!("local memory of {bytes} bytes, allowed is {MAX_LOCAL}"));
                }
                Symbol::Local(start as u32, variable.bytes)
            }
            space => {
                return Err(format!("variable `{}` in {space} memory within a function", variable.name));
            }
        };
        self.flat.scopes.declare(scope, variable.name, symbol)
    }

    fn call(
        &mut self,
        call: &'a Instruction<'s>,
        scope: usize,
        location: Option<SourceLocation<'s>>,
    ) -> Result<(), Nested> {
        if call.guard.is_some() {
            return Err(Nested::here("a guarded call is not supported"));
        }
        let (results, name, arguments) = call_operands(call)?;
        let function = match self.module.names.get(name) {
            Some(Symbol::Function(index)) => &self.ast.functions[*index],
            _ => {
                return Err(Nested::here(format!(
                    "call of `{name}`, which is no function of the module"
                )));
            }
        };
        if let Some(failure) = &function.broken {
            return Err(Nested::Inside(failure.clone()));
        }
        if function.body.is_none() && function.external && name == ASSERTION {
            self.flat.items.push(Item { instruction: call, scope, location, returns_to: None });
            return Ok(());
        }
        if function.body.is_none() && function.external && name == PRINT {
            let mut is_local = |operand: &Operand<'s>, least: u64| match operand {
                Operand::Name(name, None) => {
                    matches!(self.flat.scopes.find(scope, name), Some(Symbol::Local(_, bytes)) if bytes >= least)
                }
                _ => false,
            };
            let fits = arguments.len() == 2
                && results.len() <= 1
                && arguments.iter().all(|argument| is_local(argument, 8))
                && results.iter().all(|result| is_local(result, 4));
            if !fits {
                return Err(Nested::here(format!("`{PRINT}` takes two `.param` variables of 8 bytes")));
            }
            self.flat.items.push(Item { instruction: call, scope, location, returns_to: None });
            return Ok(());
        }
        if function.body.is_none() {
            let kind = if function.external { "an external function" } else { "a prototype" };
            return Err(Nested::here(format!("call of `{name}`, which is {kind} without a body here")));
        }
        if self.calls.contains(&name) {
            return Err(Nested::here(format!("recursive call of `{name}`, which is not supported")));
        }
        if self.calls.len() == MAX_CALL_DEPTH {
            return Err(Nested::here(format!("calls nest deeper than {MAX_CALL_DEPTH}")));
        }
        let inner = self.flat.scopes.open(None);
        self.bind(scope, inner, function, results, arguments)?;
        self.flat.labels.push(None);
        let behind = self.flat.labels.len() - 1;
        self.calls.push(name);
        self.body(function, inner, Some(behind)).map_err(Nested::Inside)?;
        self.calls.pop();
        self.flat.labels[behind] = Some(self.flat.items.len());
        Ok(())
    }

    /// Makes the formals of a function names of the caller's variables.
    fn bind(
        &mut self,
        scope: usize,
        inner: usize,
        function: &Function<'s>,
        results: &[Operand<'s>],
        arguments: &[Operand<'s>],
    ) -> Result<(), Nested> {
        let pairs = [(&function.returns, results), (&function.params, arguments)];
        for (formals, actuals) in pairs {
            if formals.len() != actuals.len() {
                let (given, wanted) = (actuals.len(), formals.len());
                let name = function.name;
                return Err(Nested::here(format!("call of `{name}` with {given} values for {wanted}")));
            }
            for (formal, actual) in formals.iter().zip(actuals) {
                self.effort.spend(formal.name.len() as u64).map_err(Nested::Here)?;
                let symbol = match actual {
                    Operand::Name(name, None) => self.flat.scopes.find(scope, name),
                    _ => None,
                };
                match symbol {
                    Some(symbol @ Symbol::Local(_, bytes))
                        if !formal.register && bytes >= u64::from(formal.bytes) =>
                    {
                        self.flat.scopes.declare(inner, formal.name, symbol).map_err(Nested::Here)?;
                    }
                    _ => {
                        let (name, bytes) = (formal.name, formal.bytes);
                        return Err(Nested::here(format!(
                            "`{name}` needs a `.param` variable of {bytes} bytes"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A failure of a call itself, or of the expanded body.
pub(super) enum Nested {
    Here(String),
    Inside(Failure),
}

impl Nested {
    fn here(message: impl Into<String>) -> Self {
        Self::Here(message.into())
    }
}

pub(super) type CallOperands<'i, 's> = (&'i [Operand<'s>], &'s str, &'i [Operand<'s>]);

/// Results, name and arguments of a call.
pub(super) fn call_operands<'i, 's>(call: &'i Instruction<'s>) -> Result<CallOperands<'i, 's>, Nested> {
    match call.operands.as_slice() {
        [Operand::Name(name, None)] => Ok((&[], *name, &[])),
        [Operand::Name(name, None), Operand::List(arguments)] => Ok((&[], *name, arguments)),
        [Operand::List(results), Operand::Name(name, None)] => Ok((results, *name, &[])),
        [Operand::List(results), Operand::Name(name, None), Operand::List(arguments)] => {
            Ok((results, *name, arguments))
        }
        _ => Err(Nested::here("only direct calls of named functions are supported")),
    }
}
