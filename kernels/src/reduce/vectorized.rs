//! 16-byte loads, four in flight per thread.
//!
//! Removes the **shortage of bytes in flight**: a load of 16 bytes costs one instruction and one request
//! like a load of 4, and four loads before the first use hide latency that a single load exposes.
//!
//! - Steps: grid-stride loop over 16-byte vectors, four per iteration; single loads of the elements
//!   before the first and after the last 16-byte boundary; shuffles in each warp, one value per warp
//!   through shared memory, shuffles again; thread 0 writes `output[block_idx]`.
//! - Barriers: 1. Shared memory: 32 elements, static.
//! - The profiler shows: `LDG.E.NA.128`, 16 sectors per request, four loads before the first wait.
//!
//! Source: the suite's own, after common practice.
//! Section: `docs/ladder.md#vectorized`. CUDA C twin: `cuda/vectorized.cu`.

use super::prelude::*;
use warpfold_device::memory::{Streaming, load16};

entries!(vectorized(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements and is aligned for `T`, `output` one writable element per block.
#[inline(always)]
unsafe fn vectorized<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: `input` and `output` are as the caller guarantees; all threads of the block take part.
    unsafe { steps::reduce_and_write::<T, R>(output, load::<T, R>(input, n)) };
}

/// 16-byte loads in flight per thread.
const IN_FLIGHT: usize = 4;

/// Combines this thread's share of the input.
///
/// # Safety
/// `input` has `n` readable elements and is aligned for `T`.
#[inline(always)]
unsafe fn load<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let lanes = (16 / size_of::<T>()) as u64;
    let to_boundary = (input as u64).wrapping_neg() % 16 / size_of::<T>() as u64;
    let head = if to_boundary < n { to_boundary } else { n };
    let groups = (n - head) / lanes;
    // SAFETY: `head` is at most n.
    let body = unsafe { input.add(head as usize) };
    let (first, step) = (grid::thread_index(), grid::threads());
    // SAFETY: `group` is only called for i < groups; `body` is aligned to 16 bytes.
    let group = |i: u64| unsafe { load16::<T, Streaming>(body.add((i * lanes) as usize)) };
    let combine = |value: T, group: T::Lanes| {
        group.as_ref().iter().fold(value, |value, &element| R::combine(value, R::map(element)))
    };

    // ladder: loads
    let mut values = [R::IDENTITY; IN_FLIGHT];
    let mut i = first;
    while i + (IN_FLIGHT as u64 - 1) * step < groups {
        let loaded = [group(i), group(i + step), group(i + 2 * step), group(i + 3 * step)];
        values = core::array::from_fn(|k| combine(values[k], loaded[k]));
        i += IN_FLIGHT as u64 * step;
    }
    // ladder: end
    while i < groups {
        values[0] = combine(values[0], group(i));
        i += step;
    }
    let mut value = R::combine(R::combine(values[0], values[1]), R::combine(values[2], values[3]));
    // The elements outside the vectors would not fill two vectors, so a thread loads at most one.
    let rest = head + groups * lanes;
    let single = if first < head { first } else { rest + (first - head) };
    if single < n {
        // SAFETY: single < n, the number of readable elements.
        value = R::combine(value, R::map(unsafe { *input.add(single as usize) }));
    }
    value
}
