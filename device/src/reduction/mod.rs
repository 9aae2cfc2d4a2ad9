//! Reductions of arrays of any length by any operation, in one launch and at memory bandwidth.
//!
//! The collectives of the other modules combine values of threads; the kernels here also load the
//! elements. They are the kernels of `warpfold::Reducer`, for any [`VectorReduction`]. [`Unrolled`]
//! makes any [`Reduction`] a [`VectorReduction`], and [`reducer!`](crate::reducer) declares its kernels.
//!
//! - [`grid`](grid()): 16-byte loads into registers, four in flight per thread. In each round, every
//!   block reads one contiguous tile, and all blocks one contiguous piece: memory is faster when the
//!   loads in flight are close together. Tiles are sized so that all blocks do equal work.
//! - [`bulk`](bulk()): bulk asynchronous copies into a ring of three tiles of 32 KiB. They need no
//!   registers and few instructions, and are faster for gigabytes (compute capability 9.0).
//! - Variants of [`grid`](grid()): [`counted`](counted()) for a length that is in device memory;
//!   [`continued`](continued()) for elements that follow those of earlier launches, and for groups of
//!   devices, whose results the kernels [combine](warpfold_abi::meeting); [`buffers`](buffers()) for the
//!   elements of several buffers; [`pairs_aligned`] and
//!   [`pairs_shifted`] for two inputs, by a [`PairReduction`]; [`within`](within()) for the elements in
//!   an interval, by a [`FilteredReduction`].
//! - [`rows_grid`] and others: one result per row of a matrix, by blocks, a warp or a few lanes per row.
//! - [`fused_grid`], [`fused_warp`]: several results per row, by some [`Parts`] of a list. A buffer is
//!   one row.
//! - [`axis_packs`] and others: one result per column of matrices, for an axis other than the last.
//! - [`view_groups`], [`view_elements`]: one result per position on some axes, for any strides.
//! - [`segments`](segments()): one result for each of many segments of different lengths.
//! - [`top_grid`], [`top_warp`]: the first k elements in an [`Order`], of a buffer or of every row,
//!   for a small k; [`select`](select()), [`sort`] and [`merge`] for any k.
//! - [`count_runs`], [`write_runs`]: runs of equal keys, as segments.
//!
//! Elements whose size does not divide 16 are loaded one by one, four in flight per thread, in the same
//! rounds. They have no [`bulk`](bulk()) kernel, and no [`rows_groups`].
//!
//! # Terms
//!
//! - *Partial result*: the unfinished result of some elements, [`Reduction::Partial`].
//! - *Group*: 16 aligned bytes of elements, which a thread loads at once; in registers, a [`Vector`]. If
//!   the size of an element does not divide 16, one element.
//! - *Head*: the elements before the first group. *Singles*: these and the ones after the last group.
//! - *Tile*: the groups that a block reads in one round.
//! - *Cell*: 8 bytes of device memory for one 32-bit word of a partial result, and its mark.
//! - *Slots*: the device memory for the cells of all blocks of a launch, zero between launches.
//! - *Wide* operation: one with partial results of more than
//!   [`PARTIAL_WORDS`](warpfold_abi::reducer::PARTIAL_WORDS) words.
//! - *Meeting*: device memory in which the launches of several devices combine their results.
//!
//! # Exchange between blocks
//!
//! Each block but the last reduces its values and publishes the result in its own cells; the last block
//! waits for these results and combines them with its own. Half of a cell is data and half a mark, so a
//! relaxed store and a relaxed load suffice: no fence, no counter, no second launch. The block that
//! takes a value clears its cells, so the next launch needs no memset. Decoupled look-back scans pass on
//! prefixes in the same way, in one word with their flag (D. Merrill and M. Garland, *Single-pass
//! Parallel Prefix Scan with Decoupled Look-back*, NVIDIA Technical Report NVR-2016-002). Only the last
//! block waits, and only for blocks before it, so no cooperative launch is needed.
//!
//! A launch may overlap the one before it (programmatic dependent launch): a block reads its part of the
//! input at once, and waits for earlier launches only before it accesses cells or output. Therefore no
//! launch that may still be running in the stream may write the input.
//!
//! Results are reproducible: the order of combination depends only on n and the sizes of tile, block and
//! grid, and in [`buffers`](buffers()) on the length and alignment of each buffer.
//!
//! Shared memory: [`Scratch`], which holds 32 partial results; in `bulk` also three tiles (dynamic) and
//! three mbarriers. Barriers: 1 per block; in `bulk` 1 more per tile.

mod axis;
mod buffers;
#[cfg(warpfold_sm_90)]
mod bulk;
mod continued;
mod counted;
mod custom;
mod entries;
mod finish;
mod fused;
mod grid;
mod located;
mod mapped;
mod meeting;
mod pairs;
mod partial;
mod rows;
mod runs;
mod segments;
mod select;
mod team;
mod top;
mod traits;
mod unrolled;
mod view;
mod within;

pub use axis::{AxisScratch, axis_lanes, axis_packs, axis_singles, axis_spaced};
pub use buffers::buffers;
#[cfg(warpfold_sm_90)]
pub use bulk::{BulkRing, bulk};
pub use continued::continued;
pub use counted::counted;
pub use custom::{describe, laws};
pub use finish::Scratch;
pub use fused::{Nothing, Parts, With, fused_grid, fused_warp};
pub use grid::grid;
pub use located::{Located, NOWHERE, located};
pub use mapped::{Compare, FirstBy, Function, Mapped};
pub use pairs::{PairReduction, pairs_aligned, pairs_shifted};
pub use rows::{
    rows_elements, rows_few_elements, rows_few_groups, rows_grid, rows_groups, rows_many_groups,
    rows_warp,
};
pub use runs::{RunKey, RunsMemory, RunsScratch, count_runs, write_runs};
pub use segments::{SegmentsMemory, in_place, read_offset, segments};
pub use select::{SELECT_SCRATCH, SelectKey, SelectMemory, TopBits, merge, select, select_short, sort};
pub use top::{Order, TopKey, TopMemory, top_grid, top_warp};
pub use traits::{
    ACCUMULATORS, CombineOf, ContinuedOf, Reduction, Span, Vector, VectorReduction, accumulate_vector,
    count, in_vectors, lanes, span,
};
pub use unrolled::Unrolled;
pub use view::{view_elements, view_groups};
pub use within::{FilteredReduction, within};

use finish::{finish, single};
use team::Team;

use crate::{
    grid::launch_dependents,
    thread::{block_idx_x, grid_dim_x},
};

/// Calls [`launch_dependents`] in the last blocks only, for launches of very many short blocks: each
/// trigger takes 1.2 ns on an H200, even without a dependent launch, and earlier blocks end soon anyway.
/// Kernels with few or long blocks trigger in all blocks, because the comparison costs registers.
#[inline(always)]
fn launch_dependents_late() {
    const LAST: u32 = 2048;
    if grid_dim_x() - block_idx_x() <= LAST {
        launch_dependents();
    }
}
