//! What failures cost a long reduction: one that begins anew, as a world's does, and one that goes on
//! from what each rank last kept, which would be built.

use super::network::Chance;

/// GPUs that fail, and what is done about it. All times are in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failures {
    pub(super) gpus: u32,
    /// From one failure of a GPU, or of what it needs, to the next, on average.
    pub(super) between: f64,
    /// From a failure until all others have noticed, and have been started again.
    pub(super) again: f64,
    /// How often each rank keeps what it has, and how long that takes; if it does.
    pub(super) keep: Option<(f64, f64)>,
}

impl Failures {
    /// How long a reduction takes, which takes `work` without failures.
    fn once(&self, work: f64, chance: &mut Chance) -> f64 {
        let mean = self.between / f64::from(self.gpus);
        let (every, each) = self.keep.unwrap_or((work, 0.0));
        let (mut time, mut left) = (0.0, work);
        let mut fails = chance.exponential(mean);
        while left > 0.0 {
            // Nothing is kept at the end.
            let part = every.min(left);
            let needs = part + if part < left { each } else { 0.0 };
            if fails < needs {
                time += fails + self.again;
                fails = chance.exponential(mean);
                continue;
            }
            (time, fails, left) = (time + needs, fails - needs, left - part);
        }
        time
    }

    /// How many times as long as without failures it takes, on average of `trials` trials.
    pub(super) fn factor(&self, work: f64, trials: u32) -> f64 {
        let mut chance = Chance::new(1);
        (0..trials).map(|_| self.once(work, &mut chance)).sum::<f64>() / f64::from(trials) / work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside what is known of it: work that begins anew takes (e^(w/m) − 1)(m + r) on average.
    #[test]
    fn the_average_is_what_theory_says() {
        for (work, again) in [(1.0, 0.0), (10.0, 3.0), (40.0, 3.0)] {
            let failures = Failures { gpus: 4, between: 80.0, again, keep: None };
            let mean = 20.0_f64;
            let expected = ((work / mean).exp() - 1.0) * (mean + again) / work;
            let found = failures.factor(work, 40_000);
            assert!((found / expected - 1.0).abs() < 0.03, "{work}: {found} {expected}");
        }
    }

    #[test]
    fn what_is_kept_is_not_done_again() {
        let anew = Failures { gpus: 4, between: 80.0, again: 1.0, keep: None };
        let kept = Failures { keep: Some((1.0, 0.1)), ..anew };
        let (anew, kept) = (anew.factor(60.0, 5_000), kept.factor(60.0, 5_000));
        assert!(anew > 5.0 && (1.1..1.4).contains(&kept), "{anew} {kept}");
        // Where nothing fails it costs what it costs to keep.
        let never = Failures { gpus: 1, between: 1e12, again: 1.0, keep: Some((1.0, 0.1)) };
        let expected = 1.0 + 0.1 * 9.0 / 10.0;
        assert!((never.factor(10.0, 10) - expected).abs() < 1e-9);
    }
}
