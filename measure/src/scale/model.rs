//! Cost model of a reduction over several GPUs: the time of one GPU with its part, plus the time to
//! combine the GPUs' values, which is a launch and a chain of messages.

use super::measured::Measured;

const FLOAT: f64 = 4.0;

pub(super) const ALL_REDUCE: &str = "all-reduce of one float, back to back";
pub(super) const BUS: &str = "page-locked host memory to all GPUs at once, 1 GiB each";
pub(super) const TORCH_ALONE: &str = "torch.sum";
pub(super) const TORCH: &str = "torch.sum and all-reduce";

/// Time of one GPU: the larger of a call's time and of a start-up time plus the time to read the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LocalTime {
    /// Microseconds of a call with almost nothing to read.
    pub(super) call: f64,
    /// Microseconds before the memory's rate is reached, and after the last byte.
    pub(super) start: f64,
    /// Bytes per microsecond.
    pub(super) rate: f64,
}

impl LocalTime {
    /// Fits the smallest measured size and two large ones.
    pub(super) fn fit(measured: &Measured) -> Self {
        let at = |log2: u32| {
            let found = measured.local.iter().find(|local| local.floats == 1 << log2);
            found.expect("the size was measured").us
        };
        let (small, large) = ((1_u64 << 24) as f64 * FLOAT, (1_u64 << 30) as f64 * FLOAT);
        let rate = (large - small) / (at(30) - at(24));
        Self { call: at(10), start: at(24) - small / rate, rate }
    }

    pub(super) fn of(&self, floats: u64) -> f64 {
        self.call.max(self.start + floats as f64 * FLOAT / self.rate)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Messages {
    /// Microseconds of a launch.
    pub(super) launch: f64,
    /// Microseconds of a message between two GPUs, α.
    pub(super) each: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Messages go up and down a binary tree.
    Tree,
    /// An all-reduce over a ring: messages go around twice.
    RingTwice,
    /// An all-gather over a ring: messages go around once.
    Ring,
}

impl Shape {
    pub(super) fn messages(self, members: u32) -> f64 {
        let tree = f64::from(members).log2().ceil();
        match self {
            Self::Tree => 2.0 * tree,
            Self::RingTwice => 2.0 * f64::from(members - 1),
            Self::Ring => f64::from(members - 1),
        }
    }
}

impl Messages {
    /// Fits the times of one GPU and of two, which exchange one message in each direction.
    pub(super) fn fit(measured: &Measured) -> Self {
        let [one, two] = [1, 2].map(|gpus| measured.peer(ALL_REDUCE, gpus, None));
        Self { launch: one, each: (two - one) / 2.0 }
    }

    pub(super) fn of(&self, shape: Shape, gpus: u32) -> f64 {
        self.launch + self.each * shape.messages(gpus)
    }
}

pub(super) fn off(predicted: f64, measured: f64) -> f64 {
    100.0 * (predicted / measured - 1.0)
}

#[cfg(test)]
mod tests {
    use super::{
        super::measured::{Local, Peer},
        *,
    };

    /// Returns times that match the model exactly.
    fn made(local: LocalTime, messages: Messages) -> Measured {
        let of = |log2: u32| Local { floats: 1 << log2, us: local.of(1 << log2) };
        let peer = |gpus| Peer {
            what: ALL_REDUCE.to_owned(),
            gpus,
            floats: None,
            us: Some(messages.of(Shape::Tree, gpus)),
            gb_per_s: None,
        };
        Measured { local: [10, 24, 30].map(of).into(), peers: [1, 2].map(peer).into() }
    }

    #[test]
    fn fit_recovers_the_model() {
        let local = LocalTime { call: 12.5, start: 6.25, rate: 4_000_000.0 };
        let messages = Messages { launch: 13.0, each: 5.0 };
        let fitted = LocalTime::fit(&made(local, messages));
        assert_eq!(Messages::fit(&made(local, messages)), messages);
        for (fitted, of) in [(fitted.call, local.call), (fitted.rate, local.rate)] {
            assert!((fitted / of - 1.0).abs() < 1e-9, "{fitted} {of}");
        }
        // The start is fitted as a small difference of large numbers, so that its error is larger.
        assert!((fitted.start - local.start).abs() < 1e-3, "{}", fitted.start);
        let tree = [1, 2, 4, 5, 1024].map(|gpus| Shape::Tree.messages(gpus));
        assert_eq!(tree, [0.0, 2.0, 4.0, 6.0, 20.0]);
        assert_eq!([1, 2, 1024].map(|gpus| Shape::Ring.messages(gpus)), [0.0, 1.0, 1023.0]);
        assert_eq!([1, 2, 4].map(|gpus| Shape::RingTwice.messages(gpus)), [0.0, 2.0, 6.0]);
        assert_eq!((off(110.0, 100.0).round(), off(75.0, 100.0)), (10.0, -25.0));
    }
}
