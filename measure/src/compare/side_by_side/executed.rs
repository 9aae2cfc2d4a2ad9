//! Counts the instructions that a run executes in the simulator.
//!
//! The simulator executes PTX, so these counts compare the input of `ptxas`, not its output. The same
//! machine code may result from three PTX instructions of one compiler and from one of another.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Executed {
    pub n: u64,
    pub block: u32,
    /// Blocks of the first launch.
    pub grid: u32,
    /// PTX instructions per warp, summed over all launches.
    pub warp_instructions: u64,
}

/// Runs every reduction of `sides`, with the same elements and geometry. A kernel that the simulator
/// cannot run is reported and has no counts.
pub(super) fn count(workspace: &Workspace, arch: Arch, n: u64, sides: &mut [Side]) -> Result<()> {
    let device = Device::open(Selection::Sim)?;
    let mut simulator = Simulator { root: workspace.target.join("ptx"), arch, n, device, input: None };
    let limit = simulator.device.info().arch;
    if arch > limit {
        say!("not executed: the simulator runs PTX up to {limit}, not that for {arch}");
        return Ok(());
    }
    // Uses one host thread to be reproducible: if blocks wait for each other, the executed instructions
    // depend on the order in which the blocks arrive.
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    // Most entries of a file fail for the same reason: it is reported once, with a count of the entries.
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
    /// Elements of the previous kernel's type, cached because consecutive kernels mostly share it.
    input: Option<(Dtype, Data, Buffer)>,
}

impl Simulator {
    fn run(&mut self, side: &Side) -> Result<Option<Executed>> {
        let variant = catalogue::find(side.entry.variant)?;
        // The reducer is skipped, because it chooses its kernel and its launches itself.
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
