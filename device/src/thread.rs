//! Coordinates, fences and operations on the values of a single thread; also the block's barriers, which
//! `cuda_std` has in this module, too.

use core::arch::{asm, nvptx};

use crate::{Value, gpu, op::Operation};

macro_rules! coordinates {
    ($($(#[$attr:meta])* $name:ident = $intrinsic:ident;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name() -> u32 {
            // SAFETY: the intrinsic reads a special register that every thread has.
            unsafe { nvptx::$intrinsic() }
        }
    )*};
}

coordinates! {
    /// Returns the index of this thread in its block, along x.
    thread_idx_x = _thread_idx_x;
    /// Returns the index of this thread in its block, along y.
    thread_idx_y = _thread_idx_y;
    /// Returns the index of this thread in its block, along z.
    thread_idx_z = _thread_idx_z;
    /// Returns the index of this block in the grid, along x.
    block_idx_x = _block_idx_x;
    /// Returns the index of this block in the grid, along y.
    block_idx_y = _block_idx_y;
    /// Returns the index of this block in the grid, along z.
    block_idx_z = _block_idx_z;
    /// Returns the number of threads per block, along x.
    block_dim_x = _block_dim_x;
    /// Returns the number of threads per block, along y.
    block_dim_y = _block_dim_y;
    /// Returns the number of threads per block, along z.
    block_dim_z = _block_dim_z;
    /// Returns the number of blocks of the grid, along x.
    grid_dim_x = _grid_dim_x;
    /// Returns the number of blocks of the grid, along y.
    grid_dim_y = _grid_dim_y;
    /// Returns the number of blocks of the grid, along z.
    grid_dim_z = _grid_dim_z;
}

/// Waits until every thread of the block has arrived; orders their shared and global accesses
/// (`__syncthreads()`).
///
/// # Safety
/// Every thread of the block that has not exited must reach the same barrier.
#[inline(always)]
pub unsafe fn sync_threads() {
    // SAFETY: all threads of the block reach the barrier, as the caller guarantees.
    unsafe { gpu::barrier() }
}

macro_rules! block_votes {
    ($($(#[$attr:meta])* $name:ident = $instruction:ident;)*) => {$(
        $(#[$attr])*
        ///
        /// # Safety
        /// Same as [`sync_threads`].
        #[inline(always)]
        pub unsafe fn $name(predicate: u32) -> u32 {
            // SAFETY: all threads of the block reach the barrier, as the caller guarantees.
            unsafe { gpu::$instruction(predicate) }
        }
    )*};
}

block_votes! {
    /// Waits at a block barrier; returns the number of threads whose predicate is nonzero.
    sync_threads_count = barrier_count;
    /// Waits at a block barrier; returns nonzero if the predicate of every thread is nonzero.
    sync_threads_and = barrier_and;
    /// Waits at a block barrier; returns nonzero if the predicate of any thread is nonzero.
    sync_threads_or = barrier_or;
}

macro_rules! fences {
    ($($(#[$attr:meta])* $name:ident = $scope:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name() {
            // SAFETY: the instruction orders memory accesses and does nothing else.
            unsafe { asm!(concat!("fence.acq_rel.", $scope, ";"), options(nostack, preserves_flags)) }
        }
    )*};
}

fences! {
    /// Orders writes: every thread of the block observes this thread's earlier writes before its later
    /// ones (`__threadfence_block()`).
    block_fence = "cta";
    /// Orders writes: every thread of the device observes this thread's earlier writes before its later
    /// ones (`__threadfence()`).
    device_fence = "gpu";
    /// Orders writes as [`device_fence`] does, for every thread of the system, including the host and
    /// other devices (`__threadfence_system()`).
    system_fence = "sys";
}

/// Arrays of 1, 2, 4 or 8 values of one thread. The operations are unrolled by hand, because an array
/// that a loop indexes is placed in local memory.
pub trait Few<T> {
    /// Reduces the values as a tree, first half with second half, to keep the dependency chain short.
    fn tree_reduce(self, combine: impl Fn(T, T) -> T) -> T;
    /// Combines each value with the other array's value at the same index.
    #[must_use]
    fn zipped(self, others: Self, combine: impl Fn(T, T) -> T) -> Self;
    /// Returns the inclusive scan of the values.
    #[must_use]
    fn running(self, combine: impl Fn(T, T) -> T) -> Self;
    /// Shifts the values up by one index and puts `first` at index 0.
    #[must_use]
    fn shifted(self, first: T) -> Self;
}

impl<T: Copy> Few<T> for [T; 1] {
    #[inline(always)]
    fn tree_reduce(self, _combine: impl Fn(T, T) -> T) -> T {
        self[0]
    }
    #[inline(always)]
    fn zipped(self, others: Self, combine: impl Fn(T, T) -> T) -> Self {
        [combine(self[0], others[0])]
    }
    #[inline(always)]
    fn running(self, _combine: impl Fn(T, T) -> T) -> Self {
        self
    }
    #[inline(always)]
    fn shifted(self, first: T) -> Self {
        [first]
    }
}

impl<T: Copy> Few<T> for [T; 2] {
    #[inline(always)]
    fn tree_reduce(self, combine: impl Fn(T, T) -> T) -> T {
        combine(self[0], self[1])
    }
    #[inline(always)]
    fn zipped(self, others: Self, combine: impl Fn(T, T) -> T) -> Self {
        [combine(self[0], others[0]), combine(self[1], others[1])]
    }
    #[inline(always)]
    fn running(self, combine: impl Fn(T, T) -> T) -> Self {
        let [a, b] = self;
        [a, combine(a, b)]
    }
    #[inline(always)]
    fn shifted(self, first: T) -> Self {
        [first, self[0]]
    }
}

impl<T: Copy> Few<T> for [T; 4] {
    #[inline(always)]
    fn tree_reduce(self, combine: impl Fn(T, T) -> T) -> T {
        let [a, b, c, d] = self;
        [combine(a, c), combine(b, d)].tree_reduce(combine)
    }
    #[inline(always)]
    fn zipped(self, others: Self, combine: impl Fn(T, T) -> T) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self, others);
        [combine(a, e), combine(b, f), combine(c, g), combine(d, h)]
    }
    #[inline(always)]
    fn running(self, combine: impl Fn(T, T) -> T) -> Self {
        let [a, b, c, d] = self;
        let ([a, b], [c, d]) = ([a, b].running(&combine), [c, d].running(&combine));
        [a, b, combine(b, c), combine(b, d)]
    }
    #[inline(always)]
    fn shifted(self, first: T) -> Self {
        let [a, b, c, _] = self;
        [first, a, b, c]
    }
}

impl<T: Copy> Few<T> for [T; 8] {
    #[inline(always)]
    fn tree_reduce(self, combine: impl Fn(T, T) -> T) -> T {
        let [a, b, c, d, e, f, g, h] = self;
        [combine(a, e), combine(b, f), combine(c, g), combine(d, h)].tree_reduce(combine)
    }
    #[inline(always)]
    fn zipped(self, others: Self, combine: impl Fn(T, T) -> T) -> Self {
        let ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]) = (self, others);
        let ([a, b, c, d], [e, f, g, h]) =
            ([a, b, c, d].zipped([i, j, k, l], &combine), [e, f, g, h].zipped([m, n, o, p], &combine));
        [a, b, c, d, e, f, g, h]
    }
    #[inline(always)]
    fn running(self, combine: impl Fn(T, T) -> T) -> Self {
        let [a, b, c, d, e, f, g, h] = self;
        let ([a, b, c, d], [e, f, g, h]) =
            ([a, b, c, d].running(&combine), [e, f, g, h].running(&combine));
        [a, b, c, d, combine(d, e), combine(d, f), combine(d, g), combine(d, h)]
    }
    #[inline(always)]
    fn shifted(self, first: T) -> Self {
        let [a, b, c, d, e, f, g, _] = self;
        [first, a, b, c, d, e, f, g]
    }
}

/// Reduces 1, 2, 4 or 8 values of this thread as a tree.
#[inline(always)]
pub fn reduce<T: Value, O: Operation<T>>(values: impl Few<T>, _op: O) -> T {
    values.tree_reduce(O::combine)
}

/// Returns the inclusive scan of 1, 2, 4 or 8 values of this thread.
#[inline(always)]
#[must_use]
pub fn inclusive_scan<T: Value, O: Operation<T>, V: Few<T>>(values: V, _op: O) -> V {
    values.running(O::combine)
}

/// Returns the exclusive scan of 1, 2, 4 or 8 values of this thread; the first result is the identity.
#[inline(always)]
#[must_use]
pub fn exclusive_scan<T: Value, O: Operation<T>, V: Few<T>>(values: V, _op: O) -> V {
    values.running(O::combine).shifted(O::IDENTITY)
}
