//! The kernel of `sequential` under another name and the same host plan, which is what this row is
//! about: the blocks' values are reduced by the same kernel, launch after launch, until one is left.
//!
//! Shows the **kernel launch as the global barrier**: what one launch wrote, the next one sees, whole.
//! The host launches it log_block(n) times.
//!
//! - Steps per launch: load to shared memory, barrier; log2(block) times: combine, barrier; thread 0
//!   writes.
//! - Result: `output[block_idx]`, written by thread 0; of the last launch, which has one block,
//!   `output[0]`.
//! - Barriers: 1 + log2(block) per launch. Shared memory: one element per thread.
//! - The profiler shows: several launches, each a block's factor smaller.
//!
//! Source: write-ups A and B of docs/sources.md.
//!
//! Section: `docs/ladder.md#multi_level`. CUDA C twin: `cuda/multi_level.cu`.

use super::prelude::*;
use super::sequential::sequential;

entries!(multi_level(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn multi_level<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: the caller's contract is that of `sequential`.
    unsafe { sequential::<T, R>(Reduce { input, n, output }) };
}
