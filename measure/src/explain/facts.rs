//! A run's counters as rows of a table, which all output formats share.

use warpfold_sim::{SharedAccess, Step, Tally};

use super::{
    occupancy::{ASSUMED_REGISTERS, Needs, Occupancy},
    recorder::Run,
};

#[derive(Debug)]
pub struct Facts {
    pub total: Tally,
    /// The steps of the first launch's blocks.
    pub steps: Vec<Step>,
    /// Registers per thread, if `ptxas` was available.
    pub registers: Option<u32>,
    /// Resources of the first launch's block. The number of registers is assumed if it is unknown.
    pub needs: Needs,
    pub occupancy: Occupancy,
    /// Maximum bytes of global loads in flight per thread.
    pub bytes_in_flight: u32,
    /// Maximum bytes of asynchronous copies in flight per block.
    pub copy_bytes_in_flight: u64,
    /// Operations on the address with the most atomics in a launch.
    pub hottest_atomic: u64,
}

impl Facts {
    /// Collects the facts of a run whose first entry uses this number of registers.
    pub fn of(run: &Run, registers: Option<u32>) -> Self {
        let mut total = Tally::default();
        run.launches.iter().for_each(|launch| total += launch.profile.total());
        let first = run.launches.first();
        let needs = Needs {
            block: first.map_or(run.case.block, |launch| launch.block),
            registers: registers.unwrap_or(ASSUMED_REGISTERS),
            shared_bytes: first.map_or(0, |launch| launch.shared_bytes),
        };
        let profiles = || run.launches.iter().map(|launch| &launch.profile);
        Self {
            total,
            steps: first.map(|launch| launch.profile.steps.clone()).unwrap_or_default(),
            registers,
            needs,
            occupancy: Occupancy::of(needs),
            bytes_in_flight: profiles().map(|profile| profile.bytes_in_flight).max().unwrap_or(0),
            copy_bytes_in_flight: profiles().map(|p| p.copy_bytes_in_flight).max().unwrap_or(0),
            hottest_atomic: profiles().filter_map(|p| Some(p.hottest_atomic?.1)).max().unwrap_or(0),
        }
    }

    /// Returns the tree's steps: the steps after the first block barrier that have stores to shared
    /// memory.
    pub fn tree_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().skip(1).filter(|step| step.active_warps > 0)
    }

    /// Returns the active warps of each step of the tree, averaged over the blocks that have any in that
    /// step.
    pub fn active_warps(&self) -> Vec<f64> {
        self.tree_steps().map(|step| step.active_warps as f64 / step.active_blocks as f64).collect()
    }

    /// Returns the degree of the worst bank conflict of each step of the tree.
    pub fn conflict_degrees(&self) -> Vec<u32> {
        self.tree_steps().map(|step| step.shared.degree).collect()
    }

    /// Returns the bytes of loads and copies in flight on a multiprocessor that is full of these blocks.
    pub fn bytes_in_flight_per_multiprocessor(&self) -> u64 {
        let threads = u64::from(self.occupancy.blocks) * u64::from(self.needs.block);
        let copies = self.copy_bytes_in_flight * u64::from(self.occupancy.blocks);
        threads * u64::from(self.bytes_in_flight) + copies
    }
}

pub struct Section {
    pub title: &'static str,
    /// The rows: a label, and a value per run.
    pub rows: Vec<(&'static str, Vec<String>)>,
}

type Row = (&'static str, fn(&Run, &Facts) -> String);

const SECTIONS: &[(&str, &[Row])] = &[
    (
        "launches",
        &[
            ("elements", |run, _| run.case.n.to_string()),
            ("blocks of each launch", |run, _| blocks(run)),
            ("threads of a block", |_, facts| facts.needs.block.to_string()),
        ],
    ),
    (
        "instructions",
        &[
            ("warp instructions", |_, f| f.total.warp_instructions.to_string()),
            ("thread instructions", |_, f| f.total.thread_instructions.to_string()),
            ("mean active lanes of 32", |_, f| decimal(f.total.mean_lanes())),
            ("branches", |_, f| count(f.total.branches)),
            ("  divergent", |_, f| of(f.total.divergent_branches, f.total.branches)),
            ("arrivals at block barriers", |_, f| count(f.total.block_barriers)),
            ("warp barriers", |_, f| count(f.total.warp_barriers)),
            ("shuffles", |_, f| count(f.total.shuffles)),
        ],
    ),
    (
        "shared memory",
        &[
            ("load requests", |_, f| count(f.total.shared_loads.requests)),
            ("  wavefronts", |_, f| count(f.total.shared_loads.wavefronts)),
            ("store requests", |_, f| count(f.total.shared_stores.requests)),
            ("  wavefronts", |_, f| count(f.total.shared_stores.wavefronts)),
            ("bank conflicts", |_, f| conflicts(f.total.shared())),
            ("  worst, ways", |_, f| ways(f.total.shared())),
            ("requests to other blocks", |_, f| count(f.total.remote_requests)),
        ],
    ),
    (
        "global memory",
        &[
            ("load requests", |_, f| count(f.total.global_loads.requests)),
            ("  sectors of 32 bytes", |_, f| count(f.total.global_loads.sectors)),
            ("  useful bytes of those", |_, f| percent(f.total.global_loads.efficiency())),
            ("store requests", |_, f| count(f.total.global_stores.requests)),
            ("  sectors of 32 bytes", |_, f| count(f.total.global_stores.sectors)),
            ("  useful bytes of those", |_, f| percent(f.total.global_stores.efficiency())),
            ("asynchronous copies", |_, f| count(f.total.copies)),
            ("  bytes", |_, f| count(f.total.copy_bytes)),
            ("atomic requests", |_, f| count(f.total.global_atomics.requests)),
            ("  operations", |_, f| count(f.total.global_atomics.operations)),
            ("  one after the other", |_, f| count(f.total.global_atomics.passes)),
            ("  on one address", |_, f| count(f.hottest_atomic)),
        ],
    ),
    (
        "latency hiding",
        &[
            ("registers of a thread", |_, f| registers(f)),
            ("shared bytes of a block", |_, f| count(f.needs.shared_bytes.into())),
            ("resident warps of 64", |_, f| occupancy(f)),
            ("bytes in flight of a thread", |_, f| count(f.bytes_in_flight.into())),
            ("copied bytes in flight of a block", |_, f| count(f.copy_bytes_in_flight)),
            ("bytes in flight of an SM", |_, f| count(f.bytes_in_flight_per_multiprocessor())),
        ],
    ),
    (
        "steps of the tree",
        &[
            ("active warps", |_, f| steps(&f.active_warps())),
            ("  sum", |_, f| sum(&f.active_warps())),
            ("bank conflicts, ways", |_, f| degrees(&f.conflict_degrees())),
        ],
    ),
];

/// Returns all sections for these runs, without rows that are empty for all runs.
pub fn sections(runs: &[(&Run, &Facts)]) -> Vec<Section> {
    let row = |&(label, value): &Row| {
        (label, runs.iter().map(|(run, facts)| value(run, facts)).collect::<Vec<_>>())
    };
    let some = |(_, values): &(&str, Vec<String>)| values.iter().any(|value| !value.is_empty());
    let section = |&(title, rows): &(&'static str, &[Row])| Section {
        title,
        rows: rows.iter().map(row).filter(some).collect(),
    };
    SECTIONS.iter().map(section).filter(|section| !section.rows.is_empty()).collect()
}

fn blocks(run: &Run) -> String {
    let blocks: Vec<String> = run.launches.iter().map(|launch| launch.grid.to_string()).collect();
    blocks.join(" + ")
}

fn count(value: u64) -> String {
    if value == 0 { String::new() } else { value.to_string() }
}

fn of(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { part.to_string() }
}

fn decimal(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.2}"))
}

fn percent(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{:.1} %", value * 100.0))
}

fn conflicts(shared: SharedAccess) -> String {
    if shared.requests == 0 { String::new() } else { shared.conflicts().to_string() }
}

fn ways(shared: SharedAccess) -> String {
    count(shared.degree.into())
}

fn registers(facts: &Facts) -> String {
    match facts.registers {
        Some(registers) => registers.to_string(),
        None => format!("{ASSUMED_REGISTERS} (estimate)"),
    }
}

fn occupancy(facts: &Facts) -> String {
    let estimate = if facts.registers.is_none() { ", estimate" } else { "" };
    format!("{} ({}{estimate})", facts.occupancy.warps, facts.occupancy.limit)
}

/// Formats a number, without decimals if it is whole.
pub fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") }
}

fn steps(values: &[f64]) -> String {
    values.iter().map(|&value| short(value)).collect::<Vec<_>>().join(" ")
}

fn sum(values: &[f64]) -> String {
    if values.is_empty() { String::new() } else { short(values.iter().sum()) }
}

fn degrees(values: &[u32]) -> String {
    values.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}
