//! Conversions from the suite's devices to the library's, and from the library's errors to the suite's.

use std::sync::Arc;

use warpfold::internal::{Ptx, PtxSource, Shape};

use crate::{DeviceInfo, Error, PtxStore};

pub(super) fn shape(info: &DeviceInfo) -> Shape {
    Shape {
        arch: info.arch,
        multiprocessors: info.multiprocessors,
        threads_per_multiprocessor: info.threads_per_multiprocessor,
        blocks_per_multiprocessor: info.blocks_per_multiprocessor,
        l2_bytes: info.l2_bytes,
    }
}

pub(super) fn source(store: &PtxStore, info: &DeviceInfo) -> PtxSource {
    let (store, info) = (store.clone(), info.clone());
    PtxSource::Given(Arc::new(move |name, _| {
        let file = store.find(name, &info)?;
        let (origin, text) = (file.path.display().to_string(), file.text.into());
        Ok(Ptx { origin, text, arch: file.arch })
    }))
}

impl From<warpfold::Error> for Error {
    fn from(error: warpfold::Error) -> Self {
        use warpfold::Error as Theirs;
        match error {
            Theirs::Driver { device, source, .. } | Theirs::OutOfMemory { device, source, .. } => {
                Self::of_call(&device, *source)
            }
            // The suite's `PtxStore` has reported the failed lookup as an error of the suite.
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
