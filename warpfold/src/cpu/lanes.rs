//! Reduction of elements to one value: in a tree across threads, and in lanes for the vector unit.

use std::ops::Range;

use bytemuck::Pod;

use super::{PER_THREAD, require_threads};

/// Elements per leaf of the tree: at most 32 KiB, which fits into a usual L1 cache.
pub(super) const LEAF: usize = 1 << 12;

/// Independent accumulators of a leaf, enough for several vectors of any element type.
const LANES: usize = 32;

pub(super) trait Fold<T> {
    type Acc: Copy + Send;
    /// Reduces 1 to [`LEAF`] elements; the first has the index `index`. Implementations must be inlined,
    /// so that [`leaf`] compiles them for AVX2.
    fn leaf(values: &[T], index: u64) -> Self::Acc;
    /// Combines two results; the first is that of earlier elements.
    fn combine(first: Self::Acc, second: Self::Acc) -> Self::Acc;
}

/// Reduces a nonempty slice. The shape of the tree depends only on the number of elements.
pub(super) fn fold<T: Sync, F: Fold<T>>(values: &[T]) -> F::Acc {
    let part = |part: Range<usize>| leaf::<T, F>(&values[part.clone()], part.start as u64);
    tree_reduce(0..values.len(), &part, &F::combine)
}

/// Reduces a nonempty slice: `leaf` reduces each leaf of the tree, `combine` combines neighbouring
/// results. Both may capture values, but are not compiled for AVX2.
pub(super) fn fold_by<T: Sync, K: Send>(
    values: &[T],
    leaf: &(impl Fn(&[T]) -> K + Sync),
    combine: &(impl Fn(K, K) -> K + Sync),
) -> K {
    tree_reduce(0..values.len(), &|part: Range<usize>| leaf(&values[part]), combine)
}

pub(super) fn fold_pairs<T: Pod + Sync, F: Fold<(T, T)>>(first: &[T], second: &[T]) -> F::Acc {
    let part = |part: Range<usize>| {
        let mut pairs = [(T::zeroed(), T::zeroed()); LEAF];
        let both = first[part.clone()].iter().zip(&second[part.clone()]);
        pairs.iter_mut().zip(both).for_each(|(pair, (&first, &second))| *pair = (first, second));
        leaf::<(T, T), F>(&pairs[..part.len()], part.start as u64)
    };
    tree_reduce(0..first.len(), &part, &F::combine)
}

fn tree_reduce<K: Send>(
    range: Range<usize>,
    leaf: &(impl Fn(Range<usize>) -> K + Sync),
    combine: &(impl Fn(K, K) -> K + Sync),
) -> K {
    if range.len() <= LEAF {
        return leaf(range);
    }
    // The number of leaves in the first part is the largest power of two below `leaves`.
    let leaves = range.len().div_ceil(LEAF);
    let middle = range.start + leaves.next_power_of_two() / 2 * LEAF;
    let (first, second) = (range.start..middle, middle..range.end);
    let (first, second) = if range.len() > PER_THREAD {
        require_threads();
        rayon::join(|| tree_reduce(first, leaf, combine), || tree_reduce(second, leaf, combine))
    } else {
        (tree_reduce(first, leaf, combine), tree_reduce(second, leaf, combine))
    };
    combine(first, second)
}

/// Calls [`Fold::leaf`], compiled for AVX2 if the machine has it. The operations and their order are the
/// same, and so are the bits.
fn leaf<T, F: Fold<T>>(values: &[T], index: u64) -> F::Acc {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide<T, F: Fold<T>>(values: &[T], index: u64) -> F::Acc {
            F::leaf(values, index)
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2, as just detected.
            return unsafe { wide::<T, F>(values, index) };
        }
    }
    F::leaf(values, index)
}

/// Accumulates elements in independent lanes, then combines the lanes in a tree.
#[inline(always)]
pub(super) fn in_lanes<T: Copy, K: Copy>(
    values: &[T],
    none: K,
    add: impl Fn(K, T) -> K,
    combine: impl Fn(K, K) -> K,
) -> K {
    let mut accs = [none; LANES];
    let mut chunks = values.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (acc, &value) in accs.iter_mut().zip(chunk) {
            *acc = add(*acc, value);
        }
    }
    for (acc, &value) in accs.iter_mut().zip(chunks.remainder()) {
        *acc = add(*acc, value);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            accs[lane] = combine(accs[lane], accs[lane + width]);
        }
        width /= 2;
    }
    accs[0]
}
