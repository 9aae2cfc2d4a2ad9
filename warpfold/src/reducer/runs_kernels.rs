//! The kernels that find runs of equal keys: loaded at first use, and launched.

use std::ptr;

use warpfold_abi::{
    Arguments,
    arguments::{CountRuns, WriteRuns},
    runs::{BLOCK, most_tiles},
};
use warpfold_driver::{Function, LaunchShape};

use super::{
    kernels::{Kernels, Places, launch_with},
    module::Module,
    pool::Workspace,
    task::Task,
};
use crate::{
    Result,
    ptx::RUNS_FILES,
    runs::{ByKeyJob, RunsJob, WriteRunsJob},
};

/// The kernels for keys of a size.
pub(super) struct LoadedRuns {
    count: Function,
    write: Function,
    /// Blocks of either that are resident at once.
    resident: u32,
    /// What they are of.
    _module: Module,
}

impl Kernels {
    /// Loads the kernels that find runs of keys of `key_bytes` bytes, unless they are loaded.
    pub(crate) fn prepare_runs(&self, key_bytes: u32) -> Result<()> {
        self.find_runs(key_bytes).map(drop)
    }

    fn find_runs(&self, key_bytes: u32) -> Result<&LoadedRuns> {
        let size = key_bytes.ilog2() as usize;
        self.found_or(&self.loaded.runs[size], || {
            let kernels =
                [("count", CountRuns::<()>::PARAMETERS), ("write", WriteRuns::<()>::PARAMETERS)];
            let ([count, write], module) = self.load_file(RUNS_FILES[size], kernels)?;
            let device = self.device();
            let resident = device.call("preparing a kernel", |driver| {
                // SAFETY: the functions are there as long as the module.
                let of = |kernel| unsafe { driver.occupancy_max_active_blocks(kernel, BLOCK, 0) };
                Ok(of(count)?.min(of(write)?).max(1) * device.info().multiprocessors)
            })?;
            let resident = resident.min(Workspace::most_blocks(device));
            Ok(LoadedRuns { count, write, resident, _module: module })
        })
    }

    /// Blocks of the kernel that counts the runs of `n` keys of `key_bytes` bytes each; the kernel that
    /// writes these runs has as many.
    pub(crate) fn runs_blocks(&self, key_bytes: u32, n: u64) -> Result<u32> {
        let tiles = u32::try_from(most_tiles(key_bytes, n)).unwrap_or(u32::MAX);
        Ok(tiles.min(self.find_runs(key_bytes)?.resident))
    }

    /// Enqueues the count of the runs of some keys.
    ///
    /// # Safety
    /// As [`Task::enqueue`].
    pub(super) unsafe fn enqueue_count_runs(&self, job: &RunsJob, places: &Places) -> Result<()> {
        let loaded = self.find_runs(job.key_bytes)?;
        let arguments = CountRuns::<u8> {
            keys: ptr::without_provenance(job.address as usize),
            n: job.n,
            counts: ptr::without_provenance_mut(job.counts as usize),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        // SAFETY: the kernel reads the keys, of which there are some, and writes a word for each block;
        // there are no more blocks than slots, which are zero; the caller answers for the memory.
        unsafe { self.launch_runs(loaded.count, job, places, &arguments) }
    }

    /// Enqueues what writes the runs that were counted.
    ///
    /// # Safety
    /// As [`Task::enqueue`].
    pub(super) unsafe fn enqueue_write_runs(&self, job: &WriteRunsJob, places: &Places) -> Result<()> {
        let &WriteRunsJob { ref runs, heads, offsets, offset_words } = job;
        let loaded = self.find_runs(runs.key_bytes)?;
        let arguments = WriteRuns::<u8> {
            keys: ptr::without_provenance(runs.address as usize),
            n: runs.n,
            counts: ptr::without_provenance(runs.counts as usize),
            heads: ptr::without_provenance_mut(heads as usize),
            offsets: ptr::without_provenance_mut(offsets as usize),
            offset_words,
        };
        // SAFETY: the kernel reads the keys and the counts of as many blocks, and writes a key and an
        // offset for each run that was counted, and one offset more; the caller answers for the memory.
        unsafe { self.launch_runs(loaded.write, runs, places, &arguments) }
    }

    /// Enqueues what writes the runs that were counted, and the reduction of the values that they have.
    ///
    /// # Safety
    /// As [`Task::enqueue`].
    pub(super) unsafe fn enqueue_by_key(&self, job: &ByKeyJob, places: &Places) -> Result<()> {
        let ByKeyJob { write, segments } = job;
        let task = Task::of_segments(segments.clone());
        // SAFETY: the offsets are in order when they are written, and there is room for where tiles
        // begin; the caller's contract.
        unsafe {
            self.enqueue_write_runs(write, places)?;
            if let Task::Segments(job) = &task {
                self.enqueue_tiles(job, places)?;
            }
            task.enqueue(self, places)
        }
    }

    /// # Safety
    /// As [`launch_with`], of a kernel for keys of the job's size.
    unsafe fn launch_runs<A: Arguments>(
        &self,
        function: Function,
        job: &RunsJob,
        places: &Places,
        arguments: &A,
    ) -> Result<()> {
        let shape = LaunchShape::new([job.blocks, 1, 1], [BLOCK, 1, 1]);
        self.device().call("launching a search for runs", |driver| {
            // SAFETY: blocks are of as many threads as the kernel takes, which was compared with its
            // arguments when it was loaded; the caller's contract.
            unsafe { launch_with(driver, function, &shape, places.stream, arguments) }
        })
    }
}
