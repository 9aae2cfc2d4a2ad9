//! The kinds of findings, each with the name that suppressions and code review use.

use warpfold_sim::{FaultKind, HazardKind};

/// The severity of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Results are wrong or undefined.
    Error,
    /// It works on today's GPUs, but nothing guarantees that.
    Warning,
}

/// A kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The name of the rule.
    pub id: &'static str,
    /// The severity.
    pub level: Level,
    /// Description in one sentence.
    pub is: &'static str,
    /// What to do about it.
    pub help: &'static str,
}

macro_rules! rules {
    ($($name:ident: $id:literal, $level:ident, $is:literal, $help:literal;)*) => {
        /// All rules.
        pub const RULES: &[Rule] = &[$($name),*];
        $(const $name: Rule = Rule { id: $id, level: Level::$level, is: $is, help: $help };)*
    };
}

rules! {
    READ_WRITE: "read-write-race", Error,
        "A thread reads what another one writes, and nothing orders the two.",
        "Put a barrier between them, or a release behind the write and an acquire before the read.";
    WRITE_WRITE: "write-write-race", Error,
        "Two threads write one place, and nothing orders the two.",
        "Let one of them write, order them by a barrier, or write by atomics.";
    NO_ACQUIRE: "no-acquire", Warning,
        "A read is ordered behind another thread's write only if an acquire fence is behind the atomic that has \
         seen its release.",
        "Put a fence such as __threadfence() behind the atomic, or make it an acquire.";
    LOCK_STEP: "lock-step", Warning,
        "Lanes of a warp talk to each other by volatile accesses with no barrier between.",
        "Put __syncwarp() between them, or use shuffles.";
    UNWRITTEN: "unwritten-read", Error,
        "A thread reads memory that nothing has written.",
        "Write it before, or initialize it by a copy or memset.";
    UNWRITTEN_RESULT: "unwritten-result", Error,
        "The host reads a result that nothing has written.",
        "Have the kernel write each element that is read, for each number of elements.";
    UNWAITED_COPY: "unwaited-copy", Error,
        "Memory is used that an asynchronous copy writes, before a wait for the copy.",
        "Wait for the copy's group or mbarrier before, in each thread that uses it.";
    INACTIVE_SHUFFLE: "inactive-shuffle", Error,
        "A shuffle reads a lane that does not take part in it.",
        "Let the lane take part, or do not use what is read.";
    SIZED_EXTERNAL: "sized-external", Error,
        "An external shared array has a size, so that it is not the launch's dynamic memory.",
        "Declare it without a size.";
    OUT_OF_BOUNDS: "out-of-bounds", Error,
        "An access is outside of the memory that there is.",
        "Compare the index with the number of elements.";
    MISALIGNED: "misaligned", Error,
        "An access has an address that is no multiple of its size.",
        "Align the buffer, or access it by narrower elements.";
    DIVERGENT_BARRIER: "divergent-barrier", Error,
        "Only some threads come to a barrier at which all must.",
        "Move the barrier out of the branch, or out of reach of early returns.";
    INACTIVE_LANE: "inactive-lane", Error,
        "A shuffle, vote or warp barrier has a member that is elsewhere.",
        "Name in the member mask the lanes that are there.";
    ENDLESS: "endless", Error,
        "A kernel takes more steps or time than it is allowed.",
        "Look at the loop that it is in, and at what it waits for.";
    ORDER: "order-dependent", Error,
        "A result depends on the order in which threads run.",
        "Order the threads by barriers where one uses what another one makes.";
    FAULT: "fault", Error,
        "A thread does what ends the launch.",
        "See what it says.";
}

impl Rule {
    /// Returns the rule of a hazard.
    #[must_use]
    pub const fn of_hazard(kind: HazardKind) -> &'static Self {
        match kind {
            HazardKind::ReadWriteRace => &READ_WRITE,
            HazardKind::WriteWriteRace => &WRITE_WRITE,
            HazardKind::NoAcquire => &NO_ACQUIRE,
            HazardKind::LockStep => &LOCK_STEP,
            HazardKind::Unwritten => &UNWRITTEN,
            HazardKind::UnwrittenResult => &UNWRITTEN_RESULT,
            HazardKind::UnwaitedCopy => &UNWAITED_COPY,
            HazardKind::ShuffleFromInactive => &INACTIVE_SHUFFLE,
            HazardKind::SizedExternal => &SIZED_EXTERNAL,
            _ => &FAULT,
        }
    }

    /// Returns the rule of a fault.
    #[must_use]
    pub const fn of_fault(kind: &FaultKind) -> &'static Self {
        match kind {
            FaultKind::OutOfBounds { .. }
            | FaultKind::ExitedBlock { .. }
            | FaultKind::NoSuchBlock { .. } => &OUT_OF_BOUNDS,
            FaultKind::Misaligned { .. } => &MISALIGNED,
            FaultKind::DivergentBarrier { .. }
            | FaultKind::BarrierDeadlock { .. }
            | FaultKind::ClusterDeadlock { .. }
            | FaultKind::DivergentClusterBarrier { .. } => &DIVERGENT_BARRIER,
            FaultKind::MemberInactive { .. }
            | FaultKind::MemberExited { .. }
            | FaultKind::NotMember { .. } => &INACTIVE_LANE,
            FaultKind::CopyUnderWay { .. } => &UNWAITED_COPY,
            FaultKind::StepLimit { .. }
            | FaultKind::ThreadStepLimit { .. }
            | FaultKind::TimeLimit { .. } => &ENDLESS,
            _ => &FAULT,
        }
    }

    /// Returns the rule of a result that depends on the order of threads.
    #[must_use]
    pub const fn of_order() -> &'static Self {
        &ORDER
    }

    /// Returns the rule with this name.
    #[must_use]
    pub fn called(id: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.id == id)
    }

    /// Returns its index in [`RULES`].
    #[must_use]
    pub fn index(&self) -> usize {
        RULES.iter().position(|rule| rule.id == self.id).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!((rule.index(), Rule::called(rule.id)), (index, Some(rule)));
            assert!(rule.is.ends_with('.') && rule.help.ends_with('.'), "{}", rule.id);
        }
        assert_eq!(Rule::called("race"), None);
    }
}
