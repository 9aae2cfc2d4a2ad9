//! `nvvm-builder KERNELS ARCH OUT CARGO...`: compiles the crate in the folder KERNELS for ARCH
//! (`compute_90`) with rustc_codegen_nvvm and writes its PTX to OUT. CARGO stands for further arguments
//! of `cargo build`. `cargo xtask build-ptx` passes the flags that both of its code generators need.
//!
//! `CARGO_WORKSPACE_DIR` must be the absolute path of the folder whose `target/` contains the code
//! generator: cuda_builder looks there when it does not run in a build script.

use std::env;

use anyhow::{Context, Result, anyhow, bail};
use cuda_builder::{CudaBuilder, NvvmOption};

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [kernels, arch, out, cargo @ ..] = arguments.as_slice() else {
        bail!(
            "usage: nvvm-builder KERNELS ARCH OUT CARGO..., as in nvvm-builder nvvm/kernels compute_90 \
             kernels.ptx"
        );
    };
    env::var_os("CARGO_WORKSPACE_DIR").context("CARGO_WORKSPACE_DIR is not set")?;
    let option: NvvmOption = format!("-arch={arch}")
        .parse()
        .map_err(|error| anyhow!("{arch}: {error}; write an architecture as compute_90"))?;
    let NvvmOption::Arch(arch) = option else { unreachable!("-arch= makes an architecture") };
    CudaBuilder::new(kernels)
        .arch(arch)
        // Rust rounds each operation separately; the builder's default would fuse products with sums.
        .fma_contraction(false)
        .build_args(cargo)
        .copy_to(out)
        .build()
        .map_err(|error| anyhow!("{kernels} does not compile for {arch}: {error}"))?;
    Ok(())
}
