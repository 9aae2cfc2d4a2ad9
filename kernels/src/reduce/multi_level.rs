//! The kernel of `sequential`, launched repeatedly: each launch reduces the blocks' values of the
//! previous one, until one value is left.
//!
//! Shows the **kernel launch as the global barrier**: everything that one launch wrote is visible to the
//! next one. The host launches the kernel log_block(n) times.
//!
//! - Steps, barriers and shared memory per launch: as `sequential`. The last launch, of one block,
//!   writes `output[0]`.
//! - The profiler shows: several launches, each smaller by a factor of the block size.
//!
//! Source: write-ups A and B of docs/sources.md.
//! Section: `docs/ladder.md#multi_level`. CUDA C twin: `cuda/multi_level.cu`.

use super::prelude::*;
use super::sequential::sequential;

entries!(multi_level(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn multi_level<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: `sequential` has the same conditions as this function.
    unsafe { sequential::<T, R>(Reduce { input, n, output }) };
}
