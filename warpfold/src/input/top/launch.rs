//! The launch of the selection of any k, by arithmetic alone.
//!
//! A row has a block, or, if rows are few and long, several. The selection reads a row once if a sample
//! of it gives a bound that nearly always includes k elements, and not many more: see `select.rs` of the
//! device's crate.

use warpfold_abi::{
    reducer::OUTPUT_BYTES,
    top::{NARROW_BLOCK, RANKED, SELECT_BLOCK, SELECT_BYTES, digits},
};

use super::TopTask;
use crate::{input::axis::AxisLaunch, kernel_file::AnyTopKernel};

/// The minimum elements of a row that several blocks share. A block reads a shorter row in less time
/// than several blocks take to wait for each other.
const SHARED: u64 = 1 << 14;
/// Elements of a row for each of several blocks. More blocks would wait longer for each other.
const SHARE: u64 = 1 << 14;
/// The number of blocks of a row, if it is long enough, and the elements of each. They sort few results.
const FEW_BLOCKS: [u64; 2] = [32, 2048];
/// [`FEW_BLOCKS`] for many results.
const MANY_BLOCKS: [u64; 2] = [128, 512];
/// Elements that several blocks sort as fast as fewer.
const FEW_RANKED: u64 = 1536;
/// The minimum elements of a row with a sample that several blocks share. Shorter rows are read several
/// times in the same time.
const SAMPLED: u64 = 1 << 18;
/// [`SAMPLED`] for elements of up to 2 bytes, because many are equal.
const SAMPLED_SHORT: u64 = 1 << 21;
/// The minimum elements of a row with a sample that has a block of its own.
const SAMPLED_ALONE: u64 = 1 << 12;
/// Samples of a row that several blocks share, unless each thread shall take one.
const FEW_SAMPLES: u64 = 1 << 15;
/// The minimum elements, of 4 bytes, of a row with a sample for each thread.
const SAMPLED_BY_ALL: u64 = 1 << 26;
/// Elements per sample, at least. With fewer, a sample would cost as much as the row.
const SPARSE: u64 = 8;
/// Elements of a row with a small block, at most, if there are many rows.
const SHORT: u64 = 8192;
/// Elements of a row with a small block, at most, if there are few rows.
const SHORT_OF_FEW: u64 = 2048;
/// Blocks, at most, of rows that have one each; with more rows, a block takes several.
const MOST_BLOCKS: u64 = 1 << 20;

/// The launch of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SelectLaunch {
    pub(crate) kernel: AnyTopKernel,
    /// Blocks of the grid.
    pub(crate) blocks: u32,
    /// Blocks per row; if not 1, they wait for each other.
    pub(crate) share: u32,
    /// Elements of a row that are sampled; 0 for no sample.
    pub(crate) samples: u64,
    /// The element of the sample that is the bound, counted from 1.
    pub(crate) rank: u64,
    /// Candidates per row for which there is device memory.
    pub(crate) room: u64,
    /// Elements that several blocks sort, at least k; 0 if they do not sort.
    pub(crate) ranked: u64,
}

impl SelectLaunch {
    /// Bytes of memory for candidates, which need not be zero.
    pub(crate) const SCRATCH: u64 = 8 << 20;

    /// Returns the launch for one or more rows. `resident` large blocks run at once.
    pub(crate) fn of(task: &TopTask, resident: u32) -> Self {
        let &TopTask { rows, len, k, dtype, .. } = task;
        let resident = u64::from(resident);
        let [most, each] = if k <= FEW_RANKED { FEW_BLOCKS } else { MANY_BLOCKS };
        let share = (resident / rows).min((len / SHARE).max(most.min(len / each)));
        if share < 2 || len < SHARED || rows * SELECT_BYTES > AxisLaunch::SLOTS {
            let short = if rows > resident { SHORT } else { SHORT_OF_FEW };
            let is_short = len <= short && k <= digits(NARROW_BLOCK).into();
            let kernel = if is_short { AnyTopKernel::Short } else { AnyTopKernel::Select };
            let block = kernel.block();
            let (samples, rank) = if len < SAMPLED_ALONE {
                (0, 0)
            } else {
                samples(task, 2 * u64::from(block), digits(block).into())
            };
            let blocks = rows.min(MOST_BLOCKS) as u32;
            return Self { kernel, blocks, share: 1, samples, rank, room: 0, ranked: 0 };
        }
        let share = share as u32;
        let entries = Self::SCRATCH / OUTPUT_BYTES / rows;
        // To sort more elements takes longer than a pass that leaves them out.
        let ranked = k + (k / 4).max(FEW_RANKED.saturating_sub(k));
        let ranked = if k <= RANKED.into() && 4 * ranked <= entries { ranked } else { 0 };
        let room = entries - ranked;
        let threads = u64::from(share * SELECT_BLOCK);
        let (sampled, least) = match dtype.size() {
            1 | 2 => (SAMPLED_SHORT, threads.min(FEW_SAMPLES)),
            4 if len < SAMPLED_BY_ALL => (SAMPLED, threads.min(FEW_SAMPLES)),
            _ => (SAMPLED, threads),
        };
        let (samples, rank) = if len < sampled { (0, 0) } else { samples(task, least, room) };
        let (kernel, blocks) = (AnyTopKernel::Select, share * rows as u32);
        Self { kernel, blocks, share, samples, rank, room, ranked }
    }

    /// Returns whether the launch sorts k results.
    pub(crate) fn sorts(&self, k: u64) -> bool {
        self.ranked > 0 || (self.share == 1 && k <= digits(self.kernel.block()).into())
    }

    /// Returns the bytes from the start of the slots on that must be zero.
    pub(crate) fn slot_bytes(&self) -> u64 {
        if self.share == 1 { 0 } else { u64::from(self.blocks / self.share) * SELECT_BYTES }
    }
}

/// Returns the number of samples, from `least` up to eight times as many, and the rank of the bound
/// among them; zeros if the bound would include more candidates than there is `room` for. Few samples
/// suffice if there may be many candidates.
fn samples(task: &TopTask, least: u64, room: u64) -> (u64, u64) {
    for samples in [1, 2, 4, 8].map(|times| times * least).map(|samples| samples.min(task.len / SPARSE))
    {
        if samples == 0 {
            break;
        }
        let each = task.len as f64 / samples as f64;
        let rank = rank(task.k as f64 / each);
        // The number of candidates, two standard deviations above its mean, for a sample of this rank or
        // of a somewhat larger one, because the bound is that of a bucket.
        let last = 1.15 * rank as f64 + 1.0;
        let candidates = (last + 2.0 * last.sqrt()) * each;
        if rank <= samples && candidates <= (room as f64).min(task.len as f64 / 2.0) {
            return (samples, rank);
        }
    }
    (0, 0)
}

/// Returns the rank of a bound that nearly always includes the first k elements, among which there are
/// `mean` samples on average. Their number has nearly a Poisson distribution, and the bound includes
/// fewer than k elements if it is one of them.
fn rank(mean: f64) -> u64 {
    const UNLIKELY: f64 = 1e-6;
    if mean > 100.0 {
        return (mean + 5.0 * mean.sqrt()).ceil() as u64;
    }
    let (mut samples, mut probability, mut more) = (0, (-mean).exp(), 1.0);
    while more > UNLIKELY {
        more -= probability;
        samples += 1;
        probability *= mean / samples as f64;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Dtype, TopOp};

    fn task(rows: u64, len: u64, k: u64, dtype: Dtype) -> TopTask {
        TopTask { op: TopOp::Largest, dtype, rows, len, k, address: 0x1000 }
    }

    /// The numbers of blocks of two on each multiprocessor of an H200, and of a small device.
    const RESIDENT: [u32; 2] = [264, 8];

    #[test]
    fn every_selection_has_a_launch_that_its_kernel_takes() {
        for (rows, len) in (0..33).flat_map(|rows| (0..36 - rows).map(move |len| (1 << rows, 1 << len)))
        {
            for (rows, len) in [(rows, len), (rows, len * 3 / 2 + 1), (rows * 3 / 2 + 1, len)] {
                let ks = [33, 100, 512, 513, 2048, 8192, 8193, len / 2, len];
                for k in ks.into_iter().filter(|&k| k > 0 && k <= len) {
                    for (resident, dtype) in RESIDENT.into_iter().zip([Dtype::F32, Dtype::I8]) {
                        check(&task(rows, len, k, dtype), resident);
                    }
                }
            }
        }
    }

    fn check(task: &TopTask, resident: u32) {
        let launch = SelectLaunch::of(task, resident);
        let SelectLaunch { kernel, blocks, share, samples, rank, room, ranked } = launch;
        let &TopTask { rows, len, k, .. } = task;
        let what = format!("{launch:?} of {task:?}");
        assert!(blocks > 0 && i32::try_from(blocks).is_ok() && share > 0, "{what}");
        assert_eq!(samples == 0, rank == 0, "{what}");
        assert!(samples <= len / 2 && rank <= samples, "{what}");
        // On average, a bound at this rank includes more than k elements.
        assert!(samples == 0 || rank as f64 * len as f64 / samples as f64 > k as f64, "{what}");
        if share == 1 {
            assert!(u64::from(blocks) <= rows && room == 0 && ranked == 0, "{what}");
            return;
        }
        assert_eq!((kernel, u64::from(blocks)), (AnyTopKernel::Select, rows * u64::from(share)));
        assert!(blocks <= resident && launch.slot_bytes() <= AxisLaunch::SLOTS, "{what}");
        assert!(rows * (room + ranked) * OUTPUT_BYTES <= SelectLaunch::SCRATCH, "{what}");
        assert!(ranked == 0 || (k..=2 * k.max(FEW_RANKED)).contains(&ranked), "{what}");
    }

    #[test]
    fn few_long_rows_have_several_blocks_and_a_sample() {
        let of = |rows, len, k| {
            let launch = SelectLaunch::of(&task(rows, len, k, Dtype::F32), RESIDENT[0]);
            (launch.kernel, launch.share, launch.samples > 0, launch.sorts(k))
        };
        let (select, short) = (AnyTopKernel::Select, AnyTopKernel::Short);
        assert_eq!(of(1, 1 << 28, 4096), (select, 264, true, true));
        assert_eq!(of(1, 1 << 28, 1 << 20), (select, 264, false, false));
        assert_eq!(of(16, 1 << 24, 100), (select, 16, true, true));
        assert_eq!(of(1, 1 << 14, 100), (select, 8, false, true));
        assert_eq!(of(1, 1 << 16, 4096), (select, 128, false, true));
        assert_eq!(of(1, 1 << 20, 100), (select, 64, true, true));
        assert_eq!(of(1, 1 << 13, 100), (select, 1, true, true));
        assert_eq!(of(4096, 1 << 16, 100), (select, 1, true, true));
        assert_eq!(of(1 << 18, 1 << 10, 100), (short, 1, false, true));
        assert_eq!(of(1, 1 << 12, 4096), (select, 1, false, false));
    }
}
