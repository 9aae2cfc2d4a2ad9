//! What kernels are named by: operations, element types, kinds.

use std::{error::Error, fmt, str::FromStr};

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
    /// What a reduction computes.
    Op, "operation" {
        /// Sum; integers wrap around.
        Sum = "sum",
        /// Smallest element, or NaN if any element is NaN.
        Min = "min",
        /// Largest element, or NaN if any element is NaN.
        Max = "max",
        /// Sum of the elements' squares; integers wrap around.
        SumSq = "sumsq",
        /// Index of the first of the smallest elements, or of the first NaN if there is one.
        ArgMin = "argmin",
        /// Index of the first of the largest elements, or of the first NaN if there is one.
        ArgMax = "argmax",
        /// Sum of the elements' magnitudes.
        SumAbs = "sumabs",
        /// Product; integers wrap around.
        Product = "product",
        /// The smallest element and the largest one.
        MinMax = "minmax",
        /// How many elements are not zero.
        NonZero = "nonzero",
        /// The mean and the variance.
        Spread = "spread",
        /// The bits that all elements have.
        And = "and",
        /// The bits that any element has.
        Or = "or",
        /// The bits that an odd number of elements have.
        Xor = "xor",
        /// Sum of floats, with the same bits wherever it is made.
        BinnedSum = "binsum",
        /// Sum of the squares of floats, with the same bits wherever it is made.
        BinnedSumSq = "binsumsq",
        /// Sum of the magnitudes of floats, with the same bits wherever it is made.
        BinnedSumAbs = "binsumabs",
        /// Logarithm of the sum of floats' exponentials.
        LogSumExp = "logsumexp",
        /// Sum of the floats that are numbers.
        NanSum = "nansum",
        /// Smallest float that is a number, or NaN if there is none.
        NanMin = "nanmin",
        /// Largest float that is a number, or NaN if there is none.
        NanMax = "nanmax",
        /// Index of the first of the smallest numbers, or of the first NaN if there is no number.
        NanArgMin = "nanargmin",
        /// Index of the first of the largest numbers, or of the first NaN if there is no number.
        NanArgMax = "nanargmax",
        /// Mean and variance of the floats that are numbers.
        NanSpread = "nanspread",
        /// How many floats are no numbers.
        NanCount = "nancount",
        /// Sum in a type that is wider than that of the usual sum.
        WideSum = "widesum",
        /// Sum of the squares of the floats that are numbers.
        NanSumSq = "nansumsq",
        /// Sum of the magnitudes of the floats that are numbers.
        NanSumAbs = "nansumabs",
        /// Product of the floats that are numbers.
        NanProduct = "nanproduct",
        /// The smallest float that is a number and the largest one, or NaN both if there is none.
        NanMinMax = "nanminmax",
        /// Sum of the floats that are numbers, with the same bits wherever it is made.
        NanBinnedSum = "nanbinsum",
        /// Sum of the squares of the floats that are numbers, likewise.
        NanBinnedSumSq = "nanbinsumsq",
        /// Sum of the magnitudes of the floats that are numbers, likewise.
        NanBinnedSumAbs = "nanbinsumabs",
        /// Mean and variance of floats, with the same bits wherever they are made.
        BinnedSpread = "binspread",
        /// Mean and variance of the floats that are numbers, likewise.
        NanBinnedSpread = "nanbinspread",
        /// Arithmetic mean, as `f64`.
        Mean = "mean",
        /// L1 norm of integers of 64 bits, as `f64`.
        L1 = "l1",
        /// L2 norm, as `f64`.
        L2 = "l2",
        /// L2 norm of the floats that are numbers, as `f64`.
        NanL2 = "nanl2",
    }
}

impl Op {
    /// Whether elements of this type have it.
    pub const fn takes(self, dtype: Dtype) -> bool {
        match self {
            Self::And | Self::Or | Self::Xor => !dtype.is_float(),
            _ if self.is_binned() => dtype.is_float(),
            Self::LogSumExp | Self::NanCount => dtype.is_float(),
            Self::NanSum | Self::NanSumSq | Self::NanSumAbs | Self::NanProduct => dtype.is_float(),
            Self::NanMin | Self::NanMax | Self::NanMinMax | Self::NanSpread => dtype.is_float(),
            Self::NanArgMin | Self::NanArgMax | Self::NanL2 => dtype.is_float(),
            Self::L1 => !dtype.is_float() && dtype.size() == 8,
            Self::WideSum => dtype.wide_sum_bytes().is_some(),
            _ => true,
        }
    }

    /// Bytes of the result that a kernel writes.
    pub const fn result_bytes(self, dtype: Dtype) -> usize {
        match self {
            Self::Sum | Self::SumSq | Self::SumAbs | Self::Product => dtype.sum().size(),
            Self::BinnedSum | Self::BinnedSumSq | Self::BinnedSumAbs => dtype.sum().size(),
            Self::NanBinnedSum | Self::NanBinnedSumSq | Self::NanBinnedSumAbs => dtype.sum().size(),
            Self::NanSum | Self::NanSumSq | Self::NanSumAbs | Self::NanProduct => dtype.sum().size(),
            Self::LogSumExp => dtype.sum().size(),
            Self::Min | Self::Max | Self::And | Self::Or | Self::Xor => dtype.size(),
            Self::NanMin | Self::NanMax => dtype.size(),
            Self::MinMax | Self::NanMinMax => 2 * dtype.size(),
            Self::ArgMin | Self::ArgMax => size_of::<u64>() + dtype.size(),
            Self::NanArgMin | Self::NanArgMax => size_of::<u64>() + dtype.size(),
            Self::NonZero | Self::NanCount => size_of::<u64>(),
            Self::Spread | Self::NanSpread => 2 * size_of::<f64>(),
            Self::BinnedSpread | Self::NanBinnedSpread => 2 * size_of::<f64>(),
            Self::Mean | Self::L1 | Self::L2 | Self::NanL2 => size_of::<f64>(),
            Self::WideSum => match dtype.wide_sum_bytes() {
                Some(bytes) => bytes,
                None => panic!("elements of this type have no wider sum"),
            },
        }
    }

    /// Whether its result of no elements is zero.
    pub(crate) const fn is_zero_of_none(self) -> bool {
        match self {
            Self::Sum | Self::SumSq | Self::SumAbs | Self::NonZero | Self::Or | Self::Xor => true,
            Self::BinnedSum | Self::BinnedSumSq | Self::BinnedSumAbs => true,
            Self::NanBinnedSum | Self::NanBinnedSumSq | Self::NanBinnedSumAbs => true,
            Self::NanSum | Self::NanSumSq | Self::NanSumAbs | Self::NanCount | Self::WideSum => true,
            Self::L1 | Self::L2 | Self::NanL2 => true,
            Self::Min | Self::Max | Self::ArgMin | Self::ArgMax | Self::MinMax => false,
            Self::NanMin | Self::NanMax | Self::NanArgMin | Self::NanArgMax | Self::NanMinMax => false,
            Self::Product | Self::NanProduct | Self::Spread | Self::NanSpread => false,
            Self::BinnedSpread | Self::NanBinnedSpread | Self::Mean => false,
            Self::And | Self::LogSumExp => false,
        }
    }

    /// Whether it adds in bins, which hold no more than a certain number of terms.
    pub const fn is_binned(self) -> bool {
        let of_all = matches!(self, Self::BinnedSum | Self::BinnedSumSq | Self::BinnedSumAbs);
        let spread = matches!(self, Self::BinnedSpread | Self::NanBinnedSpread);
        let of_numbers =
            matches!(self, Self::NanBinnedSum | Self::NanBinnedSumSq | Self::NanBinnedSumAbs);
        of_all || spread || of_numbers
    }

    /// Whether it adds up products of digits, by which instructions are its limit and not the memory.
    pub(crate) const fn has_products(self) -> bool {
        matches!(self, Self::BinnedSpread | Self::NanBinnedSpread)
    }

    /// Whether its partial results have more words than others, and its kernels more registers.
    pub(crate) fn is_wide(self, dtype: Dtype) -> bool {
        match self {
            _ if self.has_products() => true,
            // Of shorter integers the sums have fewer words.
            Self::Spread => !dtype.is_float() && dtype.size() >= 4,
            _ => false,
        }
    }

    /// Whether its result says where an element is.
    pub(crate) const fn has_places(self) -> bool {
        matches!(self, Self::ArgMin | Self::ArgMax | Self::NanArgMin | Self::NanArgMax)
    }

    /// The operation by whose measurements its launches are chosen: for those that were not measured
    /// themselves, one that loads alike.
    pub(crate) const fn measured_as(self) -> Self {
        match self {
            Self::Sum | Self::Min | Self::Max | Self::SumSq | Self::ArgMin | Self::ArgMax => self,
            Self::MinMax => Self::Min,
            Self::SumAbs | Self::Product | Self::NonZero | Self::Spread => Self::Sum,
            Self::And | Self::Or | Self::Xor => Self::Sum,
            Self::BinnedSum | Self::BinnedSumSq | Self::BinnedSumAbs => Self::Sum,
            Self::NanBinnedSum | Self::NanBinnedSumSq | Self::NanBinnedSumAbs => Self::Sum,
            Self::LogSumExp | Self::NanSum | Self::NanCount => Self::Sum,
            Self::NanSumSq | Self::NanSumAbs | Self::NanProduct => Self::Sum,
            Self::Mean | Self::L1 | Self::L2 | Self::NanL2 => Self::Sum,
            Self::NanSpread | Self::BinnedSpread | Self::NanBinnedSpread | Self::WideSum => Self::Sum,
            Self::NanMin | Self::NanMinMax => Self::Min,
            Self::NanMax => Self::Max,
            Self::NanArgMin => Self::ArgMin,
            Self::NanArgMax => Self::ArgMax,
        }
    }

    /// Whether elements of this type have a result of it that is the same in whatever order they are
    /// combined: its own, or that of [`everywhere`](Self::everywhere).
    pub const fn has_everywhere(self, dtype: Dtype) -> bool {
        match self {
            Self::LogSumExp | Self::NanProduct | Self::NanL2 => false,
            Self::Product | Self::WideSum | Self::Mean | Self::L2 => !dtype.is_float(),
            _ => true,
        }
    }

    /// The one that has the same bits in whatever order it combines elements of this type, of those that
    /// [have](Self::has_everywhere) one.
    pub const fn everywhere(self, dtype: Dtype) -> Self {
        match self {
            Self::Sum if dtype.is_float() => Self::BinnedSum,
            Self::SumSq if dtype.is_float() => Self::BinnedSumSq,
            Self::SumAbs if dtype.is_float() => Self::BinnedSumAbs,
            Self::NanSum => Self::NanBinnedSum,
            Self::NanSumSq => Self::NanBinnedSumSq,
            Self::NanSumAbs => Self::NanBinnedSumAbs,
            Self::Spread if dtype.is_float() => Self::BinnedSpread,
            Self::NanSpread => Self::NanBinnedSpread,
            other => other,
        }
    }

    /// The one that leaves out what is no number, of those that elements of this type have one of.
    pub(crate) const fn skipping_nan(self, dtype: Dtype) -> Self {
        match self {
            _ if !dtype.is_float() => self,
            Self::Sum => Self::NanSum,
            Self::SumSq => Self::NanSumSq,
            Self::SumAbs => Self::NanSumAbs,
            Self::Product => Self::NanProduct,
            Self::Min => Self::NanMin,
            Self::Max => Self::NanMax,
            Self::MinMax => Self::NanMinMax,
            Self::ArgMin => Self::NanArgMin,
            Self::ArgMax => Self::NanArgMax,
            Self::Spread => Self::NanSpread,
            Self::L2 => Self::NanL2,
            Self::BinnedSum => Self::NanBinnedSum,
            Self::BinnedSumSq => Self::NanBinnedSumSq,
            Self::BinnedSumAbs => Self::NanBinnedSumAbs,
            Self::BinnedSpread => Self::NanBinnedSpread,
            other => other,
        }
    }

    /// Every operation with every type that it takes.
    pub fn pairs() -> impl Iterator<Item = (Self, Dtype)> + Clone {
        let all = Self::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
        all.filter(|(op, dtype)| op.takes(*dtype))
    }
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
    pub(crate) const fn everywhere(self, dtype: Dtype) -> Self {
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
    pub(crate) const fn everywhere(self, dtype: Dtype) -> Self {
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
    const fn wide_sum_bytes(self) -> Option<usize> {
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
pub(crate) struct PerPair<T>([[T; Dtype::ALL.len()]; Op::ALL.len()]);

impl<T: Default> Default for PerPair<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| T::default())))
    }
}

impl<T> PerPair<T> {
    pub(crate) fn get(&self, op: Op, dtype: Dtype) -> &T {
        &self.0[op as usize][dtype as usize]
    }

    pub(crate) fn get_mut(&mut self, op: Op, dtype: Dtype) -> &mut T {
        &mut self.0[op as usize][dtype as usize]
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
        assert!(Op::ALL.iter().all(|op| op.name().parse() == Ok(*op)));
        assert!(Dtype::ALL.iter().all(|dtype| dtype.name().parse() == Ok(*dtype)));
        assert!(KernelKind::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)));
    }

    #[test]
    fn a_wrong_name_is_answered_with_all_that_there_are() {
        let error = "i24".parse::<Dtype>().unwrap_err();
        assert!(error.known.iter().copied().eq(Dtype::ALL.iter().map(|dtype| dtype.name())));
        let error = "median".parse::<Op>().unwrap_err().to_string();
        let said =
            "unknown operation `median`; there are sum, min, max, sumsq, argmin, argmax, sumabs, ";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn sums_of_integers_have_64_bits_and_no_result_more_than_its_place() {
        use warpfold_abi::reducer::OUTPUT_BYTES;
        for (op, dtype) in Op::pairs() {
            let bytes = op.result_bytes(dtype);
            assert!(bytes > 0 && bytes as u64 <= OUTPUT_BYTES, "{op} of {dtype}");
            let sum = Op::Sum.result_bytes(dtype);
            assert_eq!(sum, if dtype.is_float() { dtype.size().max(4) } else { 8 }, "{dtype}");
            assert_eq!(dtype.sum().is_float(), dtype.is_float(), "{dtype}");
        }
        assert_eq!((Dtype::I8.sum(), Dtype::U32.sum()), (Dtype::I64, Dtype::U64));
    }

    #[test]
    fn some_operations_are_of_integers_or_of_floats_alone() {
        let lacking = |op: &&Op| Dtype::ALL.iter().any(|dtype| !op.takes(*dtype));
        assert_eq!(Op::ALL.iter().copied().filter(|op| lacking(&op)).count(), 3 + 5 + 15 + 1 + 2);
        assert!(!Op::Xor.takes(Dtype::Bf16) && Op::Xor.takes(Dtype::I64));
        assert!(Op::BinnedSum.takes(Dtype::Bf16) && !Op::LogSumExp.takes(Dtype::I64));
        let lacking = 3 * 4 + (5 + 15 + 1) * 8 + 7 + 10;
        assert_eq!(Op::pairs().count(), Op::ALL.len() * Dtype::ALL.len() - lacking);
    }

    #[test]
    fn what_was_measured_is_chosen_by_its_own_measurements() {
        assert!(Op::ALL.iter().all(|op| op.measured_as().measured_as() == op.measured_as()));
        assert_eq!(Op::Max.measured_as(), Op::Max);
        for &dtype in Dtype::ALL {
            let measured = dtype.measured_as();
            assert_eq!((measured.measured_as(), measured.size()), (measured, dtype.size()), "{dtype}");
        }
        assert_eq!(Dtype::I8.measured_as(), Dtype::I8);
    }
}
