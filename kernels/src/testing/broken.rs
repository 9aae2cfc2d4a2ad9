//! Reductions that are wrong on purpose, each in a way that looks right: the suite must catch them.

use crate::{
    gpu::*,
    reduce::{Element, Reduction, entries, tree},
};

entries!(testing_drops_tail(input: *const T, n: u64, output: *mut T) for i32);
entries!(testing_missing_barrier(input: *const T, n: u64, output: *mut T) for i32);

/// `sequential`, but a last block that is not full counts for nothing.
///
/// # Safety
/// As `sequential`.
#[inline(always)]
unsafe fn testing_drops_tail<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    let values = dynamic_shared::<T>();
    let whole = n - n % u64::from(block_dim());
    // SAFETY: as `sequential`; `whole` is at most n.
    unsafe {
        values.set(thread_idx(), tree::load_one::<T, R>(input, whole));
        sync_block();
        tree::halve_to::<T, R>(values, 1);
        if thread_idx() == 0 {
            *output.add(block_idx() as usize) = values.get(0);
        }
    }
}

/// `sequential` without the barrier at the end of a step: a race between warps.
///
/// # Safety
/// As `sequential`, but for the race.
#[inline(always)]
unsafe fn testing_missing_barrier<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx();
    // SAFETY: in bounds as in `sequential`; the race is what this kernel is for.
    unsafe {
        values.set(tid, tree::load_one::<T, R>(input, n));
        let mut offset = block_dim() / 2;
        while offset > 0 {
            if tid < offset {
                values.set(tid, R::combine(values.get(tid), values.get(tid + offset)));
            }
            offset /= 2;
        }
        if tid == 0 {
            *output.add(block_idx() as usize) = values.get(0);
        }
    }
}
