//! The operations of the ladder and of the benchmarks, a subset of the library's.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use warpfold::internal::{self, UnknownName};

use crate::Dtype;

macro_rules! some {
    ($($(#[$attr:meta])* $name:ident,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Op {
            $($(#[$attr])* $name,)*
        }

        impl Op {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the library's operation of this name.
            pub const fn library(self) -> internal::Op {
                match self {
                    $(Self::$name => internal::OpKind::$name.plain(),)*
                }
            }
        }
    };
}

some! {
    /// Sum; integers wrap around.
    Sum,
    /// Smallest element, or NaN if any element is NaN.
    Min,
    /// Largest element, or NaN if any element is NaN.
    Max,
    /// Sum of the elements' squares; integers wrap around.
    SumOfSquares,
    /// Index of the first of the smallest elements, or of the first NaN if there is one.
    ArgMin,
    /// Index of the first of the largest elements, or of the first NaN if there is one.
    ArgMax,
}

impl Op {
    /// Returns the name for users, PTX symbols and files.
    pub const fn name(self) -> &'static str {
        self.library().name()
    }

    /// Returns the operation that combines partial results. The partial results of an index operation
    /// are elements with their indices.
    pub const fn fold(self) -> Self {
        match self {
            Self::SumOfSquares => Self::Sum,
            other => other,
        }
    }

    pub const fn has_empty_value(self) -> bool {
        matches!(self, Self::Sum | Self::SumOfSquares)
    }

    /// Returns the type of the reducer's result for elements of `dtype`: u64 for an index,
    /// [`Dtype::sum`] for sums, otherwise the elements' own type.
    pub const fn result(self, dtype: Dtype) -> Dtype {
        match self {
            Self::ArgMin | Self::ArgMax => Dtype::U64,
            Self::Min | Self::Max => dtype,
            Self::Sum | Self::SumOfSquares => dtype.sum(),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

const NAMES: &[&str] = &{
    let mut names = [""; Op::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Op::ALL[at].name();
        at += 1;
    }
    names
};

impl FromStr for Op {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().copied().find(|op| op.name() == given);
        found.ok_or_else(|| UnknownName { what: "operation", given: given.to_owned(), known: NAMES })
    }
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sums_have_a_value_for_nothing() {
        let having: Vec<Op> = Op::ALL.iter().copied().filter(|op| op.has_empty_value()).collect();
        assert_eq!(having, [Op::Sum, Op::SumOfSquares]);
        assert_eq!(Op::SumOfSquares.fold(), Op::Sum);
        assert!(Op::ALL.iter().all(|op| *op == Op::SumOfSquares || op.fold() == *op));
    }

    #[test]
    fn result_sizes_match_the_library() {
        for (&op, &dtype) in
            Op::ALL.iter().flat_map(|op| Dtype::ALL.iter().map(move |dtype| (op, dtype)))
        {
            let element = if matches!(op, Op::ArgMin | Op::ArgMax) { dtype.size() } else { 0 };
            assert_eq!(
                op.result(dtype).size() + element,
                op.library().result_bytes(dtype),
                "{op} of {dtype}"
            );
        }
    }

    #[test]
    fn operations_are_serialized_by_name() {
        assert_eq!(serde_json::to_string(&Op::ArgMax).unwrap(), "\"argmax\"");
        assert_eq!(serde_json::from_str::<Op>("\"sumsq\"").unwrap(), Op::SumOfSquares);
        let error = serde_json::from_str::<Op>("\"product\"").unwrap_err().to_string();
        assert!(error.contains("unknown operation `product`; there are sum, min, max"), "{error}");
    }
}
