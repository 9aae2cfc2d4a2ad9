//! The reducer: one launch for any number of elements, at the speed of the memory.
//!
//! The other variants teach; this is what programs call. Ten element types, fourteen operations, any
//! alignment. How elements are loaded and how blocks meet is in `warpfold_device::reduction`, for any
//! operation; what differs between the operations here is in `op.rs`, `moments.rs` and `bits.rs`,
//! between the element types in `item.rs`.
//!
//! Shared memory: 32 partial results and, in `bulk`, three tiles (dynamic) and three mbarriers.
//! Barriers: 1 per block; in `bulk` 1 more per tile.
//!
//! Source: the suite's own.

mod bits;
mod item;
mod located;
mod moments;
mod op;

use warpfold_abi::reducer::{AXIS_BLOCK, PARTIAL_WORDS};
#[cfg(warpfold_sm_90)]
use warpfold_device::reduction::{BulkRing, bulk};
use warpfold_device::{
    reduction::{
        axis_lanes, axis_packs, axis_singles, axis_spaced, counted, grid, rows_elements, rows_grid,
        rows_groups, rows_warp,
    },
    shared_array,
};

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

/// Declares `<prefix>_<op>_<dtype>_<kernel>` for every operation and type: the function of the kernel's
/// name, with the parameters of a struct of `warpfold-abi`.
macro_rules! reducers {
    ($($(#[$attr:meta])* $prefix:ident $kernel:ident = $body:ident($Arguments:ident $(, $memory:expr)*);)*) => {$(
        $(#[$attr])*
        reducers!(@types [$prefix $kernel $body($Arguments $(, $memory)*)]
            integers [i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64, u64 = u64]
            floats [f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64]);
    )*};
    (@types $context:tt integers $integers:tt floats $floats:tt) => {
        reducers!(@all $context $integers [sum Sum, min Min, max Max, sumsq SumSq, argmin ArgMin,
            argmax ArgMax, sumabs SumAbs, product Product, minmax MinMax, nonzero NonZero,
            spread Spread, and And, or Or, xor Xor]);
        reducers!(@all $context $floats [sum Sum, min Min, max Max, sumsq SumSq, argmin ArgMin,
            argmax ArgMax, sumabs SumAbs, product Product, minmax MinMax, nonzero NonZero,
            spread Spread]);
    };
    (@all $context:tt [$($dtype:ident = $ty:ty),*] $ops:tt) => {
        $(reducers!(@each $context $dtype $ty, $ops);)*
    };
    (@each $context:tt $dtype:ident $ty:ty, [$($op:ident $Op:ident),*]) => {
        $(reducers!(@op $context $op $Op $dtype $ty);)*
    };
    (@op [$prefix:ident $kernel:ident $body:ident($Arguments:ident $(, $memory:expr)*)] $op:ident $Op:ident
        $dtype:ident $ty:ty) => {
        // A scope of its own for `T`; the entry is reached by its symbol.
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            warpfold_abi::$Arguments!(
                $crate::reduce::reducer::reducers![$prefix $kernel $body($Arguments $(, $memory)*) $op $Op $dtype]
            );
        };
    };
    // What the struct's macro hands back, with its fields.
    ([$prefix:ident $kernel:ident $body:ident($Arguments:ident $(, $memory:expr)*) $op:ident $Op:ident
        $dtype:ident]
        $($field:ident: $field_ty:ty),*) => {
        warpfold_device::kernel! {
            #[doc = concat!("`", stringify!($body), "` for ", stringify!($op), " of ", stringify!($dtype), ".")]
            pub fn ${concat($prefix, _, $op, _, $dtype, _, $kernel)}($($field: $field_ty),*) {
                let arguments = warpfold_abi::arguments::$Arguments::<T> { $($field),* };
                // SAFETY: the caller's contract is the body's.
                unsafe { $body::<$Op<T>>(arguments $(, $memory)*) }
            }
        }
    };
}
use reducers;

reducers! {
    reducer grid = grid(ReduceCut, warp_values());
    #[cfg(warpfold_sm_90)]
    reducer bulk = bulk(ReduceCut, warp_values(), ring());
    // In files of their own: whoever counts on the host, or has no rows, does without.
    reducer_counted grid = counted(ReduceCounted, warp_values());
    reducer_rows grid = rows_grid(ReduceRows, warp_values());
    reducer_rows warp = rows_warp(ReduceRows);
    reducer_rows groups = rows_groups(ReduceRows);
    reducer_rows elements = rows_elements(ReduceRows);
    reducer_axis packs = axis_packs(ReduceAxis, column_values());
    reducer_axis spaced = axis_spaced(ReduceAxis, column_values());
    reducer_axis singles = axis_singles(ReduceAxis, column_values());
    reducer_axis lanes = axis_lanes(ReduceAxis);
}
