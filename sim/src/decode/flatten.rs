//! Flattens the statements of an entry to one list of instructions: resolves scopes, and expands calls
//! of the module's own functions in place where possible.

use std::sync::Arc;

use crate::ast::{Ast, Function, Instruction, Prototype, Statement, Variable};
use crate::effort::{Effort, INSTRUCTION};
use crate::lexer::Failure;
use crate::location::Location;
use crate::memory::Space;
use crate::program::MAX_LOCAL;

use super::call::{Nested, Outlined, Site};
use super::locations::{Body, Locations};
use super::symbols::{ModuleSymbols, Scopes, SharedVariable, Symbol};

const STEPS_PER_DECLARATION: u64 = 64;
/// Steps of [`Effort`] that each entry spends for each of the module's shared variables.
const STEPS_PER_VARIABLE: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct Flat<'a, 's> {
    pub(super) items: Vec<Item<'a, 's>>,
    pub(super) scopes: Scopes<'s>,
    /// Index in `items` of the target of each label; `None` until the label is reached.
    pub(super) labels: Vec<Option<usize>>,
    pub(super) tables: Vec<(usize, &'a [&'s str])>,
    pub(super) prototypes: Vec<&'a Prototype<'s>>,
    pub(super) call_targets: Vec<&'a [&'s str]>,
    pub(super) shared: Vec<SharedVariable>,
    /// Local memory of the entry and of the functions expanded in it.
    pub(super) local: Layout,
    /// Calls that are not expanded in place; `outlined` has their possible callees.
    pub(super) sites: Vec<Site<'s>>,
    pub(super) outlined: Vec<Outlined>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) bytes: u64,
    pub(super) align: u32,
}

impl Default for Layout {
    fn default() -> Self {
        Self { bytes: 0, align: 1 }
    }
}

impl Layout {
    /// Appends a variable and returns its offset; fails if local memory is exhausted.
    pub(super) fn add(&mut self, bytes: u64, align: u32) -> Result<u32, String> {
        let start = self.bytes.next_multiple_of(u64::from(align.max(1)));
        self.bytes = start + bytes;
        self.align = self.align.max(align);
        if self.bytes > MAX_LOCAL {
            let bytes = self.bytes;
            return Err(format!("local memory of {bytes} bytes, allowed is {MAX_LOCAL}"));
        }
        Ok(start as u32)
    }

    /// Returns the size, rounded up to the alignment.
    pub(super) fn size(&self) -> u32 {
        self.bytes.next_multiple_of(self.align.into()) as u32
    }
}

#[derive(Debug, Clone)]
pub(super) struct Item<'a, 's> {
    pub(super) instruction: &'a Instruction<'s>,
    pub(super) scope: usize,
    pub(super) location: Option<Arc<Location>>,
    pub(super) returns: Returns,
    /// Index in `sites`, if the item is a call that is not expanded in place.
    pub(super) site: Option<u32>,
    /// Byte offset to report in errors, for an instruction that is not in the text.
    pub(super) added: Option<u32>,
}

/// The target of a `ret`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returns {
    Exit,
    /// Jumps to the label after an expanded function.
    To(usize),
    Caller,
}

static END: Instruction<'static> = Instruction {
    guard: None,
    opcode: "ret",
    modifiers: Vec::new(),
    operands: Vec::new(),
    span: (0, 0),
};

pub(super) fn flatten<'a, 's>(
    ast: &'a Ast<'s>,
    module: &ModuleSymbols<'s>,
    locations: &Locations<'s>,
    effort: &Effort,
    entry: &'a Function<'s>,
    params: &[u32],
) -> Result<Flat<'a, 's>, Failure> {
    // Each entry places the module's shared variables anew.
    let places = module.shared.len() as u64;
    effort.spend(64 + STEPS_PER_VARIABLE * places).map_err(|message| (entry.offset, message))?;
    let mut flat = Flat { shared: module.shared.clone(), ..Flat::default() };
    let scope = flat.scopes.open(None);
    for (formal, &offset) in entry.params.iter().zip(params) {
        flat.scopes
            .declare(scope, formal.name, Symbol::Param(offset))
            .map_err(|message| (entry.offset, message))?;
    }
    let local = Layout::default();
    let calls = Vec::new();
    let mut flattener = Flattener { ast, module, locations, effort, flat, calls, inside: None, local };
    flattener.body(entry, scope, Returns::Exit, Body::of_entry())?;
    flattener.flat.local = flattener.local;
    flattener.outline(entry)?;
    Ok(flattener.flat)
}

pub(super) struct Flattener<'a, 'm, 's> {
    pub(super) ast: &'a Ast<'s>,
    pub(super) module: &'m ModuleSymbols<'s>,
    pub(super) locations: &'m Locations<'s>,
    pub(super) effort: &'m Effort,
    pub(super) flat: Flat<'a, 's>,
    /// Functions being expanded, outermost first.
    pub(super) calls: Vec<&'s str>,
    /// The index in `flat.outlined` of the function that is being flattened; `None` for the entry.
    /// `local` is that function's local memory.
    pub(super) inside: Option<u32>,
    pub(super) local: Layout,
}

impl<'a, 's> Flattener<'a, '_, 's> {
    pub(super) fn body(
        &mut self,
        function: &'a Function<'s>,
        outer: usize,
        returns: Returns,
        mut places: Body,
    ) -> Result<(), Failure> {
        let mut scope = outer;
        let mut location = places.called_at();
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
                Statement::Location(place) => location = self.locations.resolve(place, &mut places),
                Statement::Targets { name, labels } => {
                    self.flat.tables.push((scope, labels));
                    let table = Symbol::Targets(self.flat.tables.len() - 1);
                    let declared = self.flat.scopes.declare(scope, name, table);
                    declared.map_err(|message| (function.offset, message))?;
                }
                Statement::Prototype(prototype) => {
                    self.flat.prototypes.push(prototype);
                    let symbol = Symbol::Prototype(self.flat.prototypes.len() - 1);
                    let declared = self.flat.scopes.declare(scope, prototype.name, symbol);
                    declared.map_err(|message| (function.offset, message))?;
                }
                Statement::CallTargets { name, functions } => {
                    self.flat.call_targets.push(functions);
                    let symbol = Symbol::CallTargets(self.flat.call_targets.len() - 1);
                    let declared = self.flat.scopes.declare(scope, name, symbol);
                    declared.map_err(|message| (function.offset, message))?;
                }
                Statement::Instruction(instruction) => {
                    let offset = instruction.span.0;
                    let location = self.locations.of_instruction(location.as_ref(), offset, &places);
                    self.instruction(self.item(instruction, scope, location, returns))?;
                }
            }
        }
        Ok(())
    }

    fn instruction(&mut self, item: Item<'a, 's>) -> Result<(), Failure> {
        if item.instruction.opcode != "call" {
            self.flat.items.push(item);
            return Ok(());
        }
        let offset = item.instruction.span.0;
        self.call(item).map_err(|failure| match failure {
            Nested::Here(message) => (offset, message),
            Nested::Inside(failure) => failure,
        })
    }

    fn item(
        &self,
        instruction: &'a Instruction<'s>,
        scope: usize,
        location: Option<Arc<Location>>,
        returns: Returns,
    ) -> Item<'a, 's> {
        Item { instruction, scope, location, returns, site: None, added: None }
    }

    /// Adds the `ret` that is implied at the end of a function.
    pub(super) fn end(&mut self, function: &Function<'s>, returns: Returns) {
        let item = self.item(&END, 0, None, returns);
        self.flat.items.push(Item { added: Some(function.offset), ..item });
    }

    /// Spends the steps of [`Effort`] for a statement and the names that it declares, once for each
    /// expansion of the function.
    fn spend(&self, statement: &Statement<'_>) -> Result<(), String> {
        self.effort.spend(match statement {
            Statement::Instruction(Instruction { span: (start, end), .. }) => {
                INSTRUCTION + u64::from(end - start)
            }
            Statement::Label(name, _)
            | Statement::Registers { name, .. }
            | Statement::Targets { name, .. }
            | Statement::CallTargets { name, .. }
            | Statement::Prototype(Prototype { name, .. })
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
            // The parameters of a call are stored in the caller's local memory.
            Space::Local | Space::Param => self.local_variable(variable.bytes, variable.align)?,
            space => {
                return Err(format!(
                    "variable `{}` in {space} memory cannot be declared within a function",
                    variable.name
                ));
            }
        };
        self.flat.scopes.declare(scope, variable.name, symbol)
    }

    pub(super) fn local_variable(&mut self, bytes: u64, align: u32) -> Result<Symbol, String> {
        let offset = self.local.add(bytes, align)?;
        Ok(match self.inside {
            None => Symbol::Local(offset, bytes),
            Some(_) => Symbol::Frame(offset, bytes),
        })
    }
}
