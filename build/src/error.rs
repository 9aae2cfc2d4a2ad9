//! The errors of a build.

use std::{fmt, io, path::PathBuf};

use warpfold_ptx::{Arch, BadArch};

use crate::Finding;

/// An error of a build. Its message is one line, or for [`Rejected`](Self::Rejected) one line per
/// finding.
#[non_exhaustive]
pub enum Error {
    /// A variable that cargo sets for build scripts is not set: the caller is not run by a build script.
    NoBuildScript {
        /// The variable.
        variable: &'static str,
    },
    /// The folder has no crate of kernels.
    NoCrate {
        /// The folder.
        folder: PathBuf,
    },
    /// The name of the architecture is malformed.
    BadArch(BadArch),
    /// The architecture is older than the kernels need, or newer than the compiler.
    UnsupportedArch {
        /// The architecture.
        arch: Arch,
        /// The supported architectures in ascending order.
        allowed: Vec<Arch>,
    },
    /// The toolchain has no rust-src, from which core is compiled for the GPU.
    NoRustSrc {
        /// The folder in which rust-src is expected.
        library: PathBuf,
        /// The toolchain's name in rustup.
        toolchain: Option<String>,
    },
    /// A program cannot be started or fails.
    Program {
        /// The program.
        program: String,
        /// The problem.
        problem: String,
    },
    /// The kernels do not compile; the compiler's messages are in standard error.
    NotCompiled {
        /// The folder of the kernels.
        folder: PathBuf,
        /// The target architecture.
        arch: Arch,
    },
    /// The kernels compile to PTX that would fail or be slow on a GPU.
    Rejected(Vec<Finding>),
    /// A file cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBuildScript { variable } => {
                write!(f, "{variable} is not set: call compile() in a build script (build.rs)")
            }
            Self::NoCrate { folder } => {
                let folder = folder.display();
                write!(
                    f,
                    "{folder} has no Cargo.toml of a package; give the folder of a crate of kernels"
                )
            }
            Self::BadArch(bad) => bad.fmt(f),
            Self::UnsupportedArch { arch, allowed } => unsupported(*arch, allowed, f),
            Self::NoRustSrc { library, toolchain } => {
                let name = toolchain.as_ref().map(|name| format!(" --toolchain {name}"));
                write!(
                    f,
                    "core for the GPU is compiled from rust-src, which {} lacks: run `rustup component add \
                     rust-src{}`",
                    library.display(),
                    name.unwrap_or_default()
                )
            }
            Self::Program { program, problem } => write!(f, "{program}: {problem}"),
            Self::NotCompiled { folder, arch } => {
                let folder = folder.display();
                write!(f, "{folder} does not compile for {arch} (the compiler's messages are above)")
            }
            Self::Rejected(findings) => {
                let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

fn unsupported(arch: Arch, allowed: &[Arch], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names: Vec<String> = allowed.iter().map(Arch::to_string).collect();
    let nearest = allowed.iter().min_by_key(|other| (other.number().abs_diff(arch.number()), *other));
    let hint = nearest.map(|arch| format!("; nearest is {arch}")).unwrap_or_default();
    let why = if arch < Arch::OLDEST {
        "is older than the kernels need"
    } else {
        "is unknown to this compiler"
    };
    write!(f, "arch {arch} {why}: there are {}{hint}", names.join(", "))
}

/// Shows the same text as [`Display`](fmt::Display): if `main` of a build script returns an error, Rust
/// prints it by [`Debug`](fmt::Debug).
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<BadArch> for Error {
    fn from(bad: BadArch) -> Self {
        Self::BadArch(bad)
    }
}
