//! Shadow memory: for each word who wrote and read it last, and whether anybody did.

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

/// An access as it is remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// Number of the launch.
    pub(super) launch: u32,
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
    /// Which of the cell's bytes.
    pub(super) bytes: u8,
    pub(super) strong: bool,
}

impl Access {
    const NONE: Self = Self {
        launch: 0,
        team: 0,
        agent: NOBODY,
        clock: 0,
        time: 0,
        lanes: 0,
        index: 0,
        bytes: 0,
        strong: false,
    };

    fn same_instruction(&self, other: &Self) -> bool {
        (self.launch, self.team, self.agent, self.time)
            == (other.launch, other.team, other.agent, other.time)
    }

    /// Whether nothing orders this earlier access before `now`, an access of one
    /// lane of `warp`.
    fn races(&self, now: &Self, warp: &Warp) -> bool {
        if self.agent == NOBODY || self.launch != now.launch || self.bytes & now.bytes == 0 {
            return false;
        }
        if self.strong && now.strong {
            return false;
        }
        if self.agent == IN_FLIGHT {
            return true;
        }
        if (self.team, self.agent) == (now.team, now.agent) {
            let others = self.lanes & !now.lanes;
            return others != 0 && !warp.ordered(self.time, others, now.lanes.trailing_zeros());
        }
        let team = (self.team != now.team).then_some(self.team);
        warp.clock.of(team, self.agent) < self.clock
    }
}

/// What is remembered of a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    write: Access,
    /// The last reads of two different warps, the later one first.
    reads: [Access; 2],
    /// Bytes that hold something.
    written: u8,
    /// Bytes that a kernel has written since the host took them last.
    fresh: u8,
}

/// What an access collides with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clash {
    /// An earlier write.
    pub(super) write: Option<Access>,
    /// An earlier read.
    pub(super) read: Option<Access>,
    /// Some of the bytes were never written.
    pub(super) unwritten: bool,
}

impl Cell {
    pub(super) const fn new(written: u8) -> Self {
        Self { write: Access::NONE, reads: [Access::NONE; 2], written, fresh: 0 }
    }

    pub(super) fn load(&mut self, now: &Access, warp: &Warp) -> Clash {
        let clash = Clash {
            write: self.write.races(now, warp).then_some(self.write),
            read: None,
            unwritten: now.bytes & !self.written != 0,
        };
        // Told once: the next reader is not to hear of it again.
        self.written |= now.bytes;
        let last = &mut self.reads[0];
        if last.same_instruction(now) {
            last.lanes |= now.lanes;
            last.bytes |= now.bytes;
            return clash;
        }
        if (last.launch, last.team, last.agent) != (now.launch, now.team, now.agent) {
            self.reads[1] = *last;
        }
        self.reads[0] = *now;
        clash
    }

    /// A write, or an atomic that also reads if `reads` is set.
    pub(super) fn store(&mut self, now: &Access, warp: &Warp, reads: bool) -> Clash {
        let raced = |earlier: &Access| earlier.races(now, warp);
        let clash = Clash {
            write: raced(&self.write).then_some(self.write),
            read: self.reads.into_iter().find(raced),
            unwritten: reads && now.bytes & !self.written != 0,
        };
        self.wrote(now.bytes);
        if self.write.same_instruction(now) {
            self.write.lanes |= now.lanes;
            self.write.bytes |= now.bytes;
        } else {
            self.write = *now;
        }
        clash
    }

    /// A copy that writes the word is on its way: the last store was its issue.
    pub(super) fn depart(&mut self) {
        self.write.agent = IN_FLIGHT;
    }

    /// The copy that writes the word lands, as an access of its own.
    pub(super) fn land(&mut self, now: Access) {
        self.write = Access { index: self.write.index, lanes: self.write.lanes, ..now };
        self.wrote(now.bytes);
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
