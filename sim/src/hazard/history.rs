//! Accesses as they are remembered, and what a later one collides with.

use super::team::Warp;

/// Agents that are no warp: a copy under way, and one that has landed.
pub(super) const IN_FLIGHT: u32 = u32::MAX;
pub(super) const NOBODY: u32 = u32::MAX - 1;

/// An access as it is remembered, of the launch that its place says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Access {
    /// The cluster in the grid, and the warp in the cluster.
    pub(super) team: u32,
    pub(super) agent: u32,
    /// The clock of the warp.
    pub(super) clock: u32,
    /// Number of the event of that warp.
    pub(super) time: u32,
    pub(super) lanes: u32,
    /// The number of the instruction.
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

    /// Whether something orders this earlier access before `now`, an access of `warp`, if that can be
    /// said without a look at their lanes.
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

    /// Whether something orders this earlier access before `now`, an access of one lane of `warp`.
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

/// How an earlier access stands to a later one of the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordered {
    Yes,
    No,
    /// They do not race, and the one sees the other where the lanes of a warp run in lock step alone.
    ByLockStep,
}

/// The same as far as it does not depend on lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderOfAll {
    Yes,
    No,
    /// They are of one warp, and it depends on their lanes.
    ByLanes,
}

/// What is remembered of the accesses of a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct History {
    /// The last plain write.
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

/// Remembers a read behind others.
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

/// Remembers a write in the place of another one.
#[inline]
pub(super) fn add_write(last: &mut Access, now: &Access) {
    if last.same_instruction(now) {
        last.lanes |= now.lanes;
    } else {
        *last = *now;
    }
}

/// What an access collides with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clash {
    /// A write that came before.
    pub(super) write: Option<Access>,
    /// A read that came before.
    pub(super) read: Option<Access>,
    /// An earlier access that lock step alone orders.
    pub(super) lock_step: Option<Access>,
    /// Bytes that were never written.
    pub(super) unwritten: u8,
    /// The first byte that collides.
    pub(super) byte: u8,
}

impl Clash {
    /// What an access collides with, of a plain and a strong write and of reads: mostly nothing.
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

    /// The same with bytes that were never written; nothing if there are none either.
    #[inline]
    pub(super) fn with_unwritten(clash: Option<Self>, unwritten: u8) -> Option<Self> {
        match (clash, unwritten) {
            (None, 0) => None,
            (clash, _) => Some(Self { unwritten, ..clash.unwrap_or_default() }),
        }
    }

    /// This, and where it has nothing the other, which is of a later byte.
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
