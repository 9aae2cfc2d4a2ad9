//! Shadow memory: for each word who wrote and read it last, and whether anybody did; for each of its
//! bytes, once one of them was accessed without the others.
//!
//! What is remembered of a word is a [`Cell`]. Words lie in lines, and mostly a warp accesses a line as
//! a whole, in the order of its lanes: then it is remembered once for the line.

use super::history::{
    Access, Clash, History, IN_FLIGHT, NOBODY, OrderOfAll, Ordered, add_read, add_write,
};
use super::team::Warp;

/// Bytes that one cell stands for.
pub(super) const CELL: u64 = 4;
/// All bytes of a cell.
const WORD: u8 = (1 << CELL) - 1;
/// Cells of a line.
const CELLS: usize = 16;
/// Bytes of a line.
pub(super) const LINE: u64 = CELLS as u64 * CELL;
/// All bytes of a line.
pub(super) const ALL: u64 = u64::MAX;

/// An access of a line as a whole: each lane accesses the cells behind those of the lane before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Whole {
    /// The access of every cell, with the lanes of the first one.
    access: Access,
    /// How many cells a lane accesses, as a power of two.
    shift: u8,
}

impl Whole {
    const NONE: Self = Self { access: Access::NONE, shift: 0 };

    /// `access` by lanes that access `cells` cells each, these the first ones.
    pub(super) fn new(access: &Access, lanes: u32, cells: u64) -> Self {
        Self { access: Access { lanes, ..*access }, shift: cells.trailing_zeros() as u8 }
    }

    /// The access of one cell.
    fn at(&self, cell: usize) -> Access {
        Access { lanes: self.access.lanes << (cell >> self.shift), ..self.access }
    }

    /// Whether it may be that nothing orders this earlier access before `now`.
    #[inline(always)]
    fn may_clash(&self, now: &Self, warp: &Warp) -> bool {
        match self.access.order_of_all(&now.access, warp) {
            OrderOfAll::Yes => false,
            OrderOfAll::No => true,
            // Of two accesses that may race, one writes, and so has a lane of its own for each cell.
            OrderOfAll::ByLanes => (self.access.lanes, self.shift) != (now.access.lanes, now.shift),
        }
    }
}

/// What is remembered of the words of a line.
#[derive(Debug, Clone)]
enum Last<const N: usize> {
    Whole([Whole; N]),
    Cells(Box<[[Access; N]; CELLS]>),
}

impl<const N: usize> Last<N> {
    const NONE: Self = Self::Whole([Whole::NONE; N]);

    fn at(&self, cell: usize) -> [Access; N] {
        match self {
            Self::Whole(whole) => whole.map(|access| access.at(cell)),
            Self::Cells(cells) => cells[cell],
        }
    }

    fn cell(&mut self, cell: usize) -> &mut [Access; N] {
        if let Self::Whole(_) = self {
            *self = Self::Cells(Box::new(std::array::from_fn(|cell| self.at(cell))));
        }
        match self {
            Self::Cells(cells) => &mut cells[cell],
            Self::Whole(_) => unreachable!("they are cells now"),
        }
    }

    /// Whether one of these is of the instruction of `now`, whose lanes are to be added to its own.
    fn is_of(&self, now: &Whole) -> bool {
        let is = |earlier: &Access| earlier.same_instruction(&now.access);
        match self {
            Self::Whole(whole) => is(&whole[0].access),
            Self::Cells(cells) => cells.iter().any(|last| is(&last[0])),
        }
    }

    /// Whether it may be that nothing orders one of these before `now`.
    #[inline(always)]
    fn may_clash(&self, now: &Whole, warp: &Warp) -> bool {
        match self {
            Self::Whole(whole) => whole.iter().any(|earlier| earlier.may_clash(now, warp)),
            Self::Cells(cells) => {
                let mut all = cells.iter().enumerate();
                all.any(|(cell, all)| {
                    let now = now.at(cell);
                    all.iter().any(|earlier| match now.lanes.is_power_of_two() {
                        true => earlier.order(&now, warp) != Ordered::Yes,
                        // Several lanes load the cell, of which at most one is that of an earlier write.
                        false => earlier.order_of_all(&now, warp) != OrderOfAll::Yes,
                    })
                })
            }
        }
    }
}

/// The words of a line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// The last launch that has accessed it; all before is ordered before what comes.
    launch: u32,
    /// The last plain writes in it.
    write: Last<1>,
    /// The last reads of two different warps, the later one first.
    reads: Last<2>,
    /// What few lines have.
    rare: Option<Box<[Rare; CELLS]>>,
    /// Bytes that hold something.
    pub(super) written: u64,
    /// Bytes that a kernel has written since the host took them last.
    pub(super) fresh: u64,
}

/// What few words have.
#[derive(Debug, Clone)]
struct Rare {
    /// The last write of those that do not race with their like, which would hide a plain one.
    strong: Access,
    /// What happened to each byte, once one was accessed without the others, with that write: in the
    /// place of what is remembered of the word.
    bytes: Option<Box<[(History, Access); CELL as usize]>>,
}

impl Rare {
    const NONE: Self = Self { strong: Access::NONE, bytes: None };
}

/// A word of a line.
pub(super) struct Cell<'l> {
    line: &'l mut Line,
    cell: usize,
}

impl Line {
    pub(super) const fn new(written: u64) -> Self {
        Self { launch: 0, write: Last::NONE, reads: Last::NONE, rare: None, written, fresh: 0 }
    }

    /// Forgets what happened in launches before.
    #[inline]
    pub(super) fn in_launch(&mut self, launch: u32) -> &mut Self {
        if self.launch != launch {
            *self = Self { launch, fresh: self.fresh, ..Self::new(self.written) };
        }
        self
    }

    /// The cell that is the so-many-th of all memory.
    pub(super) fn cell(&mut self, cell: u64) -> Cell<'_> {
        Cell { line: self, cell: (cell % CELLS as u64) as usize }
    }

    /// A read of all of it; `false` if it has to be cell by cell.
    pub(super) fn load(&mut self, now: &Whole, warp: &Warp) -> bool {
        if self.written != ALL
            || self.rare.is_some()
            || self.reads.is_of(now)
            || self.write.may_clash(now, warp)
        {
            return false;
        }
        match &mut self.reads {
            Last::Whole([last, before]) => {
                if !last.access.same_warp(&now.access) {
                    *before = *last;
                }
                *last = *now;
            }
            Last::Cells(cells) => {
                for (cell, reads) in cells.iter_mut().enumerate() {
                    add_read(reads, &now.at(cell));
                }
                self.reunite(now);
            }
        }
        true
    }

    /// The reads are remembered for the line again, if those before `now` are of one instruction, too.
    fn reunite(&mut self, now: &Whole) {
        let Last::Cells(cells) = &self.reads else { return };
        let [_, before] = cells[0];
        let wholes = [0, 1, 2].map(|shift| Whole::new(&before, before.lanes, 1 << shift));
        let is = |whole: &&Whole| cells.iter().enumerate().all(|(cell, [_, b])| *b == whole.at(cell));
        let before = match before.agent {
            NOBODY => cells.iter().all(|[_, before]| before.agent == NOBODY).then_some(Whole::NONE),
            _ => wholes.iter().find(is).copied(),
        };
        if let Some(before) = before {
            self.reads = Last::Whole([*now, before]);
        }
    }

    /// A write of all of it, or an atomic that also reads if `reads` is set; `false` if it has to be
    /// cell by cell.
    pub(super) fn store(&mut self, now: &Whole, warp: &Warp, reads: bool) -> bool {
        if reads && self.written != ALL
            || now.access.strong
            || self.rare.is_some()
            || self.write.is_of(now)
            || self.write.may_clash(now, warp)
            || self.reads.may_clash(now, warp)
        {
            return false;
        }
        self.write = Last::Whole([*now]);
        (self.written, self.fresh) = (ALL, ALL);
        true
    }
}

impl Cell<'_> {
    /// A mask of a cell's bytes among those of the line.
    fn bits(&self, bytes: u8) -> u64 {
        u64::from(bytes) << (self.cell as u64 * CELL)
    }

    /// Those of some bytes that hold nothing.
    fn unwritten(&self, bytes: u8) -> u8 {
        bytes & !((self.line.written >> (self.cell as u64 * CELL)) as u8)
    }

    pub(super) fn load(&mut self, bytes: u8, now: &Access, warp: &Warp) -> Option<Clash> {
        let unwritten = self.unwritten(bytes);
        // Told once: the next reader is not to hear of it again.
        self.line.written |= self.bits(bytes);
        let clash = if bytes == WORD && self.line.rare.is_none() {
            let [write] = self.line.write.at(self.cell);
            add_read(self.line.reads.cell(self.cell), now);
            Clash::find((&write, None), &[], now, warp)
        } else {
            self.each_of_rare(bytes, |history, strong| history.load(Some(strong), now, warp))
        };
        Clash::with_unwritten(clash, unwritten)
    }

    /// A write, or an atomic that also reads if `reads` is set.
    pub(super) fn store(&mut self, bytes: u8, now: &Access, warp: &Warp, reads: bool) -> Option<Clash> {
        let unwritten = if reads { self.unwritten(bytes) } else { 0 };
        self.wrote(bytes);
        let clash = if bytes == WORD && !now.strong && self.line.rare.is_none() {
            let reads = self.line.reads.at(self.cell);
            let [write] = self.line.write.cell(self.cell);
            let clash = Clash::find((write, None), &reads, now, warp);
            add_write(write, now);
            clash
        } else {
            self.each_of_rare(bytes, |history, strong| history.store(Some(strong), now, warp))
        };
        Clash::with_unwritten(clash, unwritten)
    }

    /// A read of all of it by several lanes of a warp; `false` if it has to be lane by lane.
    pub(super) fn load_by_all(&mut self, bytes: u8, now: &Access, warp: &Warp) -> bool {
        let [write] = self.line.write.at(self.cell);
        if bytes != WORD
            || self.line.rare.is_some()
            || self.unwritten(bytes) != 0
            || write.order_of_all(now, warp) != OrderOfAll::Yes
        {
            return false;
        }
        add_read(self.line.reads.cell(self.cell), now);
        true
    }

    /// Does something with what is remembered of some bytes, and with their last strong write: all
    /// together, as long as no access was of some of them alone.
    fn each_of_rare(
        &mut self,
        bytes: u8,
        mut act: impl FnMut(&mut History, &mut Access) -> Option<Clash>,
    ) -> Option<Clash> {
        let Line { write, reads, rare, .. } = &mut *self.line;
        let rare = rare.get_or_insert_with(|| Box::new([const { Rare::NONE }; CELLS]));
        let Rare { strong, bytes: each } = &mut rare[self.cell];
        let before = History { write: write.at(self.cell)[0], reads: reads.at(self.cell) };
        if bytes == WORD && each.is_none() {
            let mut history = before;
            let clash = act(&mut history, strong);
            if history.write != before.write {
                write.cell(self.cell)[0] = history.write;
            }
            if history.reads != before.reads {
                *reads.cell(self.cell) = history.reads;
            }
            return clash;
        }
        let each = each.get_or_insert_with(|| Box::new([(before, *strong); CELL as usize]));
        let parts = each.iter_mut().zip(0..).filter(|(_, byte)| bytes >> byte & 1 == 1);
        let clashes = parts.filter_map(|((history, strong), byte)| {
            act(history, strong).map(|clash| Clash { byte, ..clash })
        });
        clashes.reduce(Clash::or)
    }

    /// Changes the last plain write of some bytes.
    fn each(&mut self, bytes: u8, change: impl Fn(&mut Access)) {
        if bytes == WORD && self.line.rare.is_none() {
            return change(&mut self.line.write.cell(self.cell)[0]);
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

    /// All that is remembered of it: of each byte, and which are written, and freshly.
    #[cfg(test)]
    pub(super) fn state(&self) -> ([(History, Access); CELL as usize], u64, u64) {
        let Self { line, cell } = self;
        // Lanes of what nobody did mean nothing.
        let known = |access: Access| if access.agent == NOBODY { Access::NONE } else { access };
        let rare = line.rare.as_ref().map_or(&Rare::NONE, |rare| &rare[*cell]);
        let whole = History { write: line.write.at(*cell)[0], reads: line.reads.at(*cell) };
        let bytes = rare.bytes.as_deref().copied().unwrap_or([(whole, rare.strong); CELL as usize]);
        let bytes = bytes.map(|(History { write, reads }, strong)| {
            (History { write: known(write), reads: reads.map(known) }, known(strong))
        });
        (bytes, line.written & self.bits(WORD), line.fresh & self.bits(WORD))
    }

    fn wrote(&mut self, bytes: u8) {
        self.line.written |= self.bits(bytes);
        self.line.fresh |= self.bits(bytes);
    }
}

/// The so-many-th cell of shared memory, in a launch.
pub(super) fn cell_of(shared: &mut [Line], launch: u32, cell: u64) -> Option<Cell<'_>> {
    Some(shared.get_mut(cell as usize / CELLS)?.in_launch(launch).cell(cell))
}

/// Which bytes of a cell lie in a range, as a mask.
pub(super) fn part(cell: u64, start: u64, end: u64) -> u8 {
    let (low, high) = (start.max(cell * CELL) - cell * CELL, end.min((cell + 1) * CELL) - cell * CELL);
    ((1_u16 << high) - (1 << low)) as u8
}
