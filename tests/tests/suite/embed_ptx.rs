//! The PTX embedded in the library is up to date with the kernels.

use warpfold_lab::workspace::Workspace;
use xtask::embed_ptx;

#[test]
fn the_embedded_ptx_was_made_of_the_kernels() {
    let workspace = Workspace::locate().unwrap();
    embed_ptx::check(&workspace).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_suites_operations_are_embedded_as_the_kernels_give_them() {
    let workspace = Workspace::locate().unwrap();
    embed_ptx::check_suite(&workspace).unwrap_or_else(|error| panic!("{error}"));
}
