//! What warps meet during an exploration: memory that is weak, and an order of steps that is prescribed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::explore::{Order, Step, Trail, WeakMemory};
use crate::lanes::for_each_lane;
use crate::memory::{Allocation, Space, classify};
use crate::program::{Inst, LANES, Op};

use super::Launched;
use super::backing::{Sink, Source};
use super::warp::Warp;

/// The state of an exploration, which one thread of the host uses at a time.
#[derive(Debug, Default)]
pub(crate) struct World(Mutex<State>);

/// A step in front of which a warp has stopped.
#[derive(Debug, Clone)]
pub(super) struct Halted {
    pub(super) step: Step,
    /// Whether it is `griddepcontrol.wait`.
    pub(super) depends: bool,
    /// For a step that only loads, the state of the warp: when it comes back to it, it has done nothing.
    pub(super) idle: Option<u64>,
    pub(super) strong: bool,
}

/// What a warp that only loads has done since it last did more.
#[derive(Debug, Default)]
pub(super) struct Spin {
    /// Each state that it has stopped in, with the number of messages that there were.
    seen: HashMap<u64, u64>,
    /// Cells that it has loaded from, and whether by strong loads.
    cells: BTreeMap<u64, bool>,
}

impl Spin {
    /// Notes a step that is taken when `written` messages have been written.
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

/// A step taken, for the account of an execution.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) warp: usize,
    pub(super) pc: u32,
    /// Address, value and whether it was written.
    pub(super) values: Vec<(u64, u64, bool)>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) memory: WeakMemory,
    pub(super) trail: Trail,
    /// Cells that several warps use, of which one writes: only steps on these are put in an order.
    /// Found on the way, so that what was explored before does not count.
    shared: BTreeSet<u64>,
    /// Which warp has used each cell, none if several have; and whether one has written.
    used: HashMap<u64, (Option<usize>, bool)>,
    /// Whether `shared` has grown.
    pub(super) grown: bool,
    /// Why the exploration cannot go on.
    pub(super) trouble: Option<String>,
    /// The warps of the block that has its turn.
    pub(super) block: Range<usize>,
    /// The warp that may take its step.
    pub(super) permit: Option<usize>,
    pub(super) halted: Vec<Option<Halted>>,
    pub(super) spins: Vec<Spin>,
    /// Warps whose launch lets the next one start, as far as they are concerned.
    pub(super) triggered: Vec<bool>,
    /// Warps that have arrived at each barrier of each block.
    arrived: HashMap<(usize, u32), Vec<usize>>,
    pub(super) taken: Vec<Taken>,
}

/// The threads of a warp.
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

    /// Ends the exploration: there is something that it cannot do.
    pub(super) fn refuse(&self, why: &str) {
        self.state().trouble.get_or_insert_with(|| why.to_owned());
    }

    /// A fence of the lanes of a mask.
    pub(super) fn fence(&self, warp: u32, mask: u32, order: Order, sc: bool) {
        let mut state = self.state();
        let first = threads(state.block.start + warp as usize).start;
        for_each_lane(mask, |lane| state.memory.fence(first + lane, order, sc));
    }

    /// `griddepcontrol`. What a wait lets the warp see is the explorer's business.
    pub(super) fn depend(&self, warp: u32, wait: bool) {
        let mut state = self.state();
        let warp = state.block.start + warp as usize;
        state.triggered[warp] |= !wait;
    }

    /// A barrier of the lanes of a warp.
    pub(super) fn meet(&self, warp: u32, mask: u32) {
        let mut state = self.state();
        let first = threads(state.block.start + warp as usize).start;
        let lanes =
            || (0..LANES).filter(move |lane| mask >> lane & 1 == 1).map(move |lane| first + lane);
        state.memory.pass(lanes(), lanes());
    }

    /// A warp has arrived at a barrier of its block, which has opened or not.
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
    /// Starts an execution of `warps` warps.
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

    /// Notes that a warp uses cells.
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

    /// Whether a warp that has stopped may go on: one that would only do again what it did has to wait
    /// for a message.
    pub(super) fn may_step(&self, warp: usize, halted: &Halted) -> bool {
        let Spin { seen, cells } = &self.spins[warp];
        let visited = halted.idle.and_then(|idle| seen.get(&idle));
        visited.is_none_or(|&number| self.memory.written_since(cells.keys().copied(), number))
    }

    /// Whether a warp that goes round in vain would come to an end if its loads saw what they have to
    /// see at some time: strong ones, what is in memory.
    pub(super) fn may_see_more(&self, warp: usize) -> bool {
        let mut cells = self.spins[warp].cells.iter();
        cells.any(|(&cell, &strong)| strong && self.memory.lags(cell, threads(warp)))
    }

    /// Lets a warp take the step that it has stopped in front of.
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
    /// Whether the warp has to stop in front of an instruction until its step is permitted.
    pub(super) fn halts(&self, world: &World, launch: &Launched<'_>, inst: &Inst, mask: u32) -> bool {
        let (loads, depends) =
            (matches!(inst.op, Op::Load(_)), matches!(inst.op, Op::GridDependency { .. }));
        let Some(step) = self.coming_step(launch, inst, mask) else { return false };
        let mut state = world.state();
        let warp = state.block.start + self.index as usize;
        state.note(warp, &step);
        if state.permit == Some(warp) {
            state.permit = None;
            state.taken.push(Taken { warp, pc: self.pc, values: Vec::new() });
            return false;
        }
        let idle = loads.then(|| self.hashed(&state.memory, warp));
        let shared = step.cells.iter().any(|cell| state.shared.contains(cell));
        let strong = match inst.op {
            Op::Load(index) => launch.entry.program.accesses[index as usize].order.strong,
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

    /// A number for all that decides what the warp does next.
    fn hashed(&self, memory: &WeakMemory, warp: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.pc, self.active, self.exited, &self.stack, &self.others).hash(&mut hasher);
        (&self.regs.words, &self.regs.doubles, &self.regs.predicates).hash(&mut hasher);
        self.activations.hash(&mut hasher);
        memory.hash_views(threads(warp), &mut hasher);
        hasher.finish()
    }

    /// What an instruction does that other blocks may notice.
    fn coming_step(&self, launch: &Launched<'_>, inst: &Inst, mask: u32) -> Option<Step> {
        let (index, writes) = match inst.op {
            Op::Load(index) => (index, false),
            Op::Store(index) | Op::Atomic(index) => (index, true),
            Op::Fence { sc, .. } if sc && mask != 0 => {
                return Some(Step { cells: Vec::new(), writes: false, fence: true });
            }
            Op::GridDependency { wait: true } if mask != 0 => {
                return Some(Step { cells: Vec::new(), writes: false, fence: false });
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

/// Global memory of an exploration, as an access of a warp sees it.
pub(super) struct Weak<'w> {
    pub(super) world: &'w World,
    pub(super) launch: &'w Launched<'w>,
    pub(super) hint: &'w mut usize,
    pub(super) warp: u32,
    pub(super) order: Order,
}

/// The bytes of a lane's access.
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

    fn bounds(&self, address: u64) -> String {
        self.launch.view.missed(address, 0, |_| None)
    }
}

impl<'w> Weak<'w> {
    /// Writes `change` of the value that is read, or of nothing where nothing is.
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
