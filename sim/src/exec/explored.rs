//! Execution of warps during an exploration: weak memory, and steps in a prescribed order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::explore::{Order, Step, Trail, WeakMemory};
use crate::lanes::{for_each_lane, lanes_of};
use crate::memory::{Allocation, Space, classify};
use crate::program::{Effect, Inst, LANES};

use super::Launched;
use super::backing::{Sink, Source};
use super::warp::Warp;

/// The state of an exploration; one host thread uses it at a time.
#[derive(Debug, Default)]
pub(crate) struct World(Mutex<State>);

#[derive(Debug, Clone)]
pub(super) struct Halted {
    pub(super) step: Step,
    pub(super) depends: bool,
    /// Hash of the warp's state, for a step that only loads: a warp that returns to the same state has
    /// made no progress.
    pub(super) idle: Option<u64>,
    pub(super) strong: bool,
}

/// The loads of a warp since its last step that was not a load.
#[derive(Debug, Default)]
pub(super) struct Spin {
    /// Hash of each state in which the warp stopped, and the number of writes executed by then.
    seen: HashMap<u64, u64>,
    /// Loaded cells; `true` after a strong load.
    cells: BTreeMap<u64, bool>,
}

impl Spin {
    fn take(&mut self, halted: Halted, written: u64) {
        let Halted { step, idle: Some(idle), strong, .. } = halted else {
            return *self = Self::default();
        };
        self.seen.insert(idle, written);
        for cell in step.cells {
            *self.cells.entry(cell).or_default() |= strong;
        }
    }
}

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) warp: usize,
    pub(super) pc: u32,
    /// Address, value, and `true` for a write.
    pub(super) values: Vec<(u64, u64, bool)>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) memory: WeakMemory,
    pub(super) trail: Trail,
    /// Cells of 8 bytes that several warps use and at least one writes. Only the order of steps on them
    /// is explored. The set grows during executions, and the exploration starts over when it does.
    shared: BTreeSet<u64>,
    /// For each cell, the warp that has used it, or `None` for several; and whether it has been written.
    used: HashMap<u64, (Option<usize>, bool)>,
    pub(super) grown: bool,
    pub(super) trouble: Option<String>,
    pub(super) block: Range<usize>,
    pub(super) permit: Option<usize>,
    pub(super) halted: Vec<Option<Halted>>,
    pub(super) spins: Vec<Spin>,
    /// Warps that executed `griddepcontrol.launch_dependents`.
    pub(super) triggered: Vec<bool>,
    arrived: HashMap<(usize, u32), Vec<usize>>,
    pub(super) taken: Vec<Taken>,
}

pub(super) const fn threads(warp: usize) -> Range<usize> {
    warp * LANES..(warp + 1) * LANES
}

impl World {
    pub(super) fn new(trail: Trail) -> Self {
        Self(Mutex::new(State { trail, ..State::default() }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the exploration, because the kernel uses something unsupported.
    pub(super) fn refuse(&self, why: &str) {
        self.state().trouble.get_or_insert_with(|| why.to_owned());
    }

    pub(super) fn fence(&self, warp: u32, mask: u32, order: Order, sc: bool) {
        let mut state = self.state();
        let first = threads(state.block.start + warp as usize).start;
        for_each_lane(mask, |lane| state.memory.fence(first + lane, order, sc));
    }

    /// Executes `griddepcontrol`. The explorer applies the memory effects of a wait.
    pub(super) fn depend(&self, warp: u32, wait: bool) {
        let mut state = self.state();
        let warp = state.block.start + warp as usize;
        state.triggered[warp] |= !wait;
    }

    pub(super) fn meet(&self, warp: u32, mask: u32) {
        let mut state = self.state();
        let first = threads(state.block.start + warp as usize).start;
        let lanes = || lanes_of(mask).map(move |lane| first + lane);
        state.memory.pass(lanes(), lanes());
    }

    /// Records a warp's arrival at a block barrier; if `opened`, joins the memory views of all arrivals.
    pub(super) fn barrier(&self, id: u32, warp: usize, opened: bool) {
        let mut state = self.state();
        let state = &mut *state;
        let start = state.block.start;
        state.arrived.entry((start, id)).or_default().push(start + warp);
        if opened {
            let arrived = state.arrived.remove(&(start, id)).unwrap_or_default();
            let all = || arrived.iter().flat_map(|&warp| threads(warp));
            state.memory.pass(all(), all());
        }
    }
}

impl State {
    pub(super) fn restart(&mut self, warps: usize) {
        self.memory = WeakMemory::new(warps * LANES);
        self.trail.restart();
        self.permit = None;
        self.halted = vec![None; warps];
        self.spins = (0..warps).map(|_| Spin::default()).collect();
        self.triggered = vec![false; warps];
        self.arrived.clear();
        self.taken.clear();
    }

    fn note(&mut self, warp: usize, step: &Step) {
        for &cell in &step.cells {
            let (user, written) = self.used.entry(cell).or_insert((Some(warp), false));
            *written |= step.writes;
            *user = user.filter(|&user| user == warp);
            if user.is_none() && *written && self.shared.insert(cell) {
                self.grown = true;
            }
        }
    }

    /// Returns whether a stopped warp may continue. A warp that would only repeat its loads must wait
    /// for a new write to a loaded cell.
    pub(super) fn may_step(&self, warp: usize, halted: &Halted) -> bool {
        let Spin { seen, cells } = &self.spins[warp];
        let visited = halted.idle.and_then(|idle| seen.get(&idle));
        visited.is_none_or(|&number| self.memory.written_since(cells.keys().copied(), number))
    }

    /// Returns whether a spinning warp might leave its loop if its strong loads read the newest values,
    /// as they eventually must.
    pub(super) fn may_see_more(&self, warp: usize) -> bool {
        let mut cells = self.spins[warp].cells.iter();
        cells.any(|(&cell, &strong)| strong && self.memory.lags(cell, threads(warp)))
    }

    pub(super) fn permit(&mut self, warp: usize) {
        let Some(halted) = self.halted[warp].take() else { return };
        let written = self.memory.written();
        self.spins[warp].take(halted, written);
        self.permit = Some(warp);
    }

    fn value(&mut self, address: u64, value: u64, written: bool) {
        if self.shared.contains(&(address / 8))
            && let Some(taken) = self.taken.last_mut()
        {
            taken.values.push((address, value, written));
        }
    }
}

impl Warp {
    pub(super) fn halts(&self, world: &World, launch: &Launched<'_>, inst: &Inst, mask: u32) -> bool {
        let effect = inst.op.effect();
        let depends = effect == Effect::Depend;
        let Some(step) = self.coming_step(launch, inst, mask) else { return false };
        let mut state = world.state();
        let warp = state.block.start + self.index as usize;
        state.note(warp, &step);
        if state.permit == Some(warp) {
            state.permit = None;
            state.taken.push(Taken { warp, pc: self.pc, values: Vec::new() });
            return false;
        }
        let idle = matches!(effect, Effect::Read(_)).then(|| self.hashed(&state.memory, warp));
        let shared = step.cells.iter().any(|cell| state.shared.contains(cell));
        let strong = match effect {
            Effect::Read(index) => launch.entry.program.accesses[index as usize].order.strong,
            _ => true,
        };
        let halted = Halted { step, depends, idle, strong };
        if halted.step.fence || depends || shared || !state.may_step(warp, &halted) {
            state.halted[warp] = Some(halted);
            return true;
        }
        let written = state.memory.written();
        state.spins[warp].take(halted, written);
        false
    }

    /// Hashes all state that determines the warp's further execution.
    fn hashed(&self, memory: &WeakMemory, warp: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.pc, self.active, self.exited, &self.stack, &self.others).hash(&mut hasher);
        (&self.regs.words, &self.regs.doubles, &self.regs.predicates).hash(&mut hasher);
        (&self.stacks, &self.local).hash(&mut hasher);
        memory.hash_views(threads(warp), &mut hasher);
        hasher.finish()
    }

    /// Returns an instruction's step, if other blocks may observe it.
    fn coming_step(&self, launch: &Launched<'_>, inst: &Inst, mask: u32) -> Option<Step> {
        let (index, writes) = match inst.op.effect() {
            Effect::Read(index) => (index, false),
            Effect::Write(index) => (index, true),
            effect @ (Effect::Fence | Effect::Depend) if mask != 0 => {
                let fence = effect == Effect::Fence;
                return Some(Step { cells: Vec::new(), writes: false, fence });
            }
            _ => return None,
        };
        let access = &launch.entry.program.accesses[index as usize];
        let space = access.at.space;
        if !matches!(space, Space::Global | Space::Generic) {
            return None;
        }
        let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
        let addresses = self.addresses(&access.at);
        let mut cells = Vec::new();
        for_each_lane(mask, |lane| {
            let address = addresses[lane];
            if space == Space::Global || classify(address) == Space::Global {
                cells.extend(address / 8..=(address + (bytes - 1)) / 8);
            }
        });
        cells.sort_unstable();
        cells.dedup();
        (!cells.is_empty()).then_some(Step { cells, writes, fence: false })
    }
}

/// Global memory of an exploration, for one access of a warp.
pub(super) struct Weak<'w> {
    pub(super) world: &'w World,
    pub(super) launch: &'w Launched<'w>,
    pub(super) hint: &'w mut usize,
    pub(super) warp: u32,
    pub(super) order: Order,
}

#[derive(Clone, Copy)]
pub(super) struct Spot<'w> {
    allocation: &'w Allocation,
    offset: u64,
    lane: usize,
}

impl<'w> Source for Weak<'w> {
    type Place = Spot<'w>;

    fn locate(&mut self, address: u64, bytes: u32, lane: usize) -> Option<Spot<'w>> {
        let (launch, hint) = (self.launch, &mut *self.hint);
        let allocation = launch.view.find(address, u64::from(bytes), hint)?;
        let offset = address - allocation.base();
        Some(Spot { allocation, offset, lane })
    }

    fn get(&self, spot: Spot<'w>, offset: u32, width: u32) -> u64 {
        let at = spot.offset + u64::from(offset);
        let address = spot.allocation.base() + at;
        let mut state = self.world.state();
        let state = &mut *state;
        let thread = threads(state.block.start + self.warp as usize).start + spot.lane;
        let value = match state.memory.find(address, width) {
            Ok(Some(place)) => {
                let readable = state.memory.readable(thread, place);
                let index = readable[state.trail.choose(readable.len())];
                state.memory.read(thread, place, index, self.order)
            }
            Ok(None) => spot.allocation.load(at, width, std::sync::atomic::Ordering::Relaxed),
            Err(reason) => {
                state.trouble = Some(reason);
                0
            }
        };
        state.value(address, value, false);
        value
    }

    fn bulk_words(&mut self, _: u64, _: &mut [u32]) -> bool {
        false
    }

    fn bulk_doubles(&mut self, _: u64, _: &mut [u64]) -> bool {
        false
    }

    fn bounds(&self, address: u64, _: usize) -> String {
        self.launch.view.missed(address, 0, |_| None)
    }
}

impl<'w> Weak<'w> {
    /// Writes a value (`Ok`), or a function of the value read (`Err`). Returns the value read, or 0 for
    /// a plain write.
    fn replace(
        &self,
        spot: Spot<'w>,
        offset: u32,
        width: u32,
        change: Result<u64, &dyn Fn(u64) -> u64>,
    ) -> u64 {
        let at = spot.offset + u64::from(offset);
        let address = spot.allocation.base() + at;
        let mut state = self.world.state();
        let state = &mut *state;
        let thread = threads(state.block.start + self.warp as usize).start + spot.lane;
        let place = match state.memory.find(address, width) {
            Ok(Some(place)) => place,
            Ok(None) => {
                let initial = spot.allocation.load(at, width, std::sync::atomic::Ordering::Relaxed);
                state.memory.add(address, width, initial)
            }
            Err(reason) => {
                state.trouble = Some(reason);
                return 0;
            }
        };
        let low = u64::MAX >> (64 - 8 * width);
        let gaps = state.memory.gaps(thread, place);
        let behind = gaps[state.trail.choose(gaps.len())];
        match change {
            Ok(value) => {
                state.memory.write(thread, place, behind, value & low, self.order);
                state.value(address, value & low, true);
                0
            }
            Err(change) => {
                let masked = |old| change(old) & low;
                let old = state.memory.change(thread, place, behind, self.order, masked);
                state.value(address, old, false);
                state.value(address, masked(old), true);
                old
            }
        }
    }
}

impl Sink for Weak<'_> {
    fn put(&mut self, spot: Self::Place, offset: u32, width: u32, value: u64) {
        self.replace(spot, offset, width, Ok(value));
    }

    fn bulk_put_words(&mut self, _: u64, _: &[u32]) -> bool {
        false
    }

    fn bulk_put_doubles(&mut self, _: u64, _: &[u64]) -> bool {
        false
    }

    fn update(&mut self, spot: Self::Place, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        self.replace(spot, 0, width, Err(&change))
    }
}
