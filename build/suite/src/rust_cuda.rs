//! Requirements of the `nvvm` code generator: rustc_codegen_nvvm links LLVM 7 and NVIDIA's libNVVM, and
//! is loaded by the nightly compiler of one date.

use std::path::{Path, PathBuf};

use crate::machine::{entries, version_of};
use warpfold_build::internal::has_library;

use crate::machine::{Check, Machine};

/// The compiler that rustc_codegen_nvvm is written for.
pub const NIGHTLY: &str = "nightly-2026-04-02";

/// Extra components of the toolchain: rustup's name, and the prefix in the toolchain's component list.
const COMPONENTS: &[(&str, &str)] =
    &[("rust-src", "rust-src"), ("rustc-dev", "rustc-dev-"), ("llvm-tools-preview", "llvm-tools-")];

const PURPOSE: &str = "codegen nvvm";

/// Checks everything that `--codegen nvvm` needs of the machine.
pub fn checks(machine: &Machine) -> Vec<Check> {
    let mut checks = nightly(machine);
    checks.push(llvm(machine));
    checks.extend(toolkit(machine));
    checks.push(libclang(machine));
    checks.push(match machine.on_path("git") {
        Some(git) => {
            Check::found("git", PURPOSE, version_of(&git).unwrap_or_default(), git.display().to_string())
        }
        None => Check::missing("git", PURPOSE, "not on the PATH", "apt-get install git"),
    });
    checks
}

fn nightly(machine: &Machine) -> Vec<Check> {
    let install = format!("rustup toolchain install {NIGHTLY} --profile minimal");
    let folders = machine.toolchains().map(|folder| entries(&folder)).unwrap_or_default();
    let is_it = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NIGHTLY))
    };
    let folder = folders.iter().find(is_it);
    let mut checks = vec![match folder {
        Some(folder) => Check::found(NIGHTLY, PURPOSE, "", folder.display().to_string()),
        None => Check::missing(NIGHTLY, PURPOSE, "rustup has no such toolchain", &install),
    }];
    for (component, listed) in COMPONENTS {
        let name = format!("{component} of {NIGHTLY}");
        let get = format!("rustup component add {component} --toolchain {NIGHTLY}");
        checks.push(match folder {
            Some(folder) if has_component(folder, listed) => {
                Check::found(&name, PURPOSE, "", folder.display().to_string())
            }
            Some(_) => Check::missing(&name, PURPOSE, "not in the toolchain", get),
            None => Check::missing(&name, PURPOSE, "no such toolchain", get),
        });
    }
    checks
}

/// Returns whether a toolchain has a component, by rustup's list. For rust-src it is enough that the
/// files exist, because they may have been installed without rustup.
fn has_component(toolchain: &Path, listed: &str) -> bool {
    let list = std::fs::read_to_string(toolchain.join("lib/rustlib/components")).unwrap_or_default();
    list.lines().any(|line| line.starts_with(listed)) || listed == "rust-src" && has_library(toolchain)
}

/// Returns the environment variables for the build of rustc_codegen_nvvm, for the parts that are
/// installed.
pub fn environment(machine: &Machine) -> Vec<(&'static str, PathBuf)> {
    let llvm = llvm_config(machine).ok().map(|(program, _)| ("LLVM_CONFIG", program));
    llvm.into_iter().chain(toolkit_root(machine).map(|root| ("CUDA_PATH", root))).collect()
}

/// Returns the folder of libNVVM.
pub fn library_folder(machine: &Machine) -> Option<PathBuf> {
    toolkit_root(machine).map(|root| root.join("nvvm/lib64"))
}

fn llvm_config(machine: &Machine) -> Result<(PathBuf, String), Vec<String>> {
    let named = machine.variable("LLVM_CONFIG").map(PathBuf::from);
    let on_path = ["llvm-config-7", "llvm-config"].iter().filter_map(|name| machine.on_path(name));
    let mut tried = Vec::new();
    for program in named.into_iter().chain(on_path) {
        match version_of(&program) {
            Some(version) if version.starts_with("7.") => return Ok((program, version)),
            Some(version) => tried.push(format!("{} is {version}", program.display())),
            None => tried.push(format!("{} does not answer", program.display())),
        }
    }
    Err(tried)
}

fn llvm(machine: &Machine) -> Check {
    let name = "llvm 7";
    let get = "build LLVM 7.1 from source with the NVPTX target and set LLVM_CONFIG to its llvm-config";
    match llvm_config(machine) {
        Ok((program, version)) => Check::found(name, PURPOSE, version, program.display().to_string()),
        Err(tried) if tried.is_empty() => {
            Check::missing(name, PURPOSE, "LLVM_CONFIG is not set, no llvm-config-7 on the PATH", get)
        }
        Err(tried) => Check::missing(name, PURPOSE, tried.join(", "), get),
    }
}

/// Files that rustc_codegen_nvvm needs from one CUDA toolkit.
const TOOLKIT: &[(&str, &str)] = &[
    ("libnvvm", "nvvm/lib64/libnvvm.so"),
    ("nvvm.h", "nvvm/include/nvvm.h"),
    ("libdevice", "nvvm/libdevice/libdevice.10.bc"),
];

fn toolkit_root(machine: &Machine) -> Option<PathBuf> {
    let parts = |root: &PathBuf| TOOLKIT.iter().filter(|(_, path)| root.join(path).exists()).count();
    machine.cuda_roots().into_iter().rev().max_by_key(parts)
}

fn toolkit(machine: &Machine) -> Vec<Check> {
    let most = toolkit_root(machine);
    let part = |(name, path): &(&str, &str)| match &most {
        Some(root) if root.join(path).exists() => {
            Check::found(name, PURPOSE, "", root.join(path).display().to_string())
        }
        Some(root) => {
            let get = format!("set CUDA_PATH to a CUDA toolkit that has {path}");
            Check::missing(name, PURPOSE, format!("{} lacks it", root.display()), get)
        }
        None => {
            let get =
                format!("install the CUDA toolkit and set CUDA_PATH to the folder that has {path}");
            Check::missing(name, PURPOSE, "no CUDA toolkit found", get)
        }
    };
    TOOLKIT.iter().map(part).collect()
}

fn libclang(machine: &Machine) -> Check {
    let named = machine.variable("LIBCLANG_PATH").map(PathBuf::from);
    let llvm = entries(&machine.system("/usr/lib")).into_iter().map(|folder| folder.join("lib"));
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    let usual = usual.iter().map(|path| machine.system(path));
    // Matches `libclang.so` and `libclang-14.so.1`, but not the C++ interface, `libclang-cpp.so`.
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libclang") && name.contains(".so") && !name.starts_with("libclang-cpp")
    };
    let folders = named.into_iter().chain(usual).chain(llvm);
    match folders.flat_map(|folder| entries(&folder)).find(is_it) {
        Some(path) => Check::found("libclang", PURPOSE, "", path.display().to_string()),
        None => Check::missing(
            "libclang",
            PURPOSE,
            "not in LIBCLANG_PATH or the system's libraries",
            "apt-get install libclang-dev",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(machine: &Machine) -> Vec<String> {
        checks(machine).into_iter().filter(Check::is_found).map(|check| check.name).collect()
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn pieces_are_found_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let machine =
            Machine::empty(root).with("RUSTUP_HOME", root.join("rustup").display().to_string());
        assert_eq!(found(&machine), [""; 0]);

        write(root, "rustup/toolchains/nightly-x86_64/lib/rustlib/components", "rustc-dev-x86_64\n");
        assert_eq!(found(&machine), [""; 0]);
        let toolchain = format!("rustup/toolchains/{NIGHTLY}-x86_64");
        write(root, &format!("{toolchain}/lib/rustlib/components"), "rustc-x86_64\nrustc-dev-x86_64\n");
        assert_eq!(found(&machine), [NIGHTLY, &format!("rustc-dev of {NIGHTLY}")]);
        write(root, &format!("{toolchain}/lib/rustlib/src/rust/library/Cargo.lock"), "");
        assert_eq!(found(&machine).len(), 3);

        write(root, "usr/lib/llvm-14/lib/libclang-cpp.so.14", "");
        assert_eq!(found(&machine).len(), 3);
        write(root, "usr/lib/llvm-14/lib/libclang-14.so.1", "");
        assert_eq!(found(&machine).last().unwrap(), "libclang");
    }

    #[test]
    fn the_toolkit_must_have_its_parts_in_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "a/nvvm/libdevice/libdevice.10.bc", "");
        for part in ["lib64/libnvvm.so", "include/nvvm.h"] {
            write(root, &format!("b/nvvm/{part}"), "");
        }
        let path = |name: &str| root.join(name).display().to_string();
        let machine = Machine::empty(root).with("CUDA_PATH", path("a")).with("CUDA_HOME", path("b"));
        assert_eq!(found(&machine), ["libnvvm", "nvvm.h"]);
        let lines: Vec<_> = checks(&machine).iter().filter_map(Check::complaint).collect();
        let lacks = format!(
            "libdevice: {} lacks it; set CUDA_PATH to a CUDA toolkit that has nvvm/libdevice/libdevice.10.bc",
            path("b")
        );
        assert!(lines.contains(&lacks), "{lines:#?}");
    }

    #[test]
    fn another_llvm_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::empty(folder.path()).with("LLVM_CONFIG", "/bin/echo");
        let line =
            checks(&machine).iter().find(|check| check.name == "llvm 7").unwrap().complaint().unwrap();
        assert!(line.starts_with("llvm 7: /bin/echo "), "{line}");
    }
}
