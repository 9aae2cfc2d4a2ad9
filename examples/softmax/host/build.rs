//! Compiles the kernel.

use warpfold_build::{Error, Kernels};

fn main() -> Result<(), Error> {
    let ptx = Kernels::new("../kernels").arch("sm_80").compile()?;
    println!("cargo::rustc-env=KERNELS_PTX={}", ptx.display());
    Ok(())
}
