//! Shadow memory of global memory, by lines, and the host's accesses to global memory.

use std::collections::HashMap;
use std::ops::Range;

use super::ranges::Ranges;
use super::shadow::{ALL, CELL, LINE, Line};

const PAGE: u64 = 16;
/// Slots of the page cache, a power of two.
const NEAR: usize = 256;

/// Location of a page: its slab, and the index of its first [`Line`] there.
type Place = (u32, u32);

/// Storage of pages. Allocating page by page took half of the time of a check with long strides. Each
/// slab is four times as large as the one before: the host can use large pages for large slabs, and the
/// allocator keeps freed slabs for later checks of the process.
#[derive(Debug, Default)]
struct Slabs {
    slabs: Vec<Vec<Line>>,
    free: Vec<Place>,
}

impl Slabs {
    /// Base-2 logarithms of the number of lines in the first slab, and in the largest slabs.
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

    fn remove(&mut self, place: Place) {
        self.page(place).fill(Line::new(0));
        self.free.push(place);
    }
}

#[derive(Debug)]
struct Near([(u64, Place); NEAR]);

impl Near {
    /// Returns the slot of a page by a multiplicative hash: the page numbers that a kernel visits are
    /// often a power of two apart.
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
    near: Near,
    /// Allocated bytes that the host has not written.
    unwritten: Ranges,
    /// Bytes written by copies and memsets that the host has not read since.
    fresh: Ranges,
}

impl Global {
    /// Returns a line by its number, which is its address divided by [`LINE`].
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
        // The gap between allocations is larger than a page, so no page is shared.
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

    pub(super) fn first_unwritten(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        self.unwritten.overlapping(address, end).next()?;
        lines(address, end).find_map(|at| {
            let missing = line_part(at, address, end) & !self.line(at).written;
            // Findings refer to words, so this is the address of the word.
            let word = (at * LINE + u64::from(missing.trailing_zeros())) / CELL * CELL;
            (missing != 0).then(|| word.max(address))
        })
    }

    /// Records that the host reads a range as a result. Returns the first address that was not written
    /// since the last such read.
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

/// Returns the mask of a line's bytes that are in a set.
fn covered(set: &Ranges, line: u64) -> u64 {
    let ranges = set.overlapping(line * LINE, (line + 1) * LINE);
    ranges.fold(0, |mask, (first, last)| mask | line_part(line, first, last))
}

/// Returns the mask of a line's bytes that are in a range. The range must overlap the line.
fn line_part(line: u64, start: u64, end: u64) -> u64 {
    let (first, behind) = (line * LINE, (line + 1) * LINE);
    let (low, high) = (start.max(first) - first, end.min(behind) - first);
    (ALL >> (LINE - (high - low))) << low
}
