//! What kernels are named by: operations, element types, kinds.

use std::{error::Error, fmt, str::FromStr};

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
    }
}

impl Op {
    /// The operation that combines partial results of this one. Those of an index are elements, each
    /// with its index.
    pub const fn fold(self) -> Self {
        match self {
            Self::SumSq => Self::Sum,
            other => other,
        }
    }

    /// Whether it has a value for no elements at all.
    pub const fn has_empty_value(self) -> bool {
        matches!(self, Self::Sum | Self::SumSq)
    }

    /// Type of the reducer's result for elements of `dtype`: u64 for an index, for sums [`Dtype::sum`], else the
    /// elements' own.
    pub const fn result(self, dtype: Dtype) -> Dtype {
        match self {
            Self::ArgMin | Self::ArgMax => Dtype::U64,
            Self::Min | Self::Max => dtype,
            Self::Sum | Self::SumSq => dtype.sum(),
        }
    }
}

names! {
    /// Type of the elements.
    Dtype, "type" {
        /// 8-bit signed integer.
        I8 = "i8",
        /// 8-bit unsigned integer.
        U8 = "u8",
        /// 32-bit signed integer.
        I32 = "i32",
        /// 32-bit unsigned integer.
        U32 = "u32",
        /// 64-bit signed integer.
        I64 = "i64",
        /// 64-bit unsigned integer.
        U64 = "u64",
        /// IEEE half precision.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
        /// IEEE single precision.
        F32 = "f32",
        /// IEEE double precision.
        F64 = "f64",
    }
}

impl Dtype {
    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
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
pub(crate) fn pairs() -> impl Iterator<Item = (Op, Dtype)> {
    Op::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_place_of_its_own() {
        let mut numbers = PerPair::<usize>::default();
        for (number, (op, dtype)) in pairs().enumerate() {
            *numbers.get_mut(op, dtype) = number;
        }
        assert!(pairs().enumerate().all(|(number, (op, dtype))| *numbers.get(op, dtype) == number));
    }

    #[test]
    fn a_name_leads_back_to_its_value() {
        assert!(Op::ALL.iter().all(|op| op.name().parse() == Ok(*op)));
        assert!(Dtype::ALL.iter().all(|dtype| dtype.name().parse() == Ok(*dtype)));
        assert!(KernelKind::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)));
    }

    #[test]
    fn a_wrong_name_is_answered_with_all_that_there_are() {
        let error = "i16".parse::<Dtype>().unwrap_err();
        assert!(error.known.iter().copied().eq(Dtype::ALL.iter().map(|dtype| dtype.name())));
        let error = "product".parse::<Op>().unwrap_err().to_string();
        let said = "unknown operation `product`; there are sum, min, max, sumsq, argmin, argmax";
        assert_eq!(error, said);
    }

    #[test]
    fn sums_of_integers_and_indices_have_64_bits() {
        for &dtype in Dtype::ALL {
            for op in [Op::Min, Op::Max] {
                assert_eq!(op.result(dtype), dtype);
            }
            for op in [Op::ArgMin, Op::ArgMax] {
                assert_eq!(op.result(dtype), Dtype::U64);
            }
            assert_eq!(Op::Sum.result(dtype), Op::SumSq.result(dtype));
            let sum = Op::Sum.result(dtype);
            assert_eq!(sum.size(), if dtype.is_float() { dtype.size().max(4) } else { 8 }, "{dtype}");
            assert_eq!(sum.is_float(), dtype.is_float(), "{dtype}");
        }
        assert_eq!(Op::Sum.result(Dtype::I8), Dtype::I64);
        assert_eq!(Op::Sum.result(Dtype::U32), Dtype::U64);
        assert_eq!(Op::SumSq.result(Dtype::Bf16), Dtype::F32);
    }

    #[test]
    fn only_sums_have_a_value_for_nothing() {
        let having: Vec<Op> = Op::ALL.iter().copied().filter(|op| op.has_empty_value()).collect();
        assert_eq!(having, [Op::Sum, Op::SumSq]);
        assert_eq!(Op::SumSq.fold(), Op::Sum);
        assert!(Op::ALL.iter().all(|op| *op == Op::SumSq || op.fold() == *op));
    }
}
