//! The times of a contender, and the comparison of two contenders.

use serde::{Deserialize, Serialize};
use warpfold_suite::measure::Spread;

/// Statistics of the ratio of two contenders' times, taken round by round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub median: f64,
    pub q1: f64,
    pub q3: f64,
}

/// Microseconds of each round; `None` for rounds in which the contender did not run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundTimes(pub Vec<Option<f64>>);

impl RoundTimes {
    /// Returns the number of timed rounds.
    pub fn runs(&self) -> usize {
        self.0.iter().flatten().count()
    }

    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.0.iter().flatten().copied())
    }

    /// Returns the ratio to the other contender's times, from the rounds in which both ran; `None`
    /// without such a round.
    pub fn over(&self, other: &Self) -> Option<Ratio> {
        let pairs = self.0.iter().zip(&other.0).filter_map(|(&this, &other)| this.zip(other));
        let Spread { median, q1, q3, .. } = Spread::of(pairs.map(|(this, other)| this / other))?;
        Some(Ratio { median, q1, q3 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The times of both contenders grow, but their ratio is 2 in each round. The ratio of the
        // medians differs.
        let slow = RoundTimes(vec![Some(2.0), Some(4.0), Some(8.0), None, Some(100.0)]);
        let fast = RoundTimes(vec![Some(1.0), Some(2.0), Some(4.0), Some(9.0), None]);
        assert_eq!(slow.over(&fast), Some(Ratio { median: 2.0, q1: 2.0, q3: 2.0 }));
        assert_eq!(slow.runs(), 4);
        assert_eq!(slow.over(&RoundTimes(vec![None, None, None, Some(1.0), None])), None);
        let mixed = RoundTimes(vec![Some(1.0), Some(2.0), Some(6.0), Some(9.0)]);
        assert_eq!(mixed.over(&fast), Some(Ratio { median: 1.0, q1: 1.0, q3: 1.125 }));
    }
}
