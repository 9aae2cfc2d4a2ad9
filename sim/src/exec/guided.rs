//! Launches in a seeded thread order, which exposes bugs that lock step and long turns hide: lanes
//! diverge before accesses that others may see, and warps and blocks have short turns in any order.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::Space;
use crate::program::{Effect, Inst, Program};

use super::divergent_path::Wait;
use super::warp::Warp;

const MOST_FUEL: u64 = 64;
/// Maximum divergent paths of a warp; each path takes its own turns.
const MOST_STRANDS: usize = 16;

/// A source of choices. Guided launches run on one host thread, so the choices are reproducible.
#[derive(Debug)]
pub(crate) struct Guide {
    state: AtomicU64,
    seed: u64,
}

impl Guide {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed), seed }
    }

    /// Returns the next number of the SplitMix64 sequence.
    fn next(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let state = self.state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(super) fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(super) fn fuel(&self, quantum: u32) -> u32 {
        quantum.min(1 + self.below(MOST_FUEL) as u32)
    }

    pub(super) fn shuffled(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }

    /// Returns the position of a number below `total` in a permutation that depends only on the seed and
    /// `total`.
    pub(super) fn place(&self, number: u64, total: u64) -> u64 {
        let (own, total) = (Self::new(self.seed ^ total), u128::from(total));
        let gcd = |mut a: u128, mut b: u128| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let factor = loop {
            let factor = u128::from(own.next());
            if gcd(factor, total) == 1 {
                break factor;
            }
        };
        ((factor * u128::from(number) + u128::from(own.next())) % total) as u64
    }
}

impl Warp {
    /// Lets lanes diverge before an access that others may see, or runs another path first. Returns
    /// whether the running lanes have changed.
    #[cold]
    pub(super) fn wanders(&mut self, guide: &Guide, program: &Program, inst: &Inst) -> bool {
        if !is_seen(program, inst) {
            return false;
        }
        let before = (self.pc, self.active);
        if guide.one_in(2) {
            self.unite();
        }
        let apart = self.active & guide.next() as u32;
        if self.paths() < MOST_STRANDS && apart != 0 && apart != self.active && guide.one_in(2) {
            self.set_aside(apart, Wait::Nothing);
        }
        if guide.one_in(3) {
            self.switch(guide.below(MOST_STRANDS as u64) as usize);
        }
        before != (self.pc, self.active)
    }
}

fn is_seen(program: &Program, inst: &Inst) -> bool {
    let (Effect::Read(access) | Effect::Write(access)) = inst.op.effect() else { return false };
    let space = program.accesses[access as usize].at.space;
    matches!(space, Space::Global | Space::Shared | Space::Generic)
}

#[cfg(test)]
mod tests {
    use super::Guide;

    #[test]
    fn orders_are_permutations() {
        for seed in 0..20 {
            let guide = Guide::new(seed);
            for total in [1, 2, 7, 30, 1000] {
                let mut places: Vec<u64> = (0..total).map(|number| guide.place(number, total)).collect();
                let again: Vec<u64> = (0..total).map(|number| guide.place(number, total)).collect();
                assert_eq!(places, again);
                places.sort_unstable();
                assert!(places.into_iter().eq(0..total), "seed {seed}, {total}");
                let mut order = guide.shuffled(total as usize);
                order.sort_unstable();
                assert!(order.into_iter().eq(0..total as usize));
            }
        }
    }
}
