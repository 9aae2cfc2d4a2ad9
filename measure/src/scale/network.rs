//! Simulates how the values of many GPUs are combined, message by message, with stragglers.
//!
//! Each GPU is ready at its own time, and each message takes its time plus a random delay. A GPU waits
//! only for the messages that it depends on, so that the time of a communication pattern follows from
//! its dependencies.

#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) gpus: usize,
    pub(super) hosts: usize,
    /// Microseconds of a message within a host, and between hosts.
    pub(super) inside: f64,
    pub(super) between: f64,
    /// Mean random delay of a message, relative to its time.
    pub(super) jitter: f64,
    /// Microseconds that a process takes per message when it receives many.
    pub(super) each: f64,
}

/// Distribution of the times at which GPUs are ready.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Microseconds of the fastest card without delays.
    pub(super) time: f64,
    /// Excess time of the slowest card, relative to the fastest. Cards are distributed uniformly in
    /// between.
    pub(super) cards: f64,
    /// Probability that a host pauses, and the pause in microseconds.
    pub(super) hiccup: (f64, f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Each rank sends to the next until all have all values: NCCL's all-gather over a ring.
    Ring,
    /// Values go up and down a binary tree, within hosts first, as in NCCL's tree.
    Tree,
    /// Recursive doubling: in each step, ranks that differ only in that step's bit exchange values.
    Exchange,
    /// All ranks send to rank 0, which answers each: the connections of the library's worlds.
    Hub,
}

impl Pattern {
    pub(super) const ALL: [Self; 4] = [Self::Ring, Self::Tree, Self::Exchange, Self::Hub];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Exchange => "exchange",
            Self::Hub => "hub",
        }
    }
}

pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number in [0, 1), by SplitMix64.
    pub(super) fn number(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from an exponential distribution with this mean.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.number()).ln()
    }
}

impl Machine {
    fn all(&self) -> usize {
        self.gpus * self.hosts
    }

    fn message(&self, from: usize, to: usize, chance: &mut Rng) -> f64 {
        let time = if from / self.gpus == to / self.gpus { self.inside } else { self.between };
        time + if self.jitter > 0.0 { chance.exponential(time * self.jitter) } else { 0.0 }
    }

    fn ready(&self, work: &Work, chance: &mut Rng) -> Vec<f64> {
        let mut ready = Vec::with_capacity(self.all());
        for _ in 0..self.hosts {
            let (often, long) = work.hiccup;
            let stopped = if chance.number() < often { long } else { 0.0 };
            ready.extend((0..self.gpus).map(|_| {
                let card = 1.0 + work.cards * chance.number();
                work.time * card + stopped
            }));
        }
        ready
    }

    /// Returns the microseconds until the last GPU has the result, in total and since the last GPU was
    /// ready.
    pub(super) fn once(&self, pattern: Pattern, work: &Work, chance: &mut Rng) -> (f64, f64) {
        let mut at = self.ready(work, chance);
        let late = last(&at);
        match pattern {
            Pattern::Ring => self.ring(&mut at, chance),
            Pattern::Tree => self.tree(&mut at, chance),
            Pattern::Exchange => self.exchange(&mut at, chance),
            Pattern::Hub => self.hub(&mut at, chance),
        }
        let end = last(&at);
        (end, end - late)
    }

    fn ring(&self, at: &mut [f64], chance: &mut Rng) {
        let count = at.len();
        for _ in 1..count {
            let before = at.to_vec();
            for to in 0..count {
                let from = (to + count - 1) % count;
                at[to] = before[to].max(before[from] + self.message(from, to, chance));
            }
        }
    }

    fn tree(&self, at: &mut [f64], chance: &mut Rng) {
        // If the number of GPUs per host and of hosts are powers of two, combining neighbours first
        // makes each host one subtree.
        let count = at.len();
        for by in doublings(count) {
            for to in (0..count).step_by(2 * by).filter(|to| to + by < count) {
                at[to] = at[to].max(at[to + by] + self.message(to + by, to, chance));
            }
        }
        for by in doublings(count).collect::<Vec<_>>().into_iter().rev() {
            for from in (0..count).step_by(2 * by).filter(|from| from + by < count) {
                at[from + by] = at[from] + self.message(from, from + by, chance);
            }
        }
    }

    fn exchange(&self, at: &mut [f64], chance: &mut Rng) {
        for by in doublings(at.len()) {
            let before = at.to_vec();
            for to in 0..at.len() {
                let from = to ^ by;
                at[to] = before[to].max(before[from] + self.message(from, to, chance));
            }
        }
    }

    fn hub(&self, at: &mut [f64], chance: &mut Rng) {
        let mut come: Vec<f64> =
            (0..at.len()).map(|from| at[from] + self.message(from, 0, chance)).collect();
        come.sort_by(f64::total_cmp);
        let mut free = come.iter().fold(0.0_f64, |free, come| free.max(*come) + self.each);
        for (to, at) in at.iter_mut().enumerate() {
            free += self.each;
            *at = free + self.message(0, to, chance);
        }
    }

    pub(super) fn trials(&self, pattern: Pattern, work: &Work, count: usize) -> [(f64, f64); 2] {
        let mut chance = Rng::new(1);
        let (mut ends, mut more): (Vec<f64>, Vec<f64>) =
            (0..count).map(|_| self.once(pattern, work, &mut chance)).unzip();
        [&mut ends, &mut more].map(|times| {
            times.sort_by(f64::total_cmp);
            (times[times.len() / 2], times[times.len() - 1])
        })
    }
}

fn doublings(count: usize) -> impl Iterator<Item = usize> {
    (0..).map(|log2| 1 << log2).take_while(move |&by| by < count)
}

fn last(at: &[f64]) -> f64 {
    at.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFORM_WORK: Work = Work { time: 100.0, cards: 0.0, hiccup: (0.0, 0.0) };

    fn machine(gpus: usize, hosts: usize) -> Machine {
        Machine { gpus, hosts, inside: 1.0, between: 10.0, jitter: 0.0, each: 2.0 }
    }

    fn more(pattern: Pattern, machine: &Machine) -> f64 {
        let (end, more) = machine.once(pattern, &UNIFORM_WORK, &mut Rng::new(1));
        assert_eq!(end, 100.0 + more);
        more
    }

    #[test]
    fn without_stragglers_time_is_the_number_of_hops() {
        let host = machine(8, 1);
        assert_eq!(more(Pattern::Ring, &host), 7.0);
        assert_eq!(more(Pattern::Tree, &host), 6.0);
        assert_eq!(more(Pattern::Exchange, &host), 3.0);
        // All messages except the hub's own arrive at once. The last answer is sent after sixteen
        // messages.
        assert_eq!(more(Pattern::Hub, &host), 1.0 + 16.0 * 2.0 + 1.0);
        let hosts = machine(8, 4);
        assert_eq!(more(Pattern::Tree, &hosts), 2.0 * (3.0 + 2.0 * 10.0));
        assert_eq!(more(Pattern::Exchange, &hosts), 3.0 + 2.0 * 10.0);
        // Every path around the ring includes the slowest hops.
        let ring = more(Pattern::Ring, &hosts);
        assert!((4.0 * 10.0..=31.0 * 10.0).contains(&ring), "{ring}");
        for pattern in Pattern::ALL {
            let alone = more(pattern, &machine(1, 1));
            assert_eq!(alone > 0.0, pattern == Pattern::Hub, "{pattern:?}");
        }
    }

    /// A straggler delays every pattern only once.
    #[test]
    fn straggler_delays_every_pattern_once() {
        let late = Work { hiccup: (1.0, 1000.0), ..UNIFORM_WORK };
        for pattern in Pattern::ALL {
            let machine = machine(8, 4);
            let (end, more) = machine.once(pattern, &late, &mut Rng::new(1));
            assert_eq!(end, 1100.0 + more, "{pattern:?}");
            let [(_, most), _] = machine.trials(pattern, &late, 10);
            assert_eq!(most, end);
        }
    }

    #[test]
    fn random_numbers_have_the_expected_mean() {
        let mut chance = Rng::new(7);
        let count = 100_000;
        let mean = (0..count).map(|_| chance.number()).sum::<f64>() / f64::from(count);
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let mean = (0..count).map(|_| chance.exponential(3.0)).sum::<f64>() / f64::from(count);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }
}
