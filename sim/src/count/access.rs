//! Memory traffic of a warp instruction: passes over banks of shared memory, sectors of global memory.

use crate::lanes::FULL;
use crate::observe::{Memory, Spacing};

/// Banks of shared memory, each 4 bytes wide.
const BANKS: usize = 32;
const SECTOR_BITS: u32 = 5;

pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
        Some(lane)
    })
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passes {
    pub(super) wavefronts: u64,
    pub(super) ideal: u64,
    pub(super) degree: u32,
}

/// Words that a group of lanes accesses, by bank. Reused, because initialising it for each access is
/// costly.
#[derive(Debug)]
pub(super) struct Group {
    words: [[u32; BANKS]; BANKS],
    counts: [u8; BANKS],
    /// Largest word plus one.
    above: u32,
}

impl Group {
    pub(super) const EMPTY: Self = Self { words: [[0; BANKS]; BANKS], counts: [0; BANKS], above: 0 };

    fn clear(&mut self) {
        (self.counts, self.above) = ([0; BANKS], 0);
    }

    /// Adds a word. A group has at most [`BANKS`] words.
    fn add(&mut self, word: u32, merge: bool) {
        let bank = word as usize % BANKS;
        let count = usize::from(self.counts[bank]) % BANKS;
        // In most access patterns the words ascend, and need no search.
        if merge && word < self.above && self.words[bank][..count].contains(&word) {
            return;
        }
        self.above = self.above.max(word.wrapping_add(1));
        self.words[bank][count] = word;
        self.counts[bank] += 1;
    }
}

/// Counts the passes of an access to shared memory, and records in `banks` the number of different words
/// that each bank supplied in its worst pass. With `merge`, lanes that access the same word share a
/// pass. Atomics need separate passes, because each lane changes the word.
pub(super) fn passes(
    memory: &Memory<'_>,
    merge: bool,
    banks: Option<&mut [u8; 32]>,
    group: &mut Group,
) -> Passes {
    let &Memory { addresses, lanes: mask, bytes, .. } = memory;
    if mask == 0 {
        return Passes::default();
    }
    let words = (bytes / 4).max(1);
    // For accesses without bank conflicts, the first bank and the number of banks that supply words.
    let asked = match memory.spacing() {
        Spacing::Next if bytes >= 4 => Some((0, BANKS as u32)),
        Spacing::Same if merge => Some(((addresses[0] / 4) as u32, words)),
        _ => None,
    };
    if let Some((first, count)) = asked {
        if let Some(banks) = banks {
            for bank in (first..).take(count as usize) {
                let bank = &mut banks[bank as usize % BANKS];
                *bank = 1.max(*bank);
            }
        }
        let words = u64::from(words);
        return Passes { wavefronts: words, ideal: words, degree: 1 };
    }
    let mut worst = [0; 32];
    let mut sum = Passes::default();
    let size = 32 / words;
    let group_mask = if size == 32 { FULL } else { (1 << size) - 1 };
    for start in (0..32).step_by(size as usize) {
        let members = mask & group_mask << start;
        if members == 0 {
            continue;
        }
        group.clear();
        for lane in lanes(members) {
            let first = (addresses[lane] / 4) as u32;
            (first..first + words).for_each(|word| group.add(word, merge));
        }
        let degree = group.counts.iter().copied().max().unwrap_or(0);
        sum.wavefronts += u64::from(degree);
        sum.ideal += 1;
        sum.degree = sum.degree.max(degree.into());
        for (worst, &count) in worst.iter_mut().zip(&group.counts) {
            *worst = count.max(*worst);
        }
    }
    if let Some(banks) = banks {
        for (bank, count) in banks.iter_mut().zip(worst) {
            *bank = count.max(*bank);
        }
    }
    sum
}

/// Counts the sectors of an access to global memory, and the requested bytes in them.
pub(super) fn sectors(memory: &Memory<'_>) -> (u64, u64) {
    let &Memory { addresses, lanes: mask, bytes, .. } = memory;
    match memory.spacing() {
        Spacing::Next => {
            let (first, length) = (addresses[0], u64::from(bytes) * 32);
            let last = (first + length - 1) >> SECTOR_BITS;
            return (last - (first >> SECTOR_BITS) + 1, length);
        }
        Spacing::Same => return (1, bytes.into()),
        Spacing::Other => {}
    }
    // Accesses are aligned to their size of at most 16 bytes, so each is within one sector.
    let mut found = [(0_u64, 0_u32); 32];
    let mut count = 0;
    for lane in lanes(mask) {
        let sector = addresses[lane] >> SECTOR_BITS;
        let part = ((1_u64 << bytes) - 1) as u32;
        let wanted = part << (addresses[lane] & 31);
        let known = &mut found[..count];
        // Most patterns ascend, so comparing with the last sector usually suffices.
        match known.last_mut() {
            Some(last) if last.0 == sector => last.1 |= wanted,
            Some(last) if last.0 > sector => {
                match known.iter_mut().find(|(other, _)| *other == sector) {
                    Some(other) => other.1 |= wanted,
                    None => {
                        // Keeps the largest sector last.
                        found[count] = found[count - 1];
                        found[count - 1] = (sector, wanted);
                        count += 1;
                    }
                }
            }
            _ => {
                found[count] = (sector, wanted);
                count += 1;
            }
        }
    }
    let useful = found[..count].iter().map(|(_, bytes)| u64::from(bytes.count_ones())).sum();
    (count as u64, useful)
}

pub(super) fn most_on_one(addresses: &[u64; 32], mask: u32) -> u64 {
    let mut sorted = [0; 32];
    let mut count = 0;
    for lane in lanes(mask) {
        sorted[count] = addresses[lane];
        count += 1;
    }
    let sorted = &mut sorted[..count];
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::{FULL, Group, Memory, Passes, most_on_one};
    use crate::memory::Space;
    use crate::observe::AccessKind;

    fn memory(addresses: &[u64; 32], lanes: u32, bytes: u32) -> Memory<'_> {
        Memory {
            space: Space::Shared,
            owner: 0,
            generic: false,
            kind: AccessKind::Load,
            bytes,
            elements: 1,
            lanes,
            addresses,
            known: None,
        }
    }

    /// Checks that the executor's hint about the spacing of addresses does not change the count.
    fn known<T: PartialEq + std::fmt::Debug>(memory: Memory<'_>, count: impl Fn(&Memory<'_>) -> T) -> T {
        let found = count(&memory);
        if memory.lanes == FULL {
            let known = Some(memory.spacing());
            assert_eq!(found, count(&Memory { known, ..memory }));
        }
        found
    }

    fn passes(
        addresses: &[u64; 32],
        lanes: u32,
        bytes: u32,
        merge: bool,
        banks: Option<&mut [u8; 32]>,
    ) -> Passes {
        let memory = memory(addresses, lanes, bytes);
        let count = |memory: &Memory<'_>, banks: Option<&mut [u8; 32]>| {
            let mut group = Group::EMPTY;
            super::passes(memory, merge, banks, &mut group)
        };
        match banks {
            Some(_) => count(&memory, banks),
            None => known(memory, |memory| count(memory, None)),
        }
    }

    fn sectors(addresses: &[u64; 32], lanes: u32, bytes: u32) -> (u64, u64) {
        known(memory(addresses, lanes, bytes), super::sectors)
    }

    fn at(address: impl Fn(u64) -> u64) -> [u64; 32] {
        std::array::from_fn(|lane| address(lane as u64))
    }

    #[test]
    fn distinct_words_of_one_bank_conflict() {
        for (stride, degree) in [(1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1)] {
            let found = passes(&at(|lane| 4 * stride * lane), FULL, 4, true, None);
            let expected = Passes { wavefronts: degree.into(), ideal: 1, degree };
            assert_eq!(found, expected, "stride {stride}");
        }
        let eight = passes(&at(|lane| 128 * lane), 0xff, 4, true, None);
        assert_eq!((eight.wavefronts, eight.ideal), (8, 1));
    }

    #[test]
    fn lanes_on_one_word_share_a_wavefront() {
        let uniform = Passes { wavefronts: 1, ideal: 1, degree: 1 };
        assert_eq!(passes(&at(|_| 64), FULL, 4, true, None), uniform);
        assert_eq!(passes(&at(|lane| lane), FULL, 1, true, None), uniform);
        assert_eq!(passes(&at(|lane| lane / 2 * 4), FULL, 4, true, None), uniform);
        assert_eq!(passes(&at(|_| 64), FULL, 4, false, None).wavefronts, 32);
    }

    #[test]
    fn wide_accesses_take_two_or_four_wavefronts() {
        let wide = |bytes: u64, stride: u64, mask| {
            let found = passes(&at(|lane| bytes * stride * lane), mask, bytes as u32, true, None);
            (found.wavefronts, found.ideal, found.degree)
        };
        assert_eq!([wide(8, 1, FULL), wide(16, 1, FULL)], [(2, 2, 1), (4, 4, 1)]);
        assert_eq!([wide(8, 1, 0xffff), wide(16, 1, 0xff)], [(1, 1, 1), (1, 1, 1)]);
        assert_eq!([wide(8, 2, FULL), wide(16, 2, FULL)], [(4, 2, 2), (8, 4, 2)]);
    }

    #[test]
    fn banks_record_words_of_the_worst_pass() {
        let mut banks = [0; 32];
        passes(&at(|lane| 8 * lane), FULL, 4, true, Some(&mut banks));
        assert!(
            banks.iter().enumerate().all(|(bank, &count)| count == if bank % 2 == 0 { 2 } else { 0 })
        );
    }

    #[test]
    fn each_request_counts_a_sector_once() {
        let strided = |stride: u64| sectors(&at(|lane| 4096 + 4 * stride * lane), FULL, 4);
        let expected = [(4, 128), (8, 128), (16, 128), (32, 128), (32, 128)];
        assert_eq!([1, 2, 4, 8, 16].map(strided), expected);
        assert_eq!(sectors(&at(|lane| 4 + 4 * lane), FULL, 4), (5, 128), "across a boundary");
        assert_eq!(sectors(&at(|_| 32), FULL, 4), (1, 4));
        assert_eq!(sectors(&at(|lane| 16 * lane), FULL, 16), (16, 512));
        assert_eq!(sectors(&at(|lane| 4 * (31 - lane)), FULL, 4), (4, 128), "descending");
        assert_eq!(sectors(&at(|lane| lane % 3 * 64), FULL, 8), (3, 24), "to and fro");
        assert_eq!(sectors(&at(|lane| 4 * lane), 0b1001, 4), (1, 8));
    }

    #[test]
    fn lanes_on_one_address_wait_for_each_other() {
        assert_eq!(most_on_one(&at(|_| 8), FULL), 32);
        assert_eq!(most_on_one(&at(|lane| lane % 8), FULL), 4);
        assert_eq!(most_on_one(&at(|lane| lane), 0b11), 1);
    }
}
