//! Comparison of the parameters that a PTX entry declares with those that a launch passes.
//!
//! The driver cannot detect a mismatch: from each argument pointer it reads as many bytes as the PTX
//! declares, whatever is stored there. So kernels are compared with their arguments when they are
//! loaded.

use std::fmt::Display;

use warpfold_abi::Parameter;
use warpfold_ptx::{Declared, parameters};

use crate::{Error, Result, ptx::Ptx};

/// The reason why a kernel must not be launched with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The text does not declare the entry, or declares it in an unknown syntax.
    Unreadable,
    /// The parameters differ.
    Differs {
        /// The parameters of the entry.
        takes: String,
        /// The parameters that a launch passes.
        passes: String,
    },
}

/// Compares the parameters of an entry with those that a launch passes: their number, their sizes, and,
/// if the compiler marks addresses (`.ptr`), that each marked parameter receives an address. Without
/// marks, swapped addresses and counts are not detected.
///
/// # Errors
/// The difference.
pub fn compare(text: &str, entry: &str, passed: &[Parameter]) -> Result<(), Mismatch> {
    let declared = parameters(text, entry).ok_or(Mismatch::Unreadable)?;
    let agree = |(declared, passed): (&Declared, &Parameter)| {
        declared.size == passed.size && (passed.pointer || !declared.pointer)
    };
    if declared.len() == passed.len() && declared.iter().zip(passed).all(agree) {
        return Ok(());
    }
    let passes = passed
        .iter()
        .map(|&Parameter { name, size, pointer, .. }| format!("{name}: {}", Declared { size, pointer }));
    Err(Mismatch::Differs { takes: listed(declared), passes: listed(passes) })
}

fn listed(items: impl IntoIterator<Item: Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("({})", items.join(", "))
}

pub(crate) fn check(ptx: &Ptx, entry: &str, passed: &[Parameter]) -> Result<()> {
    compare(&ptx.text, entry, passed).map_err(|mismatch| {
        let origin = ptx.origin.clone();
        match mismatch {
            Mismatch::Unreadable => Error::PtxRejected {
                origin,
                reason: format!(
                    "it declares no entry `{entry}` that can be read; give PTX of warpfold's kernels"
                ),
                source: None,
            },
            Mismatch::Differs { takes, passes } => {
                Error::WrongParameters { origin, entry: entry.to_owned(), takes, passes }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use warpfold_abi::{Arguments, arguments::CopyStrided};

    use super::*;
    use warpfold_ptx::Arch;

    fn given(text: String) -> Ptx {
        Ptx { origin: "a/copy.ptx".to_owned(), text: text.into(), arch: Arch::OLDEST }
    }

    #[test]
    fn mismatch_error_is_one_line_with_both_signatures() {
        let differs = |list: &str| {
            let ptx = format!(".visible .entry copy({list})\n{{ ret; }}");
            check(&given(ptx), "copy", CopyStrided::<f32>::PARAMETERS)
        };
        const POINTER: &str = ".param .u64 .ptr .align 1 p";
        const COUNT: &str = ".param .u64 n";
        assert!(differs(&[POINTER, COUNT, COUNT, POINTER].join(",")).is_ok());
        assert!(differs(&[COUNT; 4].join(",")).is_ok(), "a compiler that marks no addresses");
        let cases: [&[&str]; 6] = [
            &[],
            &[POINTER, COUNT, POINTER],
            &[POINTER, COUNT, COUNT, POINTER, COUNT],
            &[POINTER, COUNT, ".param .u32 stride", POINTER],
            &[POINTER, COUNT, POINTER, COUNT],
            &[".param .align 8 .b8 all[32]"],
        ];
        for case in cases {
            let error = differs(&case.join(",")).unwrap_err();
            assert!(matches!(error, Error::WrongParameters { .. }), "{case:?}: {error}");
            assert_eq!(error.to_string().lines().count(), 1);
        }
        assert_eq!(
            differs(&[POINTER, ".param .u32 n"].join(",")).unwrap_err().to_string(),
            "a/copy.ptx: `copy` takes (8-byte address, 4 bytes), but is launched with (input: 8-byte \
             address, n: 8 bytes, stride: 8 bytes, output: 8-byte address); it is of another version \
             of warpfold"
        );
    }

    #[test]
    fn missing_entry_is_named() {
        let checked = check(&given(".entry paste() { ret; }".to_owned()), "copy", &[]);
        assert_eq!(
            checked.unwrap_err().to_string(),
            "a/copy.ptx: it declares no entry `copy` that can be read; give PTX of warpfold's kernels"
        );
    }
}
