//! Convergent instructions, as intrinsics that both compilers' versions of LLVM know.
//!
//! `cuda_std` has functions for most of them, but its `sync_threads` and shuffles call wrappers in a
//! bitcode file that are not marked convergent, so LLVM 7 may duplicate a barrier into both sides of a
//! branch. LLVM knows the attributes of its own intrinsics.

unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier0"]
    fn barrier0();
    #[link_name = "llvm.nvvm.barrier0.popc"]
    fn barrier0_popc(predicate: u32) -> u32;
    #[link_name = "llvm.nvvm.barrier0.and"]
    fn barrier0_and(predicate: u32) -> u32;
    #[link_name = "llvm.nvvm.barrier0.or"]
    fn barrier0_or(predicate: u32) -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    fn shfl_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_bfly(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    fn vote_all_sync(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any_sync(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot_sync(mask: u32, predicate: bool) -> u32;
}

/// Upper clamp of a `down`, `bfly` or `idx` shuffle over a whole warp; `up` clamps at lane 0.
const LAST_LANE: u32 = 31;

macro_rules! together {
    ($($name:ident($($argument:ident: $ty:ty),*) $(-> $result:ty)? = $intrinsic:ident($($given:expr),*);)*) => {$(
        /// # Safety
        /// All threads of the block, or all lanes in `mask` if there is one, execute it together.
        #[inline(always)]
        pub(crate) unsafe fn $name($($argument: $ty),*) $(-> $result)? {
            // SAFETY: all participating threads execute it together, as the caller guarantees.
            unsafe { $intrinsic($($given),*) }
        }
    )*};
}

together! {
    barrier() = barrier0();
    barrier_count(predicate: u32) -> u32 = barrier0_popc(predicate);
    barrier_and(predicate: u32) -> u32 = barrier0_and(predicate);
    barrier_or(predicate: u32) -> u32 = barrier0_or(predicate);
    bar_warp_sync(mask: u32) = bar_warp(mask);
    shuffle_down(mask: u32, value: u32, delta: u32) -> u32 = shfl_down(mask, value, delta, LAST_LANE);
    shuffle_up(mask: u32, value: u32, delta: u32) -> u32 = shfl_up(mask, value, delta, 0);
    shuffle_xor(mask: u32, value: u32, lane_mask: u32) -> u32 = shfl_bfly(mask, value, lane_mask, LAST_LANE);
    shuffle_idx(mask: u32, value: u32, lane: u32) -> u32 = shfl_idx(mask, value, lane, LAST_LANE);
    vote_all(mask: u32, predicate: bool) -> bool = vote_all_sync(mask, predicate);
    vote_any(mask: u32, predicate: bool) -> bool = vote_any_sync(mask, predicate);
    vote_ballot(mask: u32, predicate: bool) -> u32 = vote_ballot_sync(mask, predicate);
}
