//! Shadow of global memory: its lines by their addresses, and what the host did to them.

use std::collections::HashMap;
use std::ops::Range;

use super::ranges::Ranges;
use super::shadow::{ALL, CELL, LINE, Line};

/// Lines of a page of global memory.
const PAGE: u64 = 16;
/// How many pages are found without a search, a power of two.
const NEAR: usize = 256;

/// Where a page lies: the slab, and the first of its lines.
type Place = (u32, u32);

/// Memory of pages. To take it from the host page by page would cost more than to check what is in it.
/// Each slab is four times as large as the one before: the host may give large pages for large ones, and
/// keeps those for the process that it has had before.
#[derive(Debug, Default)]
struct Slabs {
    slabs: Vec<Vec<Line>>,
    /// Places of pages that are gone.
    free: Vec<Place>,
}

impl Slabs {
    /// The first slab has so many lines, and the largest ones, as powers of two.
    const FIRST: u32 = 10;
    const LAST: u32 = 17;

    fn page(&mut self, (slab, first): Place) -> &mut [Line] {
        &mut self.slabs[slab as usize][first as usize..][..PAGE as usize]
    }

    /// A place for a page, which takes it.
    fn add(&mut self, lines: impl Iterator<Item = Line>) -> Place {
        if let Some(place) = self.free.pop() {
            self.page(place).iter_mut().zip(lines).for_each(|(line, new)| *line = new);
            return place;
        }
        let has_room = |slab: &Vec<Line>| slab.capacity() - slab.len() >= PAGE as usize;
        if !self.slabs.last().is_some_and(has_room) {
            let bits = Self::LAST.min(Self::FIRST + 2 * self.slabs.len() as u32);
            self.slabs.push(Vec::with_capacity(1 << bits));
        }
        let slab = self.slabs.len() - 1;
        let lines_of = &mut self.slabs[slab];
        let first = lines_of.len();
        lines_of.extend(lines);
        (slab as u32, first as u32)
    }

    /// Forgets a page; its place is for the next one.
    fn remove(&mut self, place: Place) {
        self.page(place).fill(Line::new(0));
        self.free.push(place);
    }
}

/// Pages by their numbers, with their places.
#[derive(Debug)]
struct Near([(u64, Place); NEAR]);

impl Near {
    /// Where a page is looked for. Numbers of pages that a kernel goes through often lie a power of two
    /// apart.
    const fn of(number: u64) -> usize {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NEAR.trailing_zeros())) as usize
    }
}

impl Default for Near {
    fn default() -> Self {
        // The number of no page.
        Self([(u64::MAX, (0, 0)); NEAR])
    }
}

/// Shadow of global memory.
#[derive(Debug, Default)]
pub(super) struct Global {
    slabs: Slabs,
    /// The place of each page by its number.
    places: HashMap<u64, Place>,
    /// The last page that was asked for of those that are looked for there, with its place.
    near: Near,
    /// What was allocated and not written by the host.
    unwritten: Ranges,
    /// What copies and memsets have written since the host took it last.
    fresh: Ranges,
}

impl Global {
    /// The line with this number, where lines of [`LINE`] bytes are counted from the address 0 on.
    #[inline]
    pub(super) fn line(&mut self, line: u64) -> &mut Line {
        let number = line / PAGE;
        let (found, place) = self.near.0[Near::of(number)];
        let (slab, first) = if found == number { place } else { self.place(number) };
        &mut self.slabs.slabs[slab as usize][first as usize + (line % PAGE) as usize]
    }

    /// The place of a page, which is made if it is not there.
    fn place(&mut self, number: u64) -> Place {
        let Self { slabs, places, unwritten, .. } = self;
        let place = *places.entry(number).or_insert_with(|| {
            let lines = number * PAGE..(number + 1) * PAGE;
            let whole = unwritten.overlapping(lines.start * LINE, lines.end * LINE).next().is_none();
            let written = |line| if whole { ALL } else { !covered(unwritten, line) };
            slabs.add(lines.map(|line| Line::new(written(line))))
        });
        self.near.0[Near::of(number)] = (number, place);
        place
    }

    pub(super) fn allocated(&mut self, address: u64, bytes: u64) {
        self.unwritten.add(address, address + bytes);
    }

    /// Forgets memory that is gone.
    pub(super) fn freed(&mut self, address: u64, bytes: u64) {
        let end = address + bytes;
        self.unwritten.remove(address, end);
        self.fresh.remove(address, end);
        self.near = Near::default();
        // No other allocation is as near as a page.
        let touched = lines(address, end);
        let numbers = touched.start / PAGE..touched.end.div_ceil(PAGE);
        let Self { slabs, places, .. } = self;
        let mut forget = |place| slabs.remove(place);
        if numbers.end - numbers.start < places.len() as u64 {
            numbers.filter_map(|number| places.remove(&number)).for_each(forget);
        } else {
            places.retain(|number, place| {
                let gone = numbers.contains(number);
                if gone {
                    forget(*place);
                }
                !gone
            });
        }
    }

    pub(super) fn host_wrote(&mut self, address: u64, bytes: u64) {
        let end = address + bytes;
        self.unwritten.remove(address, end);
        self.fresh.add(address, end);
        let touched = lines(address, end);
        for number in touched.start / PAGE..touched.end.div_ceil(PAGE) {
            let Some(&place) = self.places.get(&number) else { continue };
            for (line, found) in (number * PAGE..).zip(self.slabs.page(place)) {
                if touched.contains(&line) {
                    found.written |= line_part(line, address, end);
                }
            }
        }
    }

    /// The first address of a range that nobody wrote.
    pub(super) fn first_unwritten(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        self.unwritten.overlapping(address, end).next()?;
        lines(address, end).find_map(|at| {
            let missing = line_part(at, address, end) & !self.line(at).written;
            // The word that it lies in, since words are what is told of.
            let word = (at * LINE + u64::from(missing.trailing_zeros())) / CELL * CELL;
            (missing != 0).then(|| word.max(address))
        })
    }

    /// The host takes what is in a range: the first address that nobody has written since it did so
    /// before.
    pub(super) fn take(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        let mut first = None;
        for at in lines(address, end) {
            let part = line_part(at, address, end);
            let copied = covered(&self.fresh, at);
            let line = self.line(at);
            let missing = part & !line.fresh & !copied;
            line.fresh &= !part;
            if missing != 0 {
                first = first.or(Some(at * LINE + u64::from(missing.trailing_zeros())));
            }
        }
        self.fresh.remove(address, end);
        first
    }
}

/// The lines that a range lies in.
fn lines(address: u64, end: u64) -> Range<u64> {
    address / LINE..end.div_ceil(LINE)
}

/// Which bytes of a line are in a set.
fn covered(set: &Ranges, line: u64) -> u64 {
    let ranges = set.overlapping(line * LINE, (line + 1) * LINE);
    ranges.fold(0, |mask, (first, last)| mask | line_part(line, first, last))
}

/// Which bytes of a line lie in a range that meets it, as a mask.
fn line_part(line: u64, start: u64, end: u64) -> u64 {
    let (first, behind) = (line * LINE, (line + 1) * LINE);
    let (low, high) = (start.max(first) - first, end.min(behind) - first);
    (ALL >> (LINE - (high - low))) << low
}
