//! Calls. A direct call by name is expanded in place. For a call by address, a guarded call, a
//! recursive call or a call of a function with `alloca`, the function's code is placed once, after the
//! entry's code ("outlined"), and each call gives it a new stack frame in local memory.

use crate::ast::{Formal, Function, Instruction, Operand, Type};
use crate::effort::Effort;
use crate::lexer::Failure;
use crate::memory::code_address;
use crate::program::{Activated, Call, Init, Inst, Op, Part};

use super::context::{Context, Result};
use super::control;
use super::flatten::{Flattener, Item, Layout, Returns};
use super::locations::Body;
use super::rows::{File, Rows};
use super::symbols::{Scopes, Symbol};

const MAX_EXPANDED: usize = 64;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

#[derive(Debug)]
pub(super) struct Site<'s> {
    /// Possible callees, as indices into `outlined`.
    functions: Vec<u32>,
    /// For a call by address, the scope and name of its prototype or target list, from which
    /// `find_functions` finds the callees.
    listed: Option<(usize, &'s str)>,
    arguments: Vec<Part>,
    results: Vec<Part>,
    offset: u32,
}

#[derive(Debug)]
pub(super) struct Outlined {
    index: usize,
    start: usize,
    pub(super) local: Layout,
    params: Vec<Part>,
    returns: Vec<Part>,
}

struct System {
    name: &'static str,
    /// Sizes in bytes of the parameters and of the results.
    arguments: &'static [u32],
    results: &'static [u32],
    /// A call may omit the result.
    drops_result: bool,
    checked: bool,
    decode: for<'c, 'a, 's> fn(&mut Context<'c, 'a, 's>) -> Result<Op>,
}

impl System {
    const ALL: [Self; 5] = [
        // Called by CUDA C when an `assert` fails.
        Self { checked: false, ..Self::new("__assertfail", &[], &[], control::assertion) },
        // Part of the device runtime: sets the value of a handle that controls conditional graph nodes.
        Self::new("cudaGraphSetConditional", &[8, 4], &[], control::condition),
        Self::new("free", &[8], &[], control::heap),
        Self::new("malloc", &[8], &[8], control::heap),
        // Called for `printf`, with the addresses of the format and of its arguments.
        Self { drops_result: true, ..Self::new("vprintf", &[8, 8], &[4], control::print) },
    ];

    const fn new(
        name: &'static str,
        arguments: &'static [u32],
        results: &'static [u32],
        decode: for<'c, 'a, 's> fn(&mut Context<'c, 'a, 's>) -> Result<Op>,
    ) -> Self {
        Self { name, arguments, results, drops_result: false, checked: true, decode }
    }
}

pub(super) enum Nested {
    Here(String),
    Inside(Failure),
}

impl Nested {
    fn here(message: impl Into<String>) -> Self {
        Self::Here(message.into())
    }
}

impl<'a, 's> Flattener<'a, '_, 's> {
    pub(super) fn call(&mut self, item: Item<'a, 's>) -> std::result::Result<(), Nested> {
        let call = CallOperands::of(item.instruction)?;
        let function = match self.module.names.get(call.name) {
            Some(Symbol::Function(index)) => *index,
            _ if call.listed.is_some() => return self.indirect(item, &call),
            _ => {
                let name = call.name;
                return Err(Nested::here(format!(
                    "call of `{name}`, which is not a function of the module"
                )));
            }
        };
        if let Some(failure) = &self.ast.functions[function].broken {
            return Err(Nested::Inside(failure.clone()));
        }
        if self.ast.functions[function].body.is_none() {
            return self.of_system(item, &call, &self.ast.functions[function]);
        }
        let recursive = self.calls.contains(&call.name);
        let callee = &self.ast.functions[function];
        if recursive || callee.allocates || item.instruction.guard.is_some() {
            self.fits(item.scope, callee, &call)?;
            let functions = vec![self.outlined(function).map_err(Nested::Here)?];
            return self.site(item, &call, functions, None).map_err(Nested::Here);
        }
        self.expand(item, &call, &self.ast.functions[function])
    }

    fn of_system(
        &mut self,
        item: Item<'a, 's>,
        call: &CallOperands<'_, 's>,
        function: &Function<'s>,
    ) -> std::result::Result<(), Nested> {
        let name = call.name;
        if !function.external {
            return Err(Nested::here(format!(
                "call of `{name}`, which is a prototype without a body in this module"
            )));
        }
        let Some(known) = System::ALL.iter().find(|known| known.name == name) else {
            let message =
                format!("call of `{name}`, which is an external function without a body in this module");
            return Err(Nested::Here(message));
        };
        let mut has = |operands: &[Operand<'s>], bytes: &[u32]| {
            let mut has = |(operand, bytes)| {
                part(&mut self.flat.scopes, item.scope, operand).is_some_and(|part| part.bytes >= bytes)
            };
            operands.len() == bytes.len() && operands.iter().zip(bytes.iter().copied()).all(&mut has)
        };
        let results = call.results.is_empty() && known.drops_result || has(call.results, known.results);
        if known.checked && !(has(call.arguments, known.arguments) && results) {
            let (arguments, results) = (known.arguments, known.results);
            return Err(Nested::here(format!(
                "`{name}` takes `.param` variables of {arguments:?} bytes and returns {results:?}"
            )));
        }
        self.flat.items.push(item);
        Ok(())
    }

    fn expand(
        &mut self,
        item: Item<'a, 's>,
        call: &CallOperands<'_, 's>,
        function: &'a Function<'s>,
    ) -> std::result::Result<(), Nested> {
        if self.calls.len() == MAX_EXPANDED {
            return Err(Nested::here(format!("calls nest deeper than {MAX_EXPANDED}")));
        }
        self.fits(item.scope, function, call)?;
        let inner = self.flat.scopes.open(None);
        self.bind(item.scope, inner, function, call).map_err(Nested::Here)?;
        self.flat.labels.push(None);
        let behind = self.flat.labels.len() - 1;
        self.calls.push(call.name);
        let places = Body::of_call(call.name, item.location.as_ref());
        self.body(function, inner, Returns::To(behind), places).map_err(Nested::Inside)?;
        self.calls.pop();
        self.flat.labels[behind] = Some(self.flat.items.len());
        Ok(())
    }

    fn fits(
        &mut self,
        scope: usize,
        function: &Function<'s>,
        call: &CallOperands<'_, 's>,
    ) -> std::result::Result<(), Nested> {
        // Linked modules may declare a result for a function that has none; the result is then
        // unspecified.
        let results = if function.returns.is_empty() { &[] } else { call.results };
        for (formals, actuals) in [(&function.returns, results), (&function.params, call.arguments)] {
            if formals.len() != actuals.len() {
                let (given, wanted) = (actuals.len(), formals.len());
                let name = function.name;
                return Err(Nested::here(format!(
                    "call of `{name}` with {given} values where it declares {wanted}"
                )));
            }
            for (formal, actual) in formals.iter().zip(actuals) {
                self.effort.spend(formal.name.len() as u64).map_err(Nested::Here)?;
                let found = part(&mut self.flat.scopes, scope, actual);
                if formal.register || found.is_none_or(|part| part.bytes < formal.bytes) {
                    let (name, bytes) = (formal.name, formal.bytes);
                    let message = format!("`{name}` needs a `.param` variable of {bytes} bytes");
                    return Err(Nested::Here(message));
                }
            }
        }
        Ok(())
    }

    fn bind(
        &mut self,
        scope: usize,
        inner: usize,
        function: &Function<'s>,
        call: &CallOperands<'_, 's>,
    ) -> std::result::Result<(), String> {
        for (formals, actuals) in [(&function.returns, call.results), (&function.params, call.arguments)]
        {
            for (formal, actual) in formals.iter().zip(actuals) {
                if let Operand::Name(name, None) = actual
                    && let Some(symbol) = self.flat.scopes.find(scope, name)
                {
                    self.flat.scopes.declare(inner, formal.name, symbol)?;
                }
            }
        }
        Ok(())
    }

    /// Records a call by address; its possible functions are resolved after the whole text is read.
    fn indirect(
        &mut self,
        item: Item<'a, 's>,
        call: &CallOperands<'_, 's>,
    ) -> std::result::Result<(), Nested> {
        let listed = call.listed.map(|name| (item.scope, name));
        self.site(item, call, Vec::new(), listed).map_err(Nested::Here)
    }

    fn site(
        &mut self,
        item: Item<'a, 's>,
        call: &CallOperands<'_, 's>,
        functions: Vec<u32>,
        listed: Option<(usize, &'s str)>,
    ) -> std::result::Result<(), String> {
        let mut parts = |operands: &[Operand<'s>]| {
            let place = |operand| {
                part(&mut self.flat.scopes, item.scope, operand)
                    .ok_or_else(|| "the values of a call must be `.param` variables".to_owned())
            };
            operands.iter().map(place).collect::<Result<Vec<Part>>>()
        };
        let (arguments, results) = (parts(call.arguments)?, parts(call.results)?);
        let offset = item.instruction.span.0;
        self.flat.sites.push(Site { functions, listed, arguments, results, offset });
        let site = Some(self.flat.sites.len() as u32 - 1);
        self.flat.items.push(Item { site, ..item });
        Ok(())
    }

    /// Returns the index of a function in `outlined`, adding it if necessary.
    fn outlined(&mut self, index: usize) -> std::result::Result<u32, String> {
        if let Some(place) = self.flat.outlined.iter().position(|outlined| outlined.index == index) {
            return Ok(place as u32);
        }
        let function = &self.ast.functions[index];
        let mut local = Layout::default();
        let mut parts = |formals: &[Formal<'_>]| {
            let place = |formal: &Formal<'_>| {
                let offset = local.add(formal.bytes.into(), formal.align)?;
                Ok(Part { offset, bytes: formal.bytes })
            };
            formals.iter().map(place).collect::<Result<Vec<Part>>>()
        };
        let (params, returns) = (parts(&function.params)?, parts(&function.returns)?);
        self.flat.outlined.push(Outlined { index, start: usize::MAX, local, params, returns });
        Ok(self.flat.outlined.len() as u32 - 1)
    }

    /// Appends the callees in `outlined`, and the functions that they call, after the entry's code.
    pub(super) fn outline(&mut self, entry: &Function<'s>) -> std::result::Result<(), Failure> {
        if self.flat.sites.is_empty() {
            return Ok(());
        }
        self.end(entry, Returns::Exit);
        let (mut sites, mut functions) = (0, 0);
        while sites < self.flat.sites.len() || functions < self.flat.outlined.len() {
            if let Some(site) = self.flat.sites.get(sites) {
                let offset = site.offset;
                self.find_functions(sites).map_err(|message| (offset, message))?;
                sites += 1;
            } else {
                self.outline_one(functions)?;
                functions += 1;
            }
        }
        Ok(())
    }

    fn outline_one(&mut self, place: usize) -> std::result::Result<(), Failure> {
        let index = self.flat.outlined[place].index;
        let function = &self.ast.functions[index];
        if let Some(failure) = &function.broken {
            return Err(failure.clone());
        }
        let outlined = &mut self.flat.outlined[place];
        outlined.start = self.flat.items.len();
        let scope = self.flat.scopes.open(None);
        let formals = function.params.iter().zip(&outlined.params);
        for (formal, part) in formals.chain(function.returns.iter().zip(&outlined.returns)) {
            let symbol = Symbol::Frame(part.offset, part.bytes.into());
            let declared = self.flat.scopes.declare(scope, formal.name, symbol);
            declared.map_err(|message| (function.offset, message))?;
        }
        (self.inside, self.local) = (Some(place as u32), outlined.local);
        self.calls = vec![function.name];
        // The body serves several callers, so it has no call location.
        self.body(function, scope, Returns::Caller, Body::of_call(function.name, None))?;
        self.end(function, Returns::Caller);
        self.flat.outlined[place].local = self.local;
        Ok(())
    }

    fn find_functions(&mut self, place: usize) -> std::result::Result<(), String> {
        let site = &self.flat.sites[place];
        let Some((scope, name)) = site.listed else { return Ok(()) };
        let symbol = self.flat.scopes.find(scope, name);
        let candidates: Vec<usize> = match symbol {
            Some(Symbol::Prototype(prototype)) => {
                let prototype = self.flat.prototypes[prototype];
                let given = [site.results.len(), site.arguments.len()];
                let taken = [prototype.returns.len(), prototype.params.len()];
                if given != taken {
                    let [results, arguments] = taken;
                    return Err(format!(
                        "the call does not match `{name}`, which has {results} results and {arguments} \
                         parameters"
                    ));
                }
                let like = |&index: &usize| {
                    let function = &self.ast.functions[index];
                    are_alike(&function.returns, &prototype.returns)
                        && are_alike(&function.params, &prototype.params)
                };
                self.module.addressed.iter().copied().filter(like).collect()
            }
            Some(Symbol::CallTargets(list)) => self.named(self.flat.call_targets[list])?,
            _ => match self.ast.variables.iter().find(|variable| variable.name == name) {
                Some(table) => {
                    let names: Vec<&str> = table.relocations.iter().map(|at| at.symbol).collect();
                    self.named(&names)?
                }
                None => {
                    return Err(format!("`{name}` is neither a prototype nor a list of functions"));
                }
            },
        };
        self.effort.spend(64 * candidates.len() as u64)?;
        let mut functions = Vec::with_capacity(candidates.len());
        for index in candidates {
            functions.push(self.outlined(index)?);
        }
        self.flat.sites[place].functions = functions;
        Ok(())
    }

    fn named(&self, names: &[&str]) -> std::result::Result<Vec<usize>, String> {
        let function = |name: &&str| match self.module.names.get(name) {
            Some(Symbol::Function(index)) if self.ast.functions[*index].body.is_some() => Ok(*index),
            _ => Err(format!("`{name}` is not a function with a body")),
        };
        names.iter().map(function).collect()
    }
}

fn are_alike(some: &[Formal<'_>], others: &[Formal<'_>]) -> bool {
    let shape = |formal: &Formal<'_>| (formal.bytes, formal.register);
    some.iter().map(shape).eq(others.iter().map(shape))
}

/// Returns the range of a `.param` variable in the stack frame of the function that contains the call.
fn part<'s>(scopes: &mut Scopes<'s>, scope: usize, operand: &Operand<'s>) -> Option<Part> {
    let Operand::Name(name, None) = operand else { return None };
    match scopes.find(scope, name)? {
        Symbol::Local(offset, bytes) | Symbol::Frame(offset, bytes) => {
            Some(Part { offset, bytes: bytes as u32 })
        }
        _ => None,
    }
}

pub(super) struct CallOperands<'i, 's> {
    pub(super) results: &'i [Operand<'s>],
    /// The function, or the register that holds its address.
    pub(super) name: &'s str,
    pub(super) arguments: &'i [Operand<'s>],
    listed: Option<&'s str>,
}

impl<'i, 's> CallOperands<'i, 's> {
    pub(super) fn of(call: &'i Instruction<'s>) -> std::result::Result<Self, Nested> {
        let (results, rest) = match call.operands.as_slice() {
            [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let (name, rest) = match rest {
            [Operand::Name(name, None), rest @ ..] => (*name, rest),
            _ => return Err(Nested::here("the target of a call must be a function or a register")),
        };
        let (arguments, rest) = match rest {
            [Operand::List(arguments), rest @ ..] => (arguments.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let listed = match rest {
            [] => None,
            [Operand::Name(name, None)] => Some(*name),
            _ => {
                return Err(Nested::here(
                    "a call must end with its arguments, or with a prototype after them",
                ));
            }
        };
        Ok(Self { results, name, arguments, listed })
    }
}

pub(super) fn call(cx: &mut Cx<'_, '_, '_>, item: &Item<'_, '_>) -> Result<Op> {
    let _uniform = cx.take("uni");
    let Ok(CallOperands { name, listed, .. }) = CallOperands::of(cx.instruction) else {
        return Err("only calls of functions are supported".to_owned());
    };
    let Some(site) = item.site else {
        let known = System::ALL.iter().find(|known| known.name == name);
        return known.map_or_else(
            || Err(format!("call of `{name}`, which has no body")),
            |known| (known.decode)(cx),
        );
    };
    let target = match listed {
        Some(_) => Some(cx.source_of(&Operand::Name(name, None), Type::U64)?),
        None => None,
    };
    cx.rows.constant(Init::Frame);
    let site = &cx.flat.sites[site as usize];
    let (functions, arguments) = (site.functions.clone(), site.arguments.clone());
    cx.calls.push(Call {
        target,
        functions,
        arguments,
        results: site.results.clone(),
        words: Vec::new(),
        doubles: Vec::new(),
        predicates: Vec::new(),
    });
    Ok(Op::Call(cx.calls.len() as u32 - 1))
}

pub(super) fn activated(cx: &Cx<'_, '_, '_>, names: &[Function<'_>]) -> Vec<Activated> {
    let function = |outlined: &Outlined| Activated {
        name: names[outlined.index].name.to_owned(),
        address: code_address(outlined.index),
        start: outlined.start as u32,
        params: outlined.params.clone(),
        returns: outlined.returns.clone(),
        bytes: outlined.local.size(),
    };
    cx.flat.outlined.iter().map(function).collect()
}

/// Records for each call the registers that are live in the caller after the call.
pub(super) fn keep(
    calls: &mut [Call],
    code: &[Inst],
    types: &[Type],
    ranges: &[Option<(usize, usize)>],
    (rows, effort): (&Rows, &Effort),
) -> Result<()> {
    for (at, inst) in code.iter().enumerate() {
        let Op::Call(call) = inst.op else { continue };
        effort.spend(ranges.len() as u64)?;
        let call = &mut calls[call as usize];
        for (register, range) in ranges.iter().enumerate() {
            if range.is_none_or(|(start, end)| start > at || end <= at) {
                continue;
            }
            let row = rows.row(register as u32);
            match File::of(types[register]) {
                File::Word => call.words.push(row),
                File::Double => call.doubles.push(row),
                File::Predicate => call.predicates.push(row),
            }
        }
    }
    Ok(())
}
