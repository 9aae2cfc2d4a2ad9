//! The compiler, the GPU, and NVIDIA's tools.

use crate::{rust_src, toolchain::Toolchain, workspace::Workspace};

use super::{Check, Driver, Machine, version_of};

/// Fetches a CUDA compiler without a toolkit installation.
const FETCH: &str = "cargo xtask cuda-toolkit fetches it";

/// NVIDIA's programs: name, what for, how to get.
const TOOLS: &[(&str, &str, &str)] = &[
    ("nvcc", "compiles the CUDA C twins and the CUB baseline", FETCH),
    ("ptxas", "assembles the PTX without a GPU: registers, spills, what the driver would reject", FETCH),
    ("nvdisasm", "shows the machine code of a kernel", FETCH),
    ("compute-sanitizer", "finds races and stray accesses on the GPU", "it comes with the CUDA toolkit"),
    ("ncu", "reads the GPU's hardware counters", "it comes with the CUDA toolkit, or as Nsight Compute"),
];

const FOR_RUSTC: &str = "compiles everything";
const FOR_CARGO: &str = "builds everything";
const FOR_SOURCE: &str = "core for the GPU: build-ptx compiles it along";

/// The pinned compiler and what it needs to make PTX.
pub(super) fn toolchain(workspace: &Workspace, machine: &Machine) -> Vec<Check> {
    let release = workspace.pinned_channel().unwrap_or_else(|_| "the pinned release".to_owned());
    let install = format!("rustup toolchain install {release}");
    // Asked only where there is a compiler, so that the reason is short where there is none.
    let pinned = match machine.on_path("rustc") {
        Some(_) => Toolchain::pinned(workspace).map_err(|error| error.root_cause().to_string()),
        None => Err("no rustc on the PATH".to_owned()),
    };
    match pinned {
        Ok(toolchain) => installed(&toolchain, &install),
        Err(why) => [("rustc", FOR_RUSTC), ("cargo", FOR_CARGO), ("rust-src", FOR_SOURCE)]
            .map(|(name, purpose)| Check::missing(name, purpose, why.as_str(), install.as_str()))
            .into(),
    }
}

/// The parts of a toolchain that is there.
fn installed(toolchain: &Toolchain, install: &str) -> Vec<Check> {
    let sysroot = toolchain.sysroot().unwrap_or_default();
    let cargo = sysroot.join("bin/cargo");
    let source = rust_src::library(&sysroot);
    vec![
        Check::found("rustc", FOR_RUSTC, toolchain.describe(), sysroot.display().to_string()),
        match version_of(&cargo) {
            Some(version) => Check::found("cargo", FOR_CARGO, version, cargo.display().to_string()),
            None => Check::missing("cargo", FOR_CARGO, "not in the toolchain", install),
        },
        if rust_src::is_present(&sysroot) {
            Check::found(
                "rust-src",
                FOR_SOURCE,
                toolchain.release.as_str(),
                source.display().to_string(),
            )
        } else {
            let release = &toolchain.release;
            let get = format!(
                "cargo xtask build-ptx fetches it, or rustup component add rust-src --toolchain {release}"
            );
            Check::missing("rust-src", FOR_SOURCE, "not in the toolchain", get)
        },
    ]
}

/// The driver and its GPUs.
pub(super) fn gpus(driver: &Driver) -> Vec<Check> {
    let (for_driver, for_gpu) = ("lets programs use the GPU", "runs the kernels");
    let gpus = match driver {
        Ok(gpus) => gpus,
        Err(why) => {
            let get = "install NVIDIA's driver; without one, --device sim runs the same PTX";
            return vec![Check::missing("gpu driver", for_driver, why.as_str(), get)];
        }
    };
    let driver =
        Check::found("gpu driver", for_driver, format!("CUDA {}", gpus.version), "libcuda.so.1");
    let gpu = |(index, gpu): (usize, &super::Gpu)| {
        let place = format!("{}, {} GiB", gpu.name, gpu.memory_bytes >> 30);
        Check::found(&format!("gpu {index}"), for_gpu, gpu.arch.as_str(), place)
    };
    [driver].into_iter().chain(gpus.gpus.iter().enumerate().map(gpu)).collect()
}

/// NVIDIA's programs.
pub(super) fn tools(machine: &Machine) -> Vec<Check> {
    let check = |(name, purpose, get): &(&str, &'static str, &str)| match machine.cuda_program(name) {
        Some(path) => Check::found(
            name,
            purpose,
            version_of(&path).unwrap_or_default(),
            path.display().to_string(),
        ),
        None => Check::missing(name, purpose, "not found", *get),
    };
    TOOLS.iter().map(check).collect()
}
