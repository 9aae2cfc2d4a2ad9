//! The reducer: one launch for any number of elements, at the speed of the memory.
//!
//! The other variants teach; this is what programs call. Ten element types, six operations, any
//! alignment. Two kernels load in different ways and end alike:
//!
//! - `grid` (`grid.rs`): 16-byte loads into registers, four under way per thread. The input is read in
//!   rounds, in each of which every block reads one contiguous tile and all blocks together one
//!   contiguous piece: what is under way at a time stays close together, which the memory rewards. Tiles
//!   are as long as makes all blocks work equally long, down to inputs of one block.
//! - `bulk` (`bulk.rs`): bulk asynchronous copies into a ring of three tiles of 32 KiB. No registers,
//!   few instructions; the faster one for inputs of gigabytes (compute capability 9.0).
//! - `counted` (`counted.rs`): `grid` for a number of elements that device memory holds. The others leave
//!   it to the host how the input is cut.
//! - `rows` (`rows.rs`): a result for every row of a matrix, by a grid, a block, a warp or a few lanes
//!   per row.
//! - Ending (`finish.rs`): every block reduces its values in its warps, and publishes one in cells of
//!   its own, where the last block waits for it and reduces them all with its own. A cell holds half
//!   data, half mark, so that a relaxed store and a relaxed load are enough: no fence, no counter, no
//!   second launch. Who takes a value empties its cells: ready for the next launch without a memset.
//! - A block waits only for blocks before it, which wait for nobody: it needs no cooperative launch.
//! - Launches may overlap with the one before (programmatic dependent launch): a block reads its part of
//!   the input at once, and waits for the launches before only when it touches cells or output. So
//!   nothing that still runs before it in the stream may write the input.
//! - Reproducible: every value is combined in a place that n, the tile, the block and the grid decide.
//!
//! What differs between the operations is in `op.rs`, between the element types in `item.rs`.
//!
//! Shared memory: 32 partial results and, in `bulk`, three tiles (dynamic) and three mbarriers.
//! Barriers: 1 per block; in `bulk` 1 more per tile.
//!
//! Source: the suite's own. A value that travels in one word with its flag is how decoupled look-back
//! scans hand on prefixes (D. Merrill and M. Garland, *Single-pass Parallel Prefix Scan with Decoupled
//! Look-back*, NVIDIA Technical Report NVR-2016-002).

#[cfg(warpfold_sm_90)]
mod bulk;
mod counted;
mod finish;
mod grid;
mod item;
mod op;
mod partial;
mod rows;
mod team;

#[cfg(warpfold_sm_90)]
use bulk::bulk;
use counted::counted;
use grid::grid;
use item::{Bf16, F16};
use op::{ArgMax, ArgMin, Max, Min, Sum, SumSq};
use rows::{rows_elements, rows_grid, rows_groups, rows_warp};

/// Declares `<prefix>_<op>_<dtype>_<kernel>` for every operation and type: the function of the kernel's
/// name, with the parameters of a struct of `warpfold-abi`.
macro_rules! reducers {
    ($prefix:ident $kernel:ident = $body:ident($Arguments:ident): $($dtype:ident = $ty:ty),*) => {$(
        reducers!(@entry [$prefix $kernel $body $Arguments sum Sum $dtype] $ty);
        reducers!(@entry [$prefix $kernel $body $Arguments min Min $dtype] $ty);
        reducers!(@entry [$prefix $kernel $body $Arguments max Max $dtype] $ty);
        reducers!(@entry [$prefix $kernel $body $Arguments sumsq SumSq $dtype] $ty);
        reducers!(@entry [$prefix $kernel $body $Arguments argmin ArgMin $dtype] $ty);
        reducers!(@entry [$prefix $kernel $body $Arguments argmax ArgMax $dtype] $ty);
    )*};
    (@entry [$prefix:ident $kernel:ident $body:ident $Arguments:ident $($rest:tt)*] $ty:ty) => {
        // A scope of its own for `T`; the entry is reached by its symbol.
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            warpfold_abi::$Arguments!(
                $crate::reduce::reducer::reducers![$prefix $kernel $body $Arguments $($rest)*]
            );
        };
    };
    // What the struct's macro hands back, with its fields.
    ([$prefix:ident $kernel:ident $body:ident $Arguments:ident $op:ident $Op:ident $dtype:ident]
        $($field:ident: $field_ty:ty),*) => {
        warpfold_device::kernel! {
            #[doc = concat!("`", stringify!($body), "` for ", stringify!($op), " of ", stringify!($dtype), ".")]
            pub fn ${concat($prefix, _, $op, _, $dtype, _, $kernel)}($($field: $field_ty),*) {
                let arguments = warpfold_abi::arguments::$Arguments::<T> { $($field),* };
                // SAFETY: the caller's contract is the body's.
                unsafe { $body::<T, $Op>(arguments) }
            }
        }
    };
}
use reducers;

reducers!(reducer grid = grid(ReduceCut): i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64, u64 = u64,
    f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64);

#[cfg(warpfold_sm_90)]
reducers!(reducer bulk = bulk(ReduceCut): i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64, u64 = u64,
    f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64);

// In files of their own: whoever counts on the host does without.
reducers!(reducer_counted grid = counted(ReduceCounted): i8 = i8, u8 = u8, i32 = i32, u32 = u32,
    i64 = i64, u64 = u64, f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64);

// Likewise: whoever has no rows does without.
reducers!(reducer_rows grid = rows_grid(ReduceRows): i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64,
    u64 = u64, f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64);
reducers!(reducer_rows warp = rows_warp(ReduceRows): i8 = i8, u8 = u8, i32 = i32, u32 = u32, i64 = i64,
    u64 = u64, f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64);
reducers!(reducer_rows groups = rows_groups(ReduceRows): i8 = i8, u8 = u8, i32 = i32, u32 = u32,
    i64 = i64, u64 = u64, f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64);
reducers!(reducer_rows elements = rows_elements(ReduceRows): i8 = i8, u8 = u8, i32 = i32, u32 = u32,
    i64 = i64, u64 = u64, f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64);
