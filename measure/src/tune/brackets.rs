//! Derives the brackets of tuning tables from measured times. A table has as few brackets as possible,
//! so that they differ by more than the noise of the measurements.

use crate::contest::Spread;
use warpfold_suite::reducer::{Choice, Launch, tuning::Bracket};

use super::candidates::LARGE;

/// Launches whose times between events are within this factor of the best are compared by their times in
/// a CUDA graph. Smaller differences between events are noise.
pub(super) const TIE: f64 = 1.01;

/// Returns the factor of the best score up to which a choice may be shared with neighbouring sizes. It
/// is smaller if memory dominates the times, because these vary less.
fn as_good(bytes: u64) -> f64 {
    if bytes < LARGE { 1.01 } else { 1.002 }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    pub(super) launch: Launch,
    /// Time of one run between two CUDA events.
    pub(super) time: Spread,
    /// Time of one run in a graph of many runs, if measured.
    pub(super) graph: Option<Spread>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) trials: Vec<Trial>,
    /// Each choice with its trial. Several choices may yield the same launch.
    pub(super) choices: Vec<(Choice, usize)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Range<'p> {
    pub(super) choice: Choice,
    /// The points of the range in order of size, at least one.
    pub(super) points: &'p [Point],
}

impl Point {
    pub(super) fn trial(&self, choice: Choice) -> Option<&Trial> {
        let &(_, trial) = self.choices.iter().find(|(other, _)| *other == choice)?;
        self.trials.get(trial)
    }

    pub(super) fn has_ties(&self) -> bool {
        let best = self.best_time();
        self.trials.iter().filter(|trial| trial.time.median <= TIE * best).count() > 1
    }

    fn best_time(&self) -> f64 {
        self.trials.iter().map(|trial| trial.time.median).fold(f64::INFINITY, f64::min)
    }

    /// Returns each trial's time relative to the best. If several trials are tied and all of them have
    /// times in graphs, their scores are these relative times, and the other trials cannot win.
    fn scores(&self) -> Vec<f64> {
        let best = self.best_time();
        let tied = |trial: &Trial| trial.time.median <= TIE * best;
        let graphs: Vec<Option<f64>> = self
            .trials
            .iter()
            .filter(|trial| tied(trial))
            .map(|trial| trial.graph.map(|graph| graph.median))
            .collect();
        if graphs.len() < 2 || graphs.contains(&None) {
            return self.trials.iter().map(|trial| trial.time.median / best).collect();
        }
        let least = graphs.into_iter().flatten().fold(f64::INFINITY, f64::min);
        let score = |trial: &Trial| match trial.graph {
            Some(graph) if tied(trial) => graph.median / least,
            _ => f64::INFINITY,
        };
        self.trials.iter().map(score).collect()
    }

    fn good(&self) -> Vec<(Choice, f64)> {
        let scores = self.scores();
        let scored = self.choices.iter().map(|&(choice, trial)| (choice, scores[trial]));
        scored.filter(|(_, score)| *score <= as_good(self.bytes)).collect()
    }
}

/// Divides the points into ranges, as few as possible. Each range has a choice that, at every size in
/// the range, is as good as the best one. `points` must be sorted by size, each with at least one trial.
pub(super) fn ranges(points: &[Point]) -> Vec<Range<'_>> {
    let mut ranges = Vec::new();
    let (mut start, mut common) = (0, Vec::new());
    for (at, point) in points.iter().enumerate() {
        let good = point.good();
        let both = both(&common, &good);
        common = if at == start || both.is_empty() {
            if at > start {
                ranges.push(Range { choice: best(&common), points: &points[start..at] });
                start = at;
            }
            good
        } else {
            both
        };
    }
    if !points.is_empty() {
        ranges.push(Range { choice: best(&common), points: &points[start..] });
    }
    ranges
}

/// Returns the choices in both lists, with the sums of their scores.
fn both(some: &[(Choice, f64)], others: &[(Choice, f64)]) -> Vec<(Choice, f64)> {
    let sum = |&(choice, score): &(Choice, f64)| {
        let (_, other) = others.iter().find(|(other, _)| *other == choice)?;
        Some((choice, score + other))
    };
    some.iter().filter_map(sum).collect()
}

fn best(scored: &[(Choice, f64)]) -> Choice {
    scored.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("the best of a point is as good as itself").0
}

/// Returns the brackets of a table. Each ends at the geometric mean of its last size and the next
/// bracket's first.
pub(super) fn brackets(ranges: &[Range<'_>]) -> Vec<Bracket> {
    let end = |at: usize| {
        let next = ranges.get(at + 1)?.points.first()?.bytes;
        let last = ranges[at].points.last()?.bytes;
        Some((last as f64 * next as f64).sqrt() as u64)
    };
    ranges.iter().enumerate().map(|(at, range)| Bracket::new(end(at), range.choice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_suite::reducer::tuning::{Blocks, KernelKind};

    fn choice(blocks: u32) -> Choice {
        Choice { kernel: KernelKind::Grid, block: 512, blocks: Blocks::Total(blocks) }
    }

    /// Returns a size with the times of choices of 1, 2, 3 … blocks, and their times in graphs.
    fn point(bytes: u64, times: &[f64], graphs: &[f64]) -> Point {
        let spread = |time: f64| Spread::of([time]).unwrap();
        let launch = |blocks| Launch { kernel: KernelKind::Grid, blocks, block: 512, tile: 32 };
        let trial = |(at, time): (usize, &f64)| Trial {
            launch: launch(at as u32 + 1),
            time: spread(*time),
            graph: graphs.get(at).map(|graph| spread(*graph)),
        };
        Point {
            bytes,
            trials: times.iter().enumerate().map(trial).collect(),
            choices: (0..times.len()).map(|at| (choice(at as u32 + 1), at)).collect(),
        }
    }

    fn shown(points: &[Point]) -> Vec<(u64, u64, Choice)> {
        let ends = |range: &Range<'_>| (range.points[0].bytes, range.points.last().unwrap().bytes);
        let shown = |range: &Range<'_>| (ends(range).0, ends(range).1, range.choice);
        ranges(points).iter().map(shown).collect()
    }

    #[test]
    fn sizes_with_the_same_best_are_one_bracket() {
        let points = [
            point(1024, &[1.0, 2.0], &[]),
            point(2048, &[1.0, 1.5], &[]),
            point(4096, &[2.0, 1.0], &[]),
            point(16384, &[3.0, 1.0], &[]),
        ];
        assert_eq!(shown(&points), [(1024, 2048, choice(1)), (4096, 16384, choice(2))]);
        let ranges = ranges(&points);
        let ends: Vec<Option<u64>> = brackets(&ranges).iter().map(|bracket| bracket.up_to).collect();
        assert_eq!(ends, [Some(2896), None]);
    }

    #[test]
    fn noise_makes_no_bracket() {
        // The second choice is best by less than 1 % in the middle.
        let points = [
            point(1024, &[1.0, 1.2], &[]),
            point(2048, &[1.005, 1.0], &[]),
            point(4096, &[1.0, 1.3], &[]),
        ];
        assert_eq!(shown(&points), [(1024, 4096, choice(1))]);
        let points = [points[0].clone(), point(2048, &[1.05, 1.0], &[]), points[2].clone()];
        assert_eq!(shown(&points).len(), 3);
        // Among choices that are good at every size, the best one overall is taken.
        let points = [point(1024, &[1.009, 1.0], &[]), point(2048, &[1.0, 1.001], &[])];
        assert_eq!(shown(&points), [(1024, 2048, choice(2))]);
    }

    #[test]
    fn graph_times_break_ties() {
        let tied = point(1024, &[5.0, 5.04, 5.02, 6.0], &[2.0, 1.5, 1.52, 0.5]);
        assert!(tied.has_ties());
        // The fourth choice does not win, because its time between events is outside the tie.
        assert_eq!(shown(&[tied]), [(1024, 1024, choice(2))]);
        let clear = point(1024, &[5.0, 5.1], &[2.0, 1.0]);
        assert!(!clear.has_ties());
        assert_eq!(shown(&[clear]), [(1024, 1024, choice(1))]);
        // If one of the tied trials has no time in a graph, the times between events decide.
        assert_eq!(shown(&[point(1024, &[5.0, 4.99], &[2.0])]), [(1024, 1024, choice(2))]);
    }

    #[test]
    fn choices_that_make_the_same_launch_are_the_same() {
        let mut first = point(1024, &[1.0, 2.0], &[]);
        first.choices.push((choice(99), 0));
        let second = Point { choices: vec![(choice(99), 0)], ..point(2048, &[1.0], &[]) };
        assert_eq!(shown(&[first.clone(), second]), [(1024, 2048, choice(99))]);
        assert_eq!(first.trial(choice(99)), first.trial(choice(1)));
        assert_eq!(first.trial(choice(50)), None);
    }

    #[test]
    fn no_points_yield_no_brackets() {
        assert!(ranges(&[]).is_empty() && brackets(&[]).is_empty());
    }
}
