//! What the library and the suite have each in its own words: names, devices, errors.

use std::sync::Arc;

use warpfold::internal::{self, Ptx, PtxSource, Shape};

use crate::{Arch, DeviceInfo, Dtype, Error, Op, PtxStore};

impl From<Op> for internal::Op {
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

impl From<Dtype> for internal::Dtype {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::I8 => Self::I8,
            Dtype::U8 => Self::U8,
            Dtype::I32 => Self::I32,
            Dtype::U32 => Self::U32,
            Dtype::I64 => Self::I64,
            Dtype::U64 => Self::U64,
            Dtype::F16 => Self::F16,
            Dtype::Bf16 => Self::Bf16,
            Dtype::F32 => Self::F32,
            Dtype::F64 => Self::F64,
        }
    }
}

/// What launches on a device are fitted to.
pub(super) fn shape(info: &DeviceInfo) -> Shape {
    Shape {
        arch: info.arch.into(),
        multiprocessors: info.multiprocessors,
        threads_per_multiprocessor: info.threads_per_multiprocessor,
        blocks_per_multiprocessor: info.blocks_per_multiprocessor,
    }
}

/// The kernels of a store, as the library asks for them.
pub(super) fn source(store: &PtxStore, info: &DeviceInfo) -> PtxSource {
    let (store, info) = (store.clone(), info.clone());
    PtxSource::Given(Arc::new(move |name, _| {
        let file = store.find(name, &info)?;
        let (origin, text) = (file.path.display().to_string(), file.text.into());
        Ok(Ptx { origin, text, arch: file.arch.into() })
    }))
}

/// The library's errors in the suite's, which add what to do in this repository.
impl From<warpfold::Error> for Error {
    fn from(error: warpfold::Error) -> Self {
        use warpfold::Error as Theirs;
        match error {
            Theirs::Driver { device, source, .. } | Theirs::OutOfMemory { device, source, .. } => {
                Self::of_call(&device, *source)
            }
            // What a store could not find is told by the suite's own error.
            Theirs::PtxMissing { name, source, .. } => match source.downcast::<Self>() {
                Ok(ours) => *ours,
                Err(other) => Self::Mismatch { what: "PTX", reason: format!("{name}: {other}") },
            },
            Theirs::PtxRejected { origin, reason, source } => {
                let reason = source.map_or(reason, |source| source.to_string());
                Self::PtxRejected { path: origin.into(), reason }
            }
            Theirs::WrongParameters { origin, entry, takes, passes } => {
                Self::WrongParameters { path: origin.into(), entry, takes, passes }
            }
            Theirs::TooManyElements { n, most } => Self::TooManyElements { n, most },
            Theirs::Choice { reason } => Self::Mismatch { what: "choice", reason },
            other => Self::Mismatch { what: "library", reason: other.to_string() },
        }
    }
}

impl From<Arch> for internal::Arch {
    fn from(arch: Arch) -> Self {
        let (major, minor) = arch.capability();
        Self::new(major, minor)
    }
}

impl From<internal::Arch> for Arch {
    fn from(arch: internal::Arch) -> Self {
        let (major, minor) = arch.capability();
        Self::new(major, minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_are_the_same_on_both_sides() {
        assert_eq!(
            (Op::ALL.len(), Dtype::ALL.len()),
            (internal::Op::ALL.len(), internal::Dtype::ALL.len())
        );
        assert!(Op::ALL.iter().all(|&op| internal::Op::from(op).name() == op.name()));
        for &dtype in Dtype::ALL {
            let theirs = internal::Dtype::from(dtype);
            assert_eq!((theirs.name(), theirs.size()), (dtype.name(), dtype.size() as u64));
        }
        let arch = Arch::new(12, 1);
        assert_eq!(internal::Arch::from(arch).to_string(), arch.to_string());
        assert_eq!(Arch::from(internal::Arch::from(arch)), arch);
    }
}
