//! What can go wrong, each in one line.

use std::ffi::c_int;
use std::path::PathBuf;

use thiserror::Error;

use crate::loader::{LIBRARY, PATH_VARIABLE};

/// Why no driver was loaded.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// Neither the dynamic linker's search nor the usual folders gave a driver.
    #[error(
        "no CUDA driver: {}{}; install the NVIDIA driver, or set {PATH_VARIABLE} to the path of its \
         {LIBRARY}",
        refused.join("; "),
        absence(absent)
    )]
    NotFound {
        /// What was tried and why it was refused; the search by name comes first.
        refused: Vec<String>,
        /// Folders that hold no file of that name.
        absent: Vec<PathBuf>,
    },

    /// The file that was asked for is not a driver that can be used.
    #[error(
        "no CUDA driver: {reason}; {} the {LIBRARY} of an NVIDIA driver",
        if *from_environment {
            format!("unset {PATH_VARIABLE}, or make it name")
        } else {
            "name".to_owned()
        }
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Its name and what is wrong with it.
        reason: String,
        /// Whether the environment variable named it.
        from_environment: bool,
    },

    /// A program has one driver: the slots are filled once.
    #[error("cannot load {} as the CUDA driver: {} is loaded already; load only one", asked.display(), loaded.display())]
    AlreadyLoaded {
        /// The driver in use.
        loaded: PathBuf,
        /// The file that was asked for.
        asked: PathBuf,
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
#[error("{call} failed: {text} ({name}, {code})")]
pub struct CallError {
    /// The function that was called.
    pub call: &'static str,
    /// What it returned.
    pub code: c_int,
    /// The name of the code, such as `CUDA_ERROR_INVALID_VALUE`.
    pub name: String,
    /// What the driver says about it.
    pub text: String,
}

/// PTX that the driver did not take.
#[derive(Clone, Debug, Error)]
#[error("{error}{}", first_complaint(log))]
pub struct PtxError {
    /// What `cuModuleLoadDataEx` returned.
    pub error: CallError,
    /// All that the driver's compiler wrote, usually several lines; empty where it wrote nothing.
    pub log: String,
}

/// The line of a compiler's log that says what is wrong, to follow the error.
fn first_complaint(log: &str) -> String {
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next();
    match lines.find(|line| line.contains("error")).or(first) {
        Some(line) => format!(": {line}"),
        None => String::new(),
    }
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
    fn the_complaint_is_the_first_error() {
        let log = "\nptxas info : x\nptxas x, line 3; error : bad\nptxas fatal : y\n";
        assert_eq!(first_complaint(log), ": ptxas x, line 3; error : bad");
        assert_eq!(first_complaint("only this\n"), ": only this");
        assert_eq!(first_complaint(""), "");
    }
}
