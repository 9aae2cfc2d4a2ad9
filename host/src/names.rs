//! Parses names that users type, with suggestions for unknown ones.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};
use warpfold::internal::UnknownName;

use crate::{Error, Op, Result};

/// Returns the candidate that is most similar to the given name, if any is similar enough.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(given, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

pub fn parse_name<T: FromStr<Err = UnknownName>>(given: &str) -> Result<T> {
    Ok(given.parse()?)
}

impl From<UnknownName> for Error {
    fn from(UnknownName { what, given, known }: UnknownName) -> Self {
        Self::unknown(what, &given, known)
    }
}

impl Error {
    fn unknown(what: &'static str, given: &str, known: &[&'static str]) -> Self {
        let nearest = nearest(given, known.iter().copied());
        let (last, others) = known.split_last().expect("there are names");
        let see = format!("there are {} and {last}", others.join(", ")).into();
        Self::UnknownName { what, given: given.to_owned(), nearest, see }
    }
}

/// A statistic that users can request: an operation of the kernels, or a value that the host derives
/// from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statistic {
    Of(Op),
    Mean,
    /// The Euclidean norm (L2): the root of the sum of squares.
    Norm,
}

impl Statistic {
    pub const ALL: &[Self] = &{
        let mut all = [Self::Mean; Op::ALL.len() + 2];
        let mut at = 0;
        while at < Op::ALL.len() {
            all[at] = Self::Of(Op::ALL[at]);
            at += 1;
        }
        all[at + 1] = Self::Norm;
        all
    };

    /// Returns the name for users and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Of(op) => op.name(),
            Self::Mean => "mean",
            Self::Norm => "norm",
        }
    }

    /// Returns the operation of the kernels that the statistic is derived from.
    pub const fn op(self) -> Op {
        match self {
            Self::Of(op) => op,
            Self::Mean => Op::Sum,
            Self::Norm => Op::SumOfSquares,
        }
    }
}

impl From<Op> for Statistic {
    fn from(op: Op) -> Self {
        Self::Of(op)
    }
}

/// A compiler of kernels to PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codegen {
    /// The NVPTX target of the stock compiler.
    Llvm,
    /// The code generator of rust-cuda, rustc_codegen_nvvm.
    Nvvm,
    /// NVIDIA's nvcc, which compiles the CUDA C twins.
    CudaC,
}

impl Codegen {
    pub const ALL: &[Self] = &[Self::Llvm, Self::Nvvm, Self::CudaC];

    /// Returns the name for users, folders and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llvm => "llvm",
            Self::Nvvm => "nvvm",
            Self::CudaC => "cuda-c",
        }
    }
}

macro_rules! by_name {
    ($($name:ident: $what:literal;)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(given: &str) -> Result<Self> {
                let known: Vec<&'static str> = Self::ALL.iter().map(|value| value.name()).collect();
                let found = Self::ALL.iter().copied().find(|value| value.name() == given);
                found.ok_or_else(|| Error::unknown($what, given, &known))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

by_name! {
    Statistic: "operation";
    Codegen: "code generator";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    #[test]
    fn every_name_parses_to_its_value() {
        for &op in Op::ALL {
            assert_eq!(parse_name::<Op>(op.name()).unwrap(), op);
            // Every operation of the kernels is a statistic.
            assert_eq!(op.name().parse::<Statistic>().unwrap(), Statistic::from(op));
            assert_eq!(Statistic::from(op).op(), op);
        }
        for &statistic in Statistic::ALL {
            assert_eq!(statistic.name().parse::<Statistic>().unwrap(), statistic);
        }
        for &codegen in Codegen::ALL {
            assert_eq!(codegen.name().parse::<Codegen>().unwrap(), codegen);
        }
        for &dtype in Dtype::ALL {
            assert_eq!(parse_name::<Dtype>(dtype.name()).unwrap(), dtype);
            assert_eq!(serde_json::to_string(&dtype).unwrap(), format!("\"{dtype}\""));
        }
    }

    #[test]
    fn unknown_name_error_lists_all_names() {
        let said = |error: Error| error.to_string();
        let error = said(parse_name::<Dtype>("i24").unwrap_err());
        assert!(Dtype::ALL.iter().all(|dtype| error.contains(dtype.name())), "{error}");
        let error = said(parse_name::<Op>("product").unwrap_err());
        assert!(Op::ALL.iter().all(|op| error.contains(op.name())), "{error}");
        let error = said("product".parse::<Statistic>().unwrap_err());
        assert!(Statistic::ALL.iter().all(|statistic| error.contains(statistic.name())), "{error}");
        let error = said(parse_name::<Op>("argmn").unwrap_err());
        assert!(error.contains("did you mean `argmin`?"), "{error}");
    }
}
