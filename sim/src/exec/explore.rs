//! Model checking of launches: one execution after the other, each with its trail of decisions.

use std::time::Instant;

use crate::config::Stats;
use crate::error::FaultKind;
use crate::explore::{Held, Trail};

use super::cluster::{Cluster, Progress};
use super::explored::{Halted, State, Taken, threads};
use super::{Launched, Probe, Steered};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Complete,
    /// The execution is equivalent to another one.
    Redundant,
    /// A kernel failed, or a warp waits forever.
    Failure(String),
}

struct Grid<'l> {
    launch: &'l Launched<'l>,
    /// Set if blocks may start when the previous launch's blocks allow it (`griddepcontrol`).
    overlaps: bool,
    blocks: Vec<Cluster>,
    finished: Vec<bool>,
    started: bool,
    deadline: Option<Instant>,
    /// Index of the grid's first warp among the warps of all launches.
    first: usize,
}

pub(crate) struct Explorer<'l> {
    grids: Vec<Grid<'l>>,
    warps: usize,
    probe: Steered<'static>,
}

fn state_of<'p>(probe: &'p Steered<'_>) -> std::sync::MutexGuard<'p, State> {
    probe.exploration().expect("the probe of an exploration has its state").state()
}

impl Grid<'_> {
    fn warps_of_block(&self) -> usize {
        self.launch.warps() as usize
    }

    fn warps(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.blocks.len() * self.warps_of_block()
    }

    fn is_over(&self) -> bool {
        self.finished.iter().all(|&finished| finished)
    }

    fn block_of(&self, warp: usize) -> usize {
        (warp - self.first) / self.warps_of_block()
    }

    fn lets_on(&self, state: &State) -> bool {
        let lets = |warp| self.finished[self.block_of(warp)] || state.triggered[warp];
        self.started && self.warps().all(lets)
    }
}

impl<'l> Explorer<'l> {
    pub(crate) fn new(launches: &'l [(Launched<'l>, bool)], trail: Trail) -> Self {
        let mut warps = 0;
        let grids = launches
            .iter()
            .map(|(launch, overlaps)| {
                let count: u32 = launch.shape.grid.iter().product();
                let blocks = (0..count).map(|_| Cluster::new(launch)).collect();
                let first = warps;
                warps += count as usize * launch.warps() as usize;
                let finished = vec![false; count as usize];
                Grid {
                    launch,
                    overlaps: *overlaps,
                    blocks,
                    finished,
                    started: false,
                    deadline: None,
                    first,
                }
            })
            .collect();
        Self { grids, warps, probe: Steered::exploring(trail) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        state_of(&self.probe)
    }

    pub(crate) fn advance(&mut self) -> bool {
        self.state().trail.advance()
    }

    /// Restarts the exploration and returns `true` if the last execution added to `State::shared`.
    pub(crate) fn begins_anew(&mut self) -> bool {
        let mut state = self.state();
        let grown = std::mem::take(&mut state.grown);
        if grown {
            state.trail.clear();
        }
        grown
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    pub(crate) fn values(&self) -> (Vec<Held>, Vec<Held>) {
        self.state().memory.values()
    }

    pub(crate) fn execute(&mut self) -> Found {
        self.state().restart(self.warps);
        for grid in &mut self.grids {
            grid.started = false;
            grid.finished.fill(false);
        }
        loop {
            if let Err(reason) = self.start() {
                return Found::Failure(reason);
            }
            let ready = self.ready();
            if ready.is_empty() {
                return self.end();
            }
            let steps: Vec<_> =
                ready.iter().map(|(warp, halted)| (*warp, halted.step.clone())).collect();
            let Some(warp) = self.state().trail.choose_warp(&steps) else { return Found::Redundant };
            if let Err(reason) = self.step(warp) {
                return Found::Failure(reason);
            }
        }
    }

    /// Starts each launch that may start, and runs its blocks up to their warps' first stops.
    fn start(&mut self) -> Result<(), String> {
        for index in 0..self.grids.len() {
            let grid = &self.grids[index];
            let after_all = self.grids[..index].iter().all(Grid::is_over);
            let overlaps = grid.overlaps && index > 0 && self.grids[index - 1].lets_on(&self.state());
            if grid.started || !(after_all || overlaps) {
                continue;
            }
            self.grids[index].started = true;
            // An overlapping launch sees earlier writes only after its own `griddepcontrol.wait`.
            if !self.grids[index].overlaps {
                let (before, own) = (0..self.grids[index].first, self.grids[index].warps());
                self.state().memory.pass(before.flat_map(threads), own.flat_map(threads));
            }
            self.grids[index].deadline = self.grids[index].launch.deadline();
            for block in 0..self.grids[index].blocks.len() {
                let Grid { launch, blocks, .. } = &mut self.grids[index];
                blocks[block].reset(launch, block as u64, &self.probe);
                self.settle(index, block)?;
            }
        }
        Ok(())
    }

    fn ready(&self) -> Vec<(usize, Halted)> {
        let state = self.state();
        let mut ready = Vec::new();
        for (index, grid) in self.grids.iter().enumerate() {
            for warp in grid.warps() {
                let Some(halted) = &state.halted[warp] else { continue };
                let waits =
                    halted.depends && grid.overlaps && index > 0 && !self.grids[index - 1].is_over();
                if !waits && state.may_step(warp, halted) {
                    ready.push((warp, halted.clone()));
                }
            }
        }
        ready
    }

    /// Executes the instruction before which a warp stopped, and runs its block up to the next stops.
    fn step(&mut self, warp: usize) -> Result<(), String> {
        let index = self.grid_of(warp);
        let grid = &self.grids[index];
        let block = grid.block_of(warp);
        let mut state = self.state();
        let depends = state.halted[warp].as_ref().is_some_and(|halted| halted.depends);
        if depends && grid.overlaps && index > 0 {
            let before = self.grids[index - 1].warps();
            state.memory.pass(before.flat_map(threads), threads(warp));
        }
        state.permit(warp);
        drop(state);
        self.settle(index, block)
    }

    /// Runs a block until each of its warps exits, waits, or stops before an instruction seen by others.
    fn settle(&mut self, index: usize, block: usize) -> Result<(), String> {
        let Grid { launch, blocks, finished, first, deadline, .. } = &mut self.grids[index];
        let warps = launch.warps() as usize;
        let start = *first + block * warps;
        state_of(&self.probe).block = start..start + warps;
        let mut total = Stats::default();
        loop {
            let before = total.warp_instructions;
            let steps = launch.config.step_limit.saturating_sub(before);
            let progress = blocks[block].turn(launch, &self.probe, steps, *deadline, &mut total);
            if let Some(reason) = state_of(&self.probe).trouble.clone() {
                return Err(reason);
            }
            match progress {
                Err(fault) => return Err(fault.to_string()),
                Ok(Progress::OutOfSteps) => {
                    let kind = FaultKind::StepLimit { limit: launch.config.step_limit };
                    return Err(blocks[block].stopped(launch, kind).to_string());
                }
                Ok(Progress::OutOfTime) => {
                    return Err(blocks[block].stopped(launch, launch.out_of_time()).to_string());
                }
                Ok(Progress::Finished) => {
                    finished[block] = true;
                    return Ok(());
                }
                Ok(Progress::Yielded) if total.warp_instructions == before => return Ok(()),
                Ok(Progress::Yielded) => {}
            }
        }
    }

    fn end(&self) -> Found {
        if self.grids.iter().all(Grid::is_over) {
            return Found::Complete;
        }
        let state = self.state();
        let waiting: Vec<usize> = (0..self.warps).filter(|&warp| state.halted[warp].is_some()).collect();
        if waiting.iter().any(|&warp| state.may_see_more(warp)) {
            return Found::Redundant;
        }
        let names: Vec<String> = waiting.iter().map(|&warp| self.name(warp)).collect();
        Found::Failure(format!("no step of other warps is certain to let {} continue", names.join(", ")))
    }

    fn grid_of(&self, warp: usize) -> usize {
        self.grids.iter().position(|grid| grid.warps().contains(&warp)).unwrap_or_default()
    }

    fn name(&self, warp: usize) -> String {
        let index = self.grid_of(warp);
        let grid = &self.grids[index];
        let launch = if self.grids.len() > 1 { format!("launch {index} ") } else { String::new() };
        let within = match grid.warps_of_block() {
            1 => String::new(),
            warps => format!(" warp {}", (warp - grid.first) % warps),
        };
        format!("{launch}block {}{within}", grid.block_of(warp))
    }

    /// Returns the numbers of steps of the last execution, and of changes from one warp to another.
    pub(crate) fn length(&self) -> (usize, usize) {
        let taken = &self.state().taken;
        (taken.len(), taken.windows(2).filter(|pair| pair[0].warp != pair[1].warp).count())
    }

    pub(crate) fn account(&self) -> Vec<String> {
        let state = self.state();
        let line = |Taken { warp, pc, values }: &Taken| {
            let found = self.grids.iter().find(|grid| grid.warps().contains(warp));
            let text = found.map_or("", |grid| &grid.launch.entry.program.info[*pc as usize].text);
            let values: Vec<String> = values
                .iter()
                .map(|(address, value, written)| {
                    let verb = if *written { "writes" } else { "reads" };
                    format!("{verb} {value:#x} at {address:#x}")
                })
                .collect();
            format!("{}: {text} {}", self.name(*warp), values.join(", "))
        };
        state.taken.iter().map(line).collect()
    }
}
