//! Calls that cannot be served, tested from outside.

use std::process::Command;

/// Returns the one-line error of a call that must fail with status 2.
pub(crate) fn refused(command: &str, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg(command).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}
