//! The parts of kernel names: operations, element types, kinds of kernels.

use std::{error::Error, fmt, str::FromStr};

pub use crate::op::builtin::{Form, Nan, Op, OpKind, Order, Written};

use crate::input::pairs::PartWords;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// The error of an unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The kind of name.
    pub what: &'static str,
    /// The name as given.
    pub given: String,
    /// The known names.
    pub known: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`; there are {}", self.what, self.given, self.known.join(", "))
    }
}

impl Error for UnknownName {}

/// Defines an enum of named values. One table gives its list of values, parser and serialization.
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
            /// All values, in the order of their indices.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name in PTX symbols, files and messages.
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
    /// An operation on pairs: the elements of two buffers with the same index.
    PairOp, "operation on pairs" {
        /// Sum of the products; integers wrap around.
        Dot = "dot",
        /// Sum of the squared differences; integers wrap around.
        SquaredDistance = "sqdist",
        /// Sum of the products of floats, with the same bits on any device.
        BinnedDot = "bindot",
        /// Sum of the squared differences of floats, with the same bits on any device.
        BinnedSquaredDistance = "binsqdist",
        /// One device's part of the sum of products over several devices.
        BinnedDotPart = "bindotpart",
        /// One device's part of the sum of squared differences over several devices.
        BinnedSquaredDistancePart = "binsqdistpart",
    }
}

impl PairOp {
    /// Returns whether elements of this type have the operation.
    pub const fn takes(self, dtype: Dtype) -> bool {
        matches!(self, Self::Dot | Self::SquaredDistance) || dtype.is_float()
    }

    pub(crate) const fn is_part(self) -> bool {
        matches!(self, Self::BinnedDotPart | Self::BinnedSquaredDistancePart)
    }

    /// Returns the size of a result in bytes; for one device's part of a result, its maximum size.
    pub(crate) const fn result_bytes(self, dtype: Dtype) -> usize {
        match self {
            Self::BinnedDotPart | Self::BinnedSquaredDistancePart => size_of::<PartWords>(),
            _ => dtype.sum().size(),
        }
    }

    pub(crate) const fn reproducible(self, dtype: Dtype) -> Self {
        match self {
            Self::Dot if dtype.is_float() => Self::BinnedDot,
            Self::SquaredDistance if dtype.is_float() => Self::BinnedSquaredDistance,
            other => other,
        }
    }

    /// Returns the operation that computes one device's part of a result, or `None` if the results of
    /// several devices can be added directly.
    pub(crate) const fn part(self) -> Option<Self> {
        match self {
            Self::BinnedDot => Some(Self::BinnedDotPart),
            Self::BinnedSquaredDistance => Some(Self::BinnedSquaredDistancePart),
            _ => None,
        }
    }

    /// Returns every operation with every type that it takes.
    pub fn pairs() -> impl Iterator<Item = (Self, Dtype)> + Clone {
        let all = Self::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
        all.filter(|(op, dtype)| op.takes(*dtype))
    }
}

names! {
    /// An operation that counts and adds up the elements inside an interval.
    WithinOp, "sum of an interval" {
        /// The sum; integers wrap around.
        Sum = "sum",
        /// The sum of floats, with the same bits on any device.
        BinnedSum = "binsum",
        /// One device's part of the reproducible sum over several devices.
        BinnedSumPart = "binsumpart",
    }
}

impl WithinOp {
    pub(crate) const fn takes(self, dtype: Dtype) -> bool {
        matches!(self, Self::Sum) || dtype.is_float()
    }

    pub(crate) const fn is_part(self) -> bool {
        matches!(self, Self::BinnedSumPart)
    }

    /// Returns the size of a result in bytes: a count, followed by a sum of two words and a mean, or by
    /// one device's part of a sum at its maximum size.
    pub(crate) const fn result_bytes(self) -> usize {
        size_of::<u64>()
            + match self {
                Self::Sum | Self::BinnedSum => 3 * size_of::<u64>(),
                Self::BinnedSumPart => size_of::<PartWords>(),
            }
    }

    pub(crate) const fn reproducible(self, dtype: Dtype) -> Self {
        match self {
            Self::Sum if dtype.is_float() => Self::BinnedSum,
            other => other,
        }
    }

    pub(crate) const fn part(self) -> Option<Self> {
        match self {
            Self::BinnedSum => Some(Self::BinnedSumPart),
            _ => None,
        }
    }

    pub(crate) fn pairs() -> impl Iterator<Item = (Self, Dtype)> + Clone {
        let all = Self::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
        all.filter(|(op, dtype)| op.takes(*dtype))
    }
}

names! {
    /// The combination of the values of an [expression](crate::op::ExprReduction).
    MapOp, "combination" {
        /// The sum.
        Sum = "mapsum",
        /// The minimum.
        Min = "mapmin",
        /// The maximum.
        Max = "mapmax",
    }
}

names! {
    /// The order in which top-k finds elements.
    TopOp, "order" {
        /// Descending, NaN first.
        Largest = "largest",
        /// Ascending, NaN first.
        Smallest = "smallest",
    }
}

names! {
    /// An element type.
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
        /// IEEE half precision.
        F16 = "f16",
        /// `bfloat16`, with the exponents of single precision.
        Bf16 = "bf16",
        /// IEEE single precision.
        F32 = "f32",
        /// IEEE double precision.
        F64 = "f64",
    }
}

impl Dtype {
    /// Returns whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    pub(crate) const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    pub(crate) const fn unsigned(self) -> Self {
        match self {
            Self::I8 => Self::U8,
            Self::I16 => Self::U16,
            Self::I32 => Self::U32,
            Self::I64 => Self::U64,
            other => other,
        }
    }

    /// Returns the type of the same size whose tuning applies if this one was not measured.
    pub(crate) const fn tuning_proxy(self) -> Self {
        match self {
            Self::I16 | Self::U16 => Self::F16,
            other => other,
        }
    }

    /// Returns the size in bytes of a sum in a wider type than the usual one, if there is one.
    pub(crate) const fn wide_sum_bytes(self) -> Option<usize> {
        match self {
            Self::F16 | Self::Bf16 | Self::F32 => Some(size_of::<f64>()),
            Self::I64 | Self::U64 => Some(size_of::<u128>()),
            Self::I8 | Self::U8 | Self::I16 | Self::U16 | Self::I32 | Self::U32 | Self::F64 => None,
        }
    }
}

names! {
    /// A kernel of the reducer for buffers.
    KernelKind, "kernel" {
        /// Vector loads into registers.
        Grid = "grid",
        /// Bulk copies into shared memory, from compute capability 9.0 on.
        Bulk = "bulk",
    }
}

names! {
    /// A kernel of the reducer for rows.
    RowsKernel, "kernel for rows" {
        /// One block or more per row.
        Grid = "grid",
        /// One warp per row.
        Warp = "warp",
        /// Several lanes of a warp per row, with 16-byte loads.
        Groups = "groups",
        /// Several lanes of a warp per row, element by element.
        Elements = "elements",
        /// Like `Groups`, if the results of all rows do not fit into the L2 cache.
        ManyGroups = "many_groups",
        /// Like `Groups`, with at most one row per lane.
        FewGroups = "few_groups",
        /// Like `Elements`, with at most one row per lane.
        FewElements = "few_elements",
    }
}

names! {
    /// A kernel of the reducer for an axis that is not the last.
    AxisKernel, "kernel for an axis" {
        /// A block reduces a strip of columns, with several elements per load.
        Packs = "packs",
        /// Like `Packs`, with several non-adjacent columns per thread.
        Spaced = "spaced",
        /// Like `Packs`, with one column per thread.
        Singles = "singles",
        /// One thread per column.
        Lanes = "lanes",
    }
}

names! {
    /// A kernel of the reducer for views.
    ViewKernel, "kernel for a view" {
        /// Loads of 16 bytes along a reduced axis.
        Groups = "groups",
        /// Loads of single elements.
        Elements = "elements",
    }
}

names! {
    /// A kernel of the reducer for pairs.
    PairKernel, "kernel for pairs" {
        /// Both buffers have the same offset from a 16-byte boundary.
        Aligned = "aligned",
        /// The buffers have different offsets from a 16-byte boundary.
        Shifted = "shifted",
    }
}

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
    fn per_pair_entries_are_distinct() {
        let mut numbers = PerPair::<usize>::default();
        for (number, (op, dtype)) in Op::pairs().enumerate() {
            *numbers.get_mut(op, dtype) = number;
        }
        assert!(Op::pairs().enumerate().all(|(number, (op, dtype))| *numbers.get(op, dtype) == number));
    }

    #[test]
    fn names_round_trip() {
        assert!(Dtype::ALL.iter().all(|dtype| dtype.name().parse() == Ok(*dtype)));
        assert!(KernelKind::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)));
    }

    #[test]
    fn unknown_name_error_lists_all_names() {
        let error = "i24".parse::<Dtype>().unwrap_err();
        assert!(error.known.iter().copied().eq(Dtype::ALL.iter().map(|dtype| dtype.name())));
    }

    #[test]
    fn tuning_proxy_of_a_dtype_is_its_own_proxy() {
        for &dtype in Dtype::ALL {
            let measured = dtype.tuning_proxy();
            assert_eq!((measured.tuning_proxy(), measured.size()), (measured, dtype.size()), "{dtype}");
        }
        assert_eq!(Dtype::I8.tuning_proxy(), Dtype::I8);
    }
}
