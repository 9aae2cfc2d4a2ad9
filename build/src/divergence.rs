//! Finds barriers in PTX that not all threads of the block reach.
//!
//! A compiler that does not know that an instruction is a barrier may copy it into both arms of a branch
//! or sink it into one; then only some of the threads reach each copy. So a barrier must not depend on a
//! branch that threads of a block take differently.
//!
//! - A register is *varying* where it may differ between the threads of a block: it is computed from
//!   `%tid`, from the lane, from the result of an atomic, shuffle or vote, from a load at a varying
//!   address, or is set differently on the two sides of a varying branch. A load of shared or global
//!   memory from an address that is uniform across the block is uniform: that is how kernels broadcast.
//!   A register that is set only by reads of one launch geometry register is uniform, even if LLVM
//!   copies the read into both sides of a varying branch.
//! - A branch is varying if its predicate is; it controls the instructions between it and its immediate
//!   post-dominator, where its sides reconverge.
//! - A barrier that a varying branch controls, or whose own predicate is varying, is a finding.
//!
//! The analysis is conservative: all threads reach an accepted barrier, unless they load different
//! values from one address because the memory is written between their loads. It rejects some correct
//! code, such as a named barrier for some of the warps.

use std::collections::{HashMap, HashSet};

use warpfold_ptx::syntax::{Item, Kind, Statement, Step, Token};

pub(crate) struct Divergent<'t, 'a> {
    /// The barrier, or the call of a function with one.
    pub(crate) barrier: Statement<'t, 'a>,
    /// The line of the branch or predicate on which the barrier depends.
    pub(crate) decided: usize,
}

/// Returns the functions that execute a barrier, directly or in a callee.
pub(crate) fn synchronizing<'a>(items: &[Item<'a>]) -> HashSet<&'a str> {
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for item in items {
            let synchronizes = |statement: Statement<'_, 'a>| is_barrier(&statement, &found);
            if let Some(name) = item.names.first().filter(|_| item.statements().any(synchronizes)) {
                found.insert(name);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

pub(crate) fn divergent_barriers<'t, 'a>(
    item: &'t Item<'a>,
    synchronizing: &HashSet<&str>,
) -> Vec<Divergent<'t, 'a>> {
    let flow = Flow::of(item);
    let barriers: Vec<usize> = (0..flow.instructions.len())
        .filter(|at| is_barrier(&flow.instructions[*at], synchronizing))
        .collect();
    if barriers.is_empty() {
        return Vec::new();
    }
    let varying = Varying::of(&flow);
    let decided = |at: &usize| {
        let guard = flow.instructions[*at].guard.map(|guard| guard.register);
        if guard.is_some_and(|register| varying.registers.contains(register)) {
            return Some(flow.instructions[*at].line());
        }
        let decides = |(branch, region): (&usize, &HashSet<usize>)| {
            region.contains(at).then(|| flow.instructions[*branch].line())
        };
        varying.branches.iter().filter_map(decides).min()
    };
    let finding = |at: usize| Some(Divergent { barrier: flow.instructions[at], decided: decided(&at)? });
    barriers.into_iter().filter_map(finding).collect()
}

fn is_barrier(statement: &Statement<'_, '_>, synchronizing: &HashSet<&str>) -> bool {
    let mut parts = statement.opcode().split('.');
    match (parts.next(), parts.next()) {
        (Some("bar"), Some(kind)) => kind != "warp",
        (Some("barrier"), _) => true,
        (Some("call"), _) => statement.tokens.iter().any(|token| synchronizing.contains(token.text)),
        _ => false,
    }
}

/// The control flow graph of a function.
struct Flow<'t, 'a> {
    instructions: Vec<Statement<'t, 'a>>,
    /// Indices of each instruction's successors; the index after the last instruction is the exit.
    next: Vec<Vec<usize>>,
    /// Registers declared by names without `%`, as in hand-written asm.
    named: HashSet<&'a str>,
    /// Parameters of the entry, which are uniform.
    parameters: HashSet<&'a str>,
}

impl<'t, 'a> Flow<'t, 'a> {
    fn of(item: &'t Item<'a>) -> Self {
        let mut reader = Reader { scopes: vec![None], ..Reader::default() };
        item.steps().for_each(|step| reader.take(step));
        let next = (0..reader.instructions.len()).map(|at| reader.next(at)).collect();
        let head = match &item.kind {
            Kind::Function { entry: true, body: Some(body) } => &item.tokens[..body.start],
            _ => &[],
        };
        Self {
            next,
            parameters: head.iter().filter(|token| token.is_name()).map(|token| token.text).collect(),
            instructions: reader.instructions.into_iter().map(|(statement, _)| statement).collect(),
            named: reader.named,
        }
    }

    fn is_register(&self, name: &str) -> bool {
        name.starts_with('%') || self.named.contains(name)
    }

    /// Returns the registers that an instruction writes and those that it reads, including its guard.
    fn registers(&self, at: usize) -> (Vec<&'a str>, Vec<&'a str>) {
        let statement = &self.instructions[at];
        let operands = &statement.tokens[1..];
        let first = operands.iter().position(|token| token.text == ",").unwrap_or(operands.len());
        // `{%r1, %r2}` is one operand.
        let first = match operands.first().map(|token| token.text) {
            Some("{") => operands.iter().position(|token| token.text == "}").unwrap_or(first),
            _ => first,
        };
        let base = statement.opcode().split('.').next().unwrap_or_default();
        // A reducing barrier returns the same value to all threads, whatever its inputs.
        let reduces = matches!(base, "bar" | "barrier") && statement.opcode().contains(".red");
        let sets = reduces
            || !matches!(base, "bra" | "brx" | "call" | "nanosleep" | "bar" | "barrier")
                && operands.first().is_some_and(|token| token.text != "[");
        let (set, read) = operands.split_at(if sets { first } else { 0 });
        let registers = |tokens: &[Token<'a>]| {
            let names = tokens.iter().map(|token| token.text);
            names.filter(|name| self.is_register(name)).collect::<Vec<_>>()
        };
        let mut read = if reduces { Vec::new() } else { registers(read) };
        read.extend(statement.guard.map(|guard| guard.register));
        (registers(set), read)
    }

    /// Returns whether an instruction's result varies between threads regardless of its operands.
    fn varies(&self, at: usize) -> bool {
        const OWN: &[&str] = &["%tid", "%laneid", "%lanemask", "%warpid", "%clock", "%globaltimer"];
        let statement = &self.instructions[at];
        let mut parts = statement.opcode().split('.');
        let has = |part: &str| statement.opcode().split('.').any(|other| other == part);
        match parts.next().unwrap_or_default() {
            "atom" | "shfl" | "vote" | "match" | "activemask" | "redux" | "elect" | "mbarrier" => true,
            "ld" if has("param") => {
                !statement.tokens.iter().any(|token| self.parameters.contains(token.text))
            }
            "ld" => ["local", "volatile", "relaxed", "acquire"].into_iter().any(has),
            _ => statement.tokens[1..]
                .iter()
                .any(|token| OWN.iter().any(|register| token.text.starts_with(register))),
        }
    }

    /// Returns the instructions that the branch at `at` controls: all between the branch and `meets`,
    /// its reconvergence point.
    fn region(&self, at: usize, meets: Option<usize>) -> HashSet<usize> {
        let mut region = HashSet::new();
        let mut pending = self.next[at].clone();
        while let Some(other) = pending.pop() {
            if Some(other) != meets && other < self.next.len() && region.insert(other) {
                pending.extend(&self.next[other]);
            }
        }
        region
    }
}

#[derive(Default)]
struct Reader<'t, 'a> {
    /// Instructions, each with the index of its scope.
    instructions: Vec<(Statement<'t, 'a>, usize)>,
    /// The parent of each scope.
    scopes: Vec<Option<usize>>,
    scope: usize,
    /// The index of the instruction after each label, by scope and name.
    labels: HashMap<(usize, &'a str), usize>,
    tables: HashMap<&'a str, Vec<&'a str>>,
    last_label: &'a str,
    named: HashSet<&'a str>,
}

impl<'t, 'a> Reader<'t, 'a> {
    fn take(&mut self, step: Step<'t, 'a>) {
        match step {
            Step::Open => {
                self.scopes.push(Some(self.scope));
                self.scope = self.scopes.len() - 1;
            }
            Step::Close => self.scope = self.scopes[self.scope].unwrap_or(0),
            Step::Label(label) => {
                self.labels.insert((self.scope, label), self.instructions.len());
                self.last_label = label;
            }
            Step::Statement(statement) => self.statement(statement),
        }
    }

    fn statement(&mut self, statement: Statement<'t, 'a>) {
        let names = statement.tokens[1..].iter().filter(|token| token.is_name());
        match statement.opcode() {
            ".reg" => self.named.extend(names.map(|token| token.text)),
            ".branchtargets" => {
                self.tables.insert(self.last_label, names.map(|token| token.text).collect());
            }
            directive if directive.starts_with('.') => {}
            _ => self.instructions.push((statement, self.scope)),
        }
    }

    fn next(&self, at: usize) -> Vec<usize> {
        let (statement, scope) = self.instructions[at];
        let names = statement.tokens[1..].iter().map(|token| token.text);
        let mut next: Vec<usize> = match statement.opcode().split('.').next().unwrap_or_default() {
            "bra" => names.filter_map(|name| self.target(scope, name)).collect(),
            "brx" => {
                let labels = names.filter_map(|name| self.tables.get(name)).flatten();
                labels.filter_map(|label| self.target(scope, label)).collect()
            }
            "ret" | "exit" | "trap" => vec![self.instructions.len()],
            _ => return vec![at + 1],
        };
        if statement.guard.is_some() {
            next.push(at + 1);
        }
        next
    }

    /// Returns the index of the instruction after a label, which is in this scope or an enclosing one.
    fn target(&self, scope: usize, label: &str) -> Option<usize> {
        let found = self.labels.get(&(scope, label)).copied();
        found.or_else(|| self.target(self.scopes[scope]?, label))
    }
}

#[derive(Default)]
struct Varying<'a> {
    registers: HashSet<&'a str>,
    branches: HashMap<usize, HashSet<usize>>,
}

impl<'a> Varying<'a> {
    fn of(flow: &Flow<'_, 'a>) -> Self {
        let meets = post_dominators(&flow.next);
        let registers: Vec<_> = (0..flow.next.len()).map(|at| flow.registers(at)).collect();
        let geometry = of_geometry(flow, &registers);
        let sources = sources(flow, &registers);
        let mut varying = Self::default();
        // Instructions whose result is varying.
        let mut setting = HashSet::new();
        loop {
            let before = (setting.len(), varying.registers.len(), varying.branches.len());
            for (at, (set, read)) in registers.iter().enumerate() {
                let mut sources = read.iter().zip(&sources[at]);
                let reads = sources.any(|(register, source)| match source {
                    Some(source) => setting.contains(source),
                    None => varying.registers.contains(register),
                });
                if flow.varies(at) || reads {
                    setting.insert(at);
                    varying.registers.extend(set);
                }
                if flow.next[at].len() > 1 && reads && !varying.branches.contains_key(&at) {
                    let region = flow.region(at, meets[at]);
                    let set = set_on_one_side(&region, &registers);
                    varying.registers.extend(set.difference(&geometry));
                    varying.branches.insert(at, region);
                }
            }
            if before == (setting.len(), varying.registers.len(), varying.branches.len()) {
                return varying;
            }
        }
    }
}

/// Returns, for each register that an instruction reads, the instruction that last set it in the same
/// basic block, if any. LLVM uses one register for several values.
fn sources(flow: &Flow<'_, '_>, registers: &[(Vec<&str>, Vec<&str>)]) -> Vec<Vec<Option<usize>>> {
    let mut begins: HashSet<usize> = HashSet::new();
    for (at, next) in flow.next.iter().enumerate() {
        if *next != [at + 1] {
            begins.extend(next);
            begins.insert(at + 1);
        }
    }
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut sources = Vec::new();
    for (at, (set, read)) in registers.iter().enumerate() {
        if begins.contains(&at) {
            known.clear();
        }
        sources.push(read.iter().map(|register| known.get(register).copied()).collect());
        let guarded = flow.instructions[at].guard.is_some();
        for register in set {
            // A guarded write may leave the previous value.
            let _ = if guarded { known.remove(register) } else { known.insert(register, at) };
        }
    }
    sources
}

/// Returns the registers that are set only by reads of one and the same register of the launch geometry.
fn of_geometry<'a>(flow: &Flow<'_, 'a>, registers: &[(Vec<&'a str>, Vec<&'a str>)]) -> HashSet<&'a str> {
    const GEOMETRY: &[&str] = &["%ntid", "%nctaid", "%ctaid"];
    let mut sources: HashMap<&str, Option<&str>> = HashMap::new();
    for (statement, (set, read)) in flow.instructions.iter().zip(registers) {
        let source = match read[..] {
            [one] if statement.opcode().starts_with("mov.") && set.len() == 1 => Some(one),
            _ => None,
        };
        let source = source.filter(|one| GEOMETRY.iter().any(|name| one.starts_with(name)));
        for register in set {
            let known = sources.entry(register).or_insert(source);
            *known = known.filter(|known| Some(*known) == source);
        }
    }
    sources.into_iter().filter_map(|(register, source)| source.map(|_| register)).collect()
}

/// Returns the registers whose value may depend on the path through a region: those set in the region
/// that are set more than once, or are read outside of it, as after a loop that threads leave at
/// different iterations.
fn set_on_one_side<'a>(
    region: &HashSet<usize>,
    registers: &[(Vec<&'a str>, Vec<&'a str>)],
) -> HashSet<&'a str> {
    let inside: HashSet<&str> = region.iter().flat_map(|at| registers[*at].0.iter().copied()).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    let mut found = HashSet::new();
    for (at, (set, read)) in registers.iter().enumerate() {
        for register in set.iter().filter(|register| inside.contains(*register)) {
            let times = times.entry(register).or_default();
            *times += 1;
            if *times > 1 {
                found.insert(*register);
            }
        }
        if !region.contains(&at) {
            found.extend(read.iter().filter(|register| inside.contains(*register)));
        }
    }
    found
}

/// Returns the immediate post-dominator of each instruction: the first instruction that is on every path
/// to the exit. It is `None` if no path reaches the exit, or if it is the exit itself.
fn post_dominators(next: &[Vec<usize>]) -> Vec<Option<usize>> {
    let end = next.len();
    let order = from_the_end(next);
    let mut rank = vec![usize::MAX; end + 1];
    order.iter().enumerate().for_each(|(rank_of, at)| rank[*at] = rank_of);
    let mut parent: Vec<Option<usize>> = vec![None; end + 1];
    parent[end] = Some(end);
    loop {
        let mut changed = false;
        for &at in &order[1..] {
            let known = next[at].iter().copied().filter(|other| parent[*other].is_some());
            let met = known.reduce(|a, b| meeting(a, b, &rank, &parent));
            changed |= met != parent[at];
            parent[at] = met;
        }
        if !changed {
            return parent[..end].iter().map(|at| at.filter(|at| *at != end)).collect();
        }
    }
}

/// Returns the lowest common ancestor of two instructions in the post-dominator tree.
fn meeting(mut a: usize, mut b: usize, rank: &[usize], parent: &[Option<usize>]) -> usize {
    while a != b {
        let later = if rank[a] > rank[b] { &mut a } else { &mut b };
        *later = parent[*later].expect("only what has a parent is compared");
    }
    a
}

/// Returns all instructions that reach the exit, ordered so that each follows at least one of its
/// successors; the exit is the first.
fn from_the_end(next: &[Vec<usize>]) -> Vec<usize> {
    let end = next.len();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); end + 1];
    for (at, after) in next.iter().enumerate() {
        after.iter().for_each(|other| before[*other].push(at));
    }
    let mut seen = vec![false; end + 1];
    seen[end] = true;
    let (mut path, mut finished) = (vec![(end, 0)], Vec::new());
    while let Some((at, child)) = path.last_mut() {
        match before[*at].get(*child).copied() {
            Some(other) => {
                *child += 1;
                if !std::mem::replace(&mut seen[other], true) {
                    path.push((other, 0));
                }
            }
            None => {
                finished.push(*at);
                path.pop();
            }
        }
    }
    finished.reverse();
    finished
}
