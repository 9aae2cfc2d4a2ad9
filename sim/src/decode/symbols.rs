//! Names: module variables with their addresses, and scopes of functions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::ast::{Ast, Operand, Statement, Type, Variable};
use crate::lexer::{Failure, one_line};
use crate::memory::{Space, code_address, window};
use crate::module::{ConstVariable, GlobalVariable, Image, PatchTarget, patches};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Symbol {
    Register(Type, u32),
    /// Index of a `.shared` variable; its address depends on which of these variables are used.
    Shared(usize),
    /// Offset in the thread's local memory, and size in bytes.
    Local(u32, u64),
    /// Offset in the stack frame of a function that is not expanded in place, and size in bytes.
    Frame(u32, u64),
    Const(u64),
    Global(u32),
    Param(u32),
    Label(usize),
    Targets(usize),
    Prototype(usize),
    CallTargets(usize),
    Function(usize),
}

#[derive(Debug, Clone)]
pub(super) struct SharedVariable {
    pub(super) name: Arc<str>,
    pub(super) bytes: u64,
    pub(super) align: u32,
    /// Set for an array at the start of dynamic shared memory, after the static variables.
    pub(super) dynamic: bool,
    /// `.extern` with a size: ptxas ignores the `.extern`, and so does the simulator.
    pub(super) sized_external: bool,
}

impl SharedVariable {
    pub(super) fn new(variable: &Variable<'_>) -> Self {
        let Variable { bytes, align, external, .. } = *variable;
        let (dynamic, sized_external) = (external && bytes == 0, external && bytes > 0);
        Self { name: one_line(variable.name).into(), bytes, align, dynamic, sized_external }
    }
}

#[derive(Debug, Default)]
pub(super) struct ModuleSymbols<'s> {
    pub(super) names: HashMap<&'s str, Symbol>,
    pub(super) shared: Vec<SharedVariable>,
    /// Functions whose address is taken, in the order of the text.
    pub(super) addressed: Vec<usize>,
}

pub(super) fn collect<'s>(ast: &Ast<'s>) -> Result<(ModuleSymbols<'s>, Image), Failure> {
    let mut symbols = ModuleSymbols::default();
    let mut image = Image::default();
    for (index, function) in ast.functions.iter().enumerate() {
        // A declaration may precede the definition, which then replaces it.
        if function.body.is_some() || !symbols.names.contains_key(function.name) {
            symbols.names.insert(function.name, Symbol::Function(index));
        }
    }
    let defined: HashMap<&str, &Variable<'_>> = ast
        .variables
        .iter()
        .rev()
        .filter(|variable| !variable.external)
        .map(|variable| (variable.name, variable))
        .collect();
    for variable in &ast.variables {
        if defined.get(variable.name).is_some_and(|other| is_again(variable, other)) {
            continue;
        }
        let symbol =
            place(variable, &mut symbols, &mut image).map_err(|message| (variable.offset, message))?;
        if symbols.names.insert(variable.name, symbol).is_some() {
            return Err((variable.offset, format!("`{}` is declared twice", variable.name)));
        }
    }
    symbols.addressed = addressed(ast, &symbols);
    Ok((symbols, image))
}

/// Returns whether a declaration merely repeats the first definition of its name, as in linked texts.
fn is_again(variable: &Variable<'_>, first: &Variable<'_>) -> bool {
    let alike = variable.space == first.space && variable.bytes == first.bytes;
    let later = variable.offset != first.offset;
    later && alike && (variable.external || variable.weak && first.weak)
}

/// Returns the functions with a body whose address is taken: by an instruction other than a direct call,
/// or in the initial value of a variable. Returns none if no function is called by address.
fn addressed(ast: &Ast<'_>, symbols: &ModuleSymbols<'_>) -> Vec<usize> {
    let statements = || ast.functions.iter().filter_map(|function| function.body.as_ref()).flatten();
    let by_address = |statement: &Statement<'_>| {
        matches!(statement, Statement::Prototype(_) | Statement::CallTargets { .. })
    };
    if !statements().any(by_address) {
        return Vec::new();
    }
    let taken = statements().filter_map(|statement| match statement {
        Statement::Instruction(instruction) if instruction.opcode != "call" => Some(instruction),
        _ => None,
    });
    let named =
        taken.flat_map(|instruction| &instruction.operands).filter_map(|operand| match operand {
            Operand::Name(name, None) | Operand::Offset(name, _) => Some(*name),
            _ => None,
        });
    let initial = ast.variables.iter().flat_map(|variable| &variable.relocations);
    let names = named.chain(initial.map(|relocation| relocation.symbol));
    let function = |name: &str| match symbols.names.get(name) {
        Some(Symbol::Function(index)) => Some(*index),
        _ => None,
    };
    let found: BTreeSet<usize> = names.filter_map(function).collect();
    let callable = |index: &usize| {
        let function = &ast.functions[*index];
        function.body.is_some() && !function.entry
    };
    found.into_iter().filter(callable).collect()
}

fn place<'s>(
    variable: &Variable<'s>,
    symbols: &mut ModuleSymbols<'s>,
    image: &mut Image,
) -> Result<Symbol, String> {
    let name = variable.name;
    if variable.external && variable.space != Space::Shared {
        return Err(format!("variable `{name}` is external; only shared arrays may be external"));
    }
    match variable.space {
        Space::Shared => {
            symbols.shared.push(SharedVariable::new(variable));
            Ok(Symbol::Shared(symbols.shared.len() - 1))
        }
        Space::Global => {
            let addresses = patches(&variable.relocations, 0, |r| target(r.symbol, r.generic, symbols))?;
            let (bytes, init) = (variable.bytes, variable.init.clone());
            image.globals.push(GlobalVariable { name: name.to_owned(), bytes, init, addresses });
            Ok(Symbol::Global(image.globals.len() as u32 - 1))
        }
        Space::Const => {
            let start = image.constants.len().next_multiple_of(variable.align.max(1) as usize);
            let end = start as u64 + variable.bytes;
            if end > 1 << 26 {
                return Err(format!("const memory of {end} bytes, allowed is {}", 1 << 26));
            }
            image.constants.resize(end as usize, 0);
            image.constants[start..start + variable.init.len()].copy_from_slice(&variable.init);
            let patches =
                patches(&variable.relocations, start, |r| target(r.symbol, r.generic, symbols))?;
            image.constant_addresses.extend(patches);
            let (name, bytes) = (name.to_owned(), variable.bytes);
            image.constant_variables.push(ConstVariable { name, start: start as u64, bytes });
            Ok(Symbol::Const(start as u64))
        }
        space => Err(format!("variable `{name}` in {space} memory cannot be declared at module level")),
    }
}

fn target(name: &str, generic: bool, symbols: &ModuleSymbols<'_>) -> Option<PatchTarget> {
    match symbols.names.get(name)? {
        Symbol::Global(index) => Some(PatchTarget::Global(*index as usize)),
        Symbol::Const(offset) => {
            let base = if generic { window(Space::Const) } else { 0 };
            Some(PatchTarget::Fixed(base + offset))
        }
        Symbol::Function(index) => Some(PatchTarget::Fixed(code_address(*index))),
        _ => None,
    }
}

const MAX_DIGITS: usize = 10;

/// A `{ }` block of a function body, or the body itself.
#[derive(Debug, Default)]
pub(super) struct Scope<'s> {
    parent: Option<usize>,
    names: HashMap<&'s str, Symbol>,
    /// Declarations such as `.reg .b32 %r<10>`, keyed by the prefix `%r`.
    ranges: HashMap<&'s str, (Type, u32)>,
}

/// The scopes of a flattened entry; registers are numbered in order of use.
#[derive(Debug, Default)]
pub(super) struct Scopes<'s> {
    scopes: Vec<Scope<'s>>,
    pub(super) registers: Vec<Type>,
}

impl<'s> Scopes<'s> {
    pub(super) fn open(&mut self, parent: Option<usize>) -> usize {
        self.scopes.push(Scope { parent, ..Scope::default() });
        self.scopes.len() - 1
    }

    pub(super) fn parent(&self, scope: usize) -> Option<usize> {
        self.scopes[scope].parent
    }

    pub(super) fn declare(&mut self, scope: usize, name: &'s str, symbol: Symbol) -> Result<(), String> {
        match self.scopes[scope].names.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(format!("`{name}` is declared twice")),
        }
    }

    pub(super) fn register(
        &mut self,
        scope: usize,
        name: &'s str,
        ty: Type,
        count: Option<u32>,
    ) -> Result<(), String> {
        let Some(count) = count else {
            let symbol = self.new_register(ty);
            return self.declare(scope, name, symbol);
        };
        match self.scopes[scope].ranges.insert(name, (ty, count)) {
            None => Ok(()),
            Some(_) => Err(format!("`{name}<{count}>` is declared twice")),
        }
    }

    fn new_register(&mut self, ty: Type) -> Symbol {
        let register = self.registers.len() as u32;
        match ty {
            // A 128-bit register consists of two consecutive 64-bit registers.
            Type::B128 => self.registers.extend([Type::B64; 2]),
            _ => self.registers.push(ty),
        }
        Symbol::Register(ty, register)
    }

    pub(super) fn find(&mut self, scope: usize, name: &'s str) -> Option<Symbol> {
        let mut current = Some(scope);
        while let Some(index) = current {
            if let Some(symbol) = self.scopes[index].names.get(name) {
                return Some(*symbol);
            }
            if let Some(ty) = self.scopes[index].numbered(name) {
                let symbol = self.new_register(ty);
                self.scopes[index].names.insert(name, symbol);
                return Some(symbol);
            }
            current = self.scopes[index].parent;
        }
        None
    }
}

impl Scope<'_> {
    /// Returns the type of `%r7` if `%r<n>` is declared in this scope with `n` above 7.
    fn numbered(&self, name: &str) -> Option<Type> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(MAX_DIGITS);
        // A prefix may itself end in digits.
        (1..=digits).find_map(|length| {
            let (prefix, number) = name.split_at(name.len() - length);
            let &(ty, count) = self.ranges.get(prefix)?;
            let canonical = number == "0" || !number.starts_with('0');
            let value: u32 = number.parse().ok()?;
            (canonical && value < count).then_some(ty)
        })
    }
}
