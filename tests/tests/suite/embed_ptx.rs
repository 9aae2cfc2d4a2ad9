//! The PTX embedded in the library is up to date with the kernels.

use warpfold_suite_build::embed_ptx;
use warpfold_suite_build::workspace::Workspace;

#[test]
fn the_embedded_ptx_was_made_of_the_kernels() {
    let workspace = Workspace::locate().unwrap();
    embed_ptx::check(&workspace).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn embedded_suite_operations_match_the_kernels() {
    let workspace = Workspace::locate().unwrap();
    embed_ptx::check_suite(&workspace).unwrap_or_else(|error| panic!("{error}"));
}
