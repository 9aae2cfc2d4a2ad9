//! The compilation of a crate of kernels to PTX, by rustc's own NVPTX target.

use std::{ffi::OsString, path::Path, process::Command};

use warpfold_ptx::Arch;

/// The Rust target triple of NVIDIA GPUs.
pub const TARGET: &str = "nvptx64-nvidia-cuda";

/// The `cfg` for compute capability 9.0 and later: clusters, bulk copies, mbarrier waits, dependent
/// launches. Target features would not do, since each compiler names them differently.
const CFG_SM_90: &str = "warpfold_sm_90";

/// Flags for line tables.
pub const LINE_FLAGS: &[&str] = &[
    // Emits `.loc` lines only: ptxas rejects the PTX of any other debug information.
    "-Cdebuginfo=line-directives-only",
    // Appends to each `.loc` a comment with the inlined call chain, which tools read and the PTX format
    // itself cannot express. Nothing but comments is added.
    "-Zverbose-asm",
];

/// Returns the flags that every compiler of kernels needs, rust-cuda's too. They must apply to every
/// crate that goes into the PTX: MIR is optimized, and `cfg` resolved, in the crate that defines a
/// function, not where it is instantiated.
pub fn common_flags(arch: Arch) -> Vec<String> {
    // Jump threading copies a barrier into both arms of a branch (rust-lang/rust#137086). Later
    // compilers disable this pass for NVIDIA GPUs by default.
    let mut flags = vec!["-Zmir-enable-passes=-JumpThreading".to_owned()];
    flags.push(format!("--check-cfg=cfg({CFG_SM_90})"));
    if arch.number() >= 90 {
        flags.push(format!("--cfg={CFG_SM_90}"));
    }
    flags
}

/// Returns the flags that determine the generated code.
pub fn code_flags(arch: Arch) -> Vec<String> {
    let mut flags = common_flags(arch);
    flags.extend([
        format!("-Ctarget-cpu={arch}"),
        // Loop strength reduction replaces one index by a separate pointer for each load of an
        // iteration. The kernel then needs more registers than nvcc's, so fewer blocks are resident, and
        // loads wait for the additions to the pointers (docs/notes/2026-11-21-rust-against-cuda-c.md).
        "-Cllvm-args=-disable-lsr".to_owned(),
    ]);
    // rustc has no target feature `sm_88`, and does not enable the older ones for this GPU: code under
    // `cfg(target_feature = "sm_80")` would be left out.
    if arch.number() == 88 {
        flags.push("-Ctarget-feature=+sm_80".to_owned());
    }
    // By default LLVM emits the oldest PTX version that supports the architecture, and the assembler
    // would reject instructions of the kernels that a later version introduced.
    if let Some(version) = ptx_version(arch) {
        flags.push(format!("-Ctarget-feature=+{version}"));
    }
    flags
}

/// Returns the PTX version to request: the oldest one that has all instructions of the kernels, since
/// old drivers reject newer versions.
fn ptx_version(arch: Arch) -> Option<&'static str> {
    match arch.number() {
        // Cache hints on loads need 7.4; sm_89 needs 7.8.
        80..=87 | 89 => Some("ptx78"),
        // Bulk copies need 8.0.
        90..=99 => Some("ptx80"),
        // LLVM's minimum version for sm_88 and for sm_100 and later is newer than 8.0.
        _ => None,
    }
}

/// A compilation of a crate of kernels.
#[derive(Debug)]
pub struct Compilation<'a> {
    /// The folder of the crate's manifest.
    pub kernels: &'a Path,
    /// The target architecture.
    pub arch: Arch,
    /// The target folder of cargo.
    pub target_folder: &'a Path,
    /// The PTX file to write.
    pub ptx: &'a Path,
    /// Flags for all crates, besides [`code_flags`].
    pub flags: Vec<String>,
    /// Arguments of cargo, such as features.
    pub arguments: Vec<String>,
}

impl Compilation<'_> {
    /// Adds the arguments and variables of this compilation to a command for cargo, whose environment
    /// must be [clean](crate::toolchain::clean).
    pub fn command(&self, mut cargo: Command) -> Command {
        let mut flags = code_flags(self.arch);
        flags.extend_from_slice(&self.flags);
        let mut emit = OsString::from("--emit=asm=");
        emit.push(self.ptx);
        cargo
            .args(["rustc", "--release", "--target", TARGET, "--target-dir"])
            .arg(self.target_folder)
            // There is no precompiled core for this target: it is built from rust-src.
            .arg("-Zbuild-std=core")
            // A library needs no linker; a cdylib would need one that LLVM no longer supports.
            .arg("--crate-type=lib")
            .args(&self.arguments)
            // An explicit output path, so that no stale file is used; one codegen unit, so that there is
            // one file.
            .arg("--")
            .arg(emit)
            .arg("-Ccodegen-units=1")
            .current_dir(self.kernels)
            // Enables build-std, the PTX calling convention and inline PTX, which are unstable.
            .env("RUSTC_BOOTSTRAP", "1")
            // Wrappers from a configuration file are meant for host code.
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            // The encoded form, because a path may contain a space.
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        cargo
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arch_gets_a_ptx_version_that_knows_it() {
        let version = |name: &str| ptx_version(name.parse().unwrap());
        assert_eq!(version("sm_80"), Some("ptx78"));
        assert_eq!(version("sm_89"), Some("ptx78"));
        assert_eq!(version("sm_90a"), Some("ptx80"));
        assert_eq!(version("sm_88"), None);
        assert_eq!(version("sm_120"), None);
    }
}
