//! The division of an input into blocks and tiles: pure arithmetic, without a device.

use warpfold_abi::{
    BLOCK_SIZES, WARP_SIZE,
    custom::in_groups,
    reducer::{
        self, BULK_LARGEST_BLOCK, BULK_SHARED_BYTES, BULK_TILE_GROUPS, GROUPS_IN_FLIGHT, PAIRS_IN_FLIGHT,
    },
};

use crate::{
    names::{Dtype, KernelKind},
    tuning::{Blocks, Choice, Shape},
};

/// Maximum number of elements of one reduction.
pub const MAX_ELEMENTS: u64 = 1 << 35;

/// Returns the number of elements of an array of this shape, or `None` on overflow. A shape that
/// contains a 0 has no elements, however large its other lengths are.
pub(crate) fn elements_of(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |all, &len| all.checked_mul(len))
}

pub(crate) const GROUP_BYTES: u64 = reducer::GROUP_BYTES as u64;
/// Tile sizes are multiples of this number of groups: one group for each lane of a warp.
const TILE_STEP: u64 = WARP_SIZE as u64;

const fn fits(sizes: &[u32], largest: u32) -> bool {
    let mut at = 0;
    while at < sizes.len() {
        if sizes[at] < *BLOCK_SIZES.start() || sizes[at] > largest || !sizes[at].is_power_of_two() {
            return false;
        }
        at += 1;
    }
    true
}

const _: () = assert!(fits(KernelKind::Grid.block_sizes(), *BLOCK_SIZES.end()));
const _: () = assert!(fits(KernelKind::Bulk.block_sizes(), BULK_LARGEST_BLOCK));

/// The partition of an input: single elements up to the first 16-byte boundary, then whole groups of 16
/// bytes, then single elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    head: u64,
    groups: u64,
    tail: u64,
    /// Elements per 16-byte group; 1 if elements are loaded one by one.
    lanes: u64,
}

impl Extent {
    /// Returns the extent of `n` elements of `size` bytes at `address`. If `size` divides 16, the
    /// address must be a multiple of `size`.
    pub(crate) fn of(address: u64, n: u64, size: u64) -> Self {
        if !in_groups(size) {
            return Self { head: 0, groups: n, tail: 0, lanes: 1 };
        }
        let lanes = GROUP_BYTES / size;
        let to_boundary = address.wrapping_neg() % GROUP_BYTES / size;
        let head = to_boundary.min(n);
        Self { head, groups: (n - head) / lanes, tail: (n - head) % lanes, lanes }
    }

    /// Returns the extent of two inputs of `n` elements of 1, 2, 4 or 8 bytes at these addresses. Groups
    /// begin at the 16-byte boundaries of the first input. If the second is aligned differently, kernels
    /// load its aligned groups that overlap the first input's; all of these are inside the second input.
    pub(crate) fn of_pairs([first, second]: [u64; 2], n: u64, size: u64) -> Self {
        let shift = second.wrapping_sub(first) % GROUP_BYTES;
        let Self { head, groups, lanes, .. } = Self::of(first, n, size);
        if shift == 0 || groups == 0 {
            return Self::of(first, n, size);
        }
        // The second input's groups reach this many elements before and past those of the first input.
        let (before, behind) = (shift / size, lanes - shift / size);
        let head = if head < before { head + lanes } else { head };
        let groups = n.saturating_sub(head + behind) / lanes;
        let head = head.min(n);
        Self { head, groups, tail: n - head - groups * lanes, lanes }
    }

    pub(crate) fn head(self) -> u64 {
        self.head
    }

    pub(crate) fn groups(self) -> u64 {
        self.groups
    }

    pub(crate) fn singles(self) -> u64 {
        self.head + self.tail
    }
}

/// The launch of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The kernel.
    pub kernel: KernelKind,
    /// Blocks per grid.
    pub blocks: u32,
    /// Threads per block.
    pub block: u32,
    /// Groups of 16 bytes that a block of the grid kernel reads per iteration of its grid-stride loop.
    /// The bulk kernel has a fixed number.
    pub tile: u32,
}

/// The occupancy of a device by a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) multiprocessors: u32,
    /// Resident blocks of the chosen size on the device; at least 1.
    pub(crate) resident: u32,
}

impl Launch {
    /// Returns the launch for an input by a [`Choice`]. Every block has work, and all blocks are
    /// resident at once.
    pub(crate) fn new(extent: Extent, choice: Choice, room: Room) -> Self {
        Self::with(extent, choice, room, GROUPS_IN_FLIGHT)
    }

    pub(crate) fn of_pairs(extent: Extent, choice: Choice, room: Room) -> Self {
        Self::with(extent, choice, room, PAIRS_IN_FLIGHT)
    }

    fn with(extent: Extent, choice: Choice, room: Room, in_flight: u32) -> Self {
        let wanted = match choice.blocks {
            Blocks::Total(blocks) => blocks,
            Blocks::PerMultiprocessor(blocks) => blocks.saturating_mul(room.multiprocessors),
        };
        let most = u64::from(wanted.min(room.resident).max(1));
        let tile = match choice.kernel {
            KernelKind::Grid => balanced_tile(extent.groups, most, choice.block, in_flight),
            KernelKind::Bulk => BULK_TILE_GROUPS.into(),
        };
        let blocks = most.min(extent.groups.div_ceil(tile).max(1));
        Self {
            kernel: choice.kernel,
            blocks: u32::try_from(blocks).expect("at most as many as are resident"),
            block: choice.block,
            tile: u32::try_from(tile).expect("at most 4 groups per thread"),
        }
    }

    pub(crate) fn shared(self) -> u32 {
        shared_bytes(self.kernel)
    }

    /// Returns the maximum number of additions between an element and the result, plus one for the
    /// rounding of a square.
    pub(crate) fn depth(self, extent: Extent) -> u64 {
        let Self { blocks, block, tile, .. } = self;
        let (blocks, block, tile) = (u64::from(blocks), u64::from(block), u64::from(tile));
        let groups_per_thread = match self.kernel {
            KernelKind::Grid => extent.groups.div_ceil(blocks * tile) * tile.div_ceil(block),
            KernelKind::Bulk => {
                let (tiles, rest) = (extent.groups / tile, extent.groups % tile);
                tiles.div_ceil(blocks) * (tile / block) + rest.div_ceil(blocks * block)
            }
        };
        // Two more additions combine the thread's four accumulators, and one adds the thread's element
        // of the head or tail.
        let in_thread = groups_per_thread * extent.lanes + 3;
        // A tree over the lanes of a warp, and one over the warps.
        let in_block = 2 * 5;
        let of_blocks = blocks.div_ceil(block) + in_block;
        1 + in_thread + in_block + of_blocks
    }
}

/// Returns the maximum number of additions between one of `n` elements and the result, plus one for the
/// rounding of a square. Assumes that the elements begin at a 16-byte boundary, and that only the
/// numbers of blocks and threads limit occupancy.
pub fn depth_on(choice: Choice, n: u64, dtype: Dtype, shape: Shape) -> u64 {
    let extent = Extent::of(0, n, dtype.size() as u64);
    let resident = shape.resident_blocks(choice.block);
    let room = Room { multiprocessors: shape.multiprocessors, resident };
    Launch::new(extent, choice, room).depth(extent)
}

pub(crate) fn shared_bytes(kernel: KernelKind) -> u32 {
    match kernel {
        KernelKind::Grid => 0,
        KernelKind::Bulk => BULK_SHARED_BYTES,
    }
}

/// Returns the groups per tile for which all blocks have the same number of rounds. With the largest
/// tiles, some blocks would have one more round while the others are idle.
pub(crate) fn balanced_tile(groups: u64, blocks: u64, block: u32, in_flight: u32) -> u64 {
    let largest = u64::from(in_flight) * u64::from(block);
    let rounds = groups.div_ceil(blocks * largest).max(1);
    groups.div_ceil(blocks * rounds).next_multiple_of(TILE_STEP).max(TILE_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(block: u32, blocks: u32) -> Choice {
        Choice { kernel: KernelKind::Grid, block, blocks: Blocks::Total(blocks) }
    }

    fn bulk(block: u32, blocks: u32) -> Choice {
        Choice { kernel: KernelKind::Bulk, ..grid(block, blocks) }
    }

    const LARGE: Room = Room { multiprocessors: 132, resident: 2112 };

    /// Counts how often the loops of the kernels read each element.
    fn reads(extent: Extent, launch: Launch) -> Vec<u32> {
        let Extent { head, groups, tail, lanes } = extent;
        let mut reads = vec![0; (head + groups * lanes + tail) as usize];
        let group = |reads: &mut Vec<u32>, group: u64| {
            let first = (head + group * lanes) as usize;
            reads[first..first + lanes as usize].iter_mut().for_each(|count| *count += 1);
        };
        let [blocks, block, tile] = [launch.blocks, launch.block, launch.tile].map(u64::from);
        let whole = match launch.kernel {
            KernelKind::Grid => groups,
            KernelKind::Bulk => groups - groups % tile,
        };
        for start in (0..blocks).flat_map(|at| (at * tile..whole).step_by((blocks * tile) as usize)) {
            let len = tile.min(whole - start);
            // Four strided groups per thread of the grid kernel, or a tile of the bulk kernel, are read
            // at once.
            let reach = if launch.kernel == KernelKind::Grid { 4 * block } else { tile };
            assert!(len <= reach, "{launch:?} of {extent:?}");
            (start..start + len).for_each(|at| group(&mut reads, at));
        }
        (whole..groups).for_each(|at| group(&mut reads, at));
        for thread in 0..block {
            let index = if thread < head { thread } else { thread + groups * lanes };
            if index < reads.len() as u64 {
                reads[index as usize] += 1;
            }
        }
        reads
    }

    #[test]
    fn every_element_is_read_once_wherever_it_starts() {
        let choices = [grid(128, 1), grid(128, 7), grid(512, 264), grid(1024, 2), grid(256, 1000)];
        let bulks = [bulk(256, 1), bulk(512, 5)];
        // Elements of 12 bytes are loaded one by one.
        for size in [1, 2, 4, 8, 16, 12] {
            for misaligned in (0..16).step_by(size as usize) {
                for n in [1, 2, 3, 15, 16, 17, 31, 100, 1000, 4096, 65_537, 300_001] {
                    let extent = Extent::of(0x1000 + misaligned, n, size);
                    for choice in choices.into_iter().chain(bulks) {
                        let launch = Launch::new(extent, choice, LARGE);
                        let reads = reads(extent, launch);
                        assert_eq!(reads.len() as u64, n);
                        assert!(reads.iter().all(|&count| count == 1), "{launch:?} of {extent:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn pair_extents_keep_aligned_groups_inside_both_inputs() {
        let lengths = (0..100).chain([1000, 4099, 65_537]);
        for (n, size) in lengths.flat_map(|n| [1, 2, 4, 8].map(|size| (n, size))) {
            let starts = (0..16).step_by(size as usize);
            let both =
                starts.clone().flat_map(|first| starts.clone().map(move |second| (first, second)));
            for (first, second) in both.map(|(first, second)| (0x1000 + first, 0x2000 + second)) {
                let extent = Extent::of_pairs([first, second], n, size);
                let Extent { head, groups, tail, lanes } = extent;
                let what = format!("{extent:?} of {n} of {size} at {first:x} and {second:x}");
                assert_eq!(head + groups * lanes + tail, n, "{what}");
                // The smallest block has a thread for each single element.
                assert!(head + tail < 4 * lanes && 4 * lanes <= 128, "{what}");
                let launch = Launch::of_pairs(extent, grid(128, 3), LARGE);
                assert!(launch.tile > 0 && launch.tile <= 2 * launch.block, "{what}");
                if groups == 0 {
                    // Only short inputs have no group.
                    assert!(n < 4 * lanes, "{what}");
                    continue;
                }
                let (begin, end) = (first + head * size, second + n * size);
                assert!(begin.is_multiple_of(16), "{what}");
                let begin = second + head * size;
                let (from, to) = (begin / 16 * 16, (begin + groups * 16).next_multiple_of(16));
                assert!(from >= second && to <= end, "{what}");
            }
        }
    }

    #[test]
    fn blocks_are_powers_of_two_up_to_the_kernels_limit() {
        assert!(fits(&[32, 256, 512], 512) && fits(&[], 512));
        for wrong in [&[16][..], &[96], &[1024], &[128, 1024], &[1024, 128], &[128, 0]] {
            assert!(!fits(wrong, 512), "{wrong:?}");
        }
    }

    #[test]
    fn an_input_that_ends_before_the_boundary_is_all_head() {
        let extent = Extent::of(0x1001, 3, 1);
        assert_eq!(extent, Extent { head: 3, groups: 0, tail: 0, lanes: 16 });
        let launch = Launch::new(extent, grid(512, 264), LARGE);
        assert_eq!((launch.blocks, launch.tile), (1, 32));
        let aligned = Extent::of(0x1000, 3, 1);
        assert_eq!(aligned, Extent { head: 0, groups: 0, tail: 3, lanes: 16 });
    }

    #[test]
    fn the_largest_inputs_fit() {
        for size in [1, 2, 4, 8] {
            for address in [0x1000, 0x1000 + size, u64::MAX - MAX_ELEMENTS * 8 - 4096] {
                let extent = Extent::of(address / size * size, MAX_ELEMENTS, size);
                let Extent { head, groups, tail, lanes } = extent;
                assert_eq!(head + groups * lanes + tail, MAX_ELEMENTS);
                for choice in [grid(1024, 1), grid(128, u32::MAX), bulk(256, 264)] {
                    let launch = Launch::new(extent, choice, LARGE);
                    assert!(launch.blocks <= LARGE.resident && launch.tile <= 4 * launch.block.max(512));
                    let depth = launch.depth(extent);
                    let threads = u64::from(launch.blocks) * u64::from(launch.block);
                    let (least, most) = (MAX_ELEMENTS / threads, 2 * MAX_ELEMENTS / threads + 100);
                    assert!((least..most).contains(&depth), "{depth}: {launch:?}");
                }
            }
        }
    }

    #[test]
    fn balanced_tiles_leave_no_block_idle() {
        let mut groups = 1_u64;
        while groups < 1 << 33 {
            for (block, wanted) in [(128, 2112), (512, 264), (512, 528), (1024, 132), (256, 7)] {
                let extent = Extent { head: 0, groups, tail: 0, lanes: 4 };
                let launch = Launch::new(extent, grid(block, wanted), LARGE);
                let [blocks, tile] = [launch.blocks, launch.tile].map(u64::from);
                let what = format!("{launch:?} of {groups}");
                assert!(tile <= 4 * u64::from(block) && tile.is_multiple_of(32), "{what}");
                assert!((blocks - 1) * tile < groups, "the last block is idle: {what}");
                let rounds = groups.div_ceil(blocks * tile);
                let needed = groups.div_ceil(u64::from(wanted) * 4 * u64::from(block));
                assert_eq!(rounds, needed, "{what}");
            }
            groups = groups * 7 / 3 + 1;
        }
    }

    #[test]
    fn grids_are_cut_to_the_blocks_that_are_resident() {
        let extent = Extent::of(0, 1 << 30, 4);
        let room = Room { multiprocessors: 132, resident: 264 };
        let per_multiprocessor =
            |blocks| Choice { blocks: Blocks::PerMultiprocessor(blocks), ..grid(512, 1) };
        let blocks = |choice| Launch::new(extent, choice, room).blocks;
        assert_eq!(blocks(per_multiprocessor(4)), 264);
        assert_eq!(blocks(per_multiprocessor(1)), 132);
        assert_eq!(blocks(per_multiprocessor(u32::MAX)), 264);
        assert_eq!(blocks(bulk(256, 1000)), 264);
        assert_eq!(Launch::new(Extent::of(0, 1 << 14, 4), bulk(256, 264), room).blocks, 2);
    }

    /// Each depth adds groups per thread times elements per group, 2 for accumulators and 1 for the head
    /// or tail; 10 for a block's trees; blocks per thread and 10 for all blocks; 1 for a square.
    #[test]
    fn depth_matches_additions_counted_by_hand() {
        let depth = |kernel, blocks, block, tile, (groups, lanes)| {
            let extent = Extent { head: 0, groups, tail: 0, lanes };
            Launch { kernel, blocks, block, tile }.depth(extent)
        };
        let (grid, bulk) = (KernelKind::Grid, KernelKind::Bulk);
        // Three tiles per block, four groups per thread and tile.
        let exact = 264 * 2048 * 3;
        assert_eq!(depth(grid, 264, 512, 2048, (exact, 4)), (12 * 4 + 3) + 10 + (1 + 10) + 1);
        // One more group takes one more round.
        assert_eq!(depth(grid, 264, 512, 2048, (exact + 1, 4)), (16 * 4 + 3) + 10 + (1 + 10) + 1);
        // A tile with fewer groups than threads, then more blocks than threads of the last block.
        assert_eq!(depth(grid, 7, 512, 96, (7 * 96, 16)), (16 + 3) + 10 + (1 + 10) + 1);
        assert_eq!(depth(grid, 1056, 128, 512, (1056 * 512, 2)), (4 * 2 + 3) + 10 + (9 + 10) + 1);
        // Fifteen tiles for five blocks, with eight groups per thread and tile; single groups after
        // them.
        let tiles = 15 * 2048;
        assert_eq!(depth(bulk, 5, 256, 2048, (tiles, 16)), (24 * 16 + 3) + 10 + (1 + 10) + 1);
        assert_eq!(depth(bulk, 5, 256, 2048, (tiles + 1280, 16)), (25 * 16 + 3) + 10 + (1 + 10) + 1);
        assert_eq!(depth(bulk, 5, 256, 2048, (tiles + 1281, 16)), (26 * 16 + 3) + 10 + (1 + 10) + 1);
        assert_eq!(depth(bulk, 4, 512, 2048, (tiles, 2)), (16 * 2 + 3) + 10 + (1 + 10) + 1);
    }

    #[test]
    fn a_choice_has_the_depth_of_its_launch() {
        let shape = Shape::H200;
        let choice = Choice { blocks: Blocks::PerMultiprocessor(2), ..grid(512, 1) };
        let depth = |n, dtype| depth_on(choice, n, dtype, shape);
        assert_eq!(depth(264 * 2048 * 3 * 4, Dtype::F32), 73);
        assert_eq!(depth(264 * 2048 * 3 * 2, Dtype::F64), 1 + (12 * 2 + 3) + 10 + (1 + 10));
        // All resident blocks: 2 of 1 024 threads on each multiprocessor.
        let full = Choice { blocks: Blocks::PerMultiprocessor(9), ..grid(1024, 1) };
        let rounds = |rounds: u64| 1 + (rounds * 4 * 4 + 3) + 10 + (1 + 10);
        assert_eq!(depth_on(full, 264 * 4096 * 5 * 4, Dtype::F32, shape), rounds(5));
    }

    #[test]
    fn depth_of_one_block_counts_its_loop() {
        let extent = Extent::of(0, 4 * 4 * 512, 4);
        let launch = Launch::new(extent, grid(512, 1), LARGE);
        assert_eq!(launch.depth(extent), 1 + (4 * 4 + 3) + 10 + (1 + 10));
    }
}
