//! The axes of a view in the form that reductions need: merged where possible, and sorted if their order
//! is free.

use std::cmp::Reverse;

use super::{MOST_AXES, refused};
use crate::Result;

/// The maximum number of reduced axes that the kernels take, and the maximum number of other axes. Both
/// include the outermost axis, whose length the kernels do not need.
pub(super) const MOST_ON_DEVICE: usize = 3;

/// The maximum number of results, and of positions on a reduced axis that is not the outermost one.
const MOST_POSITIONS: u64 = 1 << 31;

/// An axis of more than one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) len: u64,
    /// Elements from one position to the next.
    pub(crate) stride: u64,
    /// Results from one position to the next; 0 for a reduced axis.
    pub(crate) output: u64,
}

impl Dim {
    const ONE: Self = Self { len: 1, stride: 1, output: 0 };
}

/// At most `MOST` axes, slowest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axes<const MOST: usize> {
    count: usize,
    dims: [Dim; MOST],
    reduced: bool,
}

impl Axes<MOST_AXES> {
    /// Returns the axes with these lengths and strides, slowest first, merged where possible. There is
    /// at least one axis if `reduced`.
    pub(super) fn new(axes: impl DoubleEndedIterator<Item = (u64, u64)> + Clone, reduced: bool) -> Self {
        let mut own = Self { count: 0, dims: [Dim::ONE; MOST_AXES], reduced };
        let mut output = if reduced { 0 } else { 1 };
        for (to, (len, stride)) in own.dims.iter_mut().zip(axes.rev()) {
            *to = Dim { len, stride, output };
            // The product is less than 2^64 unless there are no elements.
            output = output.saturating_mul(len);
            own.count += 1;
        }
        own.dims[..own.count].reverse();
        own.merged()
    }

    /// Removes axes of one position, and merges neighbouring axes whose positions are equally spaced.
    fn merged(&self) -> Self {
        let mut merged = Self { count: 0, ..*self };
        for &dim in self.as_slice().iter().filter(|dim| dim.len != 1) {
            let outer = merged.dims[..merged.count].last_mut();
            match outer.filter(|outer| follows(outer, &dim)) {
                Some(outer) => *outer = Dim { len: outer.len * dim.len, ..dim },
                None => {
                    merged.dims[merged.count] = dim;
                    merged.count += 1;
                }
            }
        }
        if self.reduced && merged.count == 0 {
            (merged.count, merged.dims[0]) = (1, Dim::ONE);
        }
        merged
    }

    /// Sorts the axes by their strides, largest first, which changes the order of the positions.
    pub(super) fn by_strides(mut self) -> Self {
        self.dims[..self.count].sort_by_key(|dim| Reverse(dim.stride));
        self.merged()
    }

    pub(super) fn on_device(self) -> Result<Axes<MOST_ON_DEVICE>> {
        let (count, kind) = (self.count, if self.reduced { "reduced" } else { "result" });
        if count > MOST_ON_DEVICE {
            return refused(format!(
                "the view has {count} {kind} axes that cannot be merged; give a view with \
                 {MOST_ON_DEVICE} of them at most, or reduce it in two steps"
            ));
        }
        let most = if self.reduced {
            let inner = self.as_slice().get(1..).unwrap_or_default();
            inner.iter().map(|dim| dim.len).max().unwrap_or(0)
        } else {
            self.positions()
        };
        if most > MOST_POSITIONS {
            return refused(format!(
                "the view has {most} positions on {kind} axes that cannot be merged; give \
                 {MOST_POSITIONS} at most, or reduce parts of the view"
            ));
        }
        let mut dims = [Dim::ONE; MOST_ON_DEVICE];
        dims[..count].copy_from_slice(self.as_slice());
        Ok(Axes { count, dims, reduced: self.reduced })
    }
}

impl<const MOST: usize> Axes<MOST> {
    pub(crate) fn as_slice(&self) -> &[Dim] {
        &self.dims[..self.count]
    }

    pub(crate) fn positions(&self) -> u64 {
        self.as_slice().iter().fold(1, |all, dim| all.saturating_mul(dim.len))
    }

    pub(crate) fn fastest(&self) -> Option<&Dim> {
        self.as_slice().last()
    }
}

impl Axes<MOST_ON_DEVICE> {
    /// Returns the axes in the order in which the kernels count positions, like digits of a number: the
    /// fastest first, in units of `unit` elements, which must divide its length, and the slowest last.
    /// The slowest has length 1, because the kernels do not need its length. Missing axes are like it.
    pub(crate) fn digits(&self, unit: u64) -> [Dim; MOST_ON_DEVICE] {
        let Self { mut count, mut dims, .. } = *self;
        if let Some(fastest) = dims[..count].last_mut() {
            (fastest.len, fastest.stride) = (fastest.len / unit, fastest.stride * unit);
            // An axis of a single unit is left out, unless it is the only one.
            count -= usize::from(fastest.len == 1 && count > 1);
        }
        let (outer, inner) = match &dims[..count] {
            [] => (Dim::ONE, [].as_slice()),
            [outer, inner @ ..] => (*outer, inner),
        };
        let mut digits = [Dim { len: 1, ..outer }; MOST_ON_DEVICE];
        for (digit, dim) in digits.iter_mut().zip(inner.iter().rev()) {
            *digit = *dim;
        }
        digits
    }
}

/// Returns whether the positions of two neighbouring axes are equally spaced, like those of one axis.
fn follows(outer: &Dim, inner: &Dim) -> bool {
    let whole = |each: u64| each.checked_mul(inner.len);
    whole(inner.stride) == Some(outer.stride) && whole(inner.output) == Some(outer.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(reduced: bool, axes: &[(u64, u64)]) -> Axes<MOST_AXES> {
        Axes::new(axes.iter().copied(), reduced)
    }

    fn found(axes: &Axes<MOST_AXES>) -> Vec<(u64, u64, u64)> {
        axes.as_slice().iter().map(|dim| (dim.len, dim.stride, dim.output)).collect()
    }

    #[test]
    fn contiguous_neighbours_are_one_axis() {
        assert_eq!(found(&axes(true, &[(2, 12), (3, 4), (4, 1)])), [(24, 1, 0)]);
        assert_eq!(found(&axes(true, &[(2, 24), (3, 4), (4, 1)])), [(2, 24, 0), (12, 1, 0)]);
        assert_eq!(found(&axes(false, &[(2, 12), (3, 4), (4, 1)])), [(24, 1, 1)]);
        // Axes in reversed order are merged only after a sort by stride, and only if they are reduced.
        let back = [(4, 1), (3, 4), (2, 12)];
        assert_eq!(axes(true, &back).as_slice().len(), 3);
        assert_eq!(found(&axes(true, &back).by_strides()), [(24, 1, 0)]);
        // Axes of results are not merged, because the results must keep their order.
        let sorted = axes(false, &back).by_strides();
        assert_eq!(found(&sorted), [(2, 12, 1), (3, 4, 2), (4, 1, 6)]);
    }

    #[test]
    fn axes_of_length_one_are_dropped_except_the_last_reduced() {
        assert_eq!(found(&axes(false, &[(1, 7), (5, 3), (1, 2)])), [(5, 3, 1)]);
        assert_eq!(found(&axes(false, &[(1, 7)])), []);
        assert_eq!(found(&axes(true, &[(1, 7), (1, 9)])), [(1, 1, 0)]);
    }

    #[test]
    fn unsupported_axes_are_a_one_line_error() {
        let says = |axes: Axes<MOST_AXES>, what: &str| {
            let said = axes.on_device().unwrap_err().to_string();
            assert!(said.contains(what) && !said.contains('\n'), "{said}");
        };
        let many = [(2, 70), (2, 40), (2, 10), (2, 1)];
        says(axes(false, &many), "4 result axes");
        says(axes(true, &many), "4 reduced axes");
        assert!(axes(false, &many[1..]).on_device().is_ok());
        let long = [(2, 1 << 34), ((1 << 31) + 1, 1)];
        says(axes(true, &long), "2147483649 positions on reduced axes");
        says(axes(false, &long[1..]), "2147483649 positions on result axes");
        assert!(axes(true, &[(2, 1 << 34), (1 << 31, 1)]).on_device().is_ok());
        assert!(axes(true, &[((1 << 31) + 1, 2)]).on_device().is_ok());
        assert!(axes(false, &[(1 << 31, 2)]).on_device().is_ok());
    }

    #[test]
    fn digits_begin_with_the_fastest_axis_and_end_with_the_slowest() {
        let all = |axes: &Axes<MOST_AXES>, unit| {
            axes.on_device().unwrap().digits(unit).map(|dim| (dim.len, dim.stride))
        };
        let three = axes(true, &[(5, 1000), (6, 100), (8, 1)]);
        assert_eq!(all(&three, 1), [(8, 1), (6, 100), (1, 1000)]);
        assert_eq!(all(&three, 4)[0], (2, 4));
        // An axis of a single unit is omitted if there are others.
        assert_eq!(all(&three, 8), [(6, 100), (1, 1000), (1, 1000)]);
        let one = axes(true, &[(8, 1)]);
        assert_eq!(all(&one, 8)[2], (1, 8));
    }
}
