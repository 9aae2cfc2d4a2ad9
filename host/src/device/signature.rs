//! Checks of a PTX entry's declared parameters against those that a launch passes.

use std::path::Path;

use warpfold::internal::{Mismatch, compare};
use warpfold_abi::Parameter;

use crate::{Error, Result};

/// Compares the parameters of a PTX entry with those of a launch. The device has accepted the PTX.
pub(super) fn check(path: &Path, ptx: &str, entry: &str, passed: &[Parameter]) -> Result<()> {
    let path = || path.to_owned();
    compare(ptx, entry, passed).map_err(|mismatch| match mismatch {
        Mismatch::Unreadable => Error::PtxRejected {
            path: path(),
            reason: format!(
                "the parameters of `{entry}` cannot be read; build it again with `cargo xtask build-ptx`"
            ),
        },
        Mismatch::Differs { takes, passes } => {
            Error::WrongParameters { path: path(), entry: entry.to_owned(), takes, passes }
        }
    })
}

#[cfg(test)]
mod tests {
    use warpfold_abi::{Arguments, arguments::CopyStrided};

    use super::*;

    #[test]
    fn mismatch_is_one_line_with_both_signatures() {
        let said = |ptx: &str| {
            let checked = check(Path::new("a/copy.ptx"), ptx, "copy", CopyStrided::<f32>::PARAMETERS);
            checked.unwrap_err().to_string()
        };
        assert_eq!(
            said(".visible .entry copy(.param .u64 .ptr .align 1 p, .param .u32 n) { ret; }"),
            "a/copy.ptx: `copy` takes (8-byte address, 4 bytes), but is launched with (input: 8-byte \
             address, n: 8 bytes, stride: 8 bytes, output: 8-byte address); build the file again with \
             `cargo xtask build-ptx`, or a CUDA C twin with `cargo xtask build-twins`"
        );
        let unread = said(".visible .entry paste() { ret; }");
        assert!(unread.contains("a/copy.ptx") && unread.contains("`copy` cannot be read"), "{unread}");
        assert_eq!(unread.lines().count(), 1);
    }
}
