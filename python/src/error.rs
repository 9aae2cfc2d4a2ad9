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
    "An error of a device, its driver or a kernel. Invalid arguments raise a `ValueError` or a \
     `TypeError` instead."
);

create_exception!(
    warpfold,
    ViewError,
    PyValueError,
    "An error for axes that the library's kernels cannot reduce in place. For the package itself."
);

/// Formats an error with advice in terms of the Python interface.
fn python_message(error: &Cause) -> String {
    match error {
        // The source's message ends with advice; this adds another choice.
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
    let mut line = python_message(&error);
    while let Some(source) = cause {
        line = format!("{line}: {source}");
        cause = source.source();
    }
    match error {
        Cause::OtherDevice { .. }
        | Cause::TooManyElements { .. }
        | Cause::Expression { .. }
        | Cause::OutOfBounds { .. }
        | Cause::NoElements { .. }
        | Cause::Rows { .. }
        | Cause::Axis { .. }
        | Cause::Segments { .. }
        | Cause::Interval { .. }
        | Cause::Pairs { .. }
        | Cause::TopK { .. }
        | Cause::Foreign { .. } => PyValueError::new_err(line),
        Cause::View { .. } => ViewError::new_err(line),
        _ => Error::new_err(line),
    }
}
