fn main() -> Result<(), warpfold_build::Error> {
    let ptx = warpfold_build::Kernels::new("kernels").compile()?;
    println!("cargo::rustc-env=KERNELS_PTX={}", ptx.display());
    Ok(())
}
