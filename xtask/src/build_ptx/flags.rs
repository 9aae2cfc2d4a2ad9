//! Compiler flags of both code generators. They must apply to every crate that goes into the PTX: MIR is
//! optimized, and `cfg` resolved, in the crate that defines a function, not where it is instantiated.

use warpfold_suite::Arch;

/// Set for targets with the features of compute capability 9.0: clusters, bulk copies, mbarrier waits,
/// dependent launches. Target features would not do, since each compiler names them differently.
const CFG_SM_90: &str = "warpfold_sm_90";

pub(crate) fn of_both(arch: Arch) -> Vec<String> {
    // Jump threading copies a barrier into both arms of a branch (rust-lang/rust#137086). Later
    // compilers disable the pass for NVIDIA's GPUs themselves.
    let mut flags = vec!["-Zmir-enable-passes=-JumpThreading".to_owned()];
    flags.push(format!("--check-cfg=cfg({CFG_SM_90})"));
    if arch.number() >= 90 {
        flags.push(format!("--cfg={CFG_SM_90}"));
    }
    flags
}

/// Returns the flags as arguments of cargo, for a compilation whose `CARGO_ENCODED_RUSTFLAGS` is set by
/// cuda_builder: cargo adds a profile's flags to those. They are set for the whole profile, because
/// flags of one package would replace those of the profile.
pub(super) fn of_both_as_profile(arch: Arch) -> Vec<String> {
    // Rust's string syntax is TOML's as long as nothing is escaped.
    let list = format!("profile.release.rustflags={:?}", of_both(arch));
    ["-Zprofile-rustflags".to_owned(), "--config".to_owned(), list].into()
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process::Command};

    use super::*;

    /// Compiles a crate and a dependency as cuda_builder does and returns the error output.
    fn compile(arch: &str, source: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let package = |name: &str, more: &str, source: &str| {
            let root = folder.path().join(name);
            fs::create_dir_all(root.join("src")).unwrap();
            let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n{more}");
            fs::write(root.join("Cargo.toml"), manifest).unwrap();
            fs::write(root.join("src/lib.rs"), source).unwrap();
            root
        };
        package("device", "", source);
        let own = "[workspace]\n[dependencies]\ndevice = { path = \"../device\" }\n";
        let kernels = package("kernels", own, "pub use device::*;");
        let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(kernels)
            .args(["build", "--lib", "--release", "--verbose", "--offline"])
            .args(of_both_as_profile(arch.parse().unwrap()))
            .env("CARGO_ENCODED_RUSTFLAGS", "-Coverflow-checks=off")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", folder.path().join("target"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn a_dependency_of_the_kernels_gets_them_beside_cuda_builders_own() {
        let said = compile("sm_90", "#[cfg(not(warpfold_sm_90))] compile_error!(\"not 9.0\");");
        let calls = said.lines().filter(|line| line.contains("Running `")).collect::<Vec<_>>();
        assert_eq!(calls.len(), 2, "{said}");
        for call in calls {
            for flag in of_both("sm_90".parse().unwrap()) {
                assert!(call.contains(&flag) && call.contains("-Coverflow-checks=off"), "{call}");
            }
        }
        assert!(said.contains("Finished"), "{said}");
    }

    #[test]
    fn older_targets_have_none_of_what_came_with_9_0() {
        let said = compile("sm_80", "#[cfg(warpfold_sm_90)] compile_error!(\"9.0\");");
        assert!(said.contains("Finished") && said.contains("-JumpThreading"), "{said}");
        for (arch, has) in [("sm_80", false), ("sm_89", false), ("sm_90a", true), ("sm_120", true)] {
            let flags = of_both(arch.parse().unwrap());
            assert_eq!(flags.iter().any(|flag| flag == "--cfg=warpfold_sm_90"), has, "{arch}");
        }
    }
}
