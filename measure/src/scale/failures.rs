//! The cost of failures in a long reduction. After a failure it restarts from the beginning, as the
//! library's worlds do, or resumes from each rank's last checkpoint, which is not implemented.

use super::network::Rng;

/// The failures of GPUs, and the recovery. All times are in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failures {
    pub(super) gpus: u32,
    /// Mean time between failures of one GPU, including failures of the host and network that it depends
    /// on.
    pub(super) between: f64,
    /// Time from a failure until all others have detected it and are restarted.
    pub(super) again: f64,
    /// Interval and duration of checkpoints, if any.
    pub(super) keep: Option<(f64, f64)>,
}

impl Failures {
    /// Returns the simulated time of a reduction that takes `work` without failures.
    fn once(&self, work: f64, chance: &mut Rng) -> f64 {
        let mean = self.between / f64::from(self.gpus);
        let (every, each) = self.keep.unwrap_or((work, 0.0));
        let (mut time, mut left) = (0.0, work);
        let mut fails = chance.exponential(mean);
        while left > 0.0 {
            // No checkpoint follows the last part.
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

    /// Returns the time relative to the time without failures, averaged over `trials` trials.
    pub(super) fn factor(&self, work: f64, trials: u32) -> f64 {
        let mut chance = Rng::new(1);
        (0..trials).map(|_| self.once(work, &mut chance)).sum::<f64>() / f64::from(trials) / work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work w with restarts takes (e^(w/m) − 1)(m + r) on average, with m between failures and r per
    /// restart.
    #[test]
    fn average_matches_theory() {
        for (work, again) in [(1.0, 0.0), (10.0, 3.0), (40.0, 3.0)] {
            let failures = Failures { gpus: 4, between: 80.0, again, keep: None };
            let mean = 20.0_f64;
            let expected = ((work / mean).exp() - 1.0) * (mean + again) / work;
            let found = failures.factor(work, 40_000);
            assert!((found / expected - 1.0).abs() < 0.03, "{work}: {found} {expected}");
        }
    }

    #[test]
    fn checkpointed_work_is_not_repeated() {
        let anew = Failures { gpus: 4, between: 80.0, again: 1.0, keep: None };
        let kept = Failures { keep: Some((1.0, 0.1)), ..anew };
        let (anew, kept) = (anew.factor(60.0, 5_000), kept.factor(60.0, 5_000));
        assert!(anew > 5.0 && (1.1..1.4).contains(&kept), "{anew} {kept}");
        // Without failures only the checkpoints cost time.
        let never = Failures { gpus: 1, between: 1e12, again: 1.0, keep: Some((1.0, 0.1)) };
        let expected = 1.0 + 0.1 * 9.0 / 10.0;
        assert!((never.factor(10.0, 10) - expected).abs() < 1e-9);
    }
}
