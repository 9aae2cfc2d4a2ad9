//! Errors, each with a one-line message.

use std::borrow::Cow;
use std::ffi::c_int;
use std::path::PathBuf;

use thiserror::Error;

use crate::sys::Code;

/// The file name of the driver library in every NVIDIA driver for Linux.
pub const LIBRARY: &str = "libcuda.so.1";

/// The environment variable that, when set and not empty, names the only library that
/// [`Driver::load`](crate::Driver::load) tries.
pub const PATH_VARIABLE: &str = "WARPFOLD_LIBCUDA";

/// The reason why no driver was loaded.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// Neither the dynamic linker's search nor the usual directories yielded a driver.
    #[error(
        "no CUDA driver: {}{}; install the NVIDIA driver, or set {PATH_VARIABLE} to the path of its \
         {LIBRARY}",
        refused.join("; "),
        absence(absent)
    )]
    NotFound {
        /// A message for each unusable library that was found, the dynamic linker's first.
        refused: Vec<String>,
        /// The usual directories that have no `libcuda.so.1`.
        absent: Vec<PathBuf>,
    },

    /// The requested file is not a usable driver.
    #[error(
        "no CUDA driver: {reason}; {} the {LIBRARY} of an NVIDIA driver",
        if *from_environment {
            format!("unset {PATH_VARIABLE}, or set it to the path of")
        } else {
            "name".to_owned()
        }
    )]
    Unusable {
        /// The file that was tried.
        path: PathBuf,
        /// The file's name and the problem.
        reason: String,
        /// Set if [`PATH_VARIABLE`] named the file.
        from_environment: bool,
    },

    /// The provided functions do not form a usable driver.
    #[error("no CUDA driver: {name}: {reason}; provide the functions of a CUDA driver")]
    Provided {
        /// The provider's name.
        name: String,
        /// The problem.
        reason: String,
    },

    /// No driver can be loaded on this system.
    #[error("no CUDA driver: {reason}; run on Linux, or use a driver that a program provides")]
    NoDriverHere {
        /// The reason.
        reason: &'static str,
    },

    /// The `cu*` symbols are already bound to another driver.
    #[error("cannot bind the cu* symbols to {asked}: they are bound to {bound} already; bind only one")]
    AlreadyBound {
        /// The driver that the symbols are bound to.
        bound: String,
        /// The requested driver.
        asked: String,
    },
}

fn absence(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return String::new();
    }
    let names: Vec<_> = folders.iter().map(|path| path.to_string_lossy()).collect();
    format!("; no {LIBRARY} in {}", names.join(", "))
}

/// A driver call that returned an error.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{call} failed: {text} ({name}, {code}){}", more(detail.as_deref()))]
pub struct CallError {
    /// The function that was called.
    pub call: &'static str,
    /// The code that the function returned.
    pub code: c_int,
    /// The name of the code, such as `CUDA_ERROR_INVALID_VALUE`.
    pub name: Cow<'static, str>,
    /// The meaning of the code.
    pub text: Cow<'static, str>,
    /// Further detail, such as the location in the PTX of a simulated kernel, or a compiler's message.
    pub detail: Option<String>,
}

impl CallError {
    /// Creates an error that is detected before the driver is called.
    pub(crate) fn with_detail(call: &'static str, code: c_int, detail: String) -> Self {
        let known = Code::of(code).expect("one of the list");
        let (name, text) = (known.name().into(), known.text().into());
        Self { call, code, name, text, detail: Some(detail) }
    }

    /// Returns whether the error is sticky: every later call in the context returns it again, and the
    /// contents of the context's memory are lost. A code that this crate does not know is not sticky.
    pub fn is_sticky(&self) -> bool {
        Code::of(self.code).is_some_and(|code| code.is_sticky)
    }
}

fn more(detail: Option<&str>) -> String {
    detail.map_or_else(String::new, |detail| format!(": {detail}"))
}

/// The error for PTX that the driver rejected.
#[derive(Clone, Debug, Error)]
#[error("{error}")]
pub struct PtxError {
    /// The error of the load call, with the compiler's first error message as its detail.
    pub error: CallError,
    /// The complete compiler log, usually several lines; empty if there is none.
    pub log: String,
}

impl PtxError {
    pub(crate) fn new(mut error: CallError, log: String) -> Self {
        if let Some(complaint) = first_complaint(&log) {
            error.detail = Some(complaint.to_owned());
        }
        Self { error, log }
    }
}

impl From<PtxError> for CallError {
    fn from(error: PtxError) -> Self {
        error.error
    }
}

fn first_complaint(log: &str) -> Option<&str> {
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next();
    lines.find(|line| line.contains("error")).or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_were_looked_in_are_listed() {
        let error =
            |absent| DriverError::NotFound { refused: vec!["libcuda.so.1: bad".to_owned()], absent };
        let none = error(Vec::new()).to_string();
        assert!(none.starts_with("no CUDA driver: libcuda.so.1: bad; install"), "{none}");
        let two = error(vec!["/a".into(), "/b".into()]).to_string();
        assert!(two.contains("; no libcuda.so.1 in /a, /b; install"), "{two}");
    }

    #[test]
    fn each_error_is_one_line() {
        for error in [
            DriverError::Provided { name: "a simulator".to_owned(), reason: "no cuInit".to_owned() },
            DriverError::NoDriverHere { reason: "NVIDIA ships no CUDA driver for this system" },
            DriverError::AlreadyBound { bound: "one".to_owned(), asked: "another".to_owned() },
        ] {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn the_complaint_is_the_first_error() {
        let log = "\nptxas info : x\nptxas x, line 3; error : bad\nptxas fatal : y\n";
        assert_eq!(first_complaint(log), Some("ptxas x, line 3; error : bad"));
        assert_eq!(first_complaint("only this\n"), Some("only this"));
        assert_eq!(first_complaint("\n"), None);
    }
}
