//! Warp collectives: shuffles, votes, matches, reductions, elections and `bar.warp.sync`.

use multiversion::multiversion;

use crate::error::FaultKind;
use crate::lanes::{FULL, Row, commit, float, for_each_lane};
use crate::observe::{BarrierKind, Detail, Shuffle};
use crate::program::{Collective, LANES, ShuffleMode, ShuffleOp, TRUE, Vote, WarpReduce};

use super::divergent_path::Wait;
use super::warp::{Next, Warp};
use super::{ExecContext, Outcome, Probe, trouble};

/// Lanes that execute a collective with the same member mask.
struct Group {
    members: u32,
    lanes: u32,
}

impl Warp {
    pub(super) fn collective<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        (kind, row): (&Collective, u16),
        mask: u32,
    ) -> Outcome<Next> {
        if mask == 0 {
            if P::ENABLED {
                self.report(context, mask, Detail::None);
            }
            return Ok(Next::Reported);
        }
        let masks = &self.regs.words[usize::from(row)];
        let members = masks[mask.trailing_zeros() as usize];
        let mut differs = 0;
        for &other in masks {
            differs |= other ^ members;
        }
        let uniform = differs == 0 || {
            differs = 0;
            for_each_lane(mask, |lane| differs |= masks[lane] ^ members);
            differs == 0
        };
        // Fast path: all members execute the collective together, with the same mask.
        let there = if context.launch.config.strict { FULL } else { self.live() };
        if uniform && mask & !members == 0 && members & there & !mask == 0 {
            self.together(context, (kind, row), &[Group { members, lanes: mask }]);
            return Ok(Next::Reported);
        }
        let masks = *masks;
        self.meet(context, (kind, row), &masks, mask)
    }

    /// Returns whether every lane's member mask, in the given register, names all lanes.
    pub(super) fn names_all(&self, row: u16) -> bool {
        let masks = &self.regs.words[usize::from(row)];
        *masks == [FULL; LANES]
    }

    /// Executes a collective for each group of lanes whose members have all arrived. Suspends the other
    /// lanes until their members arrive.
    #[cold]
    fn meet<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        (kind, row): (&Collective, u16),
        masks: &Row,
        mask: u32,
    ) -> Outcome<Next> {
        let barrier = matches!(kind, Collective::Barrier);
        let (mut complete, mut waiting) = (Vec::new(), Vec::new());
        let mut rest = mask;
        while rest != 0 {
            let members = masks[rest.trailing_zeros() as usize];
            let mut here = 0;
            for_each_lane(rest, |lane| here |= u32::from(masks[lane] == members) << lane);
            rest &= !here;
            let outside = here & !members;
            if outside != 0 {
                let kind = FaultKind::NotMember { mask: members, outside };
                return trouble(kind, outside.trailing_zeros());
            }
            let exited = members & self.exited;
            if exited != 0 && context.launch.config.strict {
                let kind = FaultKind::MemberExited { mask: members, exited, active: here };
                return trouble(kind, here.trailing_zeros());
            }
            let lanes = here | self.waiting(Wait::Members { mask: members, barrier }, barrier);
            let missing = members & self.live() & !lanes;
            if missing == 0 {
                complete.push(Group { members, lanes });
            } else if self.stuck {
                let kind = FaultKind::MemberInactive { mask: members, inactive: missing, active: lanes };
                return trouble(kind, here.trailing_zeros());
            } else {
                waiting.push(Group { members, lanes: here });
            }
        }
        self.turn.refund(mask);
        if !complete.is_empty() {
            self.turn.spend(complete.iter().fold(0, |lanes, group| lanes | group.lanes));
            self.together(context, (kind, row), &complete);
        }
        for Group { members, .. } in complete {
            let (warp, wait) = (self.index, Wait::Members { mask: members, barrier });
            self.wake(wait, barrier, |pc, lanes| {
                if P::ENABLED {
                    context.report((pc, warp, lanes, lanes), Detail::None);
                }
            });
        }
        for Group { members, lanes } in waiting {
            self.set_aside(lanes, Wait::Members { mask: members, barrier });
        }
        if self.active != 0 {
            self.pc += 1;
            self.unite();
        } else {
            self.leave();
        }
        Ok(Next::Placed)
    }

    fn together<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        (kind, row): (&Collective, u16),
        groups: &[Group],
    ) {
        let all = groups.iter().fold(0, |all, group| all | group.lanes);
        let (mut sources, mut members) = ([0; LANES], [0; LANES]);
        let mut detail = Detail::None;
        match kind {
            Collective::Barrier => return self.warp_barrier(context, groups),
            Collective::Shuffle(shuffle) => {
                if P::ENABLED {
                    members = self.regs.words[usize::from(row)];
                }
                let in_range = self.shuffle(shuffle, all, &mut sources);
                detail = Detail::Shuffle(Shuffle { sources: &sources, in_range, members: &members });
            }
            _ => groups.iter().for_each(|group| self.agree(kind, group.lanes)),
        }
        if P::ENABLED {
            context.report((self.pc, self.index, self.active | all, all), detail);
        }
    }

    /// Executes a collective for lanes that have arrived with the same mask. Reports no events.
    pub(super) fn agree(&mut self, kind: &Collective, lanes: u32) {
        match *kind {
            Collective::Barrier => {}
            Collective::Shuffle(ref shuffle) => {
                self.shuffle(shuffle, lanes, &mut [0; LANES]);
            }
            Collective::Vote { kind, d, a, negate } => self.vote(kind, d, a, negate, lanes),
            Collective::Match { all, wide, d, p, a } => self.match_lanes(all, wide, d, p, a, lanes),
            Collective::Reduce { kind, d, a } => self.reduce(kind, d, a, lanes),
            Collective::Elect { d, p } => self.elect(d, p, lanes),
        }
    }

    fn warp_barrier<P: Probe>(&mut self, context: &mut ExecContext<'_, P>, groups: &[Group]) {
        for (part, group) in groups.iter().enumerate() {
            if let Some(world) = context.probe.exploration() {
                world.meet(self.index, group.lanes);
            }
            if P::ENABLED {
                let place = (self.pc, self.index, self.live(), group.lanes);
                let kind = BarrierKind::Warp(group.members);
                context.report_part(place, part as u32, Detail::Barrier(kind));
            }
        }
    }

    /// Moves values between lanes; returns the lanes whose source is in range.
    fn shuffle(&mut self, op: &ShuffleOp, mask: u32, sources: &mut [u8; LANES]) -> u32 {
        let word = |row: u16| &self.regs.words[usize::from(row)];
        let (values, ranges) = shuffled(op.mode, word(op.a), word(op.b), word(op.c), sources);
        if let Some(d) = op.d {
            commit(&mut self.regs.words[usize::from(d)], &values, mask);
        }
        if let Some(p) = op.p {
            self.write_predicate(p, ranges, mask);
        }
        ranges
    }

    fn write_predicate(&mut self, row: u16, value: u32, mask: u32) {
        debug_assert_ne!(row, TRUE);
        let p = &mut self.regs.predicates[usize::from(row)];
        *p = *p & !mask | value & mask;
    }

    fn vote(&mut self, kind: Vote, d: u16, a: u16, negate: bool, mask: u32) {
        let p = self.regs.predicates[usize::from(a)];
        let votes = if negate { !p } else { p } & mask;
        let truth = match kind {
            Vote::Ballot => {
                let row = &mut self.regs.words[usize::from(d)];
                return commit(row, &[votes; LANES], mask);
            }
            Vote::All => votes == mask,
            Vote::Any => votes != 0,
            Vote::Uniform => votes == 0 || votes == mask,
        };
        self.write_predicate(d, if truth { mask } else { 0 }, mask);
    }

    fn match_lanes(&mut self, all: bool, wide: bool, d: u16, p: Option<u16>, a: u16, mask: u32) {
        let value = |lane: usize| {
            if wide {
                self.regs.doubles[usize::from(a)][lane]
            } else {
                u64::from(self.regs.words[usize::from(a)][lane])
            }
        };
        let equals = |lane: usize| {
            let mut same = 0;
            for_each_lane(mask, |other| same |= u32::from(value(other) == value(lane)) << other);
            same
        };
        let mut found: Row = [0; LANES];
        for_each_lane(mask, |lane| found[lane] = equals(lane));
        let everywhere = found[mask.trailing_zeros() as usize] == mask;
        if all && !everywhere {
            found = [0; LANES];
        }
        commit(&mut self.regs.words[usize::from(d)], &found, mask);
        if let Some(p) = p {
            self.write_predicate(p, if everywhere { mask } else { 0 }, mask);
        }
    }

    fn reduce(&mut self, kind: WarpReduce, d: u16, a: u16, mask: u32) {
        let values = &self.regs.words[usize::from(a)];
        let mut total = None;
        for_each_lane(mask, |lane| {
            let value = values[lane];
            total = Some(total.map_or_else(|| first(kind, value), |sum| combine(kind, sum, value)));
        });
        let total = total.unwrap_or(0);
        commit(&mut self.regs.words[usize::from(d)], &[total; LANES], mask);
    }

    fn elect(&mut self, d: Option<u16>, p: u16, mask: u32) {
        let leader = mask.trailing_zeros();
        if let Some(d) = d {
            commit(&mut self.regs.words[usize::from(d)], &[leader; LANES], mask);
        }
        self.write_predicate(p, 1 << leader, mask);
    }
}

#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
fn shuffled(mode: ShuffleMode, a: &Row, b: &Row, c: &Row, sources: &mut [u8; LANES]) -> (Row, u32) {
    let mut in_range = [0_u32; LANES];
    let mut source = [0_u32; LANES];
    // The match is outside the loop, so that each loop is branch-free.
    match mode {
        ShuffleMode::Up => route(b, c, &mut source, &mut in_range, |lane, b, _, _, max| {
            (lane.wrapping_sub(b), lane as i32 - b as i32 >= max as i32)
        }),
        ShuffleMode::Down => {
            route(b, c, &mut source, &mut in_range, |lane, b, _, _, max| (lane + b, lane + b <= max))
        }
        ShuffleMode::Butterfly => {
            route(b, c, &mut source, &mut in_range, |lane, b, _, _, max| (lane ^ b, lane ^ b <= max));
        }
        ShuffleMode::Index => {
            route(b, c, &mut source, &mut in_range, |_, b, min, segment, max| {
                let from = min | b & !segment;
                (from, from <= max)
            });
        }
    }
    let mut values = [0; LANES];
    let mut ranges = 0;
    for lane in 0..LANES {
        values[lane] = a[(source[lane] & 31) as usize];
        sources[lane] = source[lane] as u8;
        ranges |= in_range[lane];
    }
    (values, ranges)
}

/// Computes the source of every lane, and whether it is in range. `pick` receives the lane, the offset,
/// the first lane of the segment, the segment mask and the last lane in range.
#[inline(always)]
fn route(
    b: &Row,
    c: &Row,
    source: &mut Row,
    in_range: &mut Row,
    pick: impl Fn(u32, u32, u32, u32, u32) -> (u32, bool),
) {
    for index in 0..LANES {
        let lane = index as u32;
        let (offset, clamp, segment) = (b[index] & 31, c[index] & 31, c[index] >> 8 & 31);
        let (min, max) = (lane & segment, lane & segment | clamp & !segment);
        let (from, valid) = pick(lane, offset, min, segment, max);
        source[index] = if valid { from } else { lane };
        in_range[index] = if valid { 1 << index } else { 0 };
    }
}

/// Returns the reduction of one value. A float is combined with itself, which applies `.abs` and makes a
/// NaN canonical.
fn first(kind: WarpReduce, value: u32) -> u32 {
    match kind {
        WarpReduce::Float { .. } => combine(kind, value, value),
        _ => value,
    }
}

fn combine(kind: WarpReduce, a: u32, b: u32) -> u32 {
    match kind {
        WarpReduce::Add => a.wrapping_add(b),
        WarpReduce::Min => a.min(b),
        WarpReduce::Max => a.max(b),
        WarpReduce::MinSigned => (a as i32).min(b as i32) as u32,
        WarpReduce::MaxSigned => (a as i32).max(b as i32) as u32,
        WarpReduce::And => a & b,
        WarpReduce::Or => a | b,
        WarpReduce::Xor => a ^ b,
        WarpReduce::Float { max, abs, nan } => {
            let view = |bits: u32| {
                let value = f32::from_bits(bits);
                if abs { value.abs() } else { value }
            };
            let how = float::Extreme { max, nan, xorsign: false, ftz: false };
            float::extreme(how, view(a), view(b)).to_bits()
        }
    }
}
