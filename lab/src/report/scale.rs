//! Maps values to positions on an axis.

use super::format::{count, power, tick};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    Linear {
        from: f64,
        to: f64,
    },
    /// Logarithmic, with ticks at powers of two.
    Doubling {
        from: f64,
        to: f64,
    },
    /// Logarithmic, with ticks at powers of ten.
    Tenfold {
        from: f64,
        to: f64,
    },
}

impl Scale {
    /// Returns a scale from 0 to a little above the maximum.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let most = values.into_iter().fold(0.0, f64::max);
        Self::Linear { from: 0.0, to: most * 1.04 }
    }

    /// Returns a scale around all values, by powers of ten.
    pub(super) fn tenfold(values: impl IntoIterator<Item = f64>) -> Self {
        let (from, to) = range(values);
        Self::Tenfold { from: from / 1.25, to: to * 1.25 }
    }

    /// Returns a scale from the minimum to the maximum, by powers of two.
    pub(super) fn doubling(values: impl IntoIterator<Item = f64>) -> Self {
        let (from, to) = range(values);
        Self::Doubling { from, to: if to > from { to } else { from * 2.0 } }
    }

    pub(super) fn at(self, value: f64) -> f64 {
        match self {
            Self::Linear { from, to } => (value - from) / (to - from),
            Self::Doubling { from, to } | Self::Tenfold { from, to } => {
                (value / from).ln() / (to / from).ln()
            }
        }
    }

    /// Returns about `about` round values with their labels.
    pub(super) fn ticks(self, about: usize) -> Vec<(f64, String)> {
        match self {
            Self::Linear { from, to } => {
                let step = round_step((to - from) / about as f64);
                let first = (from / step - 1e-9).ceil() as i64;
                let last = (to / step + 1e-9).floor() as i64;
                (first..=last).map(|k| k as f64 * step).map(|value| (value, tick(value))).collect()
            }
            Self::Doubling { from, to } => doubling(from, to, about),
            Self::Tenfold { from, to } => tenfold(from, to),
        }
    }
}

fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let all = values.into_iter();
    all.fold((f64::INFINITY, 0.0), |(least, most), value| (least.min(value), most.max(value)))
}

/// Returns 1, 2 or 5 times a power of ten, at least the given.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

fn doubling(from: f64, to: f64, about: usize) -> Vec<(f64, String)> {
    let (first, last) = ((from.log2() - 1e-9).ceil() as u32, (to.log2() + 1e-9).floor() as u32);
    let step = (1..).find(|step| (last.saturating_sub(first)) / step < about as u32).unwrap_or(1);
    let label = |exponent: u32| if last < 10 { count(1 << exponent) } else { power(exponent) };
    (first..=last)
        .filter(|exponent| exponent.is_multiple_of(step))
        .map(|exponent| (2f64.powi(exponent as i32), label(exponent)))
        .collect()
}

/// Returns powers of ten, and 2 and 5 times them on a short axis.
fn tenfold(from: f64, to: f64) -> Vec<(f64, String)> {
    let decades = (to / from).log10();
    let factors: &[f64] = if decades < 2.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    (first..=last)
        .flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)))
        .filter(|value| (from..=to).contains(value))
        .map(|value| (value, tick(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, about: usize) -> Vec<String> {
        scale.ticks(about).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = Scale::Linear { from: 0.0, to: 4814.0 };
        assert_eq!(
            linear.ticks(5).iter().map(|tick| tick.0).collect::<Vec<_>>(),
            [0., 1000., 2000., 3000., 4000.]
        );
        assert_eq!(labels(Scale::Linear { from: 0.93, to: 1.06 }, 6), ["0.95", "1", "1.05"]);
        assert_eq!(
            labels(Scale::doubling([1024.0, 2f64.powi(28)]), 5),
            ["2¹²", "2¹⁶", "2²⁰", "2²⁴", "2²⁸"]
        );
        assert_eq!(labels(Scale::doubling([1.0, 64.0]), 8), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(labels(Scale::Tenfold { from: 1.8, to: 60.0 }, 5), ["2", "5", "10", "20", "50"]);
    }

    #[test]
    fn values_lie_where_they_should() {
        assert_eq!(Scale::Linear { from: 1.0, to: 3.0 }.at(2.0), 0.5);
        assert!((Scale::Tenfold { from: 1.0, to: 100.0 }.at(10.0) - 0.5).abs() < 1e-12);
        assert!((Scale::doubling([4.0, 16.0]).at(8.0) - 0.5).abs() < 1e-12);
    }
}
