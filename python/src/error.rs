//! Errors of the library as exceptions, each in one line.

use std::error::Error as _;

use pyo3::{
    PyErr, create_exception,
    exceptions::{PyRuntimeError, PyValueError},
};
use warpfold::Error as Cause;

create_exception!(
    warpfold,
    Error,
    PyRuntimeError,
    "What a device, its driver or a kernel has failed with. What a caller has given wrong is a `ValueError` \
     or a `TypeError` instead."
);

/// The exception for an error of the library's.
pub(crate) fn raise(error: Cause) -> PyErr {
    let (mut line, mut cause) = (error.to_string(), error.source());
    while let Some(source) = cause {
        line = format!("{line}: {source}");
        cause = source.source();
    }
    match error {
        Cause::OtherDevice { .. }
        | Cause::TooManyElements { .. }
        | Cause::OutOfBounds { .. }
        | Cause::NoElements { .. }
        | Cause::Rows { .. }
        | Cause::Axis { .. }
        | Cause::View { .. }
        | Cause::Segments { .. }
        | Cause::Interval { .. }
        | Cause::Foreign { .. } => PyValueError::new_err(line),
        _ => Error::new_err(line),
    }
}
