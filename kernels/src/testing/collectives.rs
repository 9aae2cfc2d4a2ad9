//! Kernels that call the collectives of `warpfold-device`, by scope and element type. Each thread writes
//! its results to the output, which `tests/` compares. The output consists of arrays of one element per
//! thread of the grid. Blocks may have any size.

use crate::{prelude::*, reduce::Element};
use warpfold_device::{
    grid::GridScratch,
    op::{Max, Min, Operation, Sum},
    thread, value, warp,
};

macro_rules! collectives {
    ($($body:ident ($($arg:ident: $arg_ty:ty),*))*) => {$(
        collectives!(@types $body ($($arg: $arg_ty),*) i32 u32 i64 u64 f32 f64);
    )*};
    (@types $body:ident $args:tt $($ty:ident)*) => {$(
        collectives!(@entry $body $ty $args);
    )*};
    (@entry $body:ident $ty:ident ($($arg:ident: $arg_ty:ty),*)) => {
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            kernel! {
                #[doc = concat!("`", stringify!($body), "` for ", stringify!($ty), ".")]
                pub fn ${concat(testing_collectives_, $body, _, $ty)}($($arg: $arg_ty),*) {
                    // SAFETY: the kernel has the conditions of `$body`, which its launch must meet.
                    unsafe { $body::<$ty>($($arg),*) }
                }
            }
        };
    };
}

collectives! {
    of_warp(input: *const T, output: *mut T)
    of_block(input: *const T, output: *mut T)
    of_grid(input: *const T, partials: *mut T, counter: *mut u32, output: *mut T)
    once(input: *const T, partials: *mut T, counter: *mut u32, output: *mut T)
}
#[cfg(warpfold_sm_90)]
collectives! { of_cluster(input: *const T, output: *mut T) }

/// The output, which consists of consecutive arrays of one element per thread.
struct Arrays<T> {
    output: *mut T,
    thread: usize,
    threads: usize,
}

impl<T: Element> Arrays<T> {
    fn to(output: *mut T) -> Self {
        Self { output, thread: grid::thread_index() as usize, threads: grid::threads() as usize }
    }

    /// # Safety
    /// The output must have an array `k`.
    #[inline(always)]
    unsafe fn set(&self, k: usize, value: T) {
        // SAFETY: the caller guarantees that the output has array `k`.
        unsafe { *self.output.add(k * self.threads + self.thread) = value };
    }
}

/// Writes the warp's sum to array 0, its minimum to 1, its inclusive sum scan to 2, its exclusive one to
/// 3, and lane 0's value to 4. For four copies of the thread's value, writes the sum to 5, and the last
/// element of the exclusive sum scan to 6.
///
/// # Safety
/// `input` has one element per thread, `output` seven.
#[inline(always)]
unsafe fn of_warp<T: Element>(input: *const T, output: *mut T) {
    let out = Arrays::to(output);
    // SAFETY: all threads call the collectives; the arrays have the elements that are accessed.
    unsafe {
        let value = *input.add(out.thread);
        out.set(0, warp::reduce(value, Sum));
        out.set(1, warp::reduce(value, Min));
        out.set(2, warp::inclusive_scan(value, Sum));
        out.set(3, warp::exclusive_scan(value, Sum));
        out.set(4, warp::broadcast(value, 0));
        out.set(5, thread::reduce([value; 4], Sum));
        let [_, _, _, last] = thread::exclusive_scan([value; 4], Sum);
        out.set(6, last);
    }
}

shared_array! {
    fn scratch: testing_collectives_scratch = [u32; block::scratch_words::<[u64; 3]>()]
}

/// Writes the block's sum to array 0, its maximum to 1 (in other warps than the first, the thread's
/// value), its inclusive sum scan to 2, its exclusive one to 3, the smaller of the scans' totals to 4,
/// and the last thread's value to 5.
///
/// # Safety
/// `input` has one element per thread, `output` six.
#[inline(always)]
unsafe fn of_block<T: Element>(input: *const T, output: *mut T) {
    let (out, tid) = (Arrays::to(output), thread_idx_x());
    // SAFETY: all threads call the collectives; a barrier separates two uses of the scratch memory.
    unsafe {
        let value = *input.add(out.thread);
        out.set(0, block::all_reduce(value, Sum, scratch()));
        sync_threads();
        let largest = block::reduce(value, Max, scratch());
        out.set(1, if tid < WARP_SIZE { largest } else { value });
        sync_threads();
        let (inclusive, whole) = block::inclusive_scan(value, Sum, scratch());
        sync_threads();
        let (exclusive, again) = block::exclusive_scan(value, Sum, scratch());
        sync_threads();
        out.set(2, inclusive);
        out.set(3, exclusive);
        out.set(4, whole.least(again));
        out.set(5, block::broadcast(value, block_dim_x() - 1, scratch()));
    }
}

#[cfg(warpfold_sm_90)]
use warpfold_device::cluster;

#[cfg(warpfold_sm_90)]
shared_array! {
    fn cluster_scratch: testing_collectives_cluster_scratch = [u32; cluster::scratch_words::<u64>()]
}

/// Writes the cluster's sum to array 0, its inclusive sum scan to 1, its exclusive one to 2, the smaller
/// of the scans' totals to 3, and the last block's value to 4.
///
/// # Safety
/// `input` has one element per thread, `output` five.
#[cfg(warpfold_sm_90)]
#[inline(always)]
unsafe fn of_cluster<T: Element>(input: *const T, output: *mut T) {
    let out = Arrays::to(output);
    // SAFETY: all threads call the collectives; a cluster barrier separates two uses of the scratch.
    unsafe {
        let value = *input.add(out.thread);
        out.set(0, cluster::all_reduce(value, Sum, cluster_scratch()));
        cluster::sync();
        let (inclusive, whole) = cluster::inclusive_scan(value, Sum, cluster_scratch());
        cluster::sync();
        let (exclusive, again) = cluster::exclusive_scan(value, Sum, cluster_scratch());
        cluster::sync();
        out.set(1, inclusive);
        out.set(2, exclusive);
        out.set(3, whole.least(again));
        out.set(4, cluster::broadcast(value, cluster::cluster_dim() - 1, cluster_scratch()));
    }
}

/// Writes the same arrays as `of_cluster`, for the grid.
///
/// # Safety
/// `input` has one element per thread, `output` five, and `partials` one per block. `counter` is zero or
/// as the last launch left it. The launch is cooperative.
#[inline(always)]
unsafe fn of_grid<T: Element>(input: *const T, partials: *mut T, counter: *mut u32, output: *mut T) {
    let (out, meeting) = (Arrays::to(output), GridScratch { partials, counter });
    // SAFETY: all threads call the collectives; a grid barrier separates two uses of the scratch memory.
    unsafe {
        let value = *input.add(out.thread);
        out.set(0, grid::all_reduce(value, Sum, meeting, scratch()));
        grid::sync(counter);
        let (inclusive, whole) = grid::inclusive_scan(value, Sum, meeting, scratch());
        grid::sync(counter);
        let (exclusive, again) = grid::exclusive_scan(value, Sum, meeting, scratch());
        grid::sync(counter);
        out.set(1, inclusive);
        out.set(2, exclusive);
        out.set(3, whole.least(again));
        out.set(4, grid::broadcast(value, grid_dim_x() - 1, meeting));
    }
}

/// Writes the sum of the grid, in the block that finishes last.
///
/// # Safety
/// `input` has one element per thread, `output` one in all, `partials` one per block; `counter` is zero.
#[inline(always)]
unsafe fn once<T: Element>(input: *const T, partials: *mut T, counter: *mut u32, output: *mut T) {
    // SAFETY: all threads call the collectives; the arrays have the elements that are accessed.
    unsafe {
        let value = *input.add(grid::thread_index() as usize);
        grid::reduce_then(value, Sum, GridScratch { partials, counter }, scratch(), |sum| {
            if thread_idx_x() == 0 {
                *output = sum;
            }
        });
    }
}

value! {
    /// The function x ↦ a · x + b, in wrapping arithmetic.
    struct Affine {
        a: u32,
        b: u32,
    }
}

/// The composition of functions, which is associative but not commutative.
#[derive(Clone, Copy)]
struct Then;

impl Operation<Affine> for Then {
    const IDENTITY: Affine = Affine { a: 1, b: 0 };

    #[inline(always)]
    fn combine(f: Affine, g: Affine) -> Affine {
        let b = f.b.wrapping_mul(g.a).wrapping_add(g.b);
        Affine { a: f.a.wrapping_mul(g.a), b }
    }
}

kernel! {
    /// Scans functions, which are 3x + input[i] in thread i, by composition. Writes `a` and `b` of the
    /// warp's inclusive scan to arrays 0 and 1, of the block's exclusive scan to 2 and 3. Then reduces a
    /// tuple in one block reduction: writes the inputs' sum to 4, minimum to 5 and maximum to 6.
    pub fn testing_collectives_own(input: *const u32, output: *mut u32) {
        let out = Arrays::to(output);
        // SAFETY: `input` has one element per thread, `output` seven; all threads call the collectives,
        // and a barrier separates two uses of the scratch memory.
        unsafe {
            let value = *input.add(out.thread);
            let function = Affine { a: 3, b: value };
            let of_warp = warp::inclusive_scan(function, Then);
            let (of_block, _) = block::exclusive_scan(function, Then, scratch());
            sync_threads();
            let (sum, least, greatest) =
                block::all_reduce((u64::from(value), value, value), (Sum, Min, Max), scratch());
            let found = [of_warp.a, of_warp.b, of_block.a, of_block.b, sum as u32, least, greatest];
            let [a, b, c, d, e, f, g] = found;
            out.set(0, a);
            out.set(1, b);
            out.set(2, c);
            out.set(3, d);
            out.set(4, e);
            out.set(5, f);
            out.set(6, g);
        }
    }

    /// Votes on odd elements. Writes the warp's votes to arrays 0 (all), 1 (any) and 2 (ballot), and the
    /// block's votes to 3 (all), 4 (any) and 5 (count).
    pub fn testing_collectives_votes(input: *const u32, output: *mut u32) {
        let out = Arrays::to(output);
        // SAFETY: `input` has one element per thread, `output` six; all threads take part.
        unsafe {
            let odd = *input.add(out.thread) % 2 == 1;
            let members = warp::members();
            out.set(0, warp::warp_vote_all(members, odd).into());
            out.set(1, warp::warp_vote_any(members, odd).into());
            out.set(2, warp::warp_vote_ballot(members, odd));
            out.set(3, u32::from(sync_threads_and(odd.into()) != 0));
            out.set(4, u32::from(sync_threads_or(odd.into()) != 0));
            out.set(5, sync_threads_count(odd.into()));
        }
    }
}
