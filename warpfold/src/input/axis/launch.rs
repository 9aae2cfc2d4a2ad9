//! The choice of kernel and grid for the columns of matrices, by arithmetic alone.
//!
//! Neighbouring columns form a strip. A block has `above` rows of `across` threads. Each thread of a row
//! takes one or a few columns of the strip, and rows of threads take different rows of the matrix:
//!
//! - If one block for each strip gives the device enough threads, each has one block. Strips are then as
//!   wide as possible: the block finally combines the values of the threads that share a column, and in
//!   a wider strip fewer threads share a column.
//! - Otherwise, each strip has several blocks. Strips are narrow, because a block publishes a value for
//!   each column. Blocks are large, so that there are few of them.
//!
//! The widths, the block sizes and the number of blocks per multiprocessor are the result of a sweep
//! over f32 matrices of 2 to 2^26 rows on an H200: docs/performance.md of the repository.

use warpfold_abi::{
    WARP_SIZE,
    custom::in_groups,
    reducer::{AXIS_BLOCK, GROUP_BYTES, GROUPS_IN_FLIGHT, axis_group_rows},
};

use super::AxisTask;
use crate::{names::AxisKernel, tuning::Shape};

/// Block sizes in threads. An operation is limited to the largest that its kernels' registers allow.
pub(crate) const BLOCKS: &[u32] = &[AXIS_BLOCK, 256, 128, 64, 32];
/// Maximum number of columns per thread, and the least number of rows that it loads at once. A constant
/// of the kernels.
const FEW: u64 = GROUPS_IN_FLIGHT as u64;
/// Matrices of fewer bytes have one thread per column.
const LANES_BYTES: u64 = 2 << 10;
/// Unaligned matrices of fewer columns have one column per thread.
const SPACED: u64 = 64;
/// Threads per block if each strip of columns has only one block, and widths of the strips in threads.
/// The first that gives enough threads is used.
const ALONE: [(u64, u64); 5] = [(256, 128), (256, 64), (256, 32), (512, 64), (512, 32)];
/// [`ALONE`] for matrices of at most [`NARROW_PACKS`] packs of columns.
const ALONE_NARROW: [(u64, u64); 3] = [(256, 16), (512, 16), (512, 8)];
const NARROW_PACKS: u64 = 16;
/// Threads per multiprocessor that are enough if each strip of columns has only one block: more of them
/// for elements one by one and for long columns, whose time is that of the memory.
const ENOUGH: u64 = 360;
const ENOUGH_LONG: u64 = 704;
/// Rows of the matrix per thread above which columns are long.
const LONG: u64 = 64;
/// If columns have at most this number of rows, strips of columns are as wide as a block.
const SHORT: u64 = 16;
/// Minimum number of matrix rows per thread, if each strip of columns has only one block.
const ROWS: u64 = 16;
/// Threads per multiprocessor that keep it busy; [`BUSY_NARROW`] for very narrow strips.
const BUSY: u64 = 1024;
const BUSY_NARROW: u64 = 1536;
/// The maximum number of threads across a very narrow strip.
const NARROW: u64 = 4;

/// The launch of a reduction along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisLaunch {
    /// The kernel.
    pub kernel: AxisKernel,
    /// Blocks per strip of columns; 1 for [`AxisKernel::Lanes`].
    pub share: u32,
    /// Threads across a strip of columns; 1 for [`AxisKernel::Lanes`].
    pub across: u32,
    /// Threads of a block.
    pub block: u32,
    /// Blocks of the grid.
    pub blocks: u32,
}

impl AxisLaunch {
    /// Maximum bytes of the slots in which a launch's blocks publish their values.
    pub(crate) const SLOTS: u64 = 4 << 20;

    /// Returns the launch for matrices, which must have elements.
    pub(crate) fn new(task: &AxisTask, shape: Shape) -> Self {
        let size = task.code.element_bytes();
        if task.matrices > 1 && task.len * task.width * size < LANES_BYTES {
            return Self::lanes(task);
        }
        let pack = pack_len(size);
        let apart = if task.matrices > 1 { task.apart } else { 0 };
        let in_packs = [task.width, task.pitch, apart].iter().all(|len| len.is_multiple_of(pack));
        let aligned = task.address.is_multiple_of(pack * size) && in_packs;
        let (kernel, each) = if task.code.is_wide() {
            (AxisKernel::Singles, 1)
        } else if aligned && pack > 1 {
            (AxisKernel::Packs, pack)
        } else if task.width >= SPACED {
            (AxisKernel::Spaced, FEW)
        } else {
            (AxisKernel::Singles, 1)
        };
        Self::strips(task, shape, kernel, each)
    }

    fn lanes(task: &AxisTask) -> Self {
        let block = task.code.largest_blocks().axis.min(128);
        let blocks = (task.matrices * task.width).div_ceil(u64::from(block));
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).min(i32::MAX.cast_unsigned());
        Self { kernel: AxisKernel::Lanes, share: 1, across: 1, block, blocks }
    }

    fn strips(task: &AxisTask, shape: Shape, kernel: AxisKernel, each: u64) -> Self {
        let units = task.width.div_ceil(each);
        let largest = u64::from(task.code.largest_blocks().axis);
        let strips = |across: u64| task.matrices * units.div_ceil(across);
        let resident = |block: u64, busy: u64| u64::from(shape.multiprocessors) * (busy / block);
        // Elements whose indices matter, and those of spaced columns, are accumulated one by one.
        let in_vectors = kernel != AxisKernel::Spaced && !task.code.is_indexed();
        let is_narrow = kernel == AxisKernel::Packs && units <= NARROW_PACKS;
        let alone = if is_narrow { &ALONE_NARROW[..] } else { &ALONE[..] };
        let found = alone.iter().find_map(|&(block, across)| {
            let block = block.min(largest);
            // Narrow matrices are one strip each.
            let across = across.min(units).min(block);
            let is_long = task.len > LONG * (block / across);
            let enough = if in_vectors && !is_long { ENOUGH } else { ENOUGH_LONG };
            let threads = strips(across) * block;
            (threads >= u64::from(shape.multiprocessors) * enough).then_some((block, across))
        });
        if let Some((block, across)) = found {
            let across = if task.len <= SHORT { block.min(units) } else { across };
            // Strips of equal width, and of an even number of threads: few begin within 32 bytes.
            let even = units.div_ceil(units.div_ceil(across)).next_multiple_of(2);
            let across = even.min(across);
            let above = (block / across).min(task.len.div_ceil(ROWS)).max(1);
            return Self::of(kernel, across, above, 1, strips(across));
        }
        let across = match kernel {
            AxisKernel::Packs if units > 2 * NARROW && units <= 16 => units.div_ceil(2),
            AxisKernel::Packs if units >= 32 => 16,
            AxisKernel::Spaced => 32.min(units),
            _ => units.min(largest),
        };
        let rows =
            if in_vectors { axis_group_rows(task.code.element_bytes(), each).into() } else { FEW };
        let above = (largest / across).min(task.len.div_ceil(rows));
        let narrow = across <= NARROW || kernel != AxisKernel::Packs;
        let room = resident(largest, if narrow { BUSY_NARROW } else { BUSY });
        let turns = task.len.div_ceil(above * rows);
        let slots = Self::SLOTS / task.code.slot_bytes() / (across * each) / strips(across);
        let least = (room / strips(across)).max(1);
        // More blocks than are resident at once cost nothing, unless the last round has few of them.
        let busy = |share: u64| {
            let blocks = strips(across) * share;
            blocks as f64 / (blocks.div_ceil(room) * room) as f64
        };
        let shares = least..=4 * least;
        let best =
            shares.fold(least, |best, share| if busy(share) > busy(best) * 1.1 { share } else { best });
        let share = best.min(slots).clamp(1, turns);
        // Removes blocks without work: a block of a strip takes `turns.div_ceil(share)` turns, the last
        // block takes the rest.
        let share = turns.div_ceil(turns.div_ceil(share));
        Self::of(kernel, across, above, share, strips(across) * share)
    }

    fn of(kernel: AxisKernel, across: u64, above: u64, share: u64, blocks: u64) -> Self {
        let number = |n: u64| u32::try_from(n).expect("at most 2^35 elements, 2^5 in a strip");
        let block = (across * above).next_multiple_of(WARP_SIZE.into());
        let (share, across) = (number(share), number(across));
        Self { kernel, share, across, block: number(block), blocks: number(blocks) }
    }
}

/// Returns the number of elements of `size` bytes per load of a thread, as in the kernels.
fn pack_len(size: u64) -> u64 {
    if in_groups(size) { (u64::from(GROUP_BYTES) / size).min(FEW) } else { 1 }
}

#[cfg(test)]
mod tests {
    use warpfold_abi::reducer::{SLOT_BYTES, WIDE_SLOT_BYTES};

    use super::*;
    use crate::{
        names::{Dtype, OpKind},
        reducer::Code,
    };
    use warpfold_ptx::Arch;

    const H200: Shape = Shape::H200;
    const SMALL: Shape = Shape { arch: Arch::OLDEST, multiprocessors: 4, ..H200 };

    fn task([matrices, len, width]: [u64; 3], dtype: Dtype, address: u64) -> AxisTask {
        let code = Code::BuiltIn(OpKind::Sum.plain(), dtype);
        let (apart, pitch, address) = (len * width, width, 0x1000 + address);
        AxisTask { code, matrices, apart, len, pitch, width, address }
    }

    #[test]
    fn every_shape_has_a_launch_that_its_kernel_takes() {
        let sizes = || (0..36).flat_map(|log2| [1_u64 << log2, (1 << log2) + 1, 3 << log2]);
        for len in sizes() {
            for width in sizes().filter(|&width| width > 1 && width.saturating_mul(len) <= 1 << 35) {
                for matrices in [1, 2, 3, 100, 1 << 20] {
                    if width.saturating_mul(len).saturating_mul(matrices) > 1 << 35 {
                        continue;
                    }
                    for (dtype, address) in
                        [(Dtype::I8, 3), (Dtype::I8, 0), (Dtype::F32, 0), (Dtype::F64, 8)]
                    {
                        for shape in [H200, SMALL] {
                            let task = task([matrices, len, width], dtype, address);
                            check(&task, shape, SLOT_BYTES);
                            let code = Code::BuiltIn(
                                OpKind::MeanAndVariance.plain().reproducible(Dtype::F32),
                                Dtype::F32,
                            );
                            if dtype == Dtype::F32 {
                                check(&AxisTask { code, ..task }, shape, WIDE_SLOT_BYTES);
                            }
                        }
                    }
                }
            }
        }
    }

    fn check(task: &AxisTask, shape: Shape, slot_bytes: u64) {
        let launch = AxisLaunch::new(task, shape);
        let AxisLaunch { kernel, share, across, block, blocks } = launch;
        let what = format!("{launch:?} of {task:?}");
        assert!(blocks > 0 && block.is_multiple_of(32) && i32::try_from(blocks).is_ok(), "{what}");
        let size = task.code.element_bytes();
        let pack = if kernel == AxisKernel::Packs { pack_len(size) } else { 1 };
        let each = if kernel == AxisKernel::Spaced { FEW } else { pack };
        if kernel == AxisKernel::Lanes {
            assert!(u64::from(blocks) * u64::from(block) >= task.matrices * task.width, "{what}");
            return;
        }
        assert!(kernel == AxisKernel::Singles || !task.code.is_wide(), "{what}");
        assert!(block <= AXIS_BLOCK && (1..=block).contains(&across), "{what}");
        assert!(task.address.is_multiple_of(pack * size) && task.width.is_multiple_of(pack), "{what}");
        assert!(task.pitch.is_multiple_of(pack), "{what}");
        assert!(task.matrices == 1 || task.apart.is_multiple_of(pack), "{what}");
        let strips = task.matrices * task.width.div_ceil(u64::from(across) * each);
        assert_eq!(u64::from(blocks), strips * u64::from(share), "{what}");
        let slots = u64::from(blocks) * u64::from(across) * each * slot_bytes;
        assert!(share == 1 || slots <= AxisLaunch::SLOTS, "{what}");
        let rows = if kernel == AxisKernel::Spaced { FEW } else { axis_group_rows(size, each).into() };
        let turn = u64::from(block / across) * rows;
        assert!(u64::from(share - 1) * turn < task.len, "an idle block: {what}");
    }

    /// These choices were the fastest in the sweep.
    #[test]
    fn strip_shape_matches_the_sweep() {
        let of = |shape| {
            let AxisLaunch { kernel, share, across, block, .. } =
                AxisLaunch::new(&task(shape, Dtype::F32, 0), H200);
            (kernel, share, across, block)
        };
        let (packs, spaced, singles) = (AxisKernel::Packs, AxisKernel::Spaced, AxisKernel::Singles);
        assert_eq!(of([1, 1 << 26, 4]), (packs, 395, 1, 512));
        assert_eq!(of([1, 1 << 23, 32]), (packs, 263, 8, 512));
        assert_eq!(of([1, 1 << 22, 64]), (packs, 132, 8, 512));
        assert_eq!(of([1, 1 << 26, 3]), (singles, 395, 3, 512));
        assert_eq!(of([1, 1 << 18, 1024]), (packs, 16, 16, 512));
        assert_eq!(of([1, 1 << 18, 1001]), (spaced, 49, 32, 512));
        assert_eq!(of([1, 4096, 65_536]), (packs, 1, 32, 256));
        assert_eq!(of([64, 2048, 2048]), (packs, 1, 64, 256));
        assert_eq!(of([1, 256, 1 << 20]), (packs, 1, 128, 256));
        assert_eq!(of([1, 4, 1 << 26]), (packs, 1, 256, 256));
        assert_eq!(of([1 << 16, 64, 64]), (packs, 1, 16, 64));
        assert_eq!(of([1 << 20, 4, 4]).0, AxisKernel::Lanes);
    }
}
