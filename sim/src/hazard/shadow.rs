//! Shadow memory. It keeps for each word the last accesses, and whether the word was ever written. After
//! the first access to a part of a word, it keeps these for each byte of that word.
//!
//! The record of a word is a [`Cell`]. Words are grouped into lines. A warp usually accesses a whole
//! line in lane order, which is recorded once for the line.

use super::history::{
    Access, Clash, History, IN_FLIGHT, NOBODY, OrderOfAll, Ordered, add_read, add_write,
};
use super::team::Warp;

pub(super) const CELL: u64 = 4;
const WORD: u8 = (1 << CELL) - 1;
const CELLS: usize = 16;
pub(super) const LINE: u64 = CELLS as u64 * CELL;
pub(super) const ALL: u64 = u64::MAX;

/// An access to a whole line: each lane accesses the cells after those of the previous lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Whole {
    /// The access, with the lanes that access the first cell.
    access: Access,
    /// Log2 of the cells per lane.
    shift: u8,
}

impl Whole {
    const NONE: Self = Self { access: Access::NONE, shift: 0 };

    /// Creates an access of `cells` cells per lane. `lanes` is the mask of the lanes that access the
    /// first cell.
    pub(super) fn new(access: &Access, lanes: u32, cells: u64) -> Self {
        Self { access: Access { lanes, ..*access }, shift: cells.trailing_zeros() as u8 }
    }

    fn at(&self, cell: usize) -> Access {
        Access { lanes: self.access.lanes << (cell >> self.shift), ..self.access }
    }

    #[inline(always)]
    fn may_clash(&self, now: &Self, warp: &Warp) -> bool {
        match self.access.order_of_all(&now.access, warp) {
            OrderOfAll::Yes => false,
            OrderOfAll::No => true,
            // Ordered if each cell has the same lane in both accesses; a write has one lane per cell.
            OrderOfAll::ByLanes => (self.access.lanes, self.shift) != (now.access.lanes, now.shift),
        }
    }
}

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

    /// Returns whether one of these accesses belongs to the same instruction as `now`, so that their
    /// lanes must be merged.
    fn is_of(&self, now: &Whole) -> bool {
        let is = |earlier: &Access| earlier.same_instruction(&now.access);
        match self {
            Self::Whole(whole) => is(&whole[0].access),
            Self::Cells(cells) => cells.iter().any(|last| is(&last[0])),
        }
    }

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
                        // Several lanes load the cell, and an earlier write came from at most one of
                        // them.
                        false => earlier.order_of_all(&now, warp) != OrderOfAll::Yes,
                    })
                })
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Line {
    /// The last launch that accessed the line; earlier launches are ordered before it.
    launch: u32,
    write: Last<1>,
    /// The last reads of two different warps, the later one first.
    reads: Last<2>,
    rare: Option<Box<[Rare; CELLS]>>,
    pub(super) written: u64,
    /// Bytes that a kernel has written since the host last read them as results.
    pub(super) fresh: u64,
}

/// Records that few words need.
#[derive(Debug, Clone)]
struct Rare {
    /// The last strong write. Strong writes do not race with each other, so it must not replace the
    /// record of a plain write.
    strong: Access,
    /// Records of each byte, with its last strong write, once a part of the word was accessed. They
    /// replace the record of the word.
    bytes: Option<Box<[(History, Access); CELL as usize]>>,
}

impl Rare {
    const NONE: Self = Self { strong: Access::NONE, bytes: None };
}

pub(super) struct Cell<'l> {
    line: &'l mut Line,
    cell: usize,
}

impl Line {
    pub(super) const fn new(written: u64) -> Self {
        Self { launch: 0, write: Last::NONE, reads: Last::NONE, rare: None, written, fresh: 0 }
    }

    #[inline]
    pub(super) fn in_launch(&mut self, launch: u32) -> &mut Self {
        if self.launch != launch {
            *self = Self { launch, fresh: self.fresh, ..Self::new(self.written) };
        }
        self
    }

    pub(super) fn cell(&mut self, cell: u64) -> Cell<'_> {
        Cell { line: self, cell: (cell % CELLS as u64) as usize }
    }

    /// Records a read of the whole line; returns `false` if it must be recorded cell by cell.
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

    /// Merges the cells' records into one for the line, if the reads before `now` are of one
    /// instruction.
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

    /// Records a write of the whole line, or an atomic if `reads` is set; returns `false` if it must be
    /// recorded cell by cell.
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
    fn bits(&self, bytes: u8) -> u64 {
        u64::from(bytes) << (self.cell as u64 * CELL)
    }

    fn unwritten(&self, bytes: u8) -> u8 {
        bytes & !((self.line.written >> (self.cell as u64 * CELL)) as u8)
    }

    #[inline]
    pub(super) fn load(&mut self, bytes: u8, now: &Access, warp: &Warp) -> Option<Clash> {
        let unwritten = self.unwritten(bytes);
        // The bytes count as written from now on, so that they are reported once.
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

    /// Records a write, or an atomic if `reads` is set.
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

    /// Records a read of the whole cell by several lanes of a warp; returns `false` if it must be
    /// recorded lane by lane.
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

    /// Applies `act` to the records of some bytes and their last strong write. Applies it once to the
    /// whole word as long as no part of the word was accessed.
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

    fn each(&mut self, bytes: u8, change: impl Fn(&mut Access)) {
        if bytes == WORD && self.line.rare.is_none() {
            return change(&mut self.line.write.cell(self.cell)[0]);
        }
        self.each_of_rare(bytes, |history, _| {
            change(&mut history.write);
            None
        });
    }

    pub(super) fn depart(&mut self, bytes: u8) {
        self.each(bytes, |write| write.agent = IN_FLIGHT);
    }

    pub(super) fn land(&mut self, bytes: u8, now: Access) {
        self.each(bytes, |write| *write = Access { index: write.index, lanes: write.lanes, ..now });
        self.wrote(bytes);
    }

    /// Returns the records of each byte, and the masks of written and fresh bytes.
    #[cfg(test)]
    pub(super) fn state(&self) -> ([(History, Access); CELL as usize], u64, u64) {
        let Self { line, cell } = self;
        // The lanes of an absent access have no meaning.
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

pub(super) fn cell_of(shared: &mut [Line], launch: u32, cell: u64) -> Option<Cell<'_>> {
    Some(shared.get_mut(cell as usize / CELLS)?.in_launch(launch).cell(cell))
}

/// Returns the mask of a cell's bytes that are in a range.
pub(super) fn part(cell: u64, start: u64, end: u64) -> u8 {
    let (low, high) = (start.max(cell * CELL) - cell * CELL, end.min((cell + 1) * CELL) - cell * CELL);
    ((1_u16 << high) - (1 << low)) as u8
}
