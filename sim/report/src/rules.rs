//! The kinds of findings, each with the name that suppressions and code review use.

use warpfold_sim::{FaultKind, HazardKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Results are wrong or undefined.
    Error,
    /// The code works on today's GPUs, but PTX does not guarantee it.
    Warning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub id: &'static str,
    pub level: Level,
    /// The problem, in one sentence.
    pub is: &'static str,
    /// The remedy.
    pub help: &'static str,
}

macro_rules! rules {
    ($($name:ident: $id:literal, $level:ident, $is:literal, $help:literal;)*) => {
        pub const RULES: &[Rule] = &[$($name),*];
        $(const $name: Rule = Rule { id: $id, level: Level::$level, is: $is, help: $help };)*
    };
}

rules! {
    READ_WRITE: "read-write-race", Error,
        "A thread reads a location that another thread writes, and nothing orders the two accesses.",
        "Put a barrier between them, or a release after the write and an acquire before the read.";
    WRITE_WRITE: "write-write-race", Error,
        "Two threads write the same location, and nothing orders the two writes.",
        "Let one of them write, order them by a barrier, or use atomics.";
    NO_ACQUIRE: "no-acquire", Warning,
        "A read is ordered after another thread's write only if an acquire fence follows the atomic \
         that observed the release.",
        "Put a fence such as __threadfence() after the atomic, or make the atomic an acquire.";
    LOCK_STEP: "lock-step", Warning,
        "Lanes of a warp communicate through volatile accesses without a barrier between them.",
        "Put __syncwarp() between the accesses, or use shuffles.";
    UNWRITTEN: "unwritten-read", Error,
        "A thread reads memory that nothing has written.",
        "Write the memory before the read, or initialize it by a copy or memset.";
    UNWRITTEN_RESULT: "unwritten-result", Error,
        "The host reads a result that nothing has written.",
        "Let the kernel write every element that the host reads, for every input size.";
    UNWAITED_COPY: "unwaited-copy", Error,
        "The target of an asynchronous copy is used before a wait for the copy.",
        "Wait for the group or mbarrier of the copy in each thread before it uses the target.";
    INACTIVE_SHUFFLE: "inactive-shuffle", Error,
        "A shuffle reads from a lane that does not take part in it.",
        "Let the lane take part, or do not use the value.";
    SIZED_EXTERNAL: "sized-external", Error,
        "An external shared array has a size, so that it is not the launch's dynamic memory.",
        "Declare it without a size.";
    OUT_OF_BOUNDS: "out-of-bounds", Error,
        "An access is outside of the allocated memory.",
        "Compare the index with the number of elements.";
    MISALIGNED: "misaligned", Error,
        "The address of an access is not a multiple of its size.",
        "Align the buffer, or access it by narrower elements.";
    DIVERGENT_BARRIER: "divergent-barrier", Error,
        "Only some threads reach a barrier that all must reach.",
        "Move the barrier out of the branch, or before early returns.";
    INACTIVE_LANE: "inactive-lane", Error,
        "The member mask of a shuffle, vote or warp barrier names a lane that does not execute it.",
        "Name in the member mask exactly the lanes that execute the instruction.";
    ENDLESS: "endless", Error,
        "A kernel takes more steps or time than it is allowed.",
        "Check the exit condition of the named loop, and the memory or barrier that it waits for.";
    ORDER: "order-dependent", Error,
        "A result depends on the order in which threads run.",
        "Put barriers between threads that write values and threads that read them.";
    FAULT: "fault", Error,
        "An error of a thread ended the launch.",
        "Read the message of the finding.";
}

impl Rule {
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

    #[must_use]
    pub fn called(id: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.id == id)
    }

    /// Returns the rule's index in [`RULES`].
    #[must_use]
    pub fn index(&self) -> usize {
        RULES.iter().position(|rule| rule.id == self.id).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_names_are_unique() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!((rule.index(), Rule::called(rule.id)), (index, Some(rule)));
            assert!(rule.is.ends_with('.') && rule.help.ends_with('.'), "{}", rule.id);
        }
        assert_eq!(Rule::called("race"), None);
    }
}
