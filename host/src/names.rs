//! Names that a user types: operations, element types, architectures.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{Error, Result};

/// The candidate that is closest to what was typed, if one is close.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(given, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

/// An enum whose values are names: parsing, display, JSON and the list of all from one table.
macro_rules! names {
    (
        $(#[$attr:meta])*
        $name:ident, $what:literal, $see:literal {
            $($(#[$variant_attr:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_attr])* $variant,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name that users, PTX symbols and JSON have for it.
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
            type Err = Error;

            fn from_str(given: &str) -> Result<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == given).ok_or_else(|| {
                    Error::UnknownName {
                        what: $what,
                        given: given.to_owned(),
                        nearest: nearest(given, Self::ALL.iter().map(|value| value.name())),
                        see: $see,
                    }
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

names! {
    /// What a reduction computes.
    Op, "operation", "there are sum, min, max, sumsq, argmin and argmax" {
        /// Sum; integers wrap around.
        Sum = "sum",
        /// Smallest element; NaN if there is one.
        Min = "min",
        /// Largest element; NaN if there is one.
        Max = "max",
        /// Sum of the elements' squares; integers wrap around.
        SumSq = "sumsq",
        /// Index of the first of the smallest elements; of the first NaN if there is one.
        ArgMin = "argmin",
        /// Index of the first of the largest elements; of the first NaN if there is one.
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

    /// Type of the reducer's result for elements of `dtype`: u64 for an index, the elements' own for an
    /// extreme, and for a sum what the elements are added in: i64 or u64 for integers, f32 for f16 and
    /// bf16. The other variants add integers in their own type, where they wrap around.
    pub const fn result(self, dtype: Dtype) -> Dtype {
        match (self, dtype) {
            (Self::ArgMin | Self::ArgMax, _) => Dtype::U64,
            (Self::Min | Self::Max, own) => own,
            (Self::Sum | Self::SumSq, Dtype::I8 | Dtype::I32) => Dtype::I64,
            (Self::Sum | Self::SumSq, Dtype::U8 | Dtype::U32) => Dtype::U64,
            (Self::Sum | Self::SumSq, Dtype::F16 | Dtype::Bf16) => Dtype::F32,
            (Self::Sum | Self::SumSq, own) => own,
        }
    }
}

names! {
    /// What a user asks of a reduction: an operation of the kernels, or what the host makes of one.
    Statistic, "operation", "there are sum, min, max, sumsq, argmin, argmax, mean and norm" {
        /// [`Op::Sum`]
        Sum = "sum",
        /// [`Op::Min`]
        Min = "min",
        /// [`Op::Max`]
        Max = "max",
        /// [`Op::SumSq`]
        SumSq = "sumsq",
        /// [`Op::ArgMin`]
        ArgMin = "argmin",
        /// [`Op::ArgMax`]
        ArgMax = "argmax",
        /// Arithmetic mean: the sum over the number of elements.
        Mean = "mean",
        /// Euclidean norm (L2): the root of the sum of squares.
        Norm = "norm",
    }
}

impl Statistic {
    /// The kernels' operation that it is made from.
    pub const fn op(self) -> Op {
        match self {
            Self::Sum | Self::Mean => Op::Sum,
            Self::Min => Op::Min,
            Self::Max => Op::Max,
            Self::SumSq | Self::Norm => Op::SumSq,
            Self::ArgMin => Op::ArgMin,
            Self::ArgMax => Op::ArgMax,
        }
    }
}

impl From<Op> for Statistic {
    fn from(op: Op) -> Self {
        match op {
            Op::Sum => Self::Sum,
            Op::Min => Self::Min,
            Op::Max => Self::Max,
            Op::SumSq => Self::SumSq,
            Op::ArgMin => Self::ArgMin,
            Op::ArgMax => Self::ArgMax,
        }
    }
}

names! {
    /// Type of the elements.
    Dtype, "type", "there are i8, u8, i32, u32, i64, u64, f16, bf16, f32 and f64" {
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
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }
}

names! {
    /// What compiles kernels to PTX.
    Codegen, "code generator", "there are llvm, nvvm and, for the twins, cuda-c" {
        /// The NVPTX target of the stock compiler.
        Llvm = "llvm",
        /// rust-cuda's rustc_codegen_nvvm.
        Nvvm = "nvvm",
        /// NVIDIA's nvcc, which compiles the CUDA C twins.
        CudaC = "cuda-c",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_what_it_names() {
        for &op in Op::ALL {
            assert_eq!(op.name().parse::<Op>().unwrap(), op);
            // What the kernels have, a user may ask for.
            assert_eq!(op.name().parse::<Statistic>().unwrap(), Statistic::from(op));
            assert_eq!(Statistic::from(op).op(), op);
        }
        for &dtype in Dtype::ALL {
            assert_eq!(dtype.name().parse::<Dtype>().unwrap(), dtype);
            assert_eq!(serde_json::to_string(&dtype).unwrap(), format!("\"{dtype}\""));
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_all_that_there_are() {
        let said = |error: Error| error.to_string();
        let error = said("i16".parse::<Dtype>().unwrap_err());
        assert!(Dtype::ALL.iter().all(|dtype| error.contains(dtype.name())), "{error}");
        let error = said("product".parse::<Op>().unwrap_err());
        assert!(Op::ALL.iter().all(|op| error.contains(op.name())), "{error}");
        let error = said("product".parse::<Statistic>().unwrap_err());
        assert!(Statistic::ALL.iter().all(|statistic| error.contains(statistic.name())), "{error}");
        let error = said("argmn".parse::<Op>().unwrap_err());
        assert!(error.contains("did you mean `argmin`?"), "{error}");
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
