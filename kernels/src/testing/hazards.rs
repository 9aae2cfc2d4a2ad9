//! Kernels with one hazard each, which the checks must find. The comment `the hazard` marks the line. On
//! some schedules, most kernels give the right result nevertheless.

use crate::reduce::prelude::*;
use warpfold_device::atomic::{Device, Relaxed, fetch_inc};

entries!(testing_two_writers(Reduce) for i32);
entries!(testing_missing_warp_barrier(Reduce) for i32);
entries!(testing_relaxed_count(ReduceOnce) for i32);
entries!(testing_one_output(Reduce) for i32);
entries!(testing_unwritten_shared(Reduce) for i32);
entries!(testing_unwritten_output(Reduce) for i32);
entries!(testing_out_of_bounds(Reduce) for i32);
entries!(testing_misaligned(Reduce) for i32);
entries!(testing_divergent_barrier(Reduce) for i32);
entries!(testing_inactive_lane(Reduce) for i32);

shared_array! {
    fn is_last: testing_relaxed_count_is_last = [u32; 1]
}

/// Writes each shared element from two threads, so that one value is lost.
///
/// # Safety
/// The conditions of `sequential` apply.
#[inline(always)]
unsafe fn testing_two_writers<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let (values, tid) = (dynamic_shared::<T>(), thread_idx_x());
    // SAFETY: accesses are in bounds; the race is intended.
    unsafe {
        values.set(tid & (block_dim_x() / 2 - 1), steps::load_one::<T, R>(input, n)); // the hazard
        sync_threads();
        steps::write_block(output, values.get(0));
    }
}

/// # Safety
/// The conditions of `unroll_last_warp` apply. The hazard is a missing warp barrier.
#[inline(always)]
unsafe fn testing_missing_warp_barrier<T: Element, R: Reduction<T>>(
    Reduce { input, n, output }: Reduce<T>,
) {
    let (values, tid) = (dynamic_shared::<T>(), thread_idx_x());
    // SAFETY: accesses are in bounds; the race is intended.
    unsafe {
        values.set(tid, steps::load_one::<T, R>(input, n));
        sync_threads();
        steps::halve_to::<T, R>(values, WARP_SIZE);
        if tid < WARP_SIZE / 2 {
            values.set(tid, R::combine(values.get(tid), values.get(tid + 16)));
            let other = values.get(tid ^ 8); // the hazard
            steps::write_block(output, R::combine(values.get(tid), other));
        }
    }
}

/// Reduces as `single_pass_last_block` does, but with a relaxed counter, which does not order the
/// accesses of `partials`.
///
/// # Safety
/// The conditions of `single_pass_last_block` apply.
#[inline(always)]
unsafe fn testing_relaxed_count<T: Element, R: Reduction<T>>(
    ReduceOnce { input, n, partials, counter, output }: ReduceOnce<T>,
) {
    let tid = thread_idx_x();
    // SAFETY: accesses are in bounds; the race is intended.
    unsafe {
        let value = steps::tree::<T, R>(steps::load_grid_stride::<T, R>(input, n));
        if tid == 0 {
            *partials.add(block_idx_x() as usize) = value;
            let arrived = fetch_inc::<Relaxed, Device>(counter, grid_dim_x() - 1);
            is_last().set(0, u32::from(arrived == grid_dim_x() - 1));
        }
        sync_threads();
        if is_last().get(0) == 1 && tid == 0 {
            let mut total = R::IDENTITY;
            for block in 0..grid_dim_x() {
                total = R::combine(total, *partials.add(block as usize)); // the hazard
            }
            *output = total;
        }
    }
}

/// # Safety
/// The conditions of `sequential` apply. The hazard is that all blocks write the same element.
#[inline(always)]
unsafe fn testing_one_output<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: accesses are in bounds; the race is intended.
    unsafe {
        let value = steps::tree::<T, R>(steps::load_one::<T, R>(input, n));
        if thread_idx_x() == 0 {
            *output = value; // the hazard
        }
    }
}

/// Reads shared elements that threads past the end of the input left unwritten.
///
/// # Safety
/// The conditions of `sequential` apply.
#[inline(always)]
unsafe fn testing_unwritten_shared<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let (values, tid, i) = (dynamic_shared::<T>(), thread_idx_x(), grid::thread_index());
    // SAFETY: accesses are in bounds; reading unwritten elements is intended.
    unsafe {
        if i < n {
            values.set(tid, R::map(*input.add(i as usize)));
        }
        sync_threads();
        let other = values.get(block_dim_x() - 1 - tid); // the hazard
        sync_threads();
        values.set(tid, other);
        sync_threads();
        steps::halve_to::<T, R>(values, 1);
        steps::write_block(output, values.get(0));
    }
}

/// # Safety
/// The conditions of `sequential` apply. The hazard is a read of the unwritten output.
#[inline(always)]
unsafe fn testing_unwritten_output<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: accesses are in bounds; reading the unwritten output is intended.
    unsafe {
        let value = steps::tree::<T, R>(steps::load_one::<T, R>(input, n));
        if thread_idx_x() == 0 {
            let output = output.add(block_idx_x() as usize);
            *output = R::combine(*output, value); // the hazard
        }
    }
}

/// # Safety
/// The conditions of `sequential` apply. The hazard is a read of element `n`.
#[inline(always)]
unsafe fn testing_out_of_bounds<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let i = grid::thread_index();
    let mut value = R::IDENTITY;
    if i <= n {
        // SAFETY: the read past the end is intended.
        value = R::map(unsafe { *input.add(i as usize) }); // the hazard
    }
    // SAFETY: all threads of the block call `tree`, and `output` has an element per block.
    unsafe { steps::write_block(output, steps::tree::<T, R>(value)) };
}

/// Reads 16 bytes of shared memory from an address that is not a multiple of 16.
///
/// # Safety
/// The conditions of `sequential` apply.
#[inline(always)]
unsafe fn testing_misaligned<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    // SAFETY: accesses are in bounds; the misaligned address is intended.
    unsafe {
        values.set(thread_idx_x(), steps::load_one::<T, R>(input, n));
        sync_threads();
        if thread_idx_x() == 0 {
            let elements = values.at(1).get16(0); // the hazard
            steps::write_block(output, elements.as_ref()[0]);
        }
    }
}

/// # Safety
/// The conditions of `sequential` apply. The hazard is a barrier that a quarter of the threads reach.
#[inline(always)]
unsafe fn testing_divergent_barrier<T: Element, R: Reduction<T>>(
    Reduce { input, n, output }: Reduce<T>,
) {
    let (values, tid) = (dynamic_shared::<T>(), thread_idx_x());
    // SAFETY: accesses are in bounds; the divergent barrier is intended.
    unsafe {
        values.set(tid, steps::load_one::<T, R>(input, n));
        if tid % 4 == 0 {
            sync_threads(); // the hazard
            values.set(tid, R::combine(values.get(tid), values.get(tid + 1)));
        }
        sync_threads();
        steps::write_block(output, values.get(0));
    }
}

/// Shuffles with the upper half of a warp, in a branch that only the lower half takes.
///
/// # Safety
/// The conditions of `warp_shuffle` apply.
#[inline(always)]
unsafe fn testing_inactive_lane<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: accesses are in bounds; the shuffle with inactive lanes is intended.
    unsafe {
        let mut value = steps::load_one::<T, R>(input, n);
        if lane_id() < WARP_SIZE / 2 {
            value = R::combine(value, value.shuffle_xor(FULL_WARP, 16)); // the hazard
        }
        steps::write_block(output, value);
    }
}
