//! Reductions of arrays of any length in one launch, at the speed of the memory, by any operation.
//!
//! The collectives of the other modules combine what threads have. The kernels here load it, too: they
//! are those of `warpfold::Reducer`, for any [`VectorReduction`], which [`Unrolled`] makes of a
//! [`Reduction`]; [`reducer!`](crate::reducer) declares them. Five ways of loading, and one ending:
//!
//! - [`grid`]: 16-byte loads into registers, four under way per thread. The input is read in
//!   rounds, in each of which every block reads one contiguous tile and all blocks together one
//!   contiguous piece: what is under way at a time stays close together, which the memory rewards. Tiles
//!   are as long as makes all blocks work equally long, down to inputs of one block.
//! - [`bulk`](bulk()): bulk asynchronous copies into a ring of three tiles of 32 KiB. No registers,
//!   few instructions; the faster one for inputs of gigabytes (compute capability 9.0).
//! - [`counted`](counted()): [`grid`] for a number of elements that device memory holds. The others
//!   leave it to the host how the input is cut.
//! - [`continued`](continued()): [`grid`] for elements that come behind others, of which launches before
//!   have left what they made; and for a member of a group of devices, whose launches
//!   [meet](warpfold_abi::meeting).
//! - [`pairs_aligned`], [`pairs_shifted`]: [`grid`] for two inputs, whose elements go together, by an
//!   operation that is a [`PairReduction`].
//! - [`within`](within()): [`grid`] for the elements that lie in an interval, by an operation that is a
//!   [`FilteredReduction`].
//! - [`rows_grid`], [`rows_warp`], [`rows_groups`], [`rows_elements`], [`rows_many_groups`],
//!   [`rows_few_groups`], [`rows_few_elements`]: a result for every row of a matrix, by a grid, a
//!   block, a warp or a few lanes per row.
//! - [`axis_packs`], [`axis_spaced`], [`axis_singles`], [`axis_lanes`]: a result for every column of
//!   matrices, which are an axis of an array that is not its last one.
//! - Elements whose size does not divide 16 are loaded one by one, four under way per thread, in the
//!   same rounds. They have no [`bulk`](bulk()) kernel, and no [`rows_groups`].
//! - [`view_groups`], [`view_elements`]: a result for each position on some axes of an array of any
//!   strides.
//! - [`segments`](segments()): a result for every one of many pieces whose lengths differ.
//! - [`top_grid`], [`top_warp`]: no reduction to one value, but the elements that come first in an
//!   [`Order`], of a buffer or of every row of a matrix.
//! - [`count_runs`], [`write_runs`]: no reduction; they find the pieces that have equal keys.
//! - The ending: every block reduces its values in its warps, and publishes one in cells of its own,
//!   where the last block waits for it and reduces them all with its own. A cell holds half data, half
//!   mark, so that a relaxed store and a relaxed load are enough: no fence, no counter, no second
//!   launch. Who takes a value empties its cells: ready for the next launch without a memset.
//! - A block waits only for blocks before it, which wait for nobody: it needs no cooperative launch.
//! - Launches may overlap with the one before (programmatic dependent launch): a block reads its part of
//!   the input at once, and waits for the launches before only when it touches cells or output. So
//!   nothing that still runs before it in the stream may write the input.
//! - Reproducible: every value is combined in a place that n, the tile, the block and the grid decide.
//!
//! Shared memory: [`Scratch`], which is 32 partial results; in `bulk` three tiles (dynamic) and three
//! mbarriers. Barriers: 1 per block; in `bulk` 1 more per tile.
//!
//! A value that travels in one word with its flag is how decoupled look-back scans hand on prefixes
//! (D. Merrill and M. Garland, *Single-pass Parallel Prefix Scan with Decoupled Look-back*, NVIDIA
//! Technical Report NVR-2016-002).

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

/// As [`launch_dependents`], for launches of very many short blocks: only those that start last say it.
/// Those before have ended by then, or soon have; and each block that says so takes the GPU some time
/// (1.2 ns on an H200), whether another launch is there or not. What has few blocks, or long ones, says
/// it in each: the comparison costs some kernels more in registers than it saves them.
#[inline(always)]
fn launch_dependents_late() {
    const LAST: u32 = 2048;
    if grid_dim_x() - block_idx_x() <= LAST {
        launch_dependents();
    }
}
