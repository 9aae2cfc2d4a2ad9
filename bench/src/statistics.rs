//! What many times of one thing come to, and how two things compare that took turns.

use serde::{Deserialize, Serialize};

/// Times in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the runs were faster.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
    /// A quarter of the runs were faster.
    pub q1: f64,
    /// Three quarters of the runs were faster.
    pub q3: f64,
}

impl Spread {
    /// Of the times of single runs; none without a run.
    pub fn of(times: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut times: Vec<f64> = times.into_iter().collect();
        times.sort_by(f64::total_cmp);
        let (&min, &max) = (times.first()?, times.last()?);
        let at = |part| quantile(&times, part);
        Some(Self { median: at(0.5), min, max, q1: at(0.25), q3: at(0.75) })
    }

    /// Bytes per second in units of 10^9, when the median run moved this many bytes.
    pub fn gigabytes_per_second(&self, bytes: u64) -> f64 {
        bytes as f64 / self.median / 1e3
    }
}

/// One time over another, round by round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// In half of the rounds it was less.
    pub median: f64,
    /// In a quarter of the rounds it was less.
    pub q1: f64,
    /// In three quarters of the rounds it was less.
    pub q3: f64,
}

/// Microseconds of each round; none of those that it sat out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Laps(pub Vec<Option<f64>>);

impl Laps {
    /// Rounds that it was timed in.
    pub fn runs(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// What they come to; none without a run.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.0.iter().flatten().copied())
    }

    /// These over the other's, of the rounds that both ran in; none without such a round.
    pub fn over(&self, other: &Self) -> Option<Ratio> {
        let pairs = self.0.iter().zip(&other.0).filter_map(|(&this, &other)| this.zip(other));
        let Spread { median, q1, q3, .. } = Spread::of(pairs.map(|(this, other)| this / other))?;
        Some(Ratio { median, q1, q3 })
    }
}

/// The value below which this part of the sorted values lies: between two of them, in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let position = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_numpy() {
        let spread = |times: &[f64]| Spread::of(times.iter().copied()).unwrap();
        let Spread { median, min, max, q1, q3 } = spread(&[9.0, 1.0, 5.0, 3.0]);
        assert_eq!((median, min, max, q1, q3), (4.0, 1.0, 9.0, 2.5, 6.0));
        let Spread { median, q1, q3, .. } = spread(&[5.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!((median, q1, q3), (3.0, 2.0, 4.0));
        let one = spread(&[7.0]);
        assert_eq!((one.min, one.q1, one.median, one.q3, one.max), (7.0, 7.0, 7.0, 7.0, 7.0));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn bandwidth_is_bytes_over_the_median() {
        let spread = Spread::of([10.0, 10.0, 100.0]).unwrap();
        assert_eq!(spread.gigabytes_per_second(40_000_000), 4000.0);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // Both get slower by the round; each round's ratio is 2, that of the medians is not.
        let slow = Laps(vec![Some(2.0), Some(4.0), Some(8.0), None, Some(100.0)]);
        let fast = Laps(vec![Some(1.0), Some(2.0), Some(4.0), Some(9.0), None]);
        assert_eq!(slow.over(&fast), Some(Ratio { median: 2.0, q1: 2.0, q3: 2.0 }));
        assert_eq!(slow.runs(), 4);
        assert_eq!(slow.over(&Laps(vec![None, None, None, Some(1.0), None])), None);
        let mixed = Laps(vec![Some(1.0), Some(2.0), Some(6.0), Some(9.0)]);
        assert_eq!(mixed.over(&fast), Some(Ratio { median: 1.0, q1: 1.0, q3: 1.125 }));
    }
}
