//! What kernels are named by: operations, element types, kinds.

use std::{error::Error, fmt, str::FromStr};

pub use crate::op::builtin::{Nan, Op, OpKind, Order, Written};

use crate::input::pairs::PartWords;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// A name that nothing has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// What kind of name.
    pub what: &'static str,
    /// The name as given.
    pub given: String,
    /// Those that there are.
    pub known: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`; there are {}", self.what, self.given, self.known.join(", "))
    }
}

impl Error for UnknownName {}

/// An enum whose values have names: the list of all, the way back from a name, and what files have for
/// it come from one table.
macro_rules! names {
    (
        $(#[$attr:meta])*
        $name:ident, $what:literal { $($(#[$variant_attr:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
        pub enum $name {
            $($(#[$variant_attr])* #[cfg_attr(feature = "serde", serde(rename = $text))] $variant,)*
        }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name that users, PTX symbols and files have for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(given: &str) -> Result<Self, UnknownName> {
                let found = Self::ALL.iter().copied().find(|value| value.name() == given);
                found.ok_or_else(|| UnknownName {
                    what: $what,
                    given: given.to_owned(),
                    known: &[$($text),*],
                })
            }
        }
    };
}

names! {
    /// What a reduction of pairs computes: of elements of two buffers that have the same index.
    PairOp, "operation on pairs" {
        /// Sum of the products; integers wrap around.
        Dot = "dot",
        /// Sum of the squared differences; integers wrap around.
        SquaredDistance = "sqdist",
        /// Sum of the products of floats, with the same bits wherever it is made.
        BinnedDot = "bindot",
        /// Sum of the squared differences of floats, likewise.
        BinnedSquaredDistance = "binsqdist",
        /// What one of several devices has of the sum of products.
        BinnedDotPart = "bindotpart",
        /// What one of several devices has of the sum of squared differences.
        BinnedSquaredDistancePart = "binsqdistpart",
    }
}

impl PairOp {
    /// Whether elements of this type have it.
    pub const fn takes(self, dtype: Dtype) -> bool {
        matches!(self, Self::Dot | Self::SquaredDistance) || dtype.is_float()
    }

    /// Whether it makes what several devices add up.
    pub(crate) const fn is_part(self) -> bool {
        matches!(self, Self::BinnedDotPart | Self::BinnedSquaredDistancePart)
    }

    /// Bytes of the result that a kernel writes, of parts at most.
    pub(crate) const fn result_bytes(self, dtype: Dtype) -> usize {
        match self {
            Self::BinnedDotPart | Self::BinnedSquaredDistancePart => size_of::<PartWords>(),
            _ => dtype.sum().size(),
        }
    }

    /// The one that has the same bits in whatever order it adds pairs of elements of this type.
    pub(crate) const fn reproducible(self, dtype: Dtype) -> Self {
        match self {
            Self::Dot if dtype.is_float() => Self::BinnedDot,
            Self::SquaredDistance if dtype.is_float() => Self::BinnedSquaredDistance,
            other => other,
        }
    }

    /// The one that makes what several devices add up, where their results may not be added themselves.
    pub(crate) const fn part(self) -> Option<Self> {
        match self {
            Self::BinnedDot => Some(Self::BinnedDotPart),
            Self::BinnedSquaredDistance => Some(Self::BinnedSquaredDistancePart),
            _ => None,
        }
    }

    /// Every operation with every type that it takes.
    pub fn pairs() -> impl Iterator<Item = (Self, Dtype)> + Clone {
        let all = Self::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
        all.filter(|(op, dtype)| op.takes(*dtype))
    }
}

names! {
    /// What is computed of the elements of an interval, beside how many they are.
    WithinOp, "sum of an interval" {
        /// Their sum; that of integers wraps around.
        Sum = "sum",
        /// The sum of floats, with the same bits wherever it is made.
        BinnedSum = "binsum",
        /// What one of several devices has of that.
        BinnedSumPart = "binsumpart",
    }
}

impl WithinOp {
    /// Whether elements of this type have it.
    pub(crate) const fn takes(self, dtype: Dtype) -> bool {
        matches!(self, Self::Sum) || dtype.is_float()
    }

    /// Whether it makes what several devices add up.
    pub(crate) const fn is_part(self) -> bool {
        matches!(self, Self::BinnedSumPart)
    }

    /// Bytes of what a kernel writes, of parts at most: a count, and a sum in two words
    /// and a mean, or a part of a sum.
    pub(crate) const fn result_bytes(self) -> usize {
        size_of::<u64>()
            + match self {
                Self::Sum | Self::BinnedSum => 3 * size_of::<u64>(),
                Self::BinnedSumPart => size_of::<PartWords>(),
            }
    }

    /// The one that has the same bits in whatever order it adds elements of this type.
    pub(crate) const fn reproducible(self, dtype: Dtype) -> Self {
        match self {
            Self::Sum if dtype.is_float() => Self::BinnedSum,
            other => other,
        }
    }

    /// The one that makes what several devices add up, where their results may not be added themselves.
    pub(crate) const fn part(self) -> Option<Self> {
        match self {
            Self::BinnedSum => Some(Self::BinnedSumPart),
            _ => None,
        }
    }

    /// Every one of them with every type that it takes.
    pub(crate) fn pairs() -> impl Iterator<Item = (Self, Dtype)> + Clone {
        let all = Self::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
        all.filter(|(op, dtype)| op.takes(*dtype))
    }
}

names! {
    /// Which elements a search for the first k of them finds.
    TopOp, "order" {
        /// From the largest one on, NaN before all.
        Largest = "largest",
        /// From the smallest one on, NaN before all.
        Smallest = "smallest",
    }
}

names! {
    /// Type of the elements.
    Dtype, "type" {
        /// A signed integer of 8 bits.
        I8 = "i8",
        /// An unsigned integer of 8 bits.
        U8 = "u8",
        /// A signed integer of 16 bits.
        I16 = "i16",
        /// An unsigned integer of 16 bits.
        U16 = "u16",
        /// A signed integer of 32 bits.
        I32 = "i32",
        /// An unsigned integer of 32 bits.
        U32 = "u32",
        /// A signed integer of 64 bits.
        I64 = "i64",
        /// An unsigned integer of 64 bits.
        U64 = "u64",
        /// A float of IEEE half precision.
        F16 = "f16",
        /// A `bfloat16`, with the exponents of single precision.
        Bf16 = "bf16",
        /// A float of IEEE single precision.
        F32 = "f32",
        /// A float of IEEE double precision.
        F64 = "f64",
    }
}

impl Dtype {
    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The type by whose measurements launches are chosen where its own were not measured: one of the
    /// same size.
    pub(crate) const fn measured_as(self) -> Self {
        match self {
            Self::I16 | Self::U16 => Self::F16,
            other => other,
        }
    }

    /// Bytes of a sum in a wider type than the usual one, where there is one.
    pub(crate) const fn wide_sum_bytes(self) -> Option<usize> {
        match self {
            Self::F16 | Self::Bf16 | Self::F32 => Some(size_of::<f64>()),
            Self::I64 | Self::U64 => Some(size_of::<u128>()),
            Self::I8 | Self::U8 | Self::I16 | Self::U16 | Self::I32 | Self::U32 | Self::F64 => None,
        }
    }
}

names! {
    /// Which of the reducer's kernels.
    KernelKind, "kernel" {
        /// Vector loads into registers.
        Grid = "grid",
        /// Bulk copies into shared memory, from compute capability 9.0 on.
        Bulk = "bulk",
    }
}

names! {
    /// Which of the reducer's kernels for rows.
    RowsKernel, "kernel for rows" {
        /// One block or more for each row.
        Grid = "grid",
        /// A warp for each row.
        Warp = "warp",
        /// Lanes of a warp for each row, with 16-byte loads.
        Groups = "groups",
        /// Lanes of a warp for each row, element by element.
        Elements = "elements",
        /// As groups, of rows that have more results than the L2 cache has room for.
        ManyGroups = "many_groups",
        /// As groups, one row for each lane.
        FewGroups = "few_groups",
        /// As elements, one row for each lane.
        FewElements = "few_elements",
    }
}

names! {
    /// Which of the reducer's kernels for an axis that is not the last.
    AxisKernel, "kernel for an axis" {
        /// Blocks for strips of columns, with several elements per load.
        Packs = "packs",
        /// Likewise, with several columns per thread that are apart.
        Spaced = "spaced",
        /// Likewise, with one column per thread.
        Singles = "singles",
        /// A thread for each column.
        Lanes = "lanes",
    }
}

names! {
    /// Which of the reducer's kernels for views.
    ViewKernel, "kernel for a view" {
        /// With 16-byte loads along a reduced axis.
        Groups = "groups",
        /// It takes element by element.
        Elements = "elements",
    }
}

names! {
    /// Which of the reducer's kernels for pairs.
    PairKernel, "kernel for pairs" {
        /// Where both buffers begin equally far from a 16-byte boundary.
        Aligned = "aligned",
        /// Where they do not.
        Shifted = "shifted",
    }
}

/// Something for each operation and type.
#[derive(Debug, Clone)]
pub(crate) struct PerPair<T>([[T; Dtype::ALL.len()]; Op::INDICES]);

impl<T: Default> Default for PerPair<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| T::default())))
    }
}

impl<T> PerPair<T> {
    pub(crate) fn get(&self, op: Op, dtype: Dtype) -> &T {
        &self.0[op.index()][dtype as usize]
    }

    pub(crate) fn get_mut(&mut self, op: Op, dtype: Dtype) -> &mut T {
        &mut self.0[op.index()][dtype as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_place_of_its_own() {
        let mut numbers = PerPair::<usize>::default();
        for (number, (op, dtype)) in Op::pairs().enumerate() {
            *numbers.get_mut(op, dtype) = number;
        }
        assert!(Op::pairs().enumerate().all(|(number, (op, dtype))| *numbers.get(op, dtype) == number));
    }

    #[test]
    fn a_name_leads_back_to_its_value() {
        assert!(Dtype::ALL.iter().all(|dtype| dtype.name().parse() == Ok(*dtype)));
        assert!(KernelKind::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)));
    }

    #[test]
    fn a_wrong_name_is_answered_with_all_that_there_are() {
        let error = "i24".parse::<Dtype>().unwrap_err();
        assert!(error.known.iter().copied().eq(Dtype::ALL.iter().map(|dtype| dtype.name())));
    }

    #[test]
    fn what_was_measured_is_chosen_by_its_own_measurements() {
        for &dtype in Dtype::ALL {
            let measured = dtype.measured_as();
            assert_eq!((measured.measured_as(), measured.size()), (measured, dtype.size()), "{dtype}");
        }
        assert_eq!(Dtype::I8.measured_as(), Dtype::I8);
    }
}
