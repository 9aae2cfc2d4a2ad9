//! A look at the offsets of segments, before anything reads by them.

use warpfold_abi::arguments::CheckOffsets;
use warpfold_device::{
    atomic::{Atomic, Device, Relaxed},
    grid::{thread_index, threads},
    reduction::read_offset,
};

/// Declares the entry with the fields of its struct as parameters.
macro_rules! entry {
    ([] $($field:ident: $ty:ty),*) => {
        warpfold_device::kernel! {
            /// Finds the first segment that is none, and where on the path tiles begin. Any launch of
            /// one dimension.
            pub fn reducer_offsets_check($($field: $ty),*) {
                // SAFETY: the caller's contract is the body's.
                unsafe { check(CheckOffsets { $($field),* }) };
            }
        }
    };
}

warpfold_abi::CheckOffsets!(entry![]);

/// # Safety
/// The arguments are what their fields say.
#[inline(always)]
unsafe fn check(arguments: CheckOffsets) {
    let CheckOffsets { segments, most, tile, report, starts, tiles, .. } = arguments;
    // SAFETY: offsets up to `segments` are there, and all words of the report.
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
                // The first one has the largest complement.
                Atomic::fetch_max::<Relaxed, Device>(report, !segment);
                break;
            }
            differs |= end - begin != len;
            segment += threads();
        }
        if differs {
            Atomic::fetch_max::<Relaxed, Device>(report.add(3), 1);
        }
        let mut at = thread_index();
        while at < tiles {
            // How many ends are before the tile on the path. Of offsets in any order it is some number
            // of them.
            let (mut least, mut more) = (0, segments);
            while least < more {
                let middle = least + (more - least) / 2;
                if offset(middle + 1).wrapping_sub(first).wrapping_add(middle) < at * tile {
                    least = middle + 1;
                } else {
                    more = middle;
                }
            }
            *starts.add(at as usize) = least;
            at += threads();
        }
    }
}
