//! One entry per primitive of `warpfold-device` and element type: what a thread got from it goes to
//! the output, and `tests/` knows what that must be. One block of 64 threads unless said otherwise.

use crate::{prelude::*, reduce::Element};
use warpfold_device::{
    atomic::{AcqRel, Atomic, Block, Device, Relaxed, System, fetch_inc},
    memory::{Cached, EvictFirst, Streaming, load16},
};

macro_rules! probes {
    ($($body:ident ($($arg:ident: $arg_ty:ty),*))*) => {$(
        probes!(@types $body ($($arg: $arg_ty),*) i32 u32 i64 u64 f32 f64);
    )*};
    (@types $body:ident $args:tt $($ty:ident)*) => {$(
        probes!(@entry $body $ty $args);
    )*};
    (@entry $body:ident $ty:ident ($($arg:ident: $arg_ty:ty),*)) => {
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            kernel! {
                #[doc = concat!("`", stringify!($body), "` for ", stringify!($ty), ".")]
                pub fn ${concat(testing_probe_, $body, _, $ty)}($($arg: $arg_ty),*) {
                    // SAFETY: the caller's contract is the body's.
                    unsafe { $body::<$ty>($($arg),*) }
                }
            }
        };
    };
}

probes! {
    shuffles(input: *const T, output: *mut T)
    shared(input: *const T, output: *mut T)
    load16s(input: *const T, output: *mut T)
    atomics(input: *const T, cells: *mut T)
    extremes(input: *const T, output: *mut T)
}

/// down 3, up 5, xor 9 and idx 7, each over the whole warp: `output[64 k + thread]` for the k-th.
///
/// # Safety
/// 64 elements in `input`, 256 in `output`.
#[inline(always)]
unsafe fn shuffles<T: Element>(input: *const T, output: *mut T) {
    let tid = thread_idx_x() as usize;
    // SAFETY: whole warps take part; indices are below the lengths above.
    unsafe {
        let value = *input.add(tid);
        *output.add(tid) = value.shuffle_down(FULL_WARP, 3);
        *output.add(64 + tid) = value.shuffle_up(FULL_WARP, 5);
        *output.add(128 + tid) = value.shuffle_xor(FULL_WARP, 9);
        *output.add(192 + tid) = value.shuffle_idx(FULL_WARP, 7);
    }
}

shared_array! {
    /// 64 elements of any type.
    fn static_words: testing_probe_static_words = [u64; 64]
}

/// The input backwards, through dynamic shared memory and then through static shared memory.
///
/// # Safety
/// 64 elements in `input`, 128 in `output`; 64 elements of dynamic shared memory.
#[inline(always)]
unsafe fn shared<T: Element>(input: *const T, output: *mut T) {
    let tid = thread_idx_x();
    let (dynamic, fixed) = (dynamic_shared::<T>(), static_words().cast::<T>());
    // SAFETY: indices are below 64; a barrier lies between writes and reads.
    unsafe {
        let value = *input.add(tid as usize);
        dynamic.set(tid, value);
        fixed.set(tid, value);
        sync_threads();
        *output.add(tid as usize) = dynamic.get(63 - tid);
        *output.add(64 + tid as usize) = fixed.get(63 - tid);
    }
}

/// 16 bytes per thread with each cache hint: the input three times.
///
/// # Safety
/// 64 times 16 bytes in `input`, thrice that in `output`.
#[inline(always)]
unsafe fn load16s<T: Element>(input: *const T, output: *mut T) {
    let lanes = 16 / size_of::<T>();
    let (start, total) = (thread_idx_x() as usize * lanes, 64 * lanes);
    // SAFETY: every thread has its 16 bytes, aligned as the input is.
    unsafe {
        // Whole groups at once: an array of groups that a loop walks through would lie in local memory.
        let group = |k: usize| output.add(k * total + start).cast::<T::Lanes>();
        *group(0) = load16::<T, Cached>(input.add(start));
        *group(1) = load16::<T, Streaming>(input.add(start));
        *group(2) = load16::<T, EvictFirst>(input.add(start));
    }
}

/// All threads of the grid on the same cells: 0 to 2 added to, 3 and 4 minimum, 5 and 6 maximum, over
/// orders and scopes. Scope `Block` only from block 0.
///
/// # Safety
/// One element per thread of the grid in `input`, 7 initialised cells.
#[inline(always)]
unsafe fn atomics<T: Element>(input: *const T, cells: *mut T) {
    // SAFETY: the cells are touched by atomics alone while this runs.
    unsafe {
        let value = *input.add(grid::thread_index() as usize);
        Atomic::fetch_add::<Relaxed, Device>(cells, value);
        Atomic::fetch_add::<AcqRel, System>(cells.add(1), value);
        if block_idx_x() == 0 {
            Atomic::fetch_add::<AcqRel, Block>(cells.add(2), value);
        }
        Atomic::fetch_min::<Relaxed, Device>(cells.add(3), value);
        Atomic::fetch_min::<AcqRel, System>(cells.add(4), value);
        Atomic::fetch_max::<AcqRel, Device>(cells.add(5), value);
        Atomic::fetch_max::<Relaxed, System>(cells.add(6), value);
    }
}

/// Minimum and maximum of every ordered pair: thread i has elements i / 8 and i % 8.
///
/// # Safety
/// 8 elements in `input`, 128 in `output`.
#[inline(always)]
unsafe fn extremes<T: Element>(input: *const T, output: *mut T) {
    let tid = thread_idx_x() as usize;
    // SAFETY: indices are below the lengths above.
    unsafe {
        let (a, b) = (*input.add(tid / 8), *input.add(tid % 8));
        *output.add(tid) = a.least(b);
        *output.add(64 + tid) = a.greatest(b);
    }
}

kernel! {
    /// Every coordinate of every thread of a grid of any shape in x and y, eight words each.
    pub fn testing_probe_coordinates(output: *mut u32) {
        let block = block_idx_y() * grid_dim_x() + block_idx_x();
        let thread = thread_idx_y() * block_dim_x() + thread_idx_x();
        let index = block * block_dim_x() * block_dim_y() + thread;
        let all = [
            thread_idx_x(), thread_idx_y(), block_idx_x(), block_idx_y(),
            block_dim_x(), block_dim_y(), grid_dim_x(), grid_dim_y(),
        ];
        for (k, value) in all.into_iter().enumerate() {
            // SAFETY: the output has eight words per thread.
            unsafe { *output.add(index as usize * 8 + k) = value };
        }
    }

    /// Each thread counts itself in with a counter that wraps after `last`, and leaves what it saw.
    pub fn testing_probe_counter(counter: *mut u32, last: u64, output: *mut u32) {
        // SAFETY: the output has one word per thread of the grid.
        unsafe { *output.add(grid::thread_index() as usize) = fetch_inc::<AcqRel, Device>(counter, last as u32) };
    }

    /// Even blocks publish a value with a fence and a flag; the odd block after each waits for the flag
    /// and reads the value. The lanes of a warp pass values on with warp barriers alone.
    pub fn testing_probe_ordering(values: *mut u32, flags: *mut u32, output: *mut u32) {
        let (pair, lane) = ((block_idx_x() / 2) as usize, lane_id());
        let shared = dynamic_shared::<u32>();
        // SAFETY: the three arrays have 32 words per pair of blocks; blocks are one warp, whose every
        // lane takes part in the warp barriers.
        unsafe {
            let cell = pair * 32 + lane as usize;
            if block_idx_x().is_multiple_of(2) {
                values.add(cell).write_volatile(1000 * pair as u32 + lane);
                device_fence();
                Atomic::fetch_add::<Relaxed, Device>(flags.add(cell), 1);
            } else {
                while flags.add(cell).read_volatile() == 0 {}
                device_fence();
                shared.set(lane, values.add(cell).read_volatile());
                sync_warp(FULL_WARP);
                let neighbour = shared.get((lane + 1) % 32);
                sync_warp(FULL_WARP);
                *output.add(cell) = neighbour;
            }
        }
    }
}
