//! Compiles the kernels: for GPUs with bulk copies, and for older ones.

use warpfold_build::{Error, Kernels};

fn main() -> Result<(), Error> {
    for arch in ["sm_80", "sm_90"] {
        let ptx = Kernels::new("../kernels").arch(arch).compile()?;
        println!("cargo::rustc-env=KERNELS_{}={}", arch.to_uppercase(), ptx.display());
    }
    Ok(())
}
