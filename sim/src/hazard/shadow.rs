//! Shadow memory: for each word who wrote and read it last, and whether anybody did; for each of its
//! bytes, once one of them was accessed without the others.

use std::collections::HashMap;
use std::ops::Range;

use super::ranges::Ranges;
use super::team::Warp;

/// Bytes that one cell stands for.
pub(super) const CELL: u64 = 4;
/// Cells of a page of global memory.
const PAGE: u64 = 256;
/// Agents that are no warp: a copy under way, and one that has landed.
pub(super) const IN_FLIGHT: u32 = u32::MAX;
pub(super) const NOBODY: u32 = u32::MAX - 1;

/// An access as it is remembered, of the launch that its place says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// The cluster in the grid, and the warp in the cluster.
    pub(super) team: u32,
    pub(super) agent: u32,
    /// The warp's clock.
    pub(super) clock: u32,
    /// Number of the event of that warp.
    pub(super) time: u32,
    pub(super) lanes: u32,
    /// The instruction.
    pub(super) index: u32,
    pub(super) strong: bool,
    pub(super) volatile: bool,
}

impl Access {
    const NONE: Self = Self {
        team: 0,
        agent: NOBODY,
        clock: 0,
        time: 0,
        lanes: 0,
        index: 0,
        strong: false,
        volatile: false,
    };

    #[inline]
    fn same_instruction(&self, other: &Self) -> bool {
        (self.team, self.agent, self.time) == (other.team, other.agent, other.time)
    }

    /// Whether something orders this earlier access before `now`, an access of one lane of `warp`.
    #[inline]
    fn order(&self, now: &Self, warp: &Warp) -> Ordered {
        if self.agent == NOBODY {
            return Ordered::Yes;
        }
        if self.strong && now.strong {
            let lock_step = self.volatile
                && now.volatile
                && !self.same_instruction(now)
                && self.is_unordered_in_warp(now, warp);
            return if lock_step { Ordered::ByLockStep } else { Ordered::Yes };
        }
        let unordered = if self.agent == IN_FLIGHT {
            true
        } else if (self.team, self.agent) == (now.team, now.agent) {
            self.is_unordered_in_warp(now, warp)
        } else {
            let team = (self.team != now.team).then_some(self.team);
            warp.clock.of(team, self.agent) < self.clock
        };
        if unordered { Ordered::No } else { Ordered::Yes }
    }

    /// Whether it is an access of other lanes of the warp, which no barrier orders before `now`.
    fn is_unordered_in_warp(&self, now: &Self, warp: &Warp) -> bool {
        let others = self.lanes & !now.lanes;
        (self.team, self.agent) == (now.team, now.agent)
            && others != 0
            && !warp.ordered(self.time, others, now.lanes.trailing_zeros())
    }
}

/// How an earlier access stands to a later one of the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ordered {
    Yes,
    No,
    /// They do not race, and the one sees the other where the lanes of a warp run in lock step alone.
    ByLockStep,
}

/// What is remembered of the accesses of a place.
#[derive(Debug, Clone, Copy)]
struct History {
    /// The last plain write.
    write: Access,
    /// The last reads of two different warps, the later one first.
    reads: [Access; 2],
}

impl History {
    const NONE: Self = Self { write: Access::NONE, reads: [Access::NONE; 2] };

    #[inline]
    fn load(&mut self, strong: Option<&Access>, now: &Access, warp: &Warp) -> Option<Clash> {
        let clash = self.clash(strong, &[], now, warp);
        let last = &mut self.reads[0];
        if last.same_instruction(now) {
            last.lanes |= now.lanes;
            return clash;
        }
        if (last.team, last.agent) != (now.team, now.agent) {
            self.reads[1] = *last;
        }
        self.reads[0] = *now;
        clash
    }

    #[inline]
    fn store(&mut self, strong: Option<&mut Access>, now: &Access, warp: &Warp) -> Option<Clash> {
        let clash = self.clash(strong.as_deref(), &self.reads, now, warp);
        let write = strong.filter(|_| now.strong).unwrap_or(&mut self.write);
        if write.same_instruction(now) {
            write.lanes |= now.lanes;
        } else {
            *write = *now;
        }
        clash
    }

    /// What an access collides with, of writes and of these reads: mostly nothing.
    #[inline]
    fn clash(
        &self,
        strong: Option<&Access>,
        reads: &[Access],
        now: &Access,
        warp: &Warp,
    ) -> Option<Clash> {
        let is_ordered = |earlier: &Access| earlier.order(now, warp) == Ordered::Yes;
        let quiet =
            is_ordered(&self.write) && strong.is_none_or(is_ordered) && reads.iter().all(is_ordered);
        if quiet { None } else { Some(Clash::of((&self.write, strong), reads, now, warp)) }
    }
}

/// What is remembered of a word.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// What happened to all of it in the last launch that has accessed it; all before is ordered before
    /// what comes.
    whole: History,
    launch: u32,
    /// Bytes that hold something.
    written: u8,
    /// Bytes that a kernel has written since the host took them last.
    fresh: u8,
    rare: Option<Box<Rare>>,
}

/// What few words have.
#[derive(Debug, Clone)]
struct Rare {
    /// The last write of those that do not race with their like, which would hide a plain one.
    strong: Access,
    /// What happened to each byte, once one was accessed without the others, with that write.
    bytes: Option<[(History, Access); CELL as usize]>,
}

impl Rare {
    const NONE: Self = Self { strong: Access::NONE, bytes: None };
}

/// What an access collides with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clash {
    /// An earlier write.
    pub(super) write: Option<Access>,
    /// An earlier read.
    pub(super) read: Option<Access>,
    /// An earlier access that lock step alone orders.
    pub(super) lock_step: Option<Access>,
    /// Bytes that were never written.
    pub(super) unwritten: u8,
    /// The first byte that collides.
    pub(super) byte: u8,
}

impl Clash {
    #[cold]
    fn of(
        (write, strong): (&Access, Option<&Access>),
        reads: &[Access],
        now: &Access,
        warp: &Warp,
    ) -> Self {
        let mut clash = Self::default();
        for write in [Some(write), strong].into_iter().flatten() {
            match write.order(now, warp) {
                Ordered::Yes => {}
                Ordered::No => clash.write = clash.write.or(Some(*write)),
                Ordered::ByLockStep => clash.lock_step = Some(*write),
            }
        }
        for read in reads {
            match read.order(now, warp) {
                Ordered::Yes => {}
                Ordered::No => clash.read = clash.read.or(Some(*read)),
                Ordered::ByLockStep => clash.lock_step = clash.lock_step.or(Some(*read)),
            }
        }
        clash
    }

    /// The same with bytes that were never written; nothing if there are none either.
    #[inline]
    fn with_unwritten(clash: Option<Self>, unwritten: u8) -> Option<Self> {
        match (clash, unwritten) {
            (None, 0) => None,
            (clash, _) => Some(Self { unwritten, ..clash.unwrap_or_default() }),
        }
    }

    /// This, and where it has nothing the other, which is of a later byte.
    fn or(self, later: Self) -> Self {
        Self {
            write: self.write.or(later.write),
            read: self.read.or(later.read),
            lock_step: self.lock_step.or(later.lock_step),
            unwritten: self.unwritten | later.unwritten,
            byte: self.byte,
        }
    }
}

/// All bytes of a cell.
const ALL: u8 = (1 << CELL) - 1;

impl Cell {
    pub(super) const fn new(written: u8) -> Self {
        Self { whole: History::NONE, launch: 0, written, fresh: 0, rare: None }
    }

    /// Forgets what happened in launches before.
    pub(super) fn in_launch(&mut self, launch: u32) -> &mut Self {
        if self.launch != launch {
            (self.whole, self.launch, self.rare) = (History::NONE, launch, None);
        }
        self
    }

    #[inline]
    pub(super) fn load(&mut self, bytes: u8, now: &Access, warp: &Warp) -> Option<Clash> {
        let unwritten = bytes & !self.written;
        // Told once: the next reader is not to hear of it again.
        self.written |= bytes;
        let clash = match &mut self.rare {
            None if bytes == ALL => self.whole.load(None, now, warp),
            _ => self.each_of_rare(bytes, |history, strong| history.load(Some(strong), now, warp)),
        };
        Clash::with_unwritten(clash, unwritten)
    }

    /// A write, or an atomic that also reads if `reads` is set.
    #[inline]
    pub(super) fn store(&mut self, bytes: u8, now: &Access, warp: &Warp, reads: bool) -> Option<Clash> {
        let unwritten = if reads { bytes & !self.written } else { 0 };
        self.wrote(bytes);
        let clash = match &mut self.rare {
            None if bytes == ALL && !now.strong => self.whole.store(None, now, warp),
            _ => self.each_of_rare(bytes, |history, strong| history.store(Some(strong), now, warp)),
        };
        Clash::with_unwritten(clash, unwritten)
    }

    /// Does something with what is remembered of some bytes, and with their last strong write: all
    /// together, as long as no access was of some of them alone.
    fn each_of_rare(
        &mut self,
        bytes: u8,
        mut act: impl FnMut(&mut History, &mut Access) -> Option<Clash>,
    ) -> Option<Clash> {
        let Rare { strong, bytes: each } = &mut **self.rare.get_or_insert_with(|| Box::new(Rare::NONE));
        if bytes == ALL && each.is_none() {
            return act(&mut self.whole, strong);
        }
        let whole = (self.whole, *strong);
        let each = each.get_or_insert([whole; CELL as usize]);
        let parts = each.iter_mut().zip(0..).filter(|(_, byte)| bytes >> byte & 1 == 1);
        let clashes = parts.filter_map(|((history, strong), byte)| {
            act(history, strong).map(|clash| Clash { byte, ..clash })
        });
        clashes.reduce(Clash::or)
    }

    /// Changes the last plain write of some bytes.
    fn each(&mut self, bytes: u8, change: impl Fn(&mut Access)) {
        if bytes == ALL && self.rare.is_none() {
            return change(&mut self.whole.write);
        }
        self.each_of_rare(bytes, |history, _| {
            change(&mut history.write);
            None
        });
    }

    /// A copy that writes bytes is on its way: their last store was its issue.
    pub(super) fn depart(&mut self, bytes: u8) {
        self.each(bytes, |write| write.agent = IN_FLIGHT);
    }

    /// The copy that writes bytes lands, as an access of its own.
    pub(super) fn land(&mut self, bytes: u8, now: Access) {
        self.each(bytes, |write| *write = Access { index: write.index, lanes: write.lanes, ..now });
        self.wrote(bytes);
    }

    fn wrote(&mut self, bytes: u8) {
        self.written |= bytes;
        self.fresh |= bytes;
    }

    fn host_wrote(&mut self, bytes: u8) {
        self.written |= bytes;
    }
}

/// Which bytes of a cell lie in a range, as a mask.
pub(super) fn part(cell: u64, start: u64, end: u64) -> u8 {
    let (low, high) = (start.max(cell * CELL) - cell * CELL, end.min((cell + 1) * CELL) - cell * CELL);
    ((1_u16 << high) - (1 << low)) as u8
}

/// Shadow of global memory.
#[derive(Debug, Default)]
pub(super) struct Global {
    pages: HashMap<u64, Box<[Cell]>>,
    /// What was allocated and not written by the host.
    unwritten: Ranges,
    /// What copies and memsets have written since the host took it last.
    fresh: Ranges,
}

impl Global {
    pub(super) fn cell(&mut self, cell: u64) -> &mut Cell {
        let Self { pages, unwritten, .. } = self;
        let number = cell / PAGE;
        let page = pages.entry(number).or_insert_with(|| {
            let cells = number * PAGE..(number + 1) * PAGE;
            cells.map(|cell| Cell::new(0xf & !covered(unwritten, cell))).collect()
        });
        &mut page[(cell % PAGE) as usize]
    }

    pub(super) fn allocated(&mut self, address: u64, bytes: u64) {
        self.unwritten.add(address, address + bytes);
    }

    /// Forgets memory that is gone.
    pub(super) fn freed(&mut self, address: u64, bytes: u64) {
        let end = address + bytes;
        self.unwritten.remove(address, end);
        self.fresh.remove(address, end);
        // No other allocation is as near as a page.
        let numbers = address / CELL / PAGE..=(end - 1) / CELL / PAGE;
        if numbers.end() - numbers.start() < self.pages.len() as u64 {
            numbers.for_each(|number| drop(self.pages.remove(&number)));
        } else {
            self.pages.retain(|number, _| !numbers.contains(number));
        }
    }

    pub(super) fn host_wrote(&mut self, address: u64, bytes: u64) {
        let end = address + bytes;
        self.unwritten.remove(address, end);
        self.fresh.add(address, end);
        let pages = address / CELL / PAGE..=(end - 1) / CELL / PAGE;
        for number in pages {
            let Some(page) = self.pages.get_mut(&number) else { continue };
            for (offset, cell) in page.iter_mut().enumerate() {
                let at = number * PAGE + offset as u64;
                if at * CELL < end && (at + 1) * CELL > address {
                    cell.host_wrote(part(at, address, end));
                }
            }
        }
    }

    /// The first address of a range that nobody wrote.
    pub(super) fn first_unwritten(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        self.unwritten.overlapping(address, end).next()?;
        let missing = |&cell: &u64| part(cell, address, end) & !self.cell(cell).written != 0;
        let first = cells(address, end).find(missing)?;
        Some((first * CELL).max(address))
    }

    /// The host takes what is in a range: the first address that nobody has written since it did so
    /// before.
    pub(super) fn take(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        let mut first = None;
        for at in cells(address, end) {
            let part = part(at, address, end);
            let copied = covered(&self.fresh, at);
            let cell = self.cell(at);
            let missing = part & !cell.fresh & !copied;
            cell.fresh &= !part;
            if missing != 0 {
                first = first.or(Some(at * CELL + u64::from(missing.trailing_zeros())));
            }
        }
        self.fresh.remove(address, end);
        first
    }
}

/// The cells that a range lies in.
fn cells(address: u64, end: u64) -> Range<u64> {
    address / CELL..end.div_ceil(CELL)
}

/// Which bytes of a cell are in a set.
fn covered(set: &Ranges, cell: u64) -> u8 {
    let ranges = set.overlapping(cell * CELL, (cell + 1) * CELL);
    ranges.fold(0, |mask, (first, last)| mask | part(cell, first, last))
}
