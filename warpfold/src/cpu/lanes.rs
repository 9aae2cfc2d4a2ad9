//! Elements into one value, fast: cut in halves for the threads, and in lanes for the vector unit.

use std::ops::Range;

use bytemuck::Pod;

use super::{PER_THREAD, require_threads};

/// Elements that are combined at a time: they fit the first cache.
pub(super) const LEAF: usize = 1 << 12;

/// Lanes that do not wait for each other: several vectors of any element.
const LANES: usize = 32;

/// A way to make one value of elements.
pub(super) trait Fold<T> {
    /// What it is made in.
    type Kept: Copy + Send;
    /// Of [`LEAF`] elements at most, of which the first has this index, and one at least. It must be
    /// inlined, to be compiled for the machine's vectors.
    fn leaf(values: &[T], index: u64) -> Self::Kept;
    /// Of the elements of two, of which the first come before the second.
    fn meet(first: Self::Kept, second: Self::Kept) -> Self::Kept;
}

/// The value of elements, of which there is one at least. It depends on their number how they are cut.
pub(super) fn fold<T: Sync, F: Fold<T>>(values: &[T]) -> F::Kept {
    let part = |part: Range<usize>| leaf::<T, F>(&values[part.clone()], part.start as u64);
    in_halves(0..values.len(), &part, &F::meet)
}

/// The value of elements by two functions, of each leaf and of two neighbouring parts. Whatever these
/// know beside the elements, they are not compiled for the machine's vectors.
pub(super) fn fold_by<T: Sync, K: Send>(
    values: &[T],
    leaf: &(impl Fn(&[T]) -> K + Sync),
    meet: &(impl Fn(K, K) -> K + Sync),
) -> K {
    in_halves(0..values.len(), &|part: Range<usize>| leaf(&values[part]), meet)
}

/// The value of the pairs of two slices of the same length, likewise.
pub(super) fn fold_pairs<T: Pod + Sync, F: Fold<(T, T)>>(first: &[T], second: &[T]) -> F::Kept {
    let part = |part: Range<usize>| {
        let mut pairs = [(T::zeroed(), T::zeroed()); LEAF];
        let both = first[part.clone()].iter().zip(&second[part.clone()]);
        pairs.iter_mut().zip(both).for_each(|(pair, (&first, &second))| *pair = (first, second));
        leaf::<(T, T), F>(&pairs[..part.len()], part.start as u64)
    };
    in_halves(0..first.len(), &part, &F::meet)
}

/// What is made of a range that has something in it: of each [`LEAF`] of it, and of what two
/// neighbouring parts are made to.
fn in_halves<K: Send>(
    range: Range<usize>,
    leaf: &(impl Fn(Range<usize>) -> K + Sync),
    meet: &(impl Fn(K, K) -> K + Sync),
) -> K {
    if range.len() <= LEAF {
        return leaf(range);
    }
    // The first part has as many leaves as is a power of two: at least half of them, and not all.
    let leaves = range.len().div_ceil(LEAF);
    let middle = range.start + leaves.next_power_of_two() / 2 * LEAF;
    let (first, second) = (range.start..middle, middle..range.end);
    let (first, second) = if range.len() > PER_THREAD {
        require_threads();
        rayon::join(|| in_halves(first, leaf, meet), || in_halves(second, leaf, meet))
    } else {
        (in_halves(first, leaf, meet), in_halves(second, leaf, meet))
    };
    meet(first, second)
}

/// [`Fold::leaf`], by wider vectors where the machine has them. The same operations in the same order,
/// and so the same bits.
fn leaf<T, F: Fold<T>>(values: &[T], index: u64) -> F::Kept {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide<T, F: Fold<T>>(values: &[T], index: u64) -> F::Kept {
            F::leaf(values, index)
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has what it needs, as was just asked.
            return unsafe { wide::<T, F>(values, index) };
        }
    }
    F::leaf(values, index)
}

/// Each element into one of several lanes, and these in pairs.
#[inline(always)]
pub(super) fn in_lanes<T: Copy, K: Copy>(
    values: &[T],
    none: K,
    add: impl Fn(K, T) -> K,
    meet: impl Fn(K, K) -> K,
) -> K {
    let mut kept = [none; LANES];
    let mut turns = values.chunks_exact(LANES);
    for turn in &mut turns {
        for (kept, &value) in kept.iter_mut().zip(turn) {
            *kept = add(*kept, value);
        }
    }
    for (kept, &value) in kept.iter_mut().zip(turns.remainder()) {
        *kept = add(*kept, value);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            kept[lane] = meet(kept[lane], kept[lane + width]);
        }
        width /= 2;
    }
    kept[0]
}
