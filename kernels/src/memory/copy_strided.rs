//! A strided copy: thread i copies element i · stride of the input to element i of the output.
//!
//! Shows the **cost of uncoalesced reads** as bandwidth against stride. With stride 1 the 4-byte
//! elements of a warp are in four sectors; with larger strides fewer of a sector's 32 bytes are used,
//! until from stride 8 on every lane reads a sector of its own. The writes stay coalesced.
//!
//! - Launch: n threads. Result: `output[i] = input[i * stride]` for i < n.
//! - Barriers: none. Shared memory: none.
//! - The profiler shows: min(4 · stride, 32) sectors per load request of 4-byte elements, 4 per store
//!   request.
//!
//! Source: write-up C of docs/sources.md.
//! Section: `docs/movements.md#copy_strided`. CUDA C twin: `cuda/copy_strided.cu`.

use super::entries;
use crate::prelude::*;
use warpfold_abi::arguments::CopyStrided;

entries!(copy_strided(CopyStrided) for f32 f64);

/// # Safety
/// `input` has (n - 1) · stride + 1 readable elements, `output` `n` writable ones; they do not overlap.
#[inline(always)]
unsafe fn copy_strided<T: Word>(CopyStrided { input, n, stride, output }: CopyStrided<T>) {
    let i = grid::thread_index();
    // ladder: copy
    if i < n {
        // SAFETY: i is at most n - 1, so i · stride is the index of a readable element.
        unsafe { *output.add(i as usize) = *input.add((i * stride) as usize) };
    }
    // ladder: end
}
