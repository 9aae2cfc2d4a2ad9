//! Reductions that are wrong on purpose but look right: the suite must catch them.

use crate::reduce::prelude::*;

entries!(testing_drops_tail(Reduce) for i32);
entries!(testing_missing_barrier(Reduce) for i32);

/// `sequential` without the elements of a last block that is not full.
///
/// # Safety
/// As `sequential`.
#[inline(always)]
unsafe fn testing_drops_tail<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let whole = n - n % u64::from(block_dim_x());
    // SAFETY: as `sequential`; `whole` is at most n.
    unsafe {
        values.set(thread_idx_x(), steps::load_one::<T, R>(input, whole));
        sync_threads();
        steps::halve_to::<T, R>(values, 1);
        if thread_idx_x() == 0 {
            *output.add(block_idx_x() as usize) = values.get(0);
        }
    }
}

/// `sequential` without the barrier at the end of a step: a race between warps.
///
/// # Safety
/// As `sequential`, but for the race.
#[inline(always)]
unsafe fn testing_missing_barrier<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx_x();
    // SAFETY: in bounds as in `sequential`; the race is intended.
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
