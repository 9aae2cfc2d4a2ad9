//! The times of a contender, and the comparison of two contenders.

use serde::{Deserialize, Serialize};
use warpfold_suite::measure::Spread;

/// The ratio of two contenders' times, round by round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub q1: f64,
    /// The upper quartile.
    pub q3: f64,
}

/// Microseconds of each round; `None` for rounds that it did not run in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Laps(pub Vec<Option<f64>>);

impl Laps {
    /// Returns the number of timed rounds.
    pub fn runs(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Returns the statistics of the times; `None` without a run.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.0.iter().flatten().copied())
    }

    /// Returns the ratio to the other's times, from the rounds that both ran in; `None` without such a
    /// round.
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
        // Both get slower in each round; the ratio of each round is 2, that of the medians is not.
        let slow = Laps(vec![Some(2.0), Some(4.0), Some(8.0), None, Some(100.0)]);
        let fast = Laps(vec![Some(1.0), Some(2.0), Some(4.0), Some(9.0), None]);
        assert_eq!(slow.over(&fast), Some(Ratio { median: 2.0, q1: 2.0, q3: 2.0 }));
        assert_eq!(slow.runs(), 4);
        assert_eq!(slow.over(&Laps(vec![None, None, None, Some(1.0), None])), None);
        let mixed = Laps(vec![Some(1.0), Some(2.0), Some(6.0), Some(9.0)]);
        assert_eq!(mixed.over(&fast), Some(Ratio { median: 1.0, q1: 1.0, q3: 1.125 }));
    }
}
