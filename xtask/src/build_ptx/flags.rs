//! What both code generators are told, for every crate that goes into the PTX. It must reach all of
//! them: MIR is optimized, and `cfg` resolved, in the crate that a function is written in, and not where
//! it is instantiated.

use warpfold_suite::Arch;

/// Set where the target has what came with compute capability 9.0: clusters, bulk copies, mbarriers that
/// wait, dependent launches. Features of the target would not do, since each compiler has its own names.
const CFG_SM_90: &str = "warpfold_sm_90";

/// Returns the flags of the compiler.
pub(crate) fn of_both(arch: Arch) -> Vec<String> {
    // Jump threading copies a barrier into both arms of a branch (rust-lang/rust#137086). Later
    // compilers leave it out for NVIDIA's GPUs themselves.
    let mut flags = vec!["-Zmir-enable-passes=-JumpThreading".to_owned()];
    flags.push(format!("--check-cfg=cfg({CFG_SM_90})"));
    if arch.number() >= 90 {
        flags.push(format!("--cfg={CFG_SM_90}"));
    }
    flags
}

/// The flags as arguments of cargo, for a compilation whose `CARGO_ENCODED_RUSTFLAGS` are somebody
/// else's: cuda_builder sets them, and cargo gives a profile's flags beside them. Of the whole profile,
/// because a flag of one package takes the place of those of the profile.
pub(super) fn of_both_as_profile(arch: Arch) -> Vec<String> {
    // Rust's strings are TOML's as long as they hold nothing that is escaped.
    let list = format!("profile.release.rustflags={:?}", of_both(arch));
    ["-Zprofile-rustflags".to_owned(), "--config".to_owned(), list].into()
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process::Command};

    use super::*;

    /// Compiles a crate and one that it depends on as cuda_builder does, and says what failed.
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
