//! The reducer: one launch for any number of elements, at memory bandwidth.
//!
//! The other variants teach; this one is for use in programs. It supports twelve element types at any
//! alignment. It has 45 operations on elements, three on the values of an expression that the host
//! inserts, four on pairs of elements, sums of the elements in an interval, top-k searches in both
//! orders, and fused kernels, which compute several of these results of the same elements.
//! `warpfold_device::reduction` loads elements and combines the results of blocks, for any operation.
//! Here, `item.rs` has the element types, `offsets.rs` the check of segment offsets, and the other files
//! the operations.
//!
//! Shared memory: 32 partial results, in `fused` of the greatest width; in `bulk` also three tiles
//! (dynamic) and three mbarriers; in `segments` its tiles; in the top-k kernels one queue per warp.
//! Barriers: 1 per block; in `bulk` 1 more per tile, in `segments` up to 4 per tile and 5 per block, in
//! the top-k kernels up to 4.
//!
//! Source: the suite's own.

mod binned;
mod bits;
mod exact;
mod exponentials;
mod form;
mod harmonic;
mod item;
mod mapped;
mod means;
mod moments;
mod norms;
#[cfg(feature = "library")]
mod offsets;
mod op;
mod pairs;
mod real;
mod skip_nan;
mod sums;
mod third_moment;
mod top;
mod wide;
mod within;

use warpfold_abi::{
    WARP_SIZE, fused,
    reducer::{
        AXIS_BLOCK, PARTIAL_WORDS, TOP_BLOCK, TOP_QUEUE, TOP_WORDS, WIDE_AXIS_BLOCK, WIDE_WORDS, is_wide,
    },
    runs::TILE_KEYS,
    segments::{layout, scratch_words},
    top::{NARROW_BLOCK, SELECT_BLOCK, digits},
};
#[cfg(warpfold_sm_90)]
use warpfold_device::reduction::BulkRing;
use warpfold_device::{
    Shared, Value, block, reducer_axis_kernels, reducer_grid_variants, reducer_kernel, reducer_kernels,
    reducer_rows_kernels, reducer_segments_kernel, reducer_view_kernels,
    reduction::{
        FilteredReduction, Nothing, PairReduction, RunsMemory, SELECT_SCRATCH, SegmentsMemory,
        SelectMemory, VectorReduction, With, in_place,
    },
    shared_array,
};

use binned::{
    BinnedDot, BinnedDotPart, BinnedSquaredDistance, BinnedSquaredDistancePart, BinnedSum, BinnedSumAbs,
    BinnedSumSq, NanBinnedSum, NanBinnedSumAbs, NanBinnedSumSq,
};
use bits::{And, Or, Xor};
use exact::{BinnedSpread, ExactSpread, L1Norm, NanBinnedSpread};
use exponentials::LogSumExp;
use harmonic::{BinnedHarmonicMean, HarmonicMean, NanBinnedHarmonicMean, NanHarmonicMean};
use item::{Bf16, F16};
use mapped::{MappedMax, MappedMin, MappedSum};
use means::Mean;
use moments::{NanSpread, Spread};
use norms::{ExactNorm, FloatNorm, NanFloatNorm};
use op::{ArgMax, ArgMin, Max, Min, MinMax, NonZero, Product, Sum, SumAbs, SumSq};
use pairs::{Dot, SquaredDistance};
use skip_nan::{
    NanArgMax, NanArgMin, NanCount, NanMax, NanMin, NanMinMax, NanProduct, NanSum, NanSumAbs, NanSumSq,
};
use third_moment::{NanThirdMoment, ThirdMoment};
use top::{Largest, Smallest};
use wide::WideSum;
use within::{BinnedWithin, BinnedWithinPart, Within};

/// Declares shared memory in two sizes, for normal partial results and for [wide](is_wide) ones.
macro_rules! by_width {
    ($($(#[$attr:meta])* $name:ident: $narrow:ident, $wide:ident = |$words:ident| $len:expr;)*) => {$(
        mod $name {
            use super::*;

            const fn len($words: u32) -> u32 {
                $len
            }
            shared_array! { pub(super) fn narrow: $narrow = [u32; len(PARTIAL_WORDS)] }
            shared_array! { pub(super) fn wide: $wide = [u32; len(WIDE_WORDS)] }
        }

        $(#[$attr])*
        #[inline(always)]
        fn $name<F: VectorReduction>() -> Shared<u32> {
            const { assert!(F::Partial::WORDS <= WIDE_WORDS) };
            if is_wide(F::Partial::WORDS) { *$name::wide() } else { *$name::narrow() }
        }
    )*};
}

by_width! {
    warp_values: reducer_warp_values, reducer_wide_warp_values = |words| words * WARP_SIZE;
    /// One partial result per thread of a block that reduces columns or views.
    column_values: reducer_column_values, reducer_wide_column_values =
        |words| words * if is_wide(words) { WIDE_AXIS_BLOCK } else { AXIS_BLOCK };
    segments_scratch: reducer_segments_scratch, reducer_wide_segments_scratch =
        |words| scratch_words(words);
}

#[cfg(warpfold_sm_90)]
shared_array! {
    fn landed: reducer_landed = [u64; warpfold_abi::reducer::BULK_STAGES]
}

shared_array! {
    fn fused_warp_values: reducer_fused_warp_values = [u32; WIDE_WORDS * WARP_SIZE]
}

/// Declares the tiles of `segments` by element size in bytes, and by whether partial results are stored
/// in place of elements.
macro_rules! tiles {
    ($($name:ident: $symbol:ident = ($bytes:literal, $in_place:literal);)*) => {$(
        shared_array! { fn $name: $symbol = [u32; layout($bytes, $in_place).words] }
    )*};
}

tiles! {
    byte_tiles: reducer_byte_tiles = (1, false);
    half_tiles: reducer_half_tiles = (2, false);
    word_tiles: reducer_word_tiles = (4, false);
    tiles_in_place: reducer_tiles_in_place = (4, true);
}

shared_array! {
    fn run_places: reducer_run_places = [u32; TILE_KEYS]
}

shared_array! {
    fn top_queues: reducer_top_queues = [u32; TOP_BLOCK / WARP_SIZE * TOP_QUEUE * TOP_WORDS]
}

/// Declares the memory of the kernels of top-k for any k, by the threads of a block.
macro_rules! select_memories {
    ($($name:ident: $digits:ident, $staged:ident, $scratch:ident, $block:expr;)*) => {$(
        mod $name {
            use super::*;

            shared_array! { pub(super) fn digit_counts: $digits = [u32; digits($block)] }
            shared_array! { pub(super) fn staged: $staged = [u32; digits($block) * 4] }
            shared_array! { pub(super) fn scratch: $scratch = [u32; SELECT_SCRATCH] }
        }

        #[inline(always)]
        fn $name() -> SelectMemory {
            let (digits, staged) = (*$name::digit_counts(), *$name::staged());
            SelectMemory { digits, staged, scratch: $name::scratch() }
        }
    )*};
}

select_memories! {
    select_memory: reducer_select_digits, reducer_select_staged, reducer_select_scratch, SELECT_BLOCK;
    short_memory: reducer_short_digits, reducer_short_staged, reducer_short_scratch, NARROW_BLOCK;
}

shared_array! {
    fn runs_scratch: reducer_runs_scratch = [u32; block::scratch_words::<u64>()]
}

const _: () = assert!(layout(8, false).words <= layout(4, false).words);
const _: () = assert!(layout(8, true).words <= layout(4, true).words);

#[inline(always)]
fn segments_memory<F: VectorReduction>() -> SegmentsMemory {
    let staged: Shared<u32> = match size_of::<F::Element>() {
        1 => *byte_tiles(),
        2 => *half_tiles(),
        _ if in_place::<F>() => *tiles_in_place(),
        _ => *word_tiles(),
    };
    SegmentsMemory { staged, scratch: segments_scratch::<F>() }
}

#[inline(always)]
fn runs_memory() -> RunsMemory {
    RunsMemory { places: run_places(), scratch: runs_scratch() }
}

#[cfg(warpfold_sm_90)]
#[inline(always)]
fn ring() -> BulkRing {
    BulkRing { tiles: crate::dynamic_shared(), landed: *landed() }
}

/// The list of operations on elements of type `T` for a fused kernel.
macro_rules! parts {
    [] => { Nothing<T> };
    [$PART:ident $Op:ident $($rest:tt)*] => { With<{ fused::$PART }, $Op<T>, parts![$($rest)*]> };
}

/// Declares the reducer's kernels for every operation and type, as `<op>_<dtype>`. Operations that do
/// not depend on the signedness of integers are declared for unsigned ones only. `sumabs` is declared
/// for signed ones only, because it equals `sum` for unsigned ones.
macro_rules! reducers {
    (integers $integers:tt signed $signed:tt unsigned $unsigned:tt floats $floats:tt widened $widened:tt
        double_words $double_words:tt) => {
        reducers!(@all "suite" $integers [sum Sum, min Min, max Max, sumsq SumSq, argmin ArgMin,
            argmax ArgMax]);
        reducers!(@all "suite" $floats [sum Sum, min Min, max Max, sumsq SumSq, argmin ArgMin,
            argmax ArgMax]);
        reducers!(@all "library" $integers [product Product, minmax MinMax, spread ExactSpread, mean Mean,
            l2 ExactNorm, hmean HarmonicMean, mapsum MappedSum, mapmin MappedMin, mapmax MappedMax]);
        reducers!(@all "library" $signed [sumabs SumAbs]);
        reducers!(@all "library" $unsigned [nonzero NonZero, and And, or Or, xor Xor]);
        reducers!(@all "library" $floats [sumabs SumAbs, product Product, minmax MinMax,
            nonzero NonZero, spread Spread, mean Mean, l2 FloatNorm, nanl2 NanFloatNorm, binsum BinnedSum, binsumsq BinnedSumSq,
            binsumabs BinnedSumAbs, logsumexp LogSumExp, nansum NanSum, nanmin NanMin, nanmax NanMax,
            nanargmin NanArgMin, nanargmax NanArgMax, nanspread NanSpread, nancount NanCount,
            nansumsq NanSumSq, nansumabs NanSumAbs, nanproduct NanProduct, nanminmax NanMinMax,
            nanbinsum NanBinnedSum, nanbinsumsq NanBinnedSumSq, nanbinsumabs NanBinnedSumAbs,
            binspread BinnedSpread, nanbinspread NanBinnedSpread, hmean HarmonicMean,
            nanhmean NanHarmonicMean, binhmean BinnedHarmonicMean, nanbinhmean NanBinnedHarmonicMean,
            moment3 ThirdMoment, nanmoment3 NanThirdMoment, mapsum MappedSum, mapmin MappedMin,
            mapmax MappedMax]);
        reducers!(@all "library" $widened [widesum WideSum]);
        reducers!(@all "library" $double_words [l1 L1Norm]);
        reducers!(@pairs $integers [dot Dot, sqdist SquaredDistance]);
        reducers!(@pairs $floats [dot Dot, sqdist SquaredDistance, bindot BinnedDot,
            binsqdist BinnedSquaredDistance, bindotpart BinnedDotPart,
            binsqdistpart BinnedSquaredDistancePart]);
        reducers!(@within $integers [sum Within]);
        reducers!(@within $floats [sum Within, binsum BinnedWithin, binsumpart BinnedWithinPart]);
        reducers!(@top $integers [largest Largest, smallest Smallest]);
        reducers!(@top $floats [largest Largest, smallest Smallest]);
        reducers!(@fused $integers [SUM Sum, SUM_OF_SQUARES SumSq, SUM_OF_MAGNITUDES SumAbs,
            PRODUCT Product, MIN_MAX MinMax, ARG_MIN ArgMin, ARG_MAX ArgMax, COUNT_NON_ZERO NonZero,
            MEAN Mean, MEAN_AND_VARIANCE ExactSpread, L2_NORM ExactNorm]);
        reducers!(@fused $floats [SUM Sum, SUM_OF_SQUARES SumSq, SUM_OF_MAGNITUDES SumAbs,
            PRODUCT Product, MIN_MAX MinMax, ARG_MIN ArgMin, ARG_MAX ArgMax, COUNT_NON_ZERO NonZero,
            MEAN Mean, MEAN_AND_VARIANCE Spread, L2_NORM FloatNorm, COUNT_NAN NanCount, NAN_SUM NanSum,
            NAN_SUM_OF_SQUARES NanSumSq, NAN_SUM_OF_MAGNITUDES NanSumAbs, NAN_PRODUCT NanProduct,
            NAN_MIN_MAX NanMinMax, NAN_ARG_MIN NanArgMin, NAN_ARG_MAX NanArgMax,
            NAN_MEAN_AND_VARIANCE NanSpread, NAN_L2_NORM NanFloatNorm]);
    };
    (@fused [$($dtype:ident = $ty:ty),*] $parts:tt) => {
        $(reducers!(@each_fused $dtype $ty, $parts);)*
    };
    (@each_fused $dtype:ident $ty:ty, [$($PART:ident $Op:ident),*]) => {
        #[cfg(feature = "library")]
        const _: () = {
            type T = $ty;
            reducer_kernel! {
                reducer_fused $dtype grid =
                    fused_grid<parts![$($PART $Op)*]>(ReduceRows, *fused_warp_values())
            }
            reducer_kernel! {
                reducer_fused $dtype warp = fused_warp<parts![$($PART $Op)*]>(ReduceRows)
            }
        };
    };
    (@within [$($dtype:ident = $ty:ty),*] $ops:tt) => {
        $(reducers!(@each_within $dtype $ty, $ops);)*
    };
    (@each_within $dtype:ident $ty:ty, [$($op:ident $Op:ident),*]) => {$(
        #[cfg(feature = "library")]
        const _: () = {
            type T = $ty;
            reducer_kernel! {
                reducer_within ${concat($op, _, $dtype)} grid =
                    within<$Op<T>>(ReduceWithin, warp_values::<<$Op<T> as FilteredReduction>::Reduction>())
            }
        };
    )*};
    (@top [$($dtype:ident = $ty:ty),*] $orders:tt) => {
        $(reducers!(@each_top $dtype $ty, $orders);)*
    };
    (@each_top $dtype:ident $ty:ty, [$($order:ident $Order:ident),*]) => {$(
        #[cfg(feature = "library")]
        const _: () = {
            type T = $ty;
            reducer_kernel! {
                reducer_top ${concat($order, _, $dtype)} grid = top_grid<$Order<T>>(ReduceTop, top_queues())
            }
            reducer_kernel! {
                reducer_top ${concat($order, _, $dtype)} warp = top_warp<$Order<T>>(ReduceTop, top_queues())
            }
        };
    )*};
    (@pairs [$($dtype:ident = $ty:ty),*] $ops:tt) => {
        $(reducers!(@each_pair $dtype $ty, $ops);)*
    };
    (@each_pair $dtype:ident $ty:ty, [$($op:ident $Op:ident),*]) => {$(
        #[cfg(feature = "library")]
        const _: () = {
            type T = $ty;
            reducer_kernel! {
                reducer_pair ${concat($op, _, $dtype)} aligned =
                    pairs_aligned<$Op<T>>(ReducePair, warp_values::<<$Op<T> as PairReduction>::Reduction>())
            }
            reducer_kernel! {
                reducer_pair ${concat($op, _, $dtype)} shifted =
                    pairs_shifted<$Op<T>>(ReducePair, warp_values::<<$Op<T> as PairReduction>::Reduction>())
            }
        };
    )*};
    (@all $part:literal [$($dtype:ident = $ty:ty),*] $ops:tt) => {
        $(reducers!(@each $part $dtype $ty, $ops);)*
    };
    (@each $part:literal $dtype:ident $ty:ty, [$($op:ident $Op:ident),*]) => {$(
        #[cfg(feature = $part)]
        const _: () = {
            type T = $ty;
            reducer_kernels! { ${concat($op, _, $dtype)}: $Op<T>, warp_values::<$Op<T>>(), ring() }
        };
        #[cfg(feature = "matrices")]
        const _: () = {
            type T = $ty;
            reducer_rows_kernels! { ${concat($op, _, $dtype)}: $Op<T>, warp_values::<$Op<T>>() }
            reducer_axis_kernels! { ${concat($op, _, $dtype)}: $Op<T>, column_values::<$Op<T>>() }
        };
        #[cfg(feature = "library")]
        const _: () = {
            type T = $ty;
            reducer_grid_variants! { ${concat($op, _, $dtype)}: $Op<T>, warp_values::<$Op<T>>() }
            reducer_view_kernels! { ${concat($op, _, $dtype)}: $Op<T>, column_values::<$Op<T>>() }
            reducer_segments_kernel! {
                ${concat($op, _, $dtype)}: $Op<T>, segments_memory::<$Op<T>>()
            }
        };
    )*};
}

reducers! {
    integers [i8 = i8, u8 = u8, i16 = i16, u16 = u16, i32 = i32, u32 = u32, i64 = i64, u64 = u64]
    signed [i8 = i8, i16 = i16, i32 = i32, i64 = i64]
    unsigned [u8 = u8, u16 = u16, u32 = u32, u64 = u64]
    floats [f16 = F16, bf16 = Bf16, f32 = f32, f64 = f64]
    widened [i64 = i64, u64 = u64, f16 = F16, bf16 = Bf16, f32 = f32]
    double_words [i64 = i64, u64 = u64]
}

macro_rules! runs {
    ($($Key:ident)*) => {$(
        #[cfg(feature = "library")]
        const _: () = {
            type T = $Key;
            reducer_kernel! { reducer_runs $Key count = count_runs<T>(CountRuns, runs_scratch()) }
            reducer_kernel! { reducer_runs $Key write = write_runs<T>(WriteRuns, runs_memory()) }
        };
    )*};
}

runs!(u8 u16 u32 u64);

/// Declares the kernels of top-k for any k, by the size of elements.
macro_rules! any_top {
    ($($Bits:ident)*) => {$(
        #[cfg(feature = "library")]
        const _: () = {
            type T = $Bits;
            reducer_kernel! { reducer_top_any $Bits select = select<T>(SelectTop, select_memory()) }
            reducer_kernel! { reducer_top_any $Bits short = select_short<T>(SelectTop, short_memory()) }
            reducer_kernel! { reducer_top_any $Bits sort = sort<T>(SortTop, select_memory()) }
            reducer_kernel! { reducer_top_any $Bits merge = merge<T>(SortTop) }
        };
    )*};
}

any_top!(u8 u16 u32 u64);
