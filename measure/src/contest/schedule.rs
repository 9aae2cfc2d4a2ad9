//! The order and number of runs of each contender.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Timed rounds. A slow contender takes part in fewer.
    pub rounds: u32,
    pub warm_up: u32,
    /// Slices that the rounds are divided into. The caller may time something else between them.
    pub slices: u32,
    /// Microseconds that one contender may take in all timed rounds together. It runs in at least
    /// [`LEAST_ROUNDS`] rounds regardless.
    pub budget: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 100, warm_up: 3, slices: 5, budget: 2e6 }
    }
}

/// The minimum number of rounds, even for the slowest contender, because fewer have no quartiles.
pub const LEAST_ROUNDS: u32 = 5;

impl Options {
    /// Returns the number of rounds of a contender whose run takes about this many microseconds.
    pub(super) fn rounds_for(&self, microseconds: f64) -> u32 {
        let affordable = (self.budget / microseconds.max(f64::MIN_POSITIVE)).min(f64::from(u32::MAX));
        (affordable as u32).max(LEAST_ROUNDS).min(self.rounds)
    }

    pub(super) fn slice(&self, slice: u32) -> Range<u32> {
        let start = |slice: u32| {
            (u64::from(slice) * u64::from(self.rounds) / u64::from(self.slices.max(1))) as u32
        };
        start(slice)..start(slice + 1)
    }
}

/// Returns whether a round is among `some` rounds that are spread evenly over `all`.
pub(super) fn takes_part(round: u32, some: u32, all: u32) -> bool {
    let (round, some, all) = (u64::from(round), u64::from(some), u64::from(all.max(1)));
    round * some / all != (round + 1) * some / all
}

/// Returns the order of a round's runs: forwards and backwards alternately, so that a contender that
/// runs after a slow one runs before it in the next round.
pub(super) fn order(round: u32, runners: usize) -> impl Iterator<Item = usize> {
    (0..runners).map(move |place| if round.is_multiple_of(2) { place } else { runners - 1 - place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_go_forwards_and_backwards_in_turn() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| order(round, 3).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [2, 1, 0], [0, 1, 2], [2, 1, 0]]);
        let sum = |runner| {
            let place = |round: &Vec<usize>| round.iter().position(|&r| r == runner).unwrap();
            place(&rounds[0]) + place(&rounds[1])
        };
        assert!([0, 1, 2].map(sum) == [2, 2, 2]);
    }

    #[test]
    fn slow_contenders_skip_rounds_evenly() {
        for (some, all) in [(5, 100), (7, 30), (100, 100), (33, 34), (1, 1)] {
            let rounds: Vec<u32> = (0..all).filter(|&round| takes_part(round, some, all)).collect();
            assert_eq!(rounds.len() as u32, some);
            let gaps = rounds.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.into_iter().all(|gap| gap.abs_diff(all / some) <= 1), "{some} of {all}");
        }
    }

    #[test]
    fn a_budget_buys_rounds_but_never_fewer_than_quartiles_need() {
        let options = Options { rounds: 100, budget: 1e6, ..Options::default() };
        let rounds = [0.0, 5.0, 1e4, 2e4, 1e6, 1e9].map(|time| options.rounds_for(time));
        assert_eq!(rounds, [100, 100, 100, 50, 5, 5]);
        assert_eq!(Options { rounds: 3, ..options }.rounds_for(1e9), 3);
    }

    #[test]
    fn slices_are_all_rounds_once() {
        for (rounds, slices) in [(100, 5), (7, 3), (2, 5), (0, 5)] {
            let options = Options { rounds, slices, ..Options::default() };
            let all: Vec<u32> = (0..slices).flat_map(|slice| options.slice(slice)).collect();
            assert_eq!(all, (0..rounds).collect::<Vec<_>>());
        }
    }
}
