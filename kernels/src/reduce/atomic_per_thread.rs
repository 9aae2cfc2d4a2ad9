//! Each thread strides over the input and adds what it has to the result with one atomic.
//!
//! Removes the need for a tree, and shows **contention**: every thread of the grid updates the same
//! address, and the memory system serves them one after the other.
//!
//! - Steps: grid-stride loop into a register, one atomic per thread.
//! - Result: `output[0]`, which must hold the identity before.
//! - Barriers: none. Shared memory: none.
//! - Float sums are not reproducible: the order of the atomics is the order of arrival.
//! - An f32 sum takes subnormal numbers for zero: the memory's adder does so.
//! - The profiler shows: as many atomics as threads, all to one address. Those of 32-bit integers the
//!   compiler merges per warp.
//!
//! Source: write-up E of docs/sources.md.

use super::{Element, Reduction, entries, tree};

entries!(atomic_per_thread(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements; `output` holds the identity and is used by nothing else.
#[inline(always)]
unsafe fn atomic_per_thread<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked, and the result is only accessed atomically.
    unsafe { R::combine_atomically(output, tree::load_grid_stride::<T, R>(input, n)) };
}
