//! Shuffles, votes and collectives of a warp's 32 lanes, without shared memory or block barriers.
//!
//! Blocks are one-dimensional, along x: lane k of warp w is thread 32 w + k.

use core::arch::asm;

use crate::{
    Value, gpu,
    op::Operation,
    thread::{block_dim_x, thread_idx_x},
};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// Member mask of all 32 lanes.
pub const FULL_WARP: u32 = u32::MAX;

macro_rules! registers {
    ($($(#[$attr:meta])* $name:ident = $instruction:literal, $($option:ident),*;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name() -> u32 {
            let value;
            // SAFETY: the instruction reads a special register.
            unsafe {
                asm!(
                    concat!($instruction, ";"),
                    out(reg32) value,
                    options($($option,)* nomem, nostack, preserves_flags),
                );
            }
            value
        }
    )*};
}

registers! {
    /// Returns the lane of this thread in its warp, 0 to 31.
    lane_id = "mov.u32 {0}, %laneid", pure;
    /// Returns the mask of the lanes that execute this instruction together. The hardware decides which
    /// lanes do: even a branch that all lanes take may have split them.
    activemask = "activemask.b32 {0}",;
}

/// Returns the mask of this warp's lanes that exist: all of them, except in a partial last warp.
#[inline(always)]
pub fn members() -> u32 {
    let rest = block_dim_x() % WARP_SIZE;
    if rest != 0 && thread_idx_x() / WARP_SIZE == block_dim_x() / WARP_SIZE {
        (1 << rest) - 1
    } else {
        FULL_WARP
    }
}

/// Waits at a warp barrier for the lanes of `mask`; orders their memory accesses.
///
/// # Safety
/// Every lane named in `mask` must reach it with the same mask, the calling lane among them.
#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: all lanes in `mask` reach the barrier, as the caller guarantees.
    unsafe { gpu::bar_warp_sync(mask) }
}

/// Returns whether the predicate is true in all lanes of `mask`.
///
/// # Safety
/// Every lane named in `mask` must call it with the same mask, the calling lane among them.
#[inline(always)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: all lanes in `mask` call it together, as the caller guarantees.
    unsafe { gpu::vote_all(mask, predicate) }
}

/// Returns whether the predicate is true in any lane of `mask`.
///
/// # Safety
/// Same as [`warp_vote_all`].
#[inline(always)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: all lanes in `mask` call it together, as the caller guarantees.
    unsafe { gpu::vote_any(mask, predicate) }
}

/// Returns the mask of those lanes of `mask` in which the predicate is true.
///
/// # Safety
/// Same as [`warp_vote_all`].
#[inline(always)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: all lanes in `mask` call it together, as the caller guarantees.
    unsafe { gpu::vote_ballot(mask, predicate) }
}

/// Values that can be shuffled between the lanes of a warp, one instruction per word: every [`Value`].
///
/// # Safety of every method
/// All lanes named in `mask` must execute the same shuffle together, the calling lane among them. A
/// value read from a lane outside `mask` is undefined.
#[allow(clippy::missing_safety_doc)]
pub trait Shuffle: Value {
    /// Returns the value of lane `lane + delta`, or the caller's own if there is no such lane.
    unsafe fn shuffle_down(self, mask: u32, delta: u32) -> Self;
    /// Returns the value of lane `lane - delta`, or the caller's own if there is no such lane.
    unsafe fn shuffle_up(self, mask: u32, delta: u32) -> Self;
    /// Returns the value of lane `lane ^ lane_mask`.
    unsafe fn shuffle_xor(self, mask: u32, lane_mask: u32) -> Self;
    /// Returns the value of lane `lane`, 0 to 31.
    unsafe fn shuffle_idx(self, mask: u32, lane: u32) -> Self;
}

macro_rules! shuffles {
    ($($method:ident: $operand:ident),*) => {
        impl<T: Value> Shuffle for T {$(
            #[inline(always)]
            unsafe fn $method(self, mask: u32, $operand: u32) -> Self {
                // SAFETY: all lanes in `mask` call it together, and so run the closure together.
                self.map_words(&mut |word| unsafe { gpu::$method(mask, word, $operand) })
            }
        )*}
    };
}

shuffles!(shuffle_down: delta, shuffle_up: delta, shuffle_xor: lane_mask, shuffle_idx: lane);

macro_rules! warp_reductions {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $instruction:ident;)*) => {$(
        $(#[$attr])*
        ///
        /// # Safety
        /// Every lane named in `mask` must execute it together, the calling lane among them.
        #[inline(always)]
        pub unsafe fn $name(mask: u32, value: $ty) -> $ty {
            // SAFETY: all lanes in `mask` call it together, as the caller guarantees.
            unsafe { gpu::$instruction(mask, value as u32) as $ty }
        }
    )*};
}

warp_reductions! {
    /// Returns the wrapping sum over the lanes of `mask`, in one instruction (compute capability 8.0).
    redux_add_i32: i32 = redux_add;
    /// Returns the minimum over the lanes of `mask`, in one instruction (compute capability 8.0).
    redux_min_i32: i32 = redux_min;
    /// Returns the maximum over the lanes of `mask`, in one instruction (compute capability 8.0).
    redux_max_i32: i32 = redux_max;
    /// Returns the wrapping sum over the lanes of `mask`, in one instruction (compute capability 8.0).
    redux_add_u32: u32 = redux_add;
    /// Returns the minimum over the lanes of `mask`, in one instruction (compute capability 8.0).
    redux_min_u32: u32 = redux_umin;
    /// Returns the maximum over the lanes of `mask`, in one instruction (compute capability 8.0).
    redux_max_u32: u32 = redux_umax;
}

/// Reduces the values of the warp's lanes; the result is valid in every lane. One instruction where the
/// hardware has it, else five shuffles per word.
///
/// # Safety
/// All lanes of the warp that exist call it together.
#[inline(always)]
pub unsafe fn reduce<T: Value, O: Operation<T>>(value: T, op: O) -> T {
    // SAFETY: all existing lanes call it together, as the caller guarantees.
    unsafe { reduce_among(value, op, members()) }
}

/// Reduces the values of the lanes in `members`, which are the first ones of the warp; the result is
/// valid in each of them.
///
/// # Safety
/// All lanes in `members` call it together.
#[inline(always)]
pub(crate) unsafe fn reduce_among<T: Value, O: Operation<T>>(value: T, _op: O, members: u32) -> T {
    // SAFETY: all members call it together, as the caller guarantees, and take the same branch.
    unsafe {
        if let Some(result) = O::combine_warp(value, members) {
            result
        } else if members == FULL_WARP {
            reduce_by_xor::<T, O>(value)
        } else {
            reduce_front::<T, O>(value, members)
        }
    }
}

/// Values of at least this many words are reduced in a loop that is not unrolled. Unrolled, a short
/// launch would spend most of its time on fetching instructions.
const ROLLED_WORDS: u32 = 6;

/// Returns the lane distance of a reduction's first step. For values of many words, assembly hides the
/// constant, because the compiler unrolls loops whose start it knows.
#[inline(always)]
fn first_distance<T: Value>() -> u32 {
    const HALF: u32 = WARP_SIZE / 2;
    if T::WORDS < ROLLED_WORDS {
        return HALF;
    }
    let half;
    // SAFETY: the instruction moves a constant into a register.
    unsafe {
        asm!("mov.u32 {0}, {1};", out(reg32) half, const HALF, options(pure, nomem, nostack, preserves_flags));
    }
    half
}

/// # Safety
/// All 32 lanes of the warp call it together.
#[inline(always)]
unsafe fn reduce_by_xor<T: Value, O: Operation<T>>(mut value: T) -> T {
    let mut lane_mask = first_distance::<T>();
    while lane_mask > 0 {
        // SAFETY: all 32 lanes call it together, as the caller guarantees.
        value = O::combine(value, unsafe { value.shuffle_xor(FULL_WARP, lane_mask) });
        lane_mask /= 2;
    }
    value
}

/// Reduces the first lanes of a partial warp in lane 0, which broadcasts the result.
///
/// # Safety
/// All lanes named in `members`, which are the first ones, call it together.
#[inline(always)]
unsafe fn reduce_front<T: Value, O: Operation<T>>(mut value: T, members: u32) -> T {
    let count = members.count_ones();
    let mut delta = first_distance::<T>();
    while delta > 0 {
        // SAFETY: all lanes in `members` call it together, as the caller guarantees. The value of a lane
        // that does not exist is discarded.
        let other = unsafe { value.shuffle_down(members, delta) };
        if lane_id() + delta < count {
            value = O::combine(value, other);
        }
        delta /= 2;
    }
    // SAFETY: lane 0 is a member.
    unsafe { value.shuffle_idx(members, 0) }
}

/// Returns each lane's value combined with those of the lanes before it, in lane order.
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
pub unsafe fn inclusive_scan<T: Value, O: Operation<T>>(mut value: T, _op: O) -> T {
    let (members, lane) = (members(), lane_id());
    let mut delta = 1;
    while delta < WARP_SIZE {
        // SAFETY: all existing lanes call it together, as the caller guarantees; lower lanes exist, too.
        let before = unsafe { value.shuffle_up(members, delta) };
        if lane >= delta {
            value = O::combine(before, value);
        }
        delta *= 2;
    }
    value
}

/// Returns the combined values of the lanes before each lane, in lane order; the identity in lane 0.
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
pub unsafe fn exclusive_scan<T: Value, O: Operation<T>>(value: T, op: O) -> T {
    // SAFETY: the callee's conditions are those of this function.
    unsafe { before_lane::<T, O>(inclusive_scan(value, op)) }
}

/// Turns an inclusive scan into an exclusive one.
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
pub(crate) unsafe fn before_lane<T: Value, O: Operation<T>>(scanned: T) -> T {
    // SAFETY: all existing lanes call it together, as the caller guarantees; lane 0 ignores the result.
    let before = unsafe { scanned.shuffle_up(members(), 1) };
    if lane_id() == 0 { O::IDENTITY } else { before }
}

/// Returns the value of lane `lane` in every lane.
///
/// # Safety
/// Same as [`reduce`]; `lane` must exist and be the same in all lanes.
#[inline(always)]
pub unsafe fn broadcast<T: Value>(value: T, lane: u32) -> T {
    // SAFETY: all existing lanes call it together, and `lane` exists, as the caller guarantees.
    unsafe { value.shuffle_idx(members(), lane) }
}
