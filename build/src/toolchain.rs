//! The compiler's environment, the architectures that it supports, and the standard library's source.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use warpfold_ptx::Arch;

use crate::{Error, compile::TARGET};

/// Removes variables that affect cargo or rustc from a command's environment: those of an outer cargo,
/// and the user's flags, wrappers and target folders, which are meant for host code.
pub fn clean(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if steers(&name) {
            command.env_remove(&name);
        }
    }
}

fn steers(name: &OsStr) -> bool {
    // Variables with the user's package sources and network settings, which builds need.
    const KEPT: &[&str] = &["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_TERM_"];
    const TAKEN: &[&str] = &[
        "CARGO",
        "__CARGO",
        "RUSTC",
        "RUSTFLAGS",
        "RUSTDOC",
        "RUSTUP_TOOLCHAIN",
        "RUST_TARGET_PATH",
        // Set for build scripts, and by `cargo run` for the program of a package that has one.
        "OUT_DIR",
        "MAKEFLAGS",
        "MFLAGS",
    ];
    let name = name.to_string_lossy();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    starts(TAKEN) && !starts(KEPT)
}

/// The arguments of rustc that make it list the architectures of [`TARGET`].
pub const LIST_ARCHS: [&str; 4] = ["--print", "target-cpus", "--target", TARGET];

/// Returns the architectures in the output of [`LIST_ARCHS`].
pub fn listed_archs(list: &str) -> Vec<Arch> {
    list.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

/// Returns `arch` if the kernels support it and the compiler knows it; otherwise an error.
pub fn supported(arch: Arch, mut known: Vec<Arch>) -> Result<Arch, Error> {
    known.retain(|arch| *arch >= Arch::OLDEST);
    known.sort_unstable();
    if known.contains(&arch) { Ok(arch) } else { Err(Error::UnsupportedArch { arch, allowed: known }) }
}

/// Returns the location of the standard library's source in a toolchain.
pub fn library(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib/src/rust/library")
}

/// Returns whether a toolchain has the standard library's source.
pub fn has_library(sysroot: &Path) -> bool {
    library(sysroot).join("Cargo.lock").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_an_outer_build_are_recognized() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC",
            "CARGO",
            "CARGO_MANIFEST_DIR",
            "OUT_DIR",
            "RUSTUP_TOOLCHAIN",
            "CARGO_PROFILE_RELEASE_OPT_LEVEL",
        ] {
            assert!(steers(OsStr::new(name)), "{name}");
        }
        for name in [
            "PATH",
            "CARGO_HOME",
            "CARGO_HTTP_PROXY",
            "CARGO_NET_OFFLINE",
            "RUSTUP_HOME",
            "RUST_BACKTRACE",
        ] {
            assert!(!steers(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn an_unsupported_arch_is_answered_with_the_nearest() {
        let known = listed_archs("Available CPUs:\n  sm_75\n  sm_80\n  sm_90 - a remark\n  sm_90a\n");
        let supported = |name: &str| {
            supported(name.parse().unwrap(), known.clone()).map_err(|error| error.to_string())
        };
        assert_eq!(supported("sm_90a"), Ok("sm_90a".parse().unwrap()));
        assert_eq!(
            supported("sm_75").unwrap_err(),
            "arch sm_75 is older than the kernels need: there are sm_80, sm_90, sm_90a; nearest is sm_80"
        );
        assert_eq!(
            supported("sm_91").unwrap_err(),
            "arch sm_91 is unknown to this compiler: there are sm_80, sm_90, sm_90a; nearest is sm_90"
        );
    }
}
