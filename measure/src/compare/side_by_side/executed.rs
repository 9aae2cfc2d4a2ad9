//! Counts the instructions that a run executes, in the simulator.
//!
//! The simulator executes PTX, so this compares the compilers' input to `ptxas`, not its output: an
//! address computed in three instructions by one and in one by the other may be the same machine code.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use warpfold_suite::{
    Arch, Buffer, Codegen, Data, Device, Dtype, PtxStore, Reduction, Request, Selection,
    catalogue::{self, Work},
    plan, say,
};

use super::{Side, TWIN};
use crate::workspace::Workspace;

const SEED: u64 = 1;

/// Counts of a run in the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Executed {
    /// Number of elements.
    pub n: u64,
    /// Threads per block.
    pub block: u32,
    /// Blocks of the first launch.
    pub grid: u32,
    /// PTX instructions per warp, summed over all launches.
    pub warp_instructions: u64,
}

/// Runs every reduction among the sides, on the same elements in the same geometry.
///
/// A kernel that the simulator cannot run is reported and has no counts.
///
/// # Errors
/// No simulator, or no memory for the elements.
pub(super) fn count(workspace: &Workspace, arch: Arch, n: u64, sides: &mut [Side]) -> Result<()> {
    let device = Device::open(Selection::Sim)?;
    let mut simulator = Simulator { root: workspace.target.join("ptx"), arch, n, device, input: None };
    let limit = simulator.device.info().arch;
    if arch > limit {
        say!("not executed: the simulator runs PTX up to {limit}, not that for {arch}");
        return Ok(());
    }
    // One host thread: where blocks wait for each other, the executed instructions depend on the order
    // of arrival, and the comparison must be reproducible.
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    // Entries of a file mostly fail for the same reason: reported once, with their number.
    let mut failed: BTreeMap<(&str, &str), (usize, String)> = BTreeMap::new();
    for side in sides {
        match one.install(|| simulator.run(side)) {
            Ok(executed) => side.executed = executed,
            Err(error) => {
                let first = || (0, format!("{}: {error:#}", side.entry.name));
                failed.entry((side.entry.variant, side.compiler)).or_insert_with(first).0 += 1;
            }
        }
    }
    for ((variant, compiler), (entries, first)) in failed {
        say!("not executed: {entries} entries of {variant} by {compiler}, first {first}");
    }
    Ok(())
}

struct Simulator {
    root: PathBuf,
    arch: Arch,
    n: u64,
    device: Device,
    /// Elements of one type; consecutive sides mostly share a type.
    input: Option<(Dtype, Data, Buffer)>,
}

impl Simulator {
    fn run(&mut self, side: &Side) -> Result<Option<Executed>> {
        let variant = catalogue::find(side.entry.variant)?;
        // The reducer chooses its launches and its kernel itself.
        let Some(op) = side.entry.op.filter(|_| variant.work != Work::Reducer) else { return Ok(None) };
        let store = self.store(side)?;
        self.load(side.entry.dtype)?;
        let (_, data, input) = self.input.as_ref().context("loaded just now")?;
        let request = Request { block: plan::DEFAULT_BLOCK, ..Request::new(variant, op, data) };
        let reduction = Reduction::new(&self.device, &store, &request)?;
        let outcome = reduction.run(input, &mut reduction.workspace()?)?;
        let (block, grid) = (reduction.plan().block, reduction.plan().grid());
        let counted = outcome.counters.map(|counters| Executed {
            n: self.n,
            block,
            grid,
            warp_instructions: counters.warp_instructions,
        });
        Ok(counted)
    }

    fn store(&self, side: &Side) -> Result<PtxStore> {
        let codegen = match side.compiler {
            TWIN => Codegen::CudaC,
            name => name.trim_start_matches("rust-").parse()?,
        };
        Ok(PtxStore::at(&self.root, Some(codegen))?.only(self.arch))
    }

    fn load(&mut self, dtype: Dtype) -> Result<()> {
        if self.input.as_ref().is_some_and(|(loaded, ..)| *loaded == dtype) {
            return Ok(());
        }
        self.device.require_memory(self.n.saturating_mul(dtype.size() as u64))?;
        let data = Data::random(dtype, usize::try_from(self.n)?, SEED);
        let buffer = self.device.upload(&data)?;
        self.input = Some((dtype, data, buffer));
        Ok(())
    }
}
