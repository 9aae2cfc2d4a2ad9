//! What the library embeds is what the kernels give now.

use warpfold_lab::workspace::Workspace;
use xtask::embed_ptx;

#[test]
fn the_embedded_ptx_is_that_of_the_kernels() {
    let workspace = Workspace::locate().unwrap();
    embed_ptx::check(&workspace).unwrap_or_else(|error| panic!("{error}"));
}
