//! Validation of segment offsets before other kernels use them, and the search for the starts of tiles
//! on the [path](warpfold_abi::segments) of elements and segment ends.

use warpfold_abi::arguments::{CheckOffsets, FindTiles};
use warpfold_device::{
    atomic::{Atomic, Device, Relaxed, load_relaxed},
    grid::{thread_index, threads},
    reduction::read_offset,
    warp::{self, FULL_WARP, lane_id},
};

macro_rules! entry {
    ([$(#[$attr:meta])* $name:ident = $body:ident($Arguments:ident)] $($field:ident: $ty:ty),*) => {
        warpfold_device::kernel! {
            $(#[$attr])*
            pub fn $name($($field: $ty),*) {
                // SAFETY: the kernel has the conditions of `$body`, which its launch must meet.
                unsafe { $body($Arguments { $($field),* }) };
            }
        }
    };
}

warpfold_abi::CheckOffsets!(entry![
    /// Finds the first invalid segment, and the starts of tiles on the [path](warpfold_abi::segments).
    /// Launched with any one-dimensional grid, in blocks of whole warps.
    reducer_offsets_check = check(CheckOffsets)
]);

warpfold_abi::FindTiles!(entry![
    /// Finds the starts of tiles on the [path](warpfold_abi::segments). Launched with any
    /// one-dimensional grid.
    reducer_offsets_tiles = find_tiles(FindTiles)
]);

/// # Safety
/// The arguments are as documented at [`CheckOffsets`], and blocks consist of whole warps.
#[inline(always)]
unsafe fn check(arguments: CheckOffsets) {
    let CheckOffsets { segments, most, tile, report, starts, tiles, .. } = arguments;
    // SAFETY: offsets 0 to `segments` are readable, and all words of the report are writable.
    unsafe {
        let offset = |index| read_offset(arguments.offsets, arguments.offset_words, index);
        let first = offset(0);
        if thread_index() == 0 {
            *report.add(1) = first;
            *report.add(2) = offset(segments);
        }
        let (len, mut differs) = (offset(1).wrapping_sub(first), false);
        let mut segment = thread_index();
        while segment < segments {
            let (begin, end) = (offset(segment), offset(segment + 1));
            if begin > end || end > most {
                // The lowest index has the largest complement.
                Atomic::fetch_max::<Relaxed, Device>(report, !segment);
                break;
            }
            differs |= end - begin != len;
            segment += threads();
        }
        // Set once per warp, and only while the flag is clear, to avoid contention for its word.
        let differs = warp::warp_vote_any(FULL_WARP, differs);
        if differs && lane_id() == 0 && load_relaxed(report.add(3)) == 0 {
            Atomic::fetch_max::<Relaxed, Device>(report.add(3), 1);
        }
    }
    let CheckOffsets { offsets, offset_words, .. } = arguments;
    // SAFETY: the caller guarantees these arguments, and `find_tiles` allows offsets in any order.
    unsafe { find_tiles(FindTiles { offsets, offset_words, segments, tile, starts, tiles }) };
}

/// # Safety
/// The arguments are as documented at [`FindTiles`], except that offsets may be in any order.
#[inline(always)]
unsafe fn find_tiles(arguments: FindTiles) {
    let FindTiles { offsets, offset_words, segments, tile, starts, tiles } = arguments;
    // SAFETY: offsets 0 to `segments` are readable.
    let offset = |index| unsafe { read_offset(offsets, offset_words, index) };
    let (first, mut at) = (offset(0), thread_index());
    while at < tiles {
        // Binary search for the number of segments that end before the tile. If the offsets are not in
        // order, the result is some number up to `segments`.
        let (mut least, mut more) = (0, segments);
        while least < more {
            let middle = least + (more - least) / 2;
            if offset(middle + 1).wrapping_sub(first).wrapping_add(middle) < at * tile {
                least = middle + 1;
            } else {
                more = middle;
            }
        }
        // SAFETY: `starts` has a word for each tile.
        unsafe { *starts.add(at as usize) = least };
        at += threads();
    }
}
