//! Kernels that call the primitives of `warpfold-device`, one for each primitive and element type. Each
//! thread writes its results to the output, which `tests/` compares. There is one block of 64 threads
//! unless stated otherwise.

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
                    // SAFETY: the kernel has the conditions of `$body`, which its launch must meet.
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

/// Shuffles over the whole warp: down by 3, up by 5, xor 9, and from lane 7. Thread t writes the result
/// of the k-th shuffle, from 0, to `output[64 k + t]`.
///
/// # Safety
/// `input` has 64 elements, `output` 256.
#[inline(always)]
unsafe fn shuffles<T: Element>(input: *const T, output: *mut T) {
    let tid = thread_idx_x() as usize;
    // SAFETY: whole warps shuffle; `tid` is below 64.
    unsafe {
        let value = *input.add(tid);
        *output.add(tid) = value.shuffle_down(FULL_WARP, 3);
        *output.add(64 + tid) = value.shuffle_up(FULL_WARP, 5);
        *output.add(128 + tid) = value.shuffle_xor(FULL_WARP, 9);
        *output.add(192 + tid) = value.shuffle_idx(FULL_WARP, 7);
    }
}

shared_array! {
    fn static_words: testing_probe_static_words = [u64; 64]
}

/// Reverses the input through dynamic and through static shared memory.
///
/// # Safety
/// `input` has 64 elements, `output` 128, and dynamic shared memory 64.
#[inline(always)]
unsafe fn shared<T: Element>(input: *const T, output: *mut T) {
    let tid = thread_idx_x();
    let (dynamic, fixed) = (dynamic_shared::<T>(), static_words().cast::<T>());
    // SAFETY: indices are below 64; a barrier separates writes from reads.
    unsafe {
        let value = *input.add(tid as usize);
        dynamic.set(tid, value);
        fixed.set(tid, value);
        sync_threads();
        *output.add(tid as usize) = dynamic.get(63 - tid);
        *output.add(64 + tid as usize) = fixed.get(63 - tid);
    }
}

/// Copies 16 bytes per thread with each of three cache hints.
///
/// # Safety
/// `input` has 16 bytes for each of 64 threads, and `output` has three times that number.
#[inline(always)]
unsafe fn load16s<T: Element>(input: *const T, output: *mut T) {
    let lanes = 16 / size_of::<T>();
    let (start, total) = (thread_idx_x() as usize * lanes, 64 * lanes);
    // SAFETY: every thread has its own 16 bytes, aligned like the input.
    unsafe {
        // Not a loop, because an array of vectors would be stored in local memory.
        let group = |k: usize| output.add(k * total + start).cast::<T::Lanes>();
        *group(0) = load16::<T, Cached>(input.add(start));
        *group(1) = load16::<T, Streaming>(input.add(start));
        *group(2) = load16::<T, EvictFirst>(input.add(start));
    }
}

/// Updates seven cells from all threads of the grid, with several orders and scopes: cells 0 to 2 by
/// addition, 3 and 4 by minimum, 5 and 6 by maximum. Only block 0 uses the scope `Block`.
///
/// # Safety
/// `input` has one element per thread of the grid, and there are 7 initialised cells.
#[inline(always)]
unsafe fn atomics<T: Element>(input: *const T, cells: *mut T) {
    // SAFETY: `input` has an element for each thread; the cells are only accessed atomically.
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

/// Writes the minimum and the maximum of every ordered pair: thread i has elements i / 8 and i % 8.
///
/// # Safety
/// `input` has 8 elements, `output` 128.
#[inline(always)]
unsafe fn extremes<T: Element>(input: *const T, output: *mut T) {
    let tid = thread_idx_x() as usize;
    // SAFETY: indices into the input are below 8, and those into the output below 128.
    unsafe {
        let (a, b) = (*input.add(tid / 8), *input.add(tid % 8));
        *output.add(tid) = a.least(b);
        *output.add(64 + tid) = a.greatest(b);
    }
}

kernel! {
    /// Writes eight coordinates per thread of a two-dimensional grid of any shape.
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

    /// Increments in each thread a counter that wraps after `last`. Writes its previous values.
    pub fn testing_probe_counter(counter: *mut u32, last: u64, output: *mut u32) {
        // SAFETY: the output has one word per thread of the grid.
        unsafe { *output.add(grid::thread_index() as usize) = fetch_inc::<AcqRel, Device>(counter, last as u32) };
    }

    /// Tests the device fence: each even block publishes 32 values by a fence and flags. The next block
    /// waits for the flags, and its lanes exchange the values by warp barriers only.
    pub fn testing_probe_ordering(values: *mut u32, flags: *mut u32, output: *mut u32) {
        let (pair, lane) = ((block_idx_x() / 2) as usize, lane_id());
        let shared = dynamic_shared::<u32>();
        // SAFETY: the three arrays have 32 words per pair of blocks; a block is one warp, and all its
        // lanes take part in the warp barriers.
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
