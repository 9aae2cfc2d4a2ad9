//! Decodes the syntax tree of a module into programs.

mod call;
mod cluster;
mod compare;
mod context;
mod control;
mod copy;
mod flatten;
mod float;
mod inlined;
mod integer;
mod locations;
mod logic;
mod matrix;
mod mbarrier;
mod memory;
mod movement;
mod narrow;
mod rows;
mod special;
mod symbols;
mod table;
mod texture;
mod video;
mod warp;
mod warpgroup;
mod wide;

use std::collections::HashSet;
use std::sync::Arc;

use crate::ast::{Ast, Formal, Function, Instruction};
use crate::cfg::{Flow, Graph, Touches};
use crate::effort::Effort;
use crate::error::shortened;
use crate::lanes::FULL;
use crate::lexer::{self, Failure};
use crate::module::{Broken, Entry, Image, InstructionInfo, Param};
use crate::observe::Class;
use crate::program::{Effect, Init, Inst, NOWHERE, Op, Program, SharedArray};

use context::Context;
use flatten::{Flat, Item, Returns, flatten};
use locations::{Lines, Locations};
use rows::Rows;
use symbols::{ModuleSymbols, SharedVariable};

pub(crate) const MAX_SHARED: u64 = 227 << 10;

const MAX_PARAMETERS: usize = 32_764;

/// Returns the names of the opcodes that can be decoded, in alphabetical order.
pub fn opcodes() -> impl Iterator<Item = &'static str> {
    table::OPCODES.iter().map(|opcode| opcode.name)
}

pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    pub(crate) broken: Vec<Broken>,
    pub(crate) image: Image,
}

/// Decodes every entry of a module, and records the failure of each broken one.
///
/// The whole module fails if a variable or name is invalid, or if decoding exhausts [`Effort`].
pub(crate) fn module(source: &str, ast: &Ast<'_>) -> Result<Contents, Failure> {
    let (symbols, image) = symbols::collect(ast)?;
    let lines = Lines::new(source);
    let locations = Locations::new(ast);
    let effort = Effort::for_text(source.len());
    let decoder = EntryDecoder {
        source,
        ast,
        symbols: &symbols,
        lines: &lines,
        locations: &locations,
        effort: &effort,
    };
    let (mut entries, mut names): (Vec<Entry>, HashSet<&str>) = Default::default();
    let (mut broken, mut failures): (Vec<&Function<'_>>, Vec<Failure>) = Default::default();
    for function in &ast.functions {
        let is_entry = function.entry && function.body.is_some();
        if is_entry && !names.insert(function.name) {
            return Err((function.offset, format!("`{}` is declared twice", function.name)));
        }
        let decoded = match &function.broken {
            Some(failure) => Err(failure.clone()),
            None if is_entry => decoder.decode(function),
            None => continue,
        };
        match decoded {
            Ok(entry) => entries.push(entry),
            // The entries share one budget, so the module fails when it is exhausted.
            Err(failure) if effort.is_exhausted() => return Err(failure),
            Err(failure) => {
                broken.push(function);
                failures.push(told_of(ast, function, failure));
            }
        }
    }
    let errors = lexer::errors(source, failures);
    let broken = broken.iter().zip(errors).map(|(function, error)| {
        let name = function.name.to_owned();
        Broken { name, entry: function.entry, error }
    });
    Ok(Contents { entries, broken: broken.collect(), image })
}

/// Returns the failure of a function for display. If the failing text is in another function, the
/// message names that function.
fn told_of(ast: &Ast<'_>, function: &Function<'_>, (offset, message): Failure) -> Failure {
    let before = ast.functions.partition_point(|other| other.start <= offset);
    let place = ast.functions[..before].last().filter(|other| other.start != function.start);
    let message = lexer::shown(&message);
    match place {
        Some(called) => {
            let name = shortened(called.name);
            (offset, format!("in `{name}`, which it calls: {message}"))
        }
        None => (offset, message),
    }
}

fn layout(formals: &[Formal<'_>]) -> Vec<Param> {
    let mut end = 0_usize;
    let mut place = |formal: &Formal<'_>| {
        let (size, align) = (formal.bytes as usize, formal.align.max(1) as usize);
        let offset = end.next_multiple_of(align);
        end = offset + size;
        Param { name: formal.name.to_owned(), size, align, offset }
    };
    formals.iter().map(&mut place).collect()
}

struct EntryDecoder<'d, 's> {
    source: &'s str,
    ast: &'d Ast<'s>,
    symbols: &'d ModuleSymbols<'s>,
    lines: &'d Lines,
    locations: &'d Locations<'s>,
    effort: &'d Effort,
}

struct Decoded<'c, 'a, 's> {
    code: Vec<Inst>,
    classes: Vec<Class>,
    touches: Vec<Touches>,
    context: Context<'c, 'a, 's>,
}

impl<'d, 's> EntryDecoder<'d, 's> {
    fn decode(&self, function: &'d Function<'s>) -> Result<Entry, Failure> {
        let at = |message: String| (function.offset, message);
        let params = layout(&function.params);
        let bytes = params.last().map_or(0, |last| last.offset + last.size);
        if bytes > MAX_PARAMETERS {
            return Err(at(format!("{bytes} bytes of parameters, allowed are {MAX_PARAMETERS}")));
        }
        let offsets: Vec<u32> = params.iter().map(|param| param.offset as u32).collect();
        let mut flat = flatten(self.ast, self.symbols, self.locations, self.effort, function, &offsets)?;
        let items = std::mem::take(&mut flat.items);

        let none = vec![0; flat.shared.len()];
        let first = self.pass(&items, &mut flat, Rows::recording(), none)?;
        let (code, touches) = (first.code, first.touches);
        let (used, tables) = (first.context.shared_used, first.context.tables);
        let graph = Graph::new(&flows(&code, &tables), self.effort).map_err(at)?;
        let registers = flat.scopes.registers.len();
        let ranges = graph.live_ranges(&touches, registers, self.effort).map_err(at)?;
        let rows = Rows::assign(&flat.scopes.registers, &ranges).map_err(at)?;

        let (addresses, static_shared) = place_shared(&flat.shared, &used).map_err(at)?;
        let sized_external = (0..used.len())
            .find(|&index| used[index] && flat.shared[index].sized_external)
            .map(|index| addresses[index]);
        let shared_arrays = shared_arrays(&flat.shared, &used, &addresses);
        let local_bytes = flat.local.size();
        let second = self.pass(&items, &mut flat, rows, addresses)?;
        let info = self.info(&items, &second.code, &second.classes);
        let (mut code, mut context) = (second.code, second.context);
        join_branches(&mut code, &graph);
        let types = &context.flat.scopes.registers;
        call::keep(&mut context.calls, &code, types, &ranges, (&context.rows, self.effort))
            .map_err(at)?;
        let functions = call::activated(&context, &self.ast.functions);
        let aligns = context.flat.outlined.iter().map(|outlined| outlined.local.align);
        let frame_align = aligns.max().unwrap_or(1);
        let rows = context.rows.finish().map_err(at)?;
        let program = Program {
            timed: code.iter().any(|inst| inst.op.effect() == Effect::ReadTime),
            meets: (0..code.len()).map(|index| graph.meets(index)).collect(),
            code,
            info,
            accesses: context.accesses,
            barriers: context.barriers,
            asynchronous: context.asynchronous,
            prints: context.prints,
            assertions: context.assertions,
            condition_calls: context.condition_calls,
            heap_calls: context.heap_calls,
            matrices: context.matrices,
            textures: context.textures,
            tables: context.tables,
            calls: context.calls,
            functions,
            frame_align,
            frame: rows.inits.iter().find(|(_, init)| matches!(init, Init::Frame)).map(|&(row, _)| row),
            rows,
            static_shared,
            shared_arrays,
            sized_external,
            local_bytes,
        };
        Ok(Entry {
            name: function.name.to_owned(),
            params,
            max_threads: function.max_threads,
            required_threads: function.required_threads,
            cluster: function.cluster,
            program,
        })
    }

    /// Decodes every item, and adds an exit if the text ends without one.
    fn pass<'c>(
        &'c self,
        items: &[Item<'d, 's>],
        flat: &'c mut Flat<'d, 's>,
        rows: Rows,
        shared_addresses: Vec<u32>,
    ) -> Result<Decoded<'c, 'd, 's>, Failure> {
        let mut context = Context {
            module: self.symbols,
            effort: self.effort,
            rows,
            accesses: Vec::new(),
            barriers: Vec::new(),
            asynchronous: Vec::new(),
            prints: Vec::new(),
            assertions: Vec::new(),
            condition_calls: Vec::new(),
            heap_calls: Vec::new(),
            matrices: Vec::new(),
            textures: Vec::new(),
            tables: Vec::new(),
            calls: Vec::new(),
            shared_used: vec![false; flat.shared.len()],
            shared_addresses,
            flat,
            instruction: &NO_INSTRUCTION,
            scope: 0,
            returns: Returns::Exit,
            taken: 0,
            last_type: None,
        };
        let mut code = Vec::with_capacity(items.len() + 1);
        let mut classes = Vec::with_capacity(items.len() + 1);
        let mut touches = Vec::with_capacity(items.len() + 1);
        for item in items {
            let (inst, class) =
                decode_item(&mut context, item).map_err(|message| (item.instruction.span.0, message))?;
            code.push(inst);
            classes.push(class);
            touches.push(std::mem::take(&mut context.rows.touches));
        }
        let end = code.len() as u32;
        let reaches_end = code.last().is_none_or(|inst| flow(inst, &context.tables).falls)
            || code.iter().any(|inst| flow(inst, &context.tables).targets.contains(&end));
        if reaches_end {
            code.push(Inst { op: Op::Exit, guard: Rows::always(), leads: false, invert: 0 });
            classes.push(Class::Control);
            touches.push(Touches::default());
        }
        Ok(Decoded { code, classes, touches, context })
    }

    fn info(&self, items: &[Item<'d, 's>], code: &[Inst], classes: &[Class]) -> Vec<InstructionInfo> {
        let of = |(index, &class): (usize, &Class)| {
            let Some(item) = items.get(index).or(items.last()) else {
                return InstructionInfo {
                    opcode: "ret".to_owned(),
                    text: "ret".to_owned(),
                    line: 1,
                    class,
                    location: None,
                };
            };
            // Only the added exit has no item.
            let added = index >= items.len() || item.added.is_some();
            let (start, end) = item.instruction.span;
            let text = &self.source[start as usize..end as usize];
            let start = item.added.unwrap_or(start);
            InstructionInfo {
                opcode: if added { "ret" } else { item.instruction.opcode }.to_owned(),
                text: if added { "ret".to_owned() } else { single_spaced(text) },
                line: self.lines.line(start),
                class,
                location: item.location.clone(),
            }
        };
        debug_assert_eq!(code.len(), classes.len());
        classes.iter().enumerate().map(of).collect()
    }
}

static NO_INSTRUCTION: Instruction<'static> =
    Instruction { guard: None, opcode: "", modifiers: Vec::new(), operands: Vec::new(), span: (0, 0) };

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn decode_item<'a, 's>(
    context: &mut Context<'_, 'a, 's>,
    item: &Item<'a, 's>,
) -> Result<(Inst, Class), String> {
    let instruction = item.instruction;
    context.instruction = instruction;
    context.scope = item.scope;
    context.returns = item.returns;
    (context.taken, context.last_type) = (0, None);
    let (guard, invert) = match instruction.guard {
        Some((name, negated)) => (context.predicate_named(name)?, if negated { FULL } else { 0 }),
        None => (Rows::always(), 0),
    };
    if instruction.opcode == "call" {
        // Only calls that are not expanded in place reach this point.
        let op = call::call(context, item)?;
        return Ok((Inst { op, guard, leads: false, invert }, Class::Control));
    }
    let opcode = table::find(instruction.opcode)
        .ok_or_else(|| format!("unknown opcode `{}`", instruction.opcode))?;
    let op = (opcode.decode)(context)?;
    context.all_taken()?;
    let class = match op {
        Op::Matrix(index) => context.matrices[index as usize].class(),
        _ => opcode.class(context.last_type),
    };
    Ok((Inst { op, guard, leads: false, invert }, class))
}

fn flow(inst: &Inst, tables: &[Vec<u32>]) -> Flow {
    let guarded = inst.guard != Rows::always();
    let effect = inst.op.effect();
    let targets = match effect {
        Effect::Branch(target) => vec![target],
        Effect::BranchTable(table) => tables[table as usize].clone(),
        _ => Vec::new(),
    };
    Flow { targets, falls: guarded || !effect.leaves(), converges: effect.converges() }
}

fn flows(code: &[Inst], tables: &[Vec<u32>]) -> Vec<Flow> {
    code.iter().map(|inst| flow(inst, tables)).collect()
}

/// Fills in the reconvergence point of each branch, and marks the first instruction of each basic block.
fn join_branches(code: &mut [Inst], graph: &Graph) {
    for (index, inst) in code.iter_mut().enumerate() {
        inst.leads = graph.leads(index);
        if let Some(join) = inst.op.join_mut() {
            *join = graph.join(index).map_or(NOWHERE, |join| join as u32);
        }
    }
}

fn shared_arrays(variables: &[SharedVariable], used: &[bool], addresses: &[u32]) -> Arc<[SharedArray]> {
    let array = |index: usize| {
        let SharedVariable { name, bytes, dynamic, .. } = &variables[index];
        let bytes = (!dynamic).then_some(*bytes as u32);
        SharedArray { name: Arc::clone(name), start: addresses[index], bytes }
    };
    let mut arrays: Vec<_> = (0..used.len()).filter(|&index| used[index]).map(array).collect();
    arrays.sort_by_key(|array| array.start);
    arrays.into()
}

/// Returns the addresses of the used shared variables, and the total size of the static ones.
fn place_shared(variables: &[SharedVariable], used: &[bool]) -> Result<(Vec<u32>, u32), String> {
    let mut addresses = vec![0; variables.len()];
    let mut end = 0_u64;
    let mut dynamic_align = 1;
    for (index, variable) in variables.iter().enumerate().filter(|&(index, _)| used[index]) {
        let align = u64::from(variable.align.max(1));
        if variable.dynamic {
            dynamic_align = align.max(dynamic_align);
            continue;
        }
        let start = end.next_multiple_of(align);
        end = start + variable.bytes;
        if end > MAX_SHARED {
            return Err(format!("static shared memory of {end} bytes, allowed is {MAX_SHARED}"));
        }
        addresses[index] = start as u32;
    }
    // All dynamic arrays start at the start of dynamic shared memory.
    if variables.iter().zip(used).any(|(variable, &used)| used && variable.dynamic) {
        end = end.next_multiple_of(dynamic_align);
    }
    for (address, variable) in addresses.iter_mut().zip(variables) {
        if variable.dynamic {
            *address = end as u32;
        }
    }
    Ok((addresses, end as u32))
}
