//! The choice of kernel and grid for the rows of a matrix, by arithmetic alone.
//!
//! A GPU's memory is busy when every multiprocessor has about 64 KiB of loads in flight. Rows need not
//! be long for that, but enough lanes must have something to load, and neighbouring lanes must load
//! neighbouring addresses. From the longest rows to the shortest:
//!
//! - Rows of 3 KiB and more have a block each, or several blocks if there are fewer rows than resident
//!   blocks. The last blocks to end then leave little of the device idle.
//! - Rows of 2 KiB and more, and unaligned rows of 512 bytes or 256 elements and more, have a warp each,
//!   whose lanes have four loads in flight.
//! - Shorter rows share a warp. A row has a lane for each 16-byte group or, if it is unaligned, for
//!   every two or three elements.
//!
//! For tuples, all rows without a block of their own share warps: the shortest have a lane each, which
//! loads elements, and the lanes of the others load groups and the elements around them. The lanes per
//! row of the latter were not swept.
//!
//! If all rows are loaded at once, loading takes as long as a single load, and the work after it takes
//! the rest of the time. Then a row has at most one block, and a lane at most one row.
//!
//! The limits, and the number of rows per warp, are the result of sweeps of all kernels over f32 rows of
//! 3 to 10 001 elements on an H200: docs/performance.md of the repository.

use warpfold_abi::{
    WARP_SIZE,
    custom::in_groups,
    reducer::{self, GROUPS_IN_FLIGHT, TOP_BLOCK},
};

use super::RowsTask;
use crate::{
    geometry::balanced_tile, input::top::TopTask, names::RowsKernel, reducer::Code, tuning::Shape,
};

const GROUP_BYTES: u64 = reducer::GROUP_BYTES as u64;

/// The minimum bytes of a row with a block of its own.
const BLOCK_BYTES: u64 = 3 << 10;
/// [`BLOCK_BYTES`] for matrices of fewer than [`FEW_ROWS`] rows per multiprocessor.
const FEW_ROWS_BLOCK_BYTES: u64 = 2 << 10;
/// A quarter of the resident warps of a multiprocessor.
const FEW_ROWS: u64 = 16;
/// The minimum bytes of a row with a warp of its own, if all rows begin at 16-byte boundaries.
const GROUPS_BYTES: u64 = 2 << 10;
/// [`GROUPS_BYTES`] for unaligned rows.
const ELEMENTS_BYTES: u64 = 512;
/// Unaligned rows of this number of elements also have a warp of their own. Each element takes a load,
/// and a row of 511 bytes would otherwise take too many loads per lane.
const ELEMENTS_LEN: u64 = 256;
/// If rows have fewer bytes, a warp reduces several, one after the other: starting a block costs more
/// time than reducing such a row.
const WARP_ROUNDS_BYTES: u64 = 2 << 10;
/// The maximum number of rounds of resident blocks, if a warp takes several batches of rows. With 16
/// rounds, the last round leaves little of the device idle.
const ROUNDS: u64 = 16;
/// The minimum number of 16-byte groups per row for blocks of 512 threads. In shorter rows, the last
/// tile would be too short.
const LARGE_BLOCK_GROUPS: u64 = 8 << 10;
/// Unaligned rows of a tuple with fewer bytes have a lane each, because combining lanes takes
/// instructions for every operation. The limit is that of a sweep on an H200, whose results are not
/// kept.
const LANE_BYTES: u64 = 96;
/// Aligned rows of a tuple with at most this number of elements have a lane each, by the same sweep.
const LANE_LEN: u64 = 12;
/// Block sizes of the grid kernel, the largest first.
pub(crate) const BLOCKS: &[u32] = &[512, 256, 128, 64];
const ELEMENTS_PER_LANE: u64 = 3;
const ONE_BATCH_BLOCK: u32 = 64;
/// Batches of rows that a warp has in flight if it loads 16-byte groups; [`ELEMENT_BATCHES`] if it loads
/// elements.
const GROUP_BATCHES: u64 = 4;
const ELEMENT_BATCHES: u64 = 8;

/// Warps per multiprocessor for top-k of few rows. More warps would load no faster, and each has to find
/// k elements of its own.
const TOP_WARPS: u64 = 16;
/// The minimum number of 16-byte groups per warp in top-k of few rows: a warp has this number in flight.
const TOP_WARP_GROUPS: u64 = (WARP_SIZE * GROUPS_IN_FLIGHT) as u64;
const TOP_ROWS_BLOCK: u32 = 128;

/// The launch of a reduction of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsLaunch {
    /// The kernel.
    pub kernel: RowsKernel,
    /// Blocks per row in the grid kernel, lanes per row in kernels whose rows share a warp; otherwise 1.
    /// In the warp kernel only rows of a tuple share a warp.
    pub share: u32,
    /// Threads of a block.
    pub block: u32,
    /// Blocks of the grid.
    pub blocks: u32,
    /// 16-byte groups per step of the grid kernel's blocks and of top-k's warps. In the warp kernel of
    /// tuples, 0 if lanes load elements. 1 for all others.
    pub tile: u32,
}

impl RowsLaunch {
    /// Returns the launch for a matrix, which must have rows.
    pub(crate) fn new(task: &RowsTask, shape: Shape) -> Self {
        let size = task.code.element_bytes();
        let bytes = task.len * size;
        let boundaries = [task.address, bytes, task.pitch * size];
        let aligned = in_groups(size) && boundaries.iter().all(|at| at.is_multiple_of(GROUP_BYTES));
        let few = task.rows < FEW_ROWS * u64::from(shape.multiprocessors);
        if bytes >= BLOCK_BYTES || few && bytes >= FEW_ROWS_BLOCK_BYTES {
            Self::grid(task, shape, if in_groups(size) { bytes / GROUP_BYTES } else { task.len })
        } else if matches!(task.code, Code::Fused(_)) {
            Self::of_tuple(task, shape, aligned)
        } else if aligned && bytes < GROUPS_BYTES {
            Self::packed(task, shape, RowsKernel::Groups, bytes / GROUP_BYTES)
        } else if !aligned && bytes < ELEMENTS_BYTES && task.len < ELEMENTS_LEN {
            Self::packed(task, shape, RowsKernel::Elements, task.len)
        } else {
            let rounds = (bytes < WARP_ROUNDS_BYTES).then_some(ROUNDS);
            let block = if rounds.is_some() { 128 } else { 64 };
            Self::warps(RowsKernel::Warp, 1, task.rows, block, rounds, shape)
        }
    }

    /// Returns the launch of a tuple whose rows share warps, with one lane per short row, and otherwise
    /// as few lanes as have all its elements in flight: each step that combines lanes takes instructions
    /// for all operations.
    fn of_tuple(task: &RowsTask, shape: Shape, aligned: bool) -> Self {
        let is_short = if aligned {
            task.len <= LANE_LEN
        } else {
            task.len * task.code.element_bytes() < LANE_BYTES
        };
        if is_short {
            let turns = task.rows.div_ceil(WARP_SIZE.into());
            return Self {
                tile: 0,
                ..Self::warps(RowsKernel::Warp, 1, turns, 128, Some(ROUNDS), shape)
            };
        }
        let in_group = GROUP_BYTES / task.code.element_bytes();
        let (groups, most_singles) = (task.len / in_group, 2 * (in_group - 1));
        let singles = if aligned { 0 } else { task.len.min(most_singles) };
        let in_flight = u64::from(GROUPS_IN_FLIGHT);
        // Neighbouring lanes load neighbouring groups, so that a sector of 32 bytes is loaded once.
        let lanes = lanes(groups.max(singles).div_ceil(in_flight)).max(lanes(groups.min(2)));
        let turns = task.rows.div_ceil((WARP_SIZE / lanes).into());
        Self::warps(RowsKernel::Warp, lanes, turns, 128, Some(ROUNDS), shape)
    }

    /// Returns the launch of a top-k search in one or more rows: one warp for each row, or several if
    /// there are too few rows for [`TOP_WARPS`] warps on each multiprocessor.
    pub(crate) fn of_top(task: &TopTask, shape: Shape) -> Self {
        let groups = task.len * task.dtype.size() as u64 / GROUP_BYTES;
        let room = TOP_WARPS * u64::from(shape.multiprocessors) / task.rows;
        let warps = room.min(groups.div_ceil(TOP_WARP_GROUPS));
        if warps <= 1 {
            let tile = TOP_WARP_GROUPS as u32;
            return Self {
                tile,
                ..Self::warps(RowsKernel::Warp, 1, task.rows, TOP_ROWS_BLOCK, None, shape)
            };
        }
        let in_block = warps.min((TOP_BLOCK / WARP_SIZE).into());
        let block = in_block as u32 * WARP_SIZE;
        let tile = balanced_tile(groups, warps / in_block, block, GROUPS_IN_FLIGHT);
        let per_row = (warps / in_block).min(groups.div_ceil(tile));
        Self {
            kernel: RowsKernel::Grid,
            share: u32::try_from(per_row).expect("fewer than warps of a device"),
            block,
            blocks: u32::try_from(task.rows * per_row).expect("fewer than warps of a device"),
            tile: u32::try_from(tile).expect("at most 4 groups per thread"),
        }
    }

    /// Returns the launch of the grid kernel with the block size that leaves the least of the device
    /// idle in the last round.
    fn grid(task: &RowsTask, shape: Shape, groups: u64) -> Self {
        if let Some(alone) = Self::block_per_row(task, shape, groups) {
            return alone;
        }
        // Larger blocks would have threads with fewer than four groups.
        let largest = u32::try_from(groups / 4).unwrap_or(u32::MAX);
        let largest = if groups < LARGE_BLOCK_GROUPS { largest.min(256) } else { largest };
        let largest = largest.min(task.code.largest_blocks().rows);
        // Blocks that share a row need a slot each, and there are as many slots as resident blocks of
        // 128 threads.
        let least = if u64::from(shape.resident_blocks(64)) / task.rows > 1 { 128 } else { 64 };
        let sizes = least..=largest.max(least);
        let mut best = (0.0, least, 1);
        for &block in BLOCKS.iter().filter(|size| sizes.contains(*size)) {
            let resident = u64::from(shape.resident_blocks(block));
            let per_row = (resident / task.rows).max(1);
            let blocks = task.rows * per_row;
            let rounds = blocks.div_ceil(resident);
            let busy = blocks as f64 / (rounds * resident) as f64;
            // Smaller blocks end more often, so they have to keep a tenth more of the device busy.
            if busy > best.0 * 1.1 {
                best = (busy, block, per_row);
            }
        }
        let (_, block, per_row) = best;
        // Every thread gets at least one 16-byte group.
        let per_row = per_row.min(groups / u64::from(block)).max(1);
        let tile = balanced_tile(groups, per_row, block, GROUPS_IN_FLIGHT);
        let per_row = per_row.min(groups.div_ceil(tile)).max(1);
        Self {
            kernel: RowsKernel::Grid,
            share: u32::try_from(per_row).expect("at most as many as are resident"),
            block,
            blocks: u32::try_from(task.rows * per_row).expect("at most 2^35 elements, 2^10 in a row"),
            tile: u32::try_from(tile).expect("at most 4 groups per thread"),
        }
    }

    /// Returns the launch of a block per row, if all blocks are resident at once and each has its whole
    /// row in flight from the start. Several blocks per row would read no faster, and would have to
    /// combine their values.
    fn block_per_row(task: &RowsTask, shape: Shape, groups: u64) -> Option<Self> {
        let block = u32::try_from(groups.div_ceil(GROUPS_IN_FLIGHT.into()).next_power_of_two()).ok()?;
        let block = block.max(WARP_SIZE * 2);
        let fits = block <= task.code.largest_blocks().rows.min(BLOCKS[0])
            && task.rows <= shape.resident_blocks(block).into();
        fits.then(|| Self {
            kernel: RowsKernel::Grid,
            share: 1,
            block,
            blocks: u32::try_from(task.rows).expect("no more than are resident"),
            tile: block * GROUPS_IN_FLIGHT,
        })
    }

    /// Returns the launch of a kernel whose warps take several rows each, of `units` groups or elements.
    fn packed(task: &RowsTask, shape: Shape, kernel: RowsKernel, units: u64) -> Self {
        let of_elements = kernel == RowsKernel::Elements;
        let (batches, lanes) = if of_elements {
            (ELEMENT_BATCHES, lanes(units.div_ceil(ELEMENTS_PER_LANE)))
        } else {
            (GROUP_BATCHES, lanes(units))
        };
        let at_once = u64::from(WARP_SIZE / lanes);
        let warps = task.rows.div_ceil(at_once);
        let resident = u64::from(shape.resident_blocks(ONE_BATCH_BLOCK) * ONE_BATCH_BLOCK / WARP_SIZE);
        if warps <= resident / 2 || task.code.is_wide() {
            let kernel = if of_elements { RowsKernel::FewElements } else { RowsKernel::FewGroups };
            return Self::warps(kernel, lanes, warps, ONE_BATCH_BLOCK, None, shape);
        }
        // If the results fit into the L2 cache, elements should be evicted before results.
        let results_stay = task.rows * task.code.result_bytes() as u64 <= shape.l2_bytes / 2;
        let kernel = if of_elements || results_stay { kernel } else { RowsKernel::ManyGroups };
        let turns = task.rows.div_ceil(batches * at_once);
        // With at most two lanes per row, a warp has enough work in the rows that it loads at once.
        let rounds = (of_elements && lanes > 2).then_some(ROUNDS);
        Self::warps(kernel, lanes, turns, 128, rounds, shape)
    }

    /// Returns a launch whose warps take `turns` turns in all. In a turn, a warp loads a batch of rows
    /// at once. Without `rounds`, each warp takes one turn. With `rounds`, all take the same number, and
    /// there are no more warps than are resident in this number of rounds.
    fn warps(
        kernel: RowsKernel,
        share: u32,
        turns: u64,
        block: u32,
        rounds: Option<u64>,
        shape: Shape,
    ) -> Self {
        let per_block = u64::from(block / WARP_SIZE);
        let warps = rounds.map_or(turns, |rounds| {
            let most = rounds * u64::from(shape.resident_blocks(block)) * per_block;
            turns.div_ceil(turns.div_ceil(most))
        });
        let blocks =
            u32::try_from(warps.div_ceil(per_block)).expect("at most 2^35 elements, 2^7 a turn");
        Self { kernel, share, block, blocks, tile: 1 }
    }
}

fn lanes(units: u64) -> u32 {
    u32::try_from(units.next_power_of_two().min(WARP_SIZE.into())).expect("at most 32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        input::axis::AxisLaunch,
        names::{Dtype, OpKind, TopOp},
        op::fused::Parts,
    };
    use warpfold_abi::{fused, reducer::TOP_SLOT_BYTES};
    use warpfold_ptx::Arch;

    const H200: Shape = Shape::H200;
    const SMALL: Shape = Shape { arch: Arch::OLDEST, multiprocessors: 4, ..H200 };

    fn task(rows: u64, len: u64, dtype: Dtype, address: u64) -> RowsTask {
        RowsTask { code: Code::BuiltIn(OpKind::Sum.plain(), dtype), rows, len, pitch: len, address }
    }

    fn tuple(dtype: Dtype) -> Code {
        let bits = [fused::SUM, fused::MIN_MAX].into_iter();
        Code::Fused(Parts::of(bits, dtype).expect("two parts"))
    }

    fn of(rows: u64, len: u64) -> RowsLaunch {
        RowsLaunch::new(&task(rows, len, Dtype::F32, 0x1000), H200)
    }

    #[test]
    fn every_matrix_has_a_launch_that_its_kernel_takes() {
        let lens = (0..36).flat_map(|log2| [1_u64 << log2, (1 << log2) + 1, (1 << log2) * 3 / 2]);
        for len in lens.filter(|&len| len > 0) {
            let rows = (0..36).flat_map(|log2| [1_u64 << log2, (1 << log2) + 1]);
            for rows in rows.filter(|rows| rows.saturating_mul(len) <= 1 << 35) {
                for (dtype, address) in
                    [(Dtype::I8, 3), (Dtype::I8, 0), (Dtype::F32, 0), (Dtype::F64, 8)]
                {
                    for shape in [H200, SMALL] {
                        let task = task(rows, len, dtype, 0x1000 + address);
                        check(&task, shape);
                        check(&RowsTask { code: tuple(dtype), ..task }, shape);
                        if dtype.is_float() {
                            let op = OpKind::MeanAndVariance.plain().reproducible(Dtype::F32);
                            check(&RowsTask { code: Code::BuiltIn(op, dtype), ..task }, shape);
                        }
                    }
                }
            }
        }
    }

    fn check(task: &RowsTask, shape: Shape) {
        let launch = RowsLaunch::new(task, shape);
        let RowsLaunch { kernel, share, block, blocks, tile } = launch;
        let what = format!("{launch:?} of {task:?}");
        assert!(blocks > 0 && block.is_multiple_of(32) && i32::try_from(blocks).is_ok(), "{what}");
        let bytes = task.len * task.code.element_bytes();
        let warps = u64::from(blocks * (block / 32));
        let in_batches =
            matches!(kernel, RowsKernel::Groups | RowsKernel::ManyGroups | RowsKernel::Elements);
        assert!(!in_batches || !task.code.is_wide(), "{what}");
        match kernel {
            RowsKernel::Grid => {
                assert_eq!(u64::from(blocks), task.rows * u64::from(share), "{what}");
                assert!(tile > 0 && tile <= 4 * block, "{what}");
                // There are as many slots as resident blocks of 128 threads.
                assert!(share == 1 || blocks <= shape.resident_blocks(128), "{what}");
                assert!(share == 1 || block >= 128, "{what}");
                assert!(u64::from(share - 1) * u64::from(tile) < bytes / 16, "an idle block: {what}");
            }
            RowsKernel::Warp if matches!(task.code, Code::Fused(_)) => {
                assert!(share.is_power_of_two() && share <= 32, "{what}");
                let size = task.code.element_bytes();
                let aligned = [task.address, bytes].iter().all(|at| at.is_multiple_of(16));
                let singles = if aligned { 0 } else { task.len.min(2 * (16 / size - 1)) };
                assert!(tile != 0 || share == 1 && task.len < LANE_BYTES, "{what}");
                assert!(tile == 0 || singles <= u64::from(4 * share), "{what}");
                assert!(warps < task.rows.div_ceil(u64::from(32 / share)) + 8, "{what}");
            }
            RowsKernel::Warp => assert!(warps < task.rows + 8, "{what}"),
            RowsKernel::Groups
            | RowsKernel::ManyGroups
            | RowsKernel::Elements
            | RowsKernel::FewGroups
            | RowsKernel::FewElements => {
                assert!(share.is_power_of_two() && share <= 32 && bytes < 2048, "{what}");
                let aligned = task.address.is_multiple_of(16) && bytes.is_multiple_of(16);
                let (of_groups, batches) = match kernel {
                    RowsKernel::Groups | RowsKernel::ManyGroups => (true, 4),
                    RowsKernel::Elements => (false, 8),
                    few => (few == RowsKernel::FewGroups, 1),
                };
                assert_eq!(of_groups, aligned, "{what}");
                let turns = task.rows.div_ceil(batches * u64::from(32 / share));
                assert!(warps < turns + 8, "{what}");
                // In the kernels without batches, a lane takes at most one row.
                assert!(batches > 1 || warps >= turns, "{what}");
            }
        }
    }

    #[test]
    fn every_top_k_search_has_a_launch_that_its_kernel_takes() {
        for (rows, len) in (0..33).flat_map(|rows| (0..36 - rows).map(move |len| (1 << rows, 1 << len)))
        {
            for (rows, len) in [(rows, len), (rows, len * 3 / 2 + 1), (rows * 3 / 2 + 1, len)] {
                for (shape, dtype) in [(H200, Dtype::F32), (SMALL, Dtype::F32), (H200, Dtype::I8)] {
                    let task = TopTask { op: TopOp::Largest, dtype, rows, len, k: 1, address: 0x1000 };
                    let launch = RowsLaunch::of_top(&task, shape);
                    let RowsLaunch { kernel, share, block, blocks, tile } = launch;
                    let what = format!("{launch:?} of {task:?}");
                    assert!(block.is_multiple_of(32) && block <= TOP_BLOCK, "{what}");
                    assert!(tile > 0 && u64::from(tile) <= 4 * u64::from(block), "{what}");
                    if kernel == RowsKernel::Warp {
                        let warps = u64::from(blocks) * u64::from(block / 32);
                        assert!(share == 1 && tile <= 4 * 32 && warps >= rows, "{what}");
                        assert!(i32::try_from(blocks).is_ok(), "{what}");
                        continue;
                    }
                    assert_eq!((kernel, u64::from(blocks)), (RowsKernel::Grid, rows * u64::from(share)));
                    assert!(share > 0, "{what}");
                    let groups = len * dtype.size() as u64 / 16;
                    assert!(u64::from(share - 1) * u64::from(tile) < groups, "an idle block: {what}");
                    // Each element before a row's first 16-byte group or after the last needs a thread.
                    assert!(u64::from(block) >= 2 * 16 / dtype.size() as u64, "{what}");
                    let slots = u64::from(blocks) * TOP_SLOT_BYTES;
                    assert!(share == 1 || slots <= AxisLaunch::SLOTS, "{what}");
                }
            }
        }
        // A block per multiprocessor for few rows, or a warp per row if the rows fill the device.
        let of = |rows, len| {
            let task =
                TopTask { op: TopOp::Largest, dtype: Dtype::F32, rows, len, k: 1, address: 0x1000 };
            let RowsLaunch { kernel, share, block, .. } = RowsLaunch::of_top(&task, H200);
            (kernel, share, block)
        };
        assert_eq!(of(1, 1 << 28), (RowsKernel::Grid, 132, 512));
        assert_eq!(of(1, 1000), (RowsKernel::Grid, 1, 64));
        assert_eq!(of(16, 1 << 24), (RowsKernel::Grid, 8, 512));
        assert_eq!(of(528, 1 << 18), (RowsKernel::Grid, 1, 128));
        assert_eq!(of(4096, 65_536), (RowsKernel::Warp, 1, 128));
    }

    #[test]
    fn longer_rows_get_more_threads_per_row() {
        let kernels = |shapes: &[(u64, u64)]| -> Vec<(RowsKernel, u32)> {
            shapes.iter().map(|&(rows, len)| (of(rows, len).kernel, of(rows, len).share)).collect()
        };
        let long = [(1, 1 << 28), (16, 1 << 24), (256, 1 << 20), (4096, 65_536), (65_536, 4096)];
        let shares = [528, 33, 2, 1, 1].map(|share| (RowsKernel::Grid, share));
        assert_eq!(kernels(&long), shares);
        let (grid, warp) = (RowsKernel::Grid, RowsKernel::Warp);
        let (groups, many) = (RowsKernel::Groups, RowsKernel::ManyGroups);
        let elements = RowsKernel::Elements;
        let short = [(1 << 18, 1024), (1 << 19, 512), (1 << 20, 256), (1 << 22, 64), (1 << 24, 16)];
        assert_eq!(kernels(&short), [(grid, 1), (warp, 1), (groups, 32), (groups, 16), (many, 4)]);
        let odd = [(1 << 26, 4), (1 << 26, 3), (1 << 26, 5), (1 << 23, 31), (1 << 21, 129)];
        assert_eq!(kernels(&odd), [(many, 1), (elements, 1), (elements, 2), (elements, 16), (warp, 1)]);
    }

    #[test]
    fn rows_of_a_tuple_have_one_lane_or_lanes_for_four_groups_each() {
        let launch = |rows, len, address| {
            let task = RowsTask { code: tuple(Dtype::F32), ..task(rows, len, Dtype::F32, address) };
            let RowsLaunch { kernel, share, tile, .. } = RowsLaunch::new(&task, H200);
            (kernel, share, tile)
        };
        let grid = |share, tile| (RowsKernel::Grid, share, tile);
        let (by_element, by_group) = ((RowsKernel::Warp, 1, 0), |share| (RowsKernel::Warp, share, 1));
        let aligned = [4, 12, 16, 32, 64, 256, 512].map(|len| launch(1 << 18, len, 0x1000));
        let of_groups = [2, 2, 4, 16, 32].map(by_group);
        assert_eq!(aligned[..2], [by_element; 2]);
        assert_eq!(aligned[2..], of_groups);
        let odd = [1, 5, 23, 24, 31, 129].map(|len| launch(1 << 18, len, 0x1004));
        assert_eq!(odd[..3], [by_element; 3]);
        assert_eq!(odd[3..], [2, 2, 8].map(by_group));
        assert_eq!(
            [launch(1 << 18, 1024, 0x1000), launch(16, 1 << 24, 0x1000)],
            [grid(1, 256), grid(66, 1024)]
        );
    }

    #[test]
    fn grid_launch_keeps_the_device_busy_for_any_row_count() {
        for rows in 1..20_000 {
            let launch = of(rows, 1 << 16);
            let resident = launch.blocks.div_ceil(H200.resident_blocks(launch.block));
            let busy =
                f64::from(launch.blocks) / f64::from(resident * H200.resident_blocks(launch.block));
            assert!(rows < 17 || busy > 0.6, "{rows} rows: {busy}, {launch:?}");
        }
    }

    #[test]
    fn few_rows_use_one_block_or_batch_each() {
        // A block has the whole row in flight, and all blocks are resident.
        let grid = |rows, len| (of(rows, len).share, of(rows, len).block);
        assert_eq!([grid(256, 4096), grid(16, 4096), grid(1024, 1024)], [(1, 256), (1, 256), (1, 64)]);
        assert_eq!([grid(256, 8192), grid(100, 8192 + 4)], [(1, 512), (8, 256)]);
        let kernel = |rows, len| of(rows, len).kernel;
        let few = [kernel(256, 256), kernel(1 << 12, 16), kernel(1 << 14, 4)];
        assert_eq!(few, [RowsKernel::FewGroups; 3]);
        assert_eq!(kernel(21_845, 3), RowsKernel::FewElements);
        assert_eq!([kernel(1 << 16, 16), kernel(1 << 18, 4)], [RowsKernel::Groups; 2]);
    }

    #[test]
    fn results_stay_in_l2_if_it_holds_twice_their_size() {
        let stay = |rows, len| of(rows, len).kernel == RowsKernel::Groups;
        assert!(stay(1 << 22, 64) && stay(1 << 22, 4) && !stay(1 << 23, 32) && !stay(1 << 26, 4));
        let without = Shape { l2_bytes: 0, ..H200 };
        let launch = RowsLaunch::new(&task(1 << 20, 4, Dtype::F32, 0x1000), without);
        assert_eq!(launch.kernel, RowsKernel::ManyGroups);
    }

    #[test]
    fn lane_counts_round_up_to_powers_of_two() {
        assert_eq!([1, 2, 3, 4, 5, 8].map(lanes), [1, 2, 4, 4, 8, 8]);
        assert_eq!([9, 16, 17, 24, 32, 33, 64].map(lanes), [16, 16, 32, 32, 32, 32, 32]);
    }

    #[test]
    fn warps_take_equal_numbers_of_short_turns() {
        // Unaligned rows of 129 elements: the launch has at most sixteen rounds of resident blocks.
        let launch = of(1 << 21, 129);
        let most = ROUNDS as u32 * H200.resident_blocks(launch.block);
        assert!(launch.blocks <= most && launch.blocks > most / 2, "{launch:?}");
        // Long rows have a warp each, with two warps per block.
        assert_eq!(of(1 << 19, 512).blocks, 1 << 18);
        // Few rows have a warp each, too, with four warps per block.
        assert_eq!(of(100, 129).blocks, 25);
    }
}
