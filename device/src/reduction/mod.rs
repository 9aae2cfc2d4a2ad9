//! Reductions of arrays of any length in one launch, at the speed of the memory, by any operation.
//!
//! The collectives of the other modules combine values that threads have; the kernels here load them,
//! too. They are the kernels of `warpfold::Reducer`, for any [`VectorReduction`], which [`Unrolled`]
//! makes of a [`Reduction`]; [`reducer!`](crate::reducer) declares them.
//!
//! - [`grid`](grid()): 16-byte loads into registers, four in flight per thread. In each round every
//!   block reads one contiguous tile, and all blocks one contiguous piece: memory is faster when the
//!   loads in flight are close together. Tiles are sized so that all blocks do equal work, down to
//!   inputs of one block.
//! - [`bulk`](bulk()): bulk asynchronous copies into a ring of three tiles of 32 KiB. No registers, few
//!   instructions; faster for inputs of gigabytes (compute capability 9.0).
//! - Variants of [`grid`](grid()): [`counted`](counted()) for a count in device memory, which the host
//!   cannot cut; [`continued`](continued()) for elements that follow those of earlier launches, and for
//!   groups of devices, whose launches [meet](warpfold_abi::meeting); [`pairs_aligned`] and
//!   [`pairs_shifted`] for two inputs, by a [`PairReduction`]; [`within`](within()) for an interval, by
//!   a [`FilteredReduction`].
//! - [`rows_grid`] and others: a result per row of a matrix, by blocks, a warp or a few lanes per row.
//! - [`axis_packs`] and others: a result per column of matrices, for an axis that is not the last.
//! - [`view_groups`], [`view_elements`]: a result per position on some axes of an array of any strides.
//! - [`segments`](segments()): a result for each of many pieces of different lengths.
//! - [`top_grid`], [`top_warp`]: the first elements in an [`Order`], of a buffer or of every row.
//! - [`count_runs`], [`write_runs`]: the pieces that have equal keys.
//!
//! Elements whose size does not divide 16 are loaded one by one, four in flight per thread, in the same
//! rounds. They have no [`bulk`](bulk()) kernel, and no [`rows_groups`].
//!
//! Every block reduces its values and publishes one in its own cells, where the last block waits for it
//! and combines it with its own. A cell holds half data, half mark, so that a relaxed store and a
//! relaxed load are enough: no fence, no counter, no second launch. The block that takes a value clears
//! its cells, so the next launch needs no memset. Decoupled look-back scans pass on prefixes in the same
//! way, in one word with their flag (D. Merrill and M. Garland, *Single-pass Parallel Prefix Scan with
//! Decoupled Look-back*, NVIDIA Technical Report NVR-2016-002). A block waits only for blocks before it,
//! which wait for none, so no cooperative launch is needed.
//!
//! Launches may overlap with the one before (programmatic dependent launch): a block reads its part of
//! the input at once, and waits for earlier launches only before it accesses cells or output. So no
//! launch that may still run before it in the stream may write the input.
//!
//! Results are reproducible: n, the tile, the block and the grid decide where each value is combined.
//!
//! Shared memory: [`Scratch`], which is 32 partial results; in `bulk` three tiles (dynamic) and three
//! mbarriers. Barriers: 1 per block; in `bulk` 1 more per tile.

mod axis;
#[cfg(warpfold_sm_90)]
mod bulk;
mod continued;
mod counted;
mod custom;
mod entries;
mod finish;
mod grid;
mod located;
mod meeting;
mod pairs;
mod partial;
mod rows;
mod runs;
mod segments;
mod team;
mod top;
mod traits;
mod unrolled;
mod view;
mod within;

pub use axis::{AxisScratch, axis_lanes, axis_packs, axis_singles, axis_spaced};
#[cfg(warpfold_sm_90)]
pub use bulk::{BulkRing, bulk};
pub use continued::continued;
pub use counted::counted;
pub use custom::{describe, laws};
pub use finish::Scratch;
pub use grid::grid;
pub use located::{Located, NOWHERE, located};
pub use pairs::{PairReduction, pairs_aligned, pairs_shifted};
pub use rows::{
    rows_elements, rows_few_elements, rows_few_groups, rows_grid, rows_groups, rows_many_groups,
    rows_warp,
};
pub use runs::{RunKey, RunsMemory, RunsScratch, count_runs, write_runs};
pub use segments::{SegmentsMemory, in_place, read_offset, segments};
pub use top::{Order, TopKey, TopMemory, top_grid, top_warp};
pub use traits::{
    ACCUMULATORS, CombineOf, ContinuedOf, Reduction, Vector, VectorReduction, count, in_vectors, lanes,
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

/// As [`launch_dependents`], for launches of very many short blocks: only the last blocks trigger, as
/// each trigger takes 1.2 ns on an H200, even without a dependent launch. Earlier blocks end soon
/// anyway. Kernels with few or long blocks trigger in all: for some the comparison costs more registers
/// than it saves.
#[inline(always)]
fn launch_dependents_late() {
    const LAST: u32 = 2048;
    if grid_dim_x() - block_idx_x() <= LAST {
        launch_dependents();
    }
}
