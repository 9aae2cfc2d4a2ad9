//! Decisions of an execution, and a depth-first search over them.
//!
//! Executions that differ only in the order of independent steps are equivalent, and one of them is
//! enough: a warp whose step was already tried sleeps until a dependent step is taken (sleep sets).

/// The next instruction of a warp, if other warps may observe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Accessed 8-byte cells of global memory, sorted.
    pub(crate) cells: Vec<u64>,
    pub(crate) writes: bool,
    /// Set for `fence.sc`. All `fence.sc` have one total order.
    pub(crate) fence: bool,
}

impl Step {
    /// Returns whether the order of two steps of different warps has no effect.
    fn independent(&self, other: &Self) -> bool {
        if self.fence && other.fence {
            return false;
        }
        !(self.writes || other.writes)
            || !self.cells.iter().any(|c| other.cells.binary_search(c).is_ok())
    }
}

#[derive(Debug, Clone, Copy)]
struct Decision {
    count: usize,
    taken: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Trail {
    decisions: Vec<Decision>,
    made: usize,
    /// The sleep set: warps with their next steps, which need not run before a dependent step has run.
    asleep: Vec<(usize, Step)>,
    /// Disables the sleep sets, so that every order of steps is run.
    restless: bool,
}

impl Trail {
    pub(crate) fn new(restless: bool) -> Self {
        Self { restless, ..Self::default() }
    }

    pub(crate) fn restart(&mut self) {
        self.made = 0;
        self.asleep.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.decisions.clear();
        self.restart();
    }

    /// Advances to an execution that has not been run; returns `false` if none is left.
    pub(crate) fn advance(&mut self) -> bool {
        while let Some(last) = self.decisions.last_mut() {
            last.taken += 1;
            if last.taken < last.count {
                return true;
            }
            self.decisions.pop();
        }
        false
    }

    pub(crate) fn choose(&mut self, count: usize) -> usize {
        if count <= 1 {
            return 0;
        }
        if self.made == self.decisions.len() {
            self.decisions.push(Decision { count, taken: 0 });
        }
        let Decision { count: known, taken } = self.decisions[self.made];
        assert_eq!(known, count, "the same decisions lead to the same place");
        self.made += 1;
        taken
    }

    /// Chooses the ready warp that takes its step; returns `None` if every choice would only repeat
    /// earlier executions.
    pub(crate) fn choose_warp(&mut self, ready: &[(usize, Step)]) -> Option<usize> {
        let sleeps = |warp| !self.restless && self.asleep.iter().any(|(asleep, _)| *asleep == warp);
        let awake: Vec<&(usize, Step)> = ready.iter().filter(|(warp, _)| !sleeps(*warp)).collect();
        if awake.is_empty() {
            return None;
        }
        let taken = self.choose(awake.len());
        let (warp, step) = awake[taken];
        self.asleep.extend(awake[..taken].iter().map(|&one| one.clone()));
        self.asleep.retain(|(_, other)| other.independent(step));
        Some(*warp)
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, Trail};

    /// Runs warps, each given as the number of its steps, their cell, and whether they write it. Returns
    /// the number of complete executions.
    fn executions(warps: &[(usize, u64, bool)]) -> u64 {
        let (mut trail, mut complete) = (Trail::default(), 0);
        loop {
            trail.restart();
            let mut left: Vec<usize> = warps.iter().map(|&(steps, ..)| steps).collect();
            loop {
                let ready: Vec<_> = (0..warps.len())
                    .filter(|&warp| left[warp] > 0)
                    .map(|warp| {
                        (warp, Step { cells: vec![warps[warp].1], writes: warps[warp].2, fence: false })
                    })
                    .collect();
                if ready.is_empty() {
                    complete += 1;
                    break;
                }
                let Some(warp) = trail.choose_warp(&ready) else { break };
                left[warp] -= 1;
            }
            if !trail.advance() {
                return complete;
            }
        }
    }

    #[test]
    fn only_dependent_steps_are_reordered() {
        assert_eq!(executions(&[(3, 0, true), (3, 0, true)]), 20);
        assert_eq!(executions(&[(3, 0, true), (3, 0, false)]), 20);
        assert_eq!(executions(&[(3, 0, false), (3, 0, false)]), 1);
        assert_eq!(executions(&[(3, 0, true), (3, 1, true)]), 1);
        assert_eq!(executions(&[(2, 0, true), (2, 0, true), (4, 1, true)]), 6);
    }
}
