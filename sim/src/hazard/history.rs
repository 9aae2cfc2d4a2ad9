//! Recorded accesses, and their conflicts with later accesses.

use super::team::Warp;

/// Values of `Access::agent` that are not warps: a copy in flight, and no access.
pub(super) const IN_FLIGHT: u32 = u32::MAX;
pub(super) const NOBODY: u32 = u32::MAX - 1;

/// A recorded access. The shadow line that stores it also stores its launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Access {
    /// Number of the cluster in the grid, and of the warp in the cluster.
    pub(super) team: u32,
    pub(super) agent: u32,
    pub(super) clock: u32,
    /// Index among the warp's events.
    pub(super) time: u32,
    pub(super) lanes: u32,
    pub(super) index: u32,
    pub(super) strong: bool,
    pub(super) volatile: bool,
}

impl Access {
    pub(super) const NONE: Self = Self {
        team: 0,
        agent: NOBODY,
        clock: 0,
        time: 0,
        lanes: 0,
        index: 0,
        strong: false,
        volatile: false,
    };

    #[inline]
    pub(super) fn same_instruction(&self, other: &Self) -> bool {
        (self.team, self.agent, self.time) == (other.team, other.agent, other.time)
    }

    pub(super) fn same_warp(&self, other: &Self) -> bool {
        (self.team, self.agent) == (other.team, other.agent)
    }

    /// Returns whether this earlier access is ordered before `now`, an access of `warp`, as far as that
    /// does not depend on lanes.
    #[inline(always)]
    pub(super) fn order_of_all(&self, now: &Self, warp: &Warp) -> OrderOfAll {
        if self.agent == NOBODY {
            return OrderOfAll::Yes;
        }
        let strong = self.strong && now.strong;
        let lock_step = strong && self.volatile && now.volatile && !self.same_instruction(now);
        if strong && !(lock_step && self.same_warp(now)) {
            return OrderOfAll::Yes;
        }
        if self.agent == IN_FLIGHT {
            return OrderOfAll::No;
        }
        if self.same_warp(now) {
            return if warp.all_ordered(self.time) { OrderOfAll::Yes } else { OrderOfAll::ByLanes };
        }
        let team = (self.team != now.team).then_some(self.team);
        if warp.clock.of(team, self.agent) < self.clock { OrderOfAll::No } else { OrderOfAll::Yes }
    }

    /// Returns whether this earlier access is ordered before `now`, an access of one lane of `warp`.
    #[inline]
    pub(super) fn order(&self, now: &Self, warp: &Warp) -> Ordered {
        match self.order_of_all(now, warp) {
            OrderOfAll::Yes => Ordered::Yes,
            OrderOfAll::No => Ordered::No,
            OrderOfAll::ByLanes => {
                let others = self.lanes & !now.lanes;
                let lane = now.lanes.trailing_zeros();
                match others == 0 || warp.ordered(self.time, others, lane) {
                    true => Ordered::Yes,
                    false if self.strong && now.strong => Ordered::ByLockStep,
                    false => Ordered::No,
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordered {
    Yes,
    No,
    /// No race, but ordered only if the lanes of a warp run in lock step.
    ByLockStep,
}

/// Order of two accesses before their lanes are considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderOfAll {
    Yes,
    No,
    ByLanes,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct History {
    pub(super) write: Access,
    /// The last reads of two different warps, the later one first.
    pub(super) reads: [Access; 2],
}

impl History {
    #[inline]
    pub(super) fn load(&mut self, strong: Option<&Access>, now: &Access, warp: &Warp) -> Option<Clash> {
        let clash = Clash::find((&self.write, strong), &[], now, warp);
        add_read(&mut self.reads, now);
        clash
    }

    #[inline]
    pub(super) fn store(
        &mut self,
        strong: Option<&mut Access>,
        now: &Access,
        warp: &Warp,
    ) -> Option<Clash> {
        let clash = Clash::find((&self.write, strong.as_deref()), &self.reads, now, warp);
        add_write(strong.filter(|_| now.strong).unwrap_or(&mut self.write), now);
        clash
    }
}

#[inline]
pub(super) fn add_read([last, before]: &mut [Access; 2], now: &Access) {
    if last.same_instruction(now) {
        last.lanes |= now.lanes;
        return;
    }
    if !last.same_warp(now) {
        *before = *last;
    }
    *last = *now;
}

#[inline]
pub(super) fn add_write(last: &mut Access, now: &Access) {
    if last.same_instruction(now) {
        last.lanes |= now.lanes;
    } else {
        *last = *now;
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clash {
    pub(super) write: Option<Access>,
    pub(super) read: Option<Access>,
    pub(super) lock_step: Option<Access>,
    pub(super) unwritten: u8,
    /// Index of the first conflicting byte.
    pub(super) byte: u8,
}

impl Clash {
    /// Returns the conflicts of an access with the last plain and strong write and with the last reads.
    #[inline]
    pub(super) fn find(
        (write, strong): (&Access, Option<&Access>),
        reads: &[Access],
        now: &Access,
        warp: &Warp,
    ) -> Option<Self> {
        let is_ordered = |earlier: &Access| earlier.order(now, warp) == Ordered::Yes;
        let quiet = is_ordered(write) && strong.is_none_or(is_ordered) && reads.iter().all(is_ordered);
        if quiet { None } else { Some(Self::of((write, strong), reads, now, warp)) }
    }

    #[cold]
    fn of(
        (write, strong): (&Access, Option<&Access>),
        reads: &[Access],
        now: &Access,
        warp: &Warp,
    ) -> Self {
        let mut clash = Self::default();
        for write in [Some(write), strong].into_iter().flatten() {
            match write.order(now, warp) {
                Ordered::Yes => {}
                Ordered::No => clash.write = clash.write.or(Some(*write)),
                Ordered::ByLockStep => clash.lock_step = Some(*write),
            }
        }
        for read in reads {
            match read.order(now, warp) {
                Ordered::Yes => {}
                Ordered::No => clash.read = clash.read.or(Some(*read)),
                Ordered::ByLockStep => clash.lock_step = clash.lock_step.or(Some(*read)),
            }
        }
        clash
    }

    /// Adds bytes that were never written. Returns `None` if there is neither a conflict nor such a
    /// byte.
    #[inline]
    pub(super) fn with_unwritten(clash: Option<Self>, unwritten: u8) -> Option<Self> {
        match (clash, unwritten) {
            (None, 0) => None,
            (clash, _) => Some(Self { unwritten, ..clash.unwrap_or_default() }),
        }
    }

    /// Adds the conflicts of a later byte, except kinds of conflict that this byte already has.
    pub(super) fn or(self, later: Self) -> Self {
        Self {
            write: self.write.or(later.write),
            read: self.read.or(later.read),
            lock_step: self.lock_step.or(later.lock_step),
            unwritten: self.unwritten | later.unwritten,
            byte: self.byte,
        }
    }
}
