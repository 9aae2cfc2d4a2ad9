//! Shadow of global memory, by lines, and of the host's accesses to it.

use std::collections::HashMap;
use std::ops::Range;

use super::ranges::Ranges;
use super::shadow::{ALL, CELL, LINE, Line};

const PAGE: u64 = 16;
/// Pages that are found without a search, a power of two.
const NEAR: usize = 256;

/// Location of a page: the slab, and the first of its lines.
type Place = (u32, u32);

/// Storage of pages. Allocating page by page would cost more than checking their contents. Each slab is
/// four times as large as the one before: the host may use large pages for large slabs, and it keeps for
/// the process those that it had before.
#[derive(Debug, Default)]
struct Slabs {
    slabs: Vec<Vec<Line>>,
    free: Vec<Place>,
}

impl Slabs {
    /// Base-2 logarithms of the lines of the first slab, and of the largest ones.
    const FIRST: u32 = 10;
    const LAST: u32 = 17;

    fn page(&mut self, (slab, first): Place) -> &mut [Line] {
        &mut self.slabs[slab as usize][first as usize..][..PAGE as usize]
    }

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

    /// Clears a page, and frees its place for the next one.
    fn remove(&mut self, place: Place) {
        self.page(place).fill(Line::new(0));
        self.free.push(place);
    }
}

#[derive(Debug)]
struct Near([(u64, Place); NEAR]);

impl Near {
    /// Returns the slot of a page, by a multiplicative hash: the numbers of pages that a kernel goes
    /// through are often a power of two apart.
    const fn of(number: u64) -> usize {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NEAR.trailing_zeros())) as usize
    }
}

impl Default for Near {
    fn default() -> Self {
        Self([(u64::MAX, (0, 0)); NEAR])
    }
}

#[derive(Debug, Default)]
pub(super) struct Global {
    slabs: Slabs,
    places: HashMap<u64, Place>,
    /// Direct-mapped cache of page places.
    near: Near,
    /// Bytes that were allocated, and not written by the host.
    unwritten: Ranges,
    /// Bytes written by copies and memsets since the host last took them.
    fresh: Ranges,
}

impl Global {
    /// Returns the line with this number, counted in [`LINE`] bytes from the address 0.
    #[inline]
    pub(super) fn line(&mut self, line: u64) -> &mut Line {
        let number = line / PAGE;
        let (found, place) = self.near.0[Near::of(number)];
        let (slab, first) = if found == number { place } else { self.place(number) };
        &mut self.slabs.slabs[slab as usize][first as usize + (line % PAGE) as usize]
    }

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

    pub(super) fn freed(&mut self, address: u64, bytes: u64) {
        let end = address + bytes;
        self.unwritten.remove(address, end);
        self.fresh.remove(address, end);
        self.near = Near::default();
        // Other allocations are further away than a page.
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

    /// Returns the first address of a range that nothing has written.
    pub(super) fn first_unwritten(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        self.unwritten.overlapping(address, end).next()?;
        lines(address, end).find_map(|at| {
            let missing = line_part(at, address, end) & !self.line(at).written;
            // The address of the word that contains it, since findings are about words.
            let word = (at * LINE + u64::from(missing.trailing_zeros())) / CELL * CELL;
            (missing != 0).then(|| word.max(address))
        })
    }

    /// Records that the host takes a range as a result; returns the first address that nothing has
    /// written since it last did.
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

fn lines(address: u64, end: u64) -> Range<u64> {
    address / LINE..end.div_ceil(LINE)
}

/// Returns the bytes of a line that are in a set, as a mask.
fn covered(set: &Ranges, line: u64) -> u64 {
    let ranges = set.overlapping(line * LINE, (line + 1) * LINE);
    ranges.fold(0, |mask, (first, last)| mask | line_part(line, first, last))
}

/// Returns the bytes of a line that are in a range overlapping it, as a mask.
fn line_part(line: u64, start: u64, end: u64) -> u64 {
    let (first, behind) = (line * LINE, (line + 1) * LINE);
    let (low, high) = (start.max(first) - first, end.min(behind) - first);
    (ALL >> (LINE - (high - low))) << low
}
