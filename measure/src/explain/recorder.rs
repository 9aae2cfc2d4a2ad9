//! Runs cases in the simulator and records a profile of each launch.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use warpfold_sim::{Error, InstructionInfo, Profile, Profiler, Stats};
use warpfold_sim_driver::{SimLaunch, Watcher};
use warpfold_suite::{Device, PtxStore};

use super::{case::Case, lines::Lines};

#[derive(Debug)]
pub struct Launched {
    pub entry: String,
    pub grid: u64,
    pub block: u32,
    /// Shared bytes per block, static and dynamic.
    pub shared_bytes: u32,
    /// The entry's instructions, in the profile's order.
    pub instructions: Vec<InstructionInfo>,
    pub profile: Profile,
}

#[derive(Debug)]
pub struct Run {
    pub case: Case,
    pub launches: Vec<Launched>,
    pub lines: Lines,
    pub ptx: String,
    /// The compiler, from the PTX's header.
    pub compiler: String,
}

#[derive(Default)]
struct Recorder(Mutex<Vec<Launched>>);

impl Watcher for Recorder {
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error> {
        let profiler = Profiler::new();
        let stats = launch.run_observed(&profiler)?;
        let (entry, shape) = (launch.entry(), launch.shape());
        let launched = Launched {
            entry: entry.name().to_owned(),
            grid: shape.grid.iter().map(|&blocks| u64::from(blocks)).product(),
            block: shape.block.iter().product(),
            shared_bytes: entry.static_shared_bytes() + shape.dynamic_shared,
            instructions: entry.instructions().to_vec(),
            profile: profiler.profile(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(launched);
        Ok(stats)
    }
}

/// Runs a case and records its launches.
///
/// Blocks run one after the other. Otherwise the executed instructions would depend on the order of
/// arrival in kernels whose blocks wait for each other.
pub fn count(case: &Case, store: &PtxStore, root: &Path) -> Result<Run> {
    let recorder = Arc::new(Recorder::default());
    let device = Device::watched(recorder.clone())?;
    let ptx = store.find(&case.ptx(), device.info())?;
    rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| case.run(&device, store))?;
    let launches = std::mem::take(&mut *recorder.0.lock().unwrap_or_else(PoisonError::into_inner));
    let compiler = ptx.text.lines().find_map(|line| line.strip_prefix("// compiler: "));
    Ok(Run {
        case: *case,
        launches,
        lines: Lines::read(&ptx.text, root),
        compiler: compiler.unwrap_or("an unknown compiler").to_owned(),
        ptx: ptx.text,
    })
}
