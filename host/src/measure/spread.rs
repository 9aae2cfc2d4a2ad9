//! Statistics of repeated timings.

use serde::{Deserialize, Serialize};

/// The distribution of the times of several runs, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub q1: f64,
    pub q3: f64,
}

impl Spread {
    /// Summarises the times of single runs; `None` if there are none.
    pub fn of(times: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut times: Vec<f64> = times.into_iter().collect();
        times.sort_by(f64::total_cmp);
        let (&min, &max) = (times.first()?, times.last()?);
        let at = |part| quantile(&times, part);
        Some(Self { median: at(0.5), min, max, q1: at(0.25), q3: at(0.75) })
    }

    /// Returns the bandwidth in 10^9 bytes per second if the median run moved this many bytes.
    pub fn gigabytes_per_second(&self, bytes: u64) -> f64 {
        bytes as f64 / self.median / 1e3
    }
}

/// Returns the quantile of the sorted values, interpolated linearly.
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
