//! Maps values to positions on an axis.

use super::format::{count, power, tick};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Steps {
    Linear,
    /// Logarithmic, with ticks at powers of two.
    Doubling,
    /// Logarithmic, with ticks at powers of ten.
    Tenfold,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) steps: Steps,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Scale {
    /// Returns a scale for all values: from 0 to a little above the maximum if linear, from the minimum
    /// to the maximum if doubling, and slightly beyond both if tenfold.
    pub(super) fn new(steps: Steps, values: impl IntoIterator<Item = f64>) -> Self {
        let ends = |(least, most): (f64, f64), value| (least.min(value), most.max(value));
        let (least, most) = values.into_iter().fold((f64::INFINITY, 0.0), ends);
        let (from, to) = match steps {
            Steps::Linear => (0.0, most * 1.04),
            Steps::Doubling => (least, if most > least { most } else { least * 2.0 }),
            Steps::Tenfold => (least / 1.25, most * 1.25),
        };
        Self { steps, from, to }
    }

    /// Returns a value's position on the axis, from 0 to 1.
    pub(super) fn at(self, value: f64) -> f64 {
        let Self { steps, from, to } = self;
        match steps {
            Steps::Linear => (value - from) / (to - from),
            Steps::Doubling | Steps::Tenfold => (value / from).ln() / (to / from).ln(),
        }
    }

    /// Returns about `about` round values with their labels.
    pub(super) fn ticks(self, about: usize) -> Vec<(f64, String)> {
        let Self { steps, from, to } = self;
        match steps {
            Steps::Linear => {
                let step = round_step((to - from) / about as f64);
                let first = (from / step - 1e-9).ceil() as i64;
                let last = (to / step + 1e-9).floor() as i64;
                (first..=last).map(|k| k as f64 * step).map(|value| (value, tick(value))).collect()
            }
            Steps::Doubling => {
                let first = (from.log2() - 1e-9).ceil() as u32;
                let last = (to.log2() + 1e-9).floor() as u32;
                let step = last.saturating_sub(first) / about as u32 + 1;
                let label =
                    |exponent: u32| if last < 10 { count(1u64 << exponent) } else { power(exponent) };
                let ticks = (first..=last).filter(|exponent| exponent.is_multiple_of(step));
                ticks.map(|exponent| (2f64.powi(exponent as i32), label(exponent))).collect()
            }
            Steps::Tenfold => {
                // A short axis also has 2 and 5 times the powers of ten.
                let factors: &[f64] = if (to / from).log10() < 2.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
                let values =
                    decades.flat_map(|decade| factors.iter().map(move |f| f * 10f64.powi(decade)));
                values
                    .filter(|value| (from..=to).contains(value))
                    .map(|value| (value, tick(value)))
                    .collect()
            }
        }
    }
}

/// Returns the smallest of 1, 2 or 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let labels = |steps, from, to, about| {
            let ticks = Scale { steps, from, to }.ticks(about);
            ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(labels(Steps::Linear, 0.93, 1.06, 6), ["0.95", "1", "1.05"]);
        assert_eq!(labels(Steps::Linear, 0.0, 2.3, 5), ["0", "0.5", "1", "1.5", "2"]);
        let exponents = labels(Steps::Doubling, 1024.0, 2f64.powi(28), 5);
        assert_eq!(exponents, ["2¹²", "2¹⁶", "2²⁰", "2²⁴", "2²⁸"]);
        assert_eq!(labels(Steps::Doubling, 1.0, 64.0, 8), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(labels(Steps::Tenfold, 1.8, 60.0, 5), ["2", "5", "10", "20", "50"]);
        assert!((Scale::new(Steps::Doubling, [4.0, 16.0]).at(8.0) - 0.5).abs() < 1e-12);
    }
}
