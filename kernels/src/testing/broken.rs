//! Deliberately wrong reductions, whose errors the suite must detect.

use crate::reduce::prelude::*;

entries!(testing_drops_tail(Reduce) for i32);
entries!(testing_missing_barrier(Reduce) for i32);

/// Reduces as `sequential` does, but ignores the elements of a partial last block.
///
/// # Safety
/// The conditions of `sequential` apply.
#[inline(always)]
unsafe fn testing_drops_tail<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let whole = n - n % u64::from(block_dim_x());
    // SAFETY: the caller guarantees the conditions of `sequential` for n elements; `whole` is at most n.
    unsafe {
        values.set(thread_idx_x(), steps::load_one::<T, R>(input, whole));
        sync_threads();
        steps::halve_to::<T, R>(values, 1);
        if thread_idx_x() == 0 {
            *output.add(block_idx_x() as usize) = values.get(0);
        }
    }
}

/// Reduces as `sequential` does, but without a barrier after each step, so that warps race.
///
/// # Safety
/// The conditions of `sequential` apply.
#[inline(always)]
unsafe fn testing_missing_barrier<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx_x();
    // SAFETY: accesses are in bounds, as in `sequential`; the race is intended.
    unsafe {
        values.set(tid, steps::load_one::<T, R>(input, n));
        let mut offset = block_dim_x() / 2;
        while offset > 0 {
            if tid < offset {
                values.set(tid, R::combine(values.get(tid), values.get(tid + offset)));
            }
            offset /= 2;
        }
        if tid == 0 {
            *output.add(block_idx_x() as usize) = values.get(0);
        }
    }
}
