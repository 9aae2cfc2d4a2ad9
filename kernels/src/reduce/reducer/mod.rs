//! The reducer: one launch for any number of elements, at the speed of the memory.
//!
//! The other variants teach; this is what programs call. Ten element types, six operations, any alignment.
//! Two kernels load in different ways and end alike:
//!
//! - `grid`: 16-byte loads into registers, four under way per thread. The input is read in rounds, in each
//!   of which every block reads one contiguous tile and all blocks together one contiguous piece: what is
//!   under way at a time stays close together, which the memory rewards. Tiles are as long as makes all
//!   blocks work equally long, down to inputs of one block.
//! - `bulk`: bulk asynchronous copies into a ring of three tiles of 32 KiB. No registers, few
//!   instructions; the faster one for inputs of gigabytes (compute capability 9.0).
//! - Ending: every block reduces its values by shuffles, and publishes one in a slot of its own, where
//!   the last block waits for it and reduces them all with its own. A slot's cells hold half data, half mark, so
//!   that a relaxed store and a relaxed load are enough: no fence, no counter, no second launch. Who
//!   takes a value empties the slot: ready for the next launch without a memset.
//! - A block waits only for blocks before it, which wait for nobody: it needs no cooperative launch.
//! - Launches may overlap with the one before (programmatic dependent launch): a block reads its part of the
//!   input at once, and waits for the launches before only when it touches slots or output. So nothing that
//!   still runs before it in the stream may write the input.
//! - Reproducible: every value is combined in a place that n, the tile, the block and the grid decide.
//!
//! Shared memory: 32 partial results and, in `bulk`, three tiles (dynamic) and three mbarriers. Barriers: 1
//! per block; in `bulk` 1 more per tile.
//!
//! Source: the suite's own. A value that travels in one word with its flag is how decoupled look-back scans
//! hand on prefixes (D. Merrill and M. Garland, *Single-pass Parallel Prefix Scan with Decoupled Look-back*,
//! NVIDIA Technical Report NVR-2016-002).

mod fold;
mod item;
mod partial;

#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
use super::ring::Ring;
use super::{Max, Min, Sum, SumSq};
use crate::{gpu::*, shared_array};
use fold::{ArgMax, ArgMin, CHAINS, Fold, Input};
use item::{Bf16, F16, Group, InPairs, Item};
use partial::Partial;

/// Declares `reducer_<op>_<dtype>_<kernel>` for every operation and type.
macro_rules! reducers {
    ($kernel:ident: $($name:ident = $ty:ty),*) => {$(
        reducers!(@entry $kernel sum Sum $name $ty);
        reducers!(@entry $kernel min Min $name $ty);
        reducers!(@entry $kernel max Max $name $ty);
        reducers!(@entry $kernel sumsq SumSq $name $ty);
        reducers!(@entry $kernel argmin ArgMin $name $ty);
        reducers!(@entry $kernel argmax ArgMax $name $ty);
    )*};
    (@entry $kernel:ident $op:ident $Op:ident $name:ident $ty:ty) => {
        // A scope of its own; the entry is reached by its symbol.
        #[allow(unreachable_pub)]
        const _: () = {
            $crate::kernel! {
                #[doc = concat!("`", stringify!($kernel), "` for ", stringify!($op), " of ", stringify!($name), ".")]
                pub fn ${concat(reducer_, $op, _, $name, _, $kernel)}(
                    input: *const $ty, head: u64, groups: u64, singles: u64, tile: u64, slots: *mut u64,
                    output: *mut u64
                ) {
                    let input = Input { first: input, head, groups, singles };
                    // SAFETY: the caller's contract is the body's.
                    unsafe { $kernel::<$ty, $Op>(input, tile, slots, output) }
                }
            }
        };
    };
}

reducers!(grid: i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64, u64 = u64, f16 = F16, bf16 = Bf16,
    f32 = f32, f64 = f64);

#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
reducers!(bulk: i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64, u64 = u64, f16 = F16, bf16 = Bf16,
    f32 = f32, f64 = f64);

/// # Safety
/// `input` is readable, and cut as its fields say; `tile` is at most 4 groups of 16 bytes per thread of a
/// block, and not zero; `slots` has 32 bytes per block of the grid, all zero when the launches before this one
/// in the stream are over, and no other stream uses them; `output` has 16 writable bytes, 8-aligned. Blocks
/// are whole warps. Of the launches that this one may overlap with none writes the input.
#[inline(always)]
unsafe fn grid<T: Item, F: Fold<T>>(input: Input<T>, tile: u64, slots: *mut u64, output: *mut u64) {
    launch_dependents();
    // SAFETY: the input's bounds are the loader's business; the caller's contract.
    unsafe {
        // First, so that its load does not wait for the others.
        let single = single::<T, F>(input);
        let kept = absorb_tiles::<T, F>(input, tile);
        finish::<T, F>(F::combine(F::close(kept), single), input, slots, output);
    }
}

impl<T: Item> Input<T> {
    /// The address of a group.
    #[inline(always)]
    fn group(self, group: u64) -> *const u32 {
        self.first.wrapping_add((self.head + group * T::LANES) as usize).cast()
    }
}

/// The groups of this thread: tile after tile of the block, `grid_dim` tiles apart.
///
/// # Safety
/// `input` is readable; `tile` is at most 4 groups per thread of the block, and not zero.
#[inline(always)]
unsafe fn absorb_tiles<T: Item, F: Fold<T>>(input: Input<T>, tile: u64) -> F::Accumulator {
    let (tid, block) = (thread_idx(), block_dim());
    let mut kept = F::start();
    let mut start = u64::from(block_idx()) * tile;
    while start < input.groups {
        // Both fit 32 bits, in which the comparisons below are cheap.
        let len = Ord::min(input.groups - start, tile) as u32;
        let mine = input.group(start + u64::from(tid));
        // SAFETY: groups below `len` lie inside, and start at a 16-byte boundary.
        let loaded: [_; CHAINS] = core::array::from_fn(|k| {
            let at = k as u32 * block;
            unsafe { load16_if(mine.wrapping_add(at as usize * 4), tid + at < len) }
        });
        in_turn(loaded, |k, group| {
            let at = tid + k as u32 * block;
            if F::TAKES_ZEROS || at < len {
                let index = input.head + (start + u64::from(at)) * T::LANES;
                F::absorb(&mut kept, k, group, index);
            }
        });
        start += u64::from(grid_dim()) * tile;
    }
    kept
}

/// Hands over what was loaded, one by one. Written out, because an array that an iterator owns would lie in
/// local memory.
#[inline(always)]
fn in_turn([a, b, c, d]: [Group; CHAINS], mut take: impl FnMut(usize, Group)) {
    take(0, a);
    take(1, b);
    take(2, c);
    take(3, d);
}

/// The element of this thread that no group covers, if it has one: there are fewer than two groups' worth, for
/// the threads of the first block.
///
/// # Safety
/// `input` is readable.
#[inline(always)]
unsafe fn single<T: Item, F: Fold<T>>(input: Input<T>) -> F::Partial {
    let tid = u64::from(thread_idx());
    if block_idx() > 0 || tid >= input.singles {
        return F::IDENTITY;
    }
    let index = if tid < input.head { tid } else { tid + input.groups * T::LANES };
    // SAFETY: singles lie in front of the groups and behind them.
    F::of(unsafe { *input.first.add(index as usize) }, index)
}

shared_array! {
    /// One partial result per warp, of up to four words.
    fn warp_values: reducer_warp_values = [u32; 4 * 32]
}

/// The values of a block's threads into one, in every lane of the first warp.
///
/// # Safety
/// Called once, by all threads of the block.
#[inline(always)]
unsafe fn reduce_block<T: Item, F: Fold<T>>(value: F::Partial) -> F::Partial {
    let values = warp_values();
    let (tid, warps) = (thread_idx(), block_dim() / WARP_SIZE);
    // SAFETY: warps are whole; lane 0 of warp w writes element w before the barrier, and the first warp reads
    // the elements that were written.
    unsafe {
        let value = reduce_warp::<T, F>(value);
        if lane_id() == 0 {
            value.set(values, tid / WARP_SIZE);
        }
        sync_block();
        if tid >= WARP_SIZE {
            return value;
        }
        // A few small values are read by all lanes alike and combined in less time than shuffles take; of larger
        // ones so many at once would cost registers, and so resident blocks.
        if F::Partial::WORDS <= 2 && warps <= FEW_WARPS {
            let few: [_; FEW_WARPS as usize] = core::array::from_fn(|warp| {
                let warp = warp as u32;
                if warp < warps { F::Partial::get(values, warp) } else { F::IDENTITY }
            });
            return few.in_pairs(F::combine);
        }
        reduce_warp::<T, F>(if tid < warps { F::Partial::get(values, tid) } else { F::IDENTITY })
    }
}

/// Warps of a block whose values need no shuffles.
const FEW_WARPS: u32 = 8;

/// The values of a warp into one, in every lane.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
unsafe fn reduce_warp<T: Item, F: Fold<T>>(mut value: F::Partial) -> F::Partial {
    let mut lane_mask = WARP_SIZE / 2;
    while lane_mask > 0 {
        // SAFETY: the caller's contract.
        value = F::combine(value, unsafe { value.shuffle_xor(lane_mask) });
        lane_mask /= 2;
    }
    value
}

/// The values of all threads of the grid into the result.
///
/// # Safety
/// Called once, by all threads of the grid; the contract of [`grid`].
#[inline(always)]
unsafe fn finish<T: Item, F: Fold<T>>(
    value: F::Partial,
    input: Input<T>,
    slots: *mut u64,
    output: *mut u64,
) {
    let (tid, last) = (thread_idx(), grid_dim() - 1);
    // SAFETY: each block but the last fills its slot, once; the last one takes each once; all threads of a block
    // take the same way.
    unsafe {
        if block_idx() < last {
            let value = reduce_block::<T, F>(value);
            // The launch before has taken all slots.
            wait_grid_dependencies();
            if tid == 0 {
                value.publish(slots, block_idx());
            }
            return;
        }
        // The last block's own values and those of the others take one reduction together.
        let mut value = value;
        wait_grid_dependencies();
        let mut block = tid;
        while block < last {
            value = F::combine(value, F::Partial::take(slots, block));
            block += block_dim();
        }
        let value = reduce_block::<T, F>(value);
        if tid == 0 {
            F::write(value, input, output);
        }
    }
}

/// Tiles of the ring, and their size.
#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
const STAGES: u32 = 3;
#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
const TILE_BYTES: u32 = 32 * 1024;

#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
shared_array! {
    /// One mbarrier per tile of the ring.
    fn landed: reducer_landed = [u64; STAGES as usize]
}

/// # Safety
/// As [`grid`], but for the tile, which is not used; the launch gives three tiles of dynamic shared memory.
#[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
#[inline(always)]
unsafe fn bulk<T: Item, F: Fold<T>>(input: Input<T>, _tile: u64, slots: *mut u64, output: *mut u64) {
    const GROUPS: u32 = TILE_BYTES / 16;
    launch_dependents();
    let tiles = input.groups / u64::from(GROUPS);
    let ring = Ring::<STAGES, TILE_BYTES> { tiles: dynamic_shared(), landed: landed() };
    let (tid, block) = (thread_idx(), block_dim());
    let mut kept = F::start();
    let mut start = u64::from(block_idx()) * u64::from(GROUPS);
    let absorb = |tile: Shared<u64>| {
        let mut at = tid;
        // Whole turns: the block's threads are a power of two, at most 512.
        while at < GROUPS {
            let loaded: [_; CHAINS] = core::array::from_fn(|k| {
                // SAFETY: the group lies in the tile, which starts at a multiple of 16 and has landed.
                unsafe { tile.cast::<u32>().get16(at + k as u32 * block) }
            });
            in_turn(loaded, |k, group| {
                let group_at = start + u64::from(at + k as u32 * block);
                F::absorb(&mut kept, k, group, input.head + group_at * T::LANES);
            });
            at += CHAINS as u32 * block;
        }
        start += u64::from(grid_dim()) * u64::from(GROUPS);
    };
    // SAFETY: the ring's memory is this kernel's own; whole tiles lie inside and start at a 16-byte boundary.
    unsafe { ring.for_each_tile(input.group(0).cast(), tiles, absorb) };
    // Groups behind the last whole tile.
    let mut rest = tiles * u64::from(GROUPS) + global_idx();
    // SAFETY: groups below `groups` lie inside; the caller's contract.
    unsafe {
        while rest < input.groups {
            let group = load16::<u32, Streaming>(input.group(rest));
            F::absorb(&mut kept, 0, group, input.head + rest * T::LANES);
            rest += global_dim();
        }
        let value = F::combine(F::close(kept), single::<T, F>(input));
        finish::<T, F>(value, input, slots, output);
    }
}
