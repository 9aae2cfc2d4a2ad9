//! Conversion of the library's errors to one-line exceptions.

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

create_exception!(
    warpfold,
    ViewError,
    PyValueError,
    "Axes that the library's kernels do not take in place. For the package itself."
);

/// Returns the message of an error, with advice in terms of the Python interface.
fn in_pythons_words(error: &Cause) -> String {
    match error {
        // The source's message ends with the advice.
        Cause::NoDriver { source } => format!("{source}, or give device=\"sim\""),
        Cause::Forked { device } => format!(
            "{device} was used before this process was forked; start processes by multiprocessing's \
             \"spawn\" or \"forkserver\", or use warpfold in the child alone"
        ),
        Cause::TooManyElements { n, most } => {
            format!("{n} elements; a reduction takes at most {most}; reduce parts of the array")
        }
        _ => error.to_string(),
    }
}

pub(crate) fn raise(error: Cause) -> PyErr {
    let mut cause = error.source().filter(|_| !matches!(error, Cause::NoDriver { .. }));
    let mut line = in_pythons_words(&error);
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
        | Cause::Segments { .. }
        | Cause::Interval { .. }
        | Cause::Foreign { .. } => PyValueError::new_err(line),
        Cause::View { .. } => ViewError::new_err(line),
        _ => Error::new_err(line),
    }
}
