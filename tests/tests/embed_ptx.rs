//! What the library embeds is what the kernels give now.

use warpfold_lab::workspace::Workspace;
use warpfold_suite::Arch;
use xtask::embed_ptx;

#[test]
fn the_embedded_ptx_was_made_of_the_kernels() {
    let workspace = Workspace::locate().unwrap();
    embed_ptx::check(&workspace).unwrap_or_else(|error| panic!("{error}"));
}

/// Compiled anew, for the architecture that the other tests run.
#[test]
fn the_suites_operations_are_embedded_as_the_kernels_give_them() {
    let workspace = Workspace::locate().unwrap();
    embed_ptx::check_suite(&workspace, Arch::SIMULATED).unwrap_or_else(|error| panic!("{error}"));
}
