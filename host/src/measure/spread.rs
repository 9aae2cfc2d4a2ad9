//! What many times of one thing come to.

use serde::{Deserialize, Serialize};

/// Times of several runs, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the runs were faster.
    pub median: f64,
    /// The time of the fastest run.
    pub min: f64,
    /// The time of the slowest run.
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
}
