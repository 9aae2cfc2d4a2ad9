//! A gather: thread i copies element `index[i]` of the input to element i of the output.
//!
//! Shows the **worst case of reading**: with a random permutation each lane of a warp reads a different
//! sector, and with a large input no cache retains the sectors for later warps. The indices are read and
//! the output is written coalesced.
//!
//! - Launch: n threads. Result: `output[i] = input[index[i]]` for i < n.
//! - Barriers: none. Shared memory: none.
//! - The profiler shows: close to 32 sectors per request for the loads of the input, 4 for those of the
//!   indices.
//!
//! Source: write-up C of docs/sources.md.
//! Section: `docs/movements.md#copy_random`. CUDA C twin: `cuda/copy_random.cu`.

use super::entries;
use crate::prelude::*;
use warpfold_abi::arguments::CopyRandom;

entries!(copy_random(CopyRandom) for f32 f64);

/// # Safety
/// `index` has `n` readable elements, each the index of a readable element of `input`; `output` has `n`
/// writable elements, none of them in `input` or `index`.
#[inline(always)]
unsafe fn copy_random<T: Word>(CopyRandom { input, index, n, output }: CopyRandom<T>) {
    let i = grid::thread_index() as usize;
    // ladder: copy
    if (i as u64) < n {
        // SAFETY: i < n, and `index` holds only indices of readable elements of `input`.
        unsafe { *output.add(i) = *input.add(*index.add(i) as usize) };
    }
    // ladder: end
}
