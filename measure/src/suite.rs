//! Shared parts of the commands: the kernels' PTX, this machine's GPU, a progress bar.

use std::io::IsTerminal;

use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use warpfold_suite::{Device, Error, Selection};
pub use warpfold_suite_build::suite::{built, chosen_store, ptx_store, twin_store};

/// Opens this machine's GPU. `needs` is the beginning of the message if there is none, such as "timing
/// needs a GPU".
pub fn gpu(needs: &str) -> Result<Device> {
    Device::open(Selection::Cuda).map_err(|error| match error {
        Error::NoCuda { reason } => anyhow!("{needs}: {reason}"),
        other => other.into(),
    })
}

/// Returns a progress bar, which is hidden unless standard error is a terminal.
pub fn progress(total: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}").expect("a valid template");
    ProgressBar::new(total as u64).with_style(style)
}

/// Returns the values without duplicates, in order of first appearance.
pub fn unique<T: Copy>(given: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in given {
        if !kept.iter().any(|other| same(other, one)) {
            kept.push(*one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_drops_duplicates() {
        assert_eq!(unique(&[3, 1, 3, 2, 1], i32::eq), [3, 1, 2]);
    }
}
