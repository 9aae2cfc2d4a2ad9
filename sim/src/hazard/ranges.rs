//! Sets of bytes, as ranges.

use std::collections::BTreeMap;

/// Disjoint ranges of addresses: the end of each, by its start.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn add(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        self.0.insert(start, end);
    }

    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let touched: Vec<(u64, u64)> = self.overlapping(start, end).collect();
        for (first, last) in touched {
            self.0.remove(&first);
            if first < start {
                self.0.insert(first, start);
            }
            if last > end {
                self.0.insert(end, last);
            }
        }
    }

    /// Returns the ranges that overlap the bytes from `start` to `end`, last one first.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let below = self.0.range(..end).rev().map(|(&first, &last)| (first, last));
        below.take_while(move |&(_, last)| last > start)
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    fn all(ranges: &Ranges) -> Vec<(u64, u64)> {
        ranges.0.iter().map(|(&start, &end)| (start, end)).collect()
    }

    #[test]
    fn remove_splits_ranges() {
        let mut ranges = Ranges::default();
        ranges.add(10, 20);
        ranges.add(30, 40);
        ranges.remove(15, 35);
        assert_eq!(all(&ranges), [(10, 15), (35, 40)]);
        ranges.remove(36, 37);
        assert_eq!(all(&ranges), [(10, 15), (35, 36), (37, 40)]);
        ranges.remove(15, 35);
        assert_eq!(all(&ranges).len(), 3, "nothing was there");
    }

    #[test]
    fn added_ranges_stay_disjoint() {
        let mut ranges = Ranges::default();
        ranges.add(10, 30);
        ranges.add(20, 25);
        ranges.add(5, 12);
        assert_eq!(all(&ranges), [(5, 12), (12, 20), (20, 25), (25, 30)]);
        assert_eq!(ranges.overlapping(12, 21).collect::<Vec<_>>(), [(20, 25), (12, 20)]);
        assert_eq!(ranges.overlapping(30, 99).next(), None);
    }
}
