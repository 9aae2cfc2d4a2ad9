//! Records one access of a warp in shadow memory, by lines, words and lanes.

use crate::lanes::FULL;
use crate::observe::{AccessKind, Memory, Spacing};
use crate::program::LANES;

use super::global::Global;
use super::history::{Access, Clash};
use super::shadow::{CELL, Cell, LINE, Line, Whole, cell_of, part};
use super::team::Warp;

pub(super) enum Shadow<'s> {
    Shared(&'s mut [Line]),
    Global(&'s mut Global),
}

pub(super) struct Touch<'t> {
    pub(super) shadow: Shadow<'t>,
    pub(super) launch: u32,
    pub(super) warp: &'t Warp,
    pub(super) memory: &'t Memory<'t>,
    pub(super) access: &'t Access,
    /// Lane, cell and conflicts of each conflicting access.
    pub(super) clashes: Vec<(u32, u64, Clash)>,
}

impl Shadow<'_> {
    #[inline]
    fn line(&mut self, launch: u32, line: u64) -> Option<&mut Line> {
        let line = match self {
            Self::Shared(lines) => lines.get_mut(line as usize)?,
            Self::Global(global) => global.line(line),
        };
        Some(line.in_launch(launch))
    }

    #[inline]
    fn cell(&mut self, launch: u32, cell: u64) -> Option<Cell<'_>> {
        match self {
            Self::Shared(lines) => cell_of(lines, launch, cell),
            Self::Global(global) => Some(global.line(cell * CELL / LINE).in_launch(launch).cell(cell)),
        }
    }
}

impl Touch<'_> {
    /// Records the accesses of all lanes in order: adjacent lanes line by line, lanes at one address
    /// together.
    pub(super) fn all(&mut self) {
        let bytes = u64::from(self.memory.bytes);
        let addresses = self.memory.addresses;
        let mut rest = self.memory.lanes;
        if rest == FULL {
            let start = addresses[0];
            match self.memory.spacing() {
                Spacing::Next => return self.neighbours(0, start, start + LANES as u64 * bytes),
                Spacing::Same if self.same(0, LANES as u32, start) => return,
                Spacing::Other if self.repeated(start, bytes) => return,
                _ => {}
            }
        }
        while rest != 0 {
            let first = rest.trailing_zeros();
            let start = addresses[first as usize];
            let distance = match addresses.get(first as usize + 1) {
                Some(next) if rest >> (first + 1) & 1 == 1 => next.wrapping_sub(start),
                _ => u64::MAX,
            };
            let lanes =
                if distance == 0 || distance == bytes { self.lanes_from(first, distance) } else { 1 };
            if distance == bytes {
                self.neighbours(first, start, start + u64::from(lanes) * bytes);
            } else if lanes == 1 || !self.same(first, lanes, start) {
                for lane in first..first + lanes {
                    self.cells(lane, start, start + bytes);
                }
            }
            rest &= u32::MAX.checked_shl(first + lanes).unwrap_or(0);
        }
    }

    /// Returns the number of lanes from `first` on whose addresses are `distance` bytes apart.
    fn lanes_from(&self, first: u32, distance: u64) -> u32 {
        let addresses = &self.memory.addresses[first as usize..];
        let pairs = addresses.windows(2).zip(1..);
        let goes_on = |lane: u32| self.memory.lanes >> (first + lane) & 1 == 1;
        let ends =
            |&(pair, lane): &(&[u64], u32)| pair[1] != pair[0].wrapping_add(distance) || !goes_on(lane);
        pairs.clone().find(ends).map_or(addresses.len() as u32, |(_, lane)| lane)
    }

    /// Records an access in which some lanes read whole lines and all others repeat their reads. Returns
    /// `false` if that is not possible; recording everything again lane by lane then gives the same
    /// result as without this attempt.
    fn repeated(&mut self, start: u64, bytes: u64) -> bool {
        let addresses = self.memory.addresses;
        let lanes = self.lanes_from(0, bytes);
        let apart = match lanes {
            4 => 0x1111_1111,
            8 => 0x0101_0101,
            16 => 0x0001_0001,
            _ => return false,
        };
        let all = u64::from(lanes) * bytes;
        let mut parts = addresses.chunks_exact(lanes as usize);
        if self.memory.kind != AccessKind::Load
            || ![4, 8, 16].contains(&bytes)
            || !all.is_multiple_of(LINE)
            || !start.is_multiple_of(LINE)
            || !parts.all(|part| part == &addresses[..lanes as usize])
        {
            return false;
        }
        (0..all / LINE).all(|at| {
            let now = Whole::new(self.access, apart << (at * LINE / bytes), bytes / CELL);
            let line = self.shadow.line(self.launch, start / LINE + at);
            line.is_some_and(|line| line.load(&now, self.warp))
        })
    }

    /// Records lanes from `first` on whose accesses are adjacent and cover the bytes from `start` to
    /// `end`.
    fn neighbours(&mut self, first: u32, start: u64, end: u64) {
        let bytes = u64::from(self.memory.bytes);
        // Lanes that share words are recorded word by word.
        let whole = bytes.is_multiple_of(CELL) && start.is_multiple_of(CELL) && bytes.is_power_of_two();
        let mut at = start;
        while at < end {
            let behind = (at / LINE + 1) * LINE;
            let lane = |address: u64| first + ((address - start) / bytes) as u32;
            if whole && at.is_multiple_of(LINE) && behind <= end && bytes <= LINE {
                let now = Whole::new(self.access, 1 << lane(at), bytes / CELL);
                let (warp, kind) = (self.warp, self.memory.kind);
                let Some(line) = self.shadow.line(self.launch, at / LINE) else { return };
                let done = match kind {
                    AccessKind::Load => line.load(&now, warp),
                    AccessKind::Store => line.store(&now, warp, false),
                    AccessKind::Atomic | AccessKind::Reduction => line.store(&now, warp, true),
                };
                if done {
                    at = behind;
                    continue;
                }
            }
            let behind = behind.min(end);
            while at < behind {
                let next = behind.min(start + (u64::from(lane(at) - first) + 1) * bytes);
                self.cells(lane(at), at, next);
                at = next;
            }
        }
    }

    /// Records several lanes' reads at one address together. Returns `false` if they must be recorded
    /// separately; some words are then recorded twice, with the same result.
    fn same(&mut self, first: u32, lanes: u32, start: u64) -> bool {
        let end = start + u64::from(self.memory.bytes);
        let lanes = (u32::MAX >> (32 - lanes)) << first;
        let warp = self.warp;
        self.memory.kind == AccessKind::Load
            && (start / CELL..end.div_ceil(CELL)).all(|cell| {
                let (bytes, now) = (part(cell, start, end), Access { lanes, ..*self.access });
                let found = self.shadow.cell(self.launch, cell);
                found.is_some_and(|mut found| found.load_by_all(bytes, &now, warp))
            })
    }

    fn cells(&mut self, lane: u32, start: u64, end: u64) {
        for cell in start / CELL..end.div_ceil(CELL) {
            let (bytes, now) = (part(cell, start, end), Access { lanes: 1 << lane, ..*self.access });
            let (warp, kind) = (self.warp, self.memory.kind);
            let Some(mut found) = self.shadow.cell(self.launch, cell) else { return };
            let clash = match kind {
                AccessKind::Load => found.load(bytes, &now, warp),
                AccessKind::Store => found.store(bytes, &now, warp, false),
                AccessKind::Atomic | AccessKind::Reduction => found.store(bytes, &now, warp, true),
            };
            self.clashes.extend(clash.map(|clash| (lane, cell, clash)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hazard::team::{Shape, Team};
    use crate::memory::Space;

    const LINES: usize = 6;

    #[derive(Debug, Clone)]
    enum Act {
        Access {
            warp: u32,
            kind: AccessKind,
            bytes: u32,
            lanes: u32,
            order: (bool, bool),
            addresses: Vec<u64>,
        },
        Synchronise {
            warp: u32,
            members: u32,
        },
        Barrier,
        Copy {
            cell: u64,
            lands: bool,
        },
        Launch,
    }

    /// Returns addresses as in kernels, within the memory: adjacent, shared or arbitrary.
    fn addresses(bytes: u32) -> impl Strategy<Value = Vec<u64>> {
        let room = LINES as u64 * LINE / u64::from(bytes);
        let group = prop_oneof![Just(4_u64), Just(8), Just(16), Just(32)];
        let jump = prop_oneof![1 => Just(0_u64), 3 => 0..40_u64];
        let start = (0..room, any::<bool>()).prop_map(move |(start, is_whole)| {
            start - if is_whole { start % (LINE / u64::from(bytes)) } else { 0 }
        });
        (start, 0..3_u64, group, jump, any::<u64>()).prop_map(move |(start, step, group, jump, any)| {
            let place = |lane: u64| match step {
                2 => any.rotate_left(lane as u32 * 7),
                step => start + lane % group * step + lane / group * jump,
            };
            (0..32).map(|lane| place(lane) % room * u64::from(bytes)).collect()
        })
    }

    fn access() -> impl Strategy<Value = Act> {
        let kind = prop_oneof![
            3 => Just(AccessKind::Load),
            3 => Just(AccessKind::Store),
            1 => Just(AccessKind::Atomic)
        ];
        let lanes = prop_oneof![3 => Just(FULL), 1 => Just(0xffff), 1 => any::<u32>()];
        let bytes =
            prop_oneof![16 => Just(4_u32), 1 => Just(1), 1 => Just(2), 4 => Just(8), 4 => Just(16)];
        let order =
            prop_oneof![6 => Just((false, false)), 1 => Just((true, false)), 1 => Just((true, true))];
        bytes.prop_flat_map(addresses_of).prop_flat_map(move |(bytes, addresses)| {
            (0..3_u32, kind.clone(), lanes.clone(), order.clone()).prop_map(
                move |(warp, kind, lanes, order)| {
                    let addresses = addresses.clone();
                    Act::Access { warp, kind, bytes, lanes, order, addresses }
                },
            )
        })
    }

    fn addresses_of(bytes: u32) -> impl Strategy<Value = (u32, Vec<u64>)> {
        (Just(bytes), addresses(bytes))
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let members = prop_oneof![Just(FULL), any::<u32>()];
        let act = prop_oneof![
            12 => access(),
            2 => (0..3_u32, members).prop_map(|(warp, members)| Act::Synchronise { warp, members }),
            3 => Just(Act::Barrier),
            1 => (0..LINES as u64 * 16, any::<bool>()).prop_map(|(cell, lands)| Act::Copy { cell, lands }),
            1 => Just(Act::Launch),
        ];
        prop::collection::vec(act, 1..60)
    }

    fn barrier(team: &mut Team) {
        let opened: Vec<u32> = (0..3).map(|agent| team.arrive(0, agent, 0)).collect();
        for (agent, opened) in (0..3).zip(opened) {
            team.warps[agent as usize].synchronise(FULL, FULL);
            team.resume(0, agent, 0, opened);
        }
    }

    /// Records an access by lines and groups, and lane by lane; returns the conflicts of both.
    fn both(
        team: &Team,
        shadows: &mut [Vec<Line>; 2],
        act: &Act,
        (launch, index): (u32, u32),
    ) -> [String; 2] {
        let Act::Access { warp, kind, bytes, lanes, order, addresses } = act else { unreachable!() };
        let addresses: [u64; 32] = addresses.as_slice().try_into().expect("32 lanes");
        let memory = Memory {
            space: Space::Shared,
            owner: 0,
            generic: false,
            kind: *kind,
            bytes: *bytes,
            elements: 1,
            lanes: *lanes,
            addresses: &addresses,
            known: None,
        };
        let of = &team.warps[*warp as usize];
        let access = Access {
            team: 0,
            agent: *warp,
            clock: of.clock.own[*warp as usize],
            time: of.time,
            lanes: 0,
            index,
            strong: order.0,
            volatile: order.1,
        };
        let [grouped, single] = shadows;
        let shadow = Shadow::Shared(grouped);
        let (warp, memory, access) = (of, &memory, &access);
        let mut touch = Touch { shadow, launch, warp, memory, access, clashes: Vec::new() };
        touch.all();
        let by_groups = format!("{:?}", touch.clashes);
        let mut touch = Touch { shadow: Shadow::Shared(single), clashes: Vec::new(), ..touch };
        for lane in (0..32).filter(|lane| lanes >> lane & 1 == 1) {
            let start = addresses[lane as usize];
            touch.cells(lane, start, start + u64::from(*bytes));
        }
        [by_groups, format!("{:?}", touch.clashes)]
    }

    /// The second half of a warp loads what the first half has stored. The loads are recorded cell by
    /// cell, because another warp had read one of the cells.
    #[test]
    fn load_of_another_lanes_store_clashes_within_a_warp() {
        let team = Team::new(0, Shape { blocks: 1, warps: 3, shared_bytes: 0 });
        let mut shadows = [(); 2].map(|()| vec![Line::new(u64::MAX); LINES]);
        let mut act = |warp, kind, lanes, place: fn(u64) -> u64, index| {
            let addresses = (0..32).map(|lane| 4 * place(lane)).collect();
            let act = Act::Access { warp, kind, bytes: 4, lanes, order: (false, false), addresses };
            both(&team, &mut shadows, &act, (1, index))
        };
        act(0, AccessKind::Load, 1, |_| 0, 0);
        act(1, AccessKind::Store, FULL, |lane| lane, 1);
        let [grouped, single] = act(1, AccessKind::Load, FULL, |lane| lane % 16, 2);
        assert_eq!((grouped.matches("Clash").count(), &grouped), (16, &single));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

        #[test]
        fn grouped_recording_matches_per_lane_recording(acts in acts()) {
            let mut team = Team::new(0, Shape { blocks: 1, warps: 3, shared_bytes: 0 });
            // In one line, only the first words were written.
            let written = |line| if line == 1 { 0xffff } else { u64::MAX };
            let lines: Vec<Line> = (0..LINES).map(|line| Line::new(written(line))).collect();
            let (mut shadows, mut launch) = ([lines.clone(), lines], 1);
            for (index, act) in (0..).zip(&acts) {
                match *act {
                    Act::Access { warp, .. } => {
                        team.warps[warp as usize].time += 1;
                        let [grouped, single] = both(&team, &mut shadows, act, (launch, index));
                        prop_assert_eq!(grouped, single);
                    }
                    Act::Synchronise { warp, members } => {
                        let warp = &mut team.warps[warp as usize];
                        warp.time += 1;
                        warp.synchronise(members, FULL);
                    }
                    Act::Barrier => {
                        team.warps.iter_mut().for_each(|warp| warp.time += 1);
                        barrier(&mut team);
                    }
                    Act::Copy { cell, lands } => for lines in &mut shadows {
                        let mut cell = cell_of(lines, launch, cell).expect("a cell");
                        match lands {
                            true => cell.land(0xf, Access { agent: 3, ..Access::NONE }),
                            false => cell.depart(0xf),
                        }
                    },
                    Act::Launch => launch += 1,
                }
                let [grouped, single] = &mut shadows;
                for cell in 0..LINES as u64 * 16 {
                    let state = |lines: &mut Vec<Line>| cell_of(lines, launch, cell).map(|cell| cell.state());
                    prop_assert_eq!(state(grouped), state(single), "cell {}", cell);
                }
            }
        }
    }
}
