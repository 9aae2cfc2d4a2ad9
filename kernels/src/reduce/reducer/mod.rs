//! The reducer: one launch for any number of elements, at the speed of the memory.
//!
//! The other variants teach; this is what programs call. Ten element types, seventeen operations, any
//! alignment. How elements are loaded and how blocks meet is in `warpfold_device::reduction`, for any
//! operation; what differs between the operations here is in `op.rs`, `moments.rs`, `bits.rs` and
//! `binned.rs`, between the element types in `item.rs`.
//!
//! Shared memory: 32 partial results and, in `bulk`, three tiles (dynamic) and three mbarriers.
//! Barriers: 1 per block; in `bulk` 1 more per tile.
//!
//! Source: the suite's own.

mod binned;
mod bits;
mod item;
mod located;
mod moments;
mod op;

use warpfold_abi::reducer::{AXIS_BLOCK, PARTIAL_WORDS};
#[cfg(warpfold_sm_90)]
use warpfold_device::reduction::BulkRing;
use warpfold_device::{reducer_axis_kernels, reducer_kernels, shared_array};

use binned::{BinnedSum, BinnedSumAbs, BinnedSumSq};
use bits::{And, Or, Xor};
use item::{Bf16, F16};
use moments::Spread;
use op::{ArgMax, ArgMin, Max, Min, MinMax, NonZero, Product, Sum, SumAbs, SumSq};

shared_array! {
    /// One partial result per warp.
    fn warp_values: reducer_warp_values = [u32; PARTIAL_WORDS * 32]
}

shared_array! {
    /// One partial result per thread of a block that reduces columns.
    fn column_values: reducer_column_values = [u32; PARTIAL_WORDS * AXIS_BLOCK]
}

#[cfg(warpfold_sm_90)]
shared_array! {
    /// One mbarrier per tile of the ring.
    fn landed: reducer_landed = [u64; warpfold_abi::reducer::BULK_STAGES]
}

/// The ring of `bulk`.
#[cfg(warpfold_sm_90)]
#[inline(always)]
fn ring() -> BulkRing {
    BulkRing { tiles: crate::dynamic_shared(), landed: *landed() }
}

/// Declares the reducer's kernels for every operation and type, as `<op>_<dtype>`.
macro_rules! reducers {
    (integers $integers:tt floats $floats:tt) => {
        reducers!(@all $integers [sum Sum, min Min, max Max, sumsq SumSq, argmin ArgMin, argmax ArgMax,
            sumabs SumAbs, product Product, minmax MinMax, nonzero NonZero, spread Spread, and And,
            or Or, xor Xor]);
        reducers!(@all $floats [sum Sum, min Min, max Max, sumsq SumSq, argmin ArgMin, argmax ArgMax,
            sumabs SumAbs, product Product, minmax MinMax, nonzero NonZero, spread Spread, binsum BinnedSum,
            binsumsq BinnedSumSq, binsumabs BinnedSumAbs]);
    };
    (@all [$($dtype:ident = $ty:ty),*] $ops:tt) => {
        $(reducers!(@each $dtype $ty, $ops);)*
    };
    (@each $dtype:ident $ty:ty, [$($op:ident $Op:ident),*]) => {$(
        // A scope of its own for `T`.
        const _: () = {
            type T = $ty;
            reducer_kernels! { ${concat($op, _, $dtype)}: $Op<T>, warp_values(), ring() }
            reducer_axis_kernels! { ${concat($op, _, $dtype)}: $Op<T>, column_values() }
        };
    )*};
}

reducers! {
    integers [i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64, u64 = u64]
    floats [f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64]
}
