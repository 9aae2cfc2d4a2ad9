//! The `grid` kernel: loads into registers.

use warpfold_abi::arguments::ReduceCut;
use warpfold_device::{
    grid::launch_dependents,
    memory::load16_if,
    thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x},
};

use super::{
    finish::{finish, single},
    item::{Group, Item},
    op::{CHAINS, Fold, combine},
};

/// # Safety
/// The arguments are what their fields say; `tile` is at most 4 groups per thread of a block. The slots
/// are zero when the launches before this one in the stream are over, and no other stream uses them.
/// Blocks are whole warps. Of the launches that this one may overlap with none writes the input.
#[inline(always)]
pub(super) unsafe fn grid<T: Item, F: Fold<T>>(arguments: ReduceCut<T>) {
    launch_dependents();
    // SAFETY: the input's bounds are the loader's business; the caller's contract.
    unsafe {
        // First, so that its load does not wait for the others.
        let single = single::<T, F>(arguments);
        let kept = absorb_tiles::<T, F>(arguments);
        finish::<T, F>(combine::<T, F>(F::close(kept), single), arguments);
    }
}

/// The address of a group.
#[inline(always)]
pub(super) fn group_at<T: Item>(arguments: ReduceCut<T>, group: u64) -> *const u32 {
    arguments.input.wrapping_add((arguments.head + group * T::LANES) as usize).cast()
}

/// The groups of this thread: tile after tile of the block, `grid_dim` tiles apart.
///
/// # Safety
/// The input is readable; the tile is at most 4 groups per thread of the block, and not zero.
#[inline(always)]
unsafe fn absorb_tiles<T: Item, F: Fold<T>>(arguments: ReduceCut<T>) -> F::Accumulator {
    let ReduceCut { head, groups, tile, .. } = arguments;
    let (tid, block) = (thread_idx_x(), block_dim_x());
    let mut kept = F::start();
    let mut start = u64::from(block_idx_x()) * tile;
    // ladder: tiles
    while start < groups {
        // Both fit 32 bits, in which the comparisons below are cheap.
        let len = Ord::min(groups - start, tile) as u32;
        let mine = group_at(arguments, start + u64::from(tid));
        let loaded: [_; CHAINS] = core::array::from_fn(|k| {
            let at = k as u32 * block;
            // SAFETY: groups below `len` lie inside, and start at a 16-byte boundary.
            unsafe { load16_if(mine.wrapping_add(at as usize * 4), tid + at < len) }
        });
        in_turn(loaded, |k, group| {
            let at = tid + k as u32 * block;
            if F::TAKES_ZEROS || at < len {
                let index = head + (start + u64::from(at)) * T::LANES;
                F::absorb(&mut kept, k, group, index);
            }
        });
        start += u64::from(grid_dim_x()) * tile;
    }
    // ladder: end
    kept
}

/// Hands over what was loaded, one by one. Written out, because an array that an iterator owns would lie
/// in local memory.
#[inline(always)]
pub(super) fn in_turn([a, b, c, d]: [Group; CHAINS], mut take: impl FnMut(usize, Group)) {
    take(0, a);
    take(1, b);
    take(2, c);
    take(3, d);
}
