//! The contenders of a comparison, and which of them are available.

use std::{fmt, path::Path, sync::Arc};

use crate::contest::Cub;
use anyhow::{Context, Result};
use warpfold_suite::{Codegen, Error, PTX_DIR, PtxStore, nearest};

use super::torch::{self, Torch};
use crate::{
    Builder,
    builder::{CUB, CUB_LIBRARY, Choice, Kernels},
    failure::Failure,
    machine::Machine,
    suite,
    workspace::Workspace,
};

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// The Rust kernels by rustc's own NVPTX target.
    RustLlvm,
    /// The Rust kernels by rust-cuda.
    RustNvvm,
    CudaC,
    /// NVIDIA's CUB, a library of device-wide reductions.
    Cub,
    /// PyTorch, in a Python process.
    Torch,
}

impl Peer {
    pub const ALL: [Self; 5] = [Self::RustLlvm, Self::RustNvvm, Self::CudaC, Self::Cub, Self::Torch];

    /// The Rust kernels, by each code generator.
    pub const RUST: [Self; 2] = [Self::RustLlvm, Self::RustNvvm];

    /// The peers that the Rust kernels are compared with.
    pub const OTHERS: [Self; 3] = [Self::CudaC, Self::Cub, Self::Torch];

    pub const fn name(self) -> &'static str {
        match self {
            Self::RustLlvm => "rust-llvm",
            Self::RustNvvm => "rust-nvvm",
            Self::CudaC => "cuda-c",
            Self::Cub => "cub",
            Self::Torch => "torch",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Parses the name of one of [`Peer::OTHERS`].
pub fn parse_other(given: &str) -> Result<Peer, Error> {
    Peer::OTHERS.into_iter().find(|peer| peer.name() == given).ok_or_else(|| Error::UnknownName {
        what: "peer",
        given: given.to_owned(),
        nearest: nearest(given, Peer::OTHERS.iter().map(|peer| peer.name())),
        see: "there are cuda-c, cub and torch; --codegen chooses among the Rust kernels".into(),
    })
}

/// Parses one of [`Peer::RUST`] by the name of its code generator: `llvm` or `nvvm`.
pub fn parse_codegen(given: &str) -> Result<Peer, Error> {
    let codegen = |peer: Peer| peer.name().trim_start_matches("rust-");
    Peer::RUST.into_iter().find(|&peer| codegen(peer) == given).ok_or_else(|| Error::UnknownName {
        what: "code generator",
        given: given.to_owned(),
        nearest: nearest(given, Peer::RUST.into_iter().map(codegen)),
        see: "there are llvm and nvvm".into(),
    })
}

/// A peer's resource, or the reason why it is missing.
enum Found<T> {
    Here(T),
    /// The reason, and the remedy.
    Missing(String, String),
}

#[derive(Default)]
pub struct Peers {
    /// The PTX of each available peer that has a kernel per variant.
    pub kernels: Vec<(Peer, PtxStore)>,
    pub cub: Option<Arc<Cub>>,
    pub torch: Option<Torch>,
    /// A line for each missing peer.
    pub skipped: Vec<String>,
}

impl Peers {
    /// Finds or builds the wanted peers. A missing one is skipped; a broken one is an error: Rust or
    /// CUDA C kernels or CUB that do not compile, a compiler too old for the GPU, a library that does
    /// not load.
    pub fn gather(wanted: &[Peer], builder: &dyn Builder, of: Kernels) -> Result<Self> {
        let workspace = Workspace::locate()?;
        let machine = Machine::this(&workspace);
        let mut peers = Self::default();
        for peer in Peer::ALL {
            if !wanted.contains(&peer) {
                continue;
            }
            match peer {
                Peer::RustLlvm | Peer::RustNvvm | Peer::CudaC => {
                    let found = kernels(peer, builder, &machine, of)?;
                    peers
                        .kernels
                        .extend(peers_or_skip(peer, found, &mut peers.skipped).map(|s| (peer, s)));
                }
                Peer::Cub => {
                    let found = library(builder, &workspace, &machine)?;
                    peers.cub = peers_or_skip(peer, found, &mut peers.skipped);
                }
                Peer::Torch => {
                    peers.torch = peers_or_skip(peer, process(&machine), &mut peers.skipped);
                }
            }
        }
        Ok(peers)
    }

    /// Checks that Rust kernels are available, and under `strict` all wanted peers.
    pub fn require(&self, strict: bool) -> Result<()> {
        let missing = |lead: &str| {
            Err(Failure::new(self.skipped.iter().map(|line| format!("{lead}: {line}"))).into())
        };
        match self.rust().next() {
            _ if strict && !self.skipped.is_empty() => missing("--strict"),
            None => missing("no Rust kernels to compare"),
            Some(_) => Ok(()),
        }
    }

    pub fn rust(&self) -> impl Iterator<Item = &(Peer, PtxStore)> {
        self.kernels.iter().filter(|(peer, _)| Peer::RUST.contains(peer))
    }
}

fn peers_or_skip<T>(peer: Peer, found: Found<T>, skipped: &mut Vec<String>) -> Option<T> {
    match found {
        Found::Here(found) => Some(found),
        Found::Missing(why, command) => {
            skipped.push(format!("skipped: {peer}: {why}; {command}"));
            None
        }
    }
}

/// Returns the PTX of Rust kernels or twins. The folder that `WARPFOLD_PTX_DIR` names is used unchanged;
/// without it the current sources are built.
fn kernels(
    peer: Peer,
    builder: &dyn Builder,
    machine: &Machine,
    wanted: Kernels,
) -> Result<Found<PtxStore>> {
    let (codegen, command) = match peer {
        Peer::CudaC => (Codegen::CudaC, "`cargo xtask build-twins` makes it"),
        Peer::RustNvvm => (Codegen::Nvvm, "`cargo xtask build-ptx --codegen nvvm` makes it"),
        _ => (Codegen::Llvm, "`cargo xtask build-ptx --codegen llvm` makes it"),
    };
    if let Some(folder) = machine.variable(PTX_DIR) {
        return packed(Path::new(folder), codegen, command);
    }
    match peer {
        Peer::CudaC if machine.cuda_program("nvcc").is_none() => Ok(no_nvcc()),
        Peer::CudaC => suite::twin_store(builder).map(Found::Here),
        Peer::RustNvvm => match suite::built(builder, Choice::Nvvm, wanted) {
            Ok(store) => Ok(Found::Here(store)),
            Err(error) => match lacking(&error) {
                Some((why, command)) => Ok(Found::Missing(why, command)),
                None => Err(error),
            },
        },
        _ => suite::built(builder, Choice::Llvm, wanted).map(Found::Here),
    }
}

fn packed(folder: &Path, codegen: Codegen, command: &str) -> Result<Found<PtxStore>> {
    if folder.is_dir() && !folder.join(codegen.name()).is_dir() {
        let why = format!("no PTX by {codegen} in {}", folder.display());
        return Ok(Found::Missing(why, command.to_owned()));
    }
    let store = PtxStore::at(folder, Some(codegen)).with_context(|| format!("{PTX_DIR} is set"))?;
    Ok(Found::Here(store))
}

fn no_nvcc<T>() -> Found<T> {
    let why = "no nvcc on the PATH or in a CUDA toolkit";
    Found::Missing(why.to_owned(), "`cargo xtask doctor --fetch-cuda` fetches it".to_owned())
}

/// Returns why rust-cuda's code generator is unavailable and how to get it; `None` if it is available
/// and the error has another cause.
pub(in crate::compare) fn lacking(error: &anyhow::Error) -> Option<(String, String)> {
    let needs = "codegen nvvm needs ";
    let lines = error.downcast_ref::<Failure>()?.lines();
    lines.iter().all(|line| line.starts_with(needs)).then(|| {
        let why = format!("{} requirements are missing", lines.len());
        let command = "`cargo xtask build-ptx --codegen nvvm` lists them and how to get them";
        (why, command.to_owned())
    })
}

fn library(builder: &dyn Builder, workspace: &Workspace, machine: &Machine) -> Result<Found<Arc<Cub>>> {
    // SAFETY: the library was built by this repository's command, or named by the user, who is
    // responsible for it as for any program that they start.
    let open = |path: &Path| Ok(Found::Here(unsafe { Cub::open(path) }?));
    if let Some(path) = machine.variable(CUB) {
        return open(Path::new(path));
    }
    if machine.variable(PTX_DIR).is_some() {
        let why = format!("{PTX_DIR} is set, so nothing is built, and {} is not set", CUB);
        let command =
            format!("set it to the {} that `cargo xtask build-twins --cub` makes", CUB_LIBRARY);
        return Ok(Found::Missing(why, command));
    }
    match machine.cuda_program("nvcc") {
        None => Ok(no_nvcc()),
        Some(_) => open(&builder.cub(workspace, machine)?),
    }
}

fn process(machine: &Machine) -> Found<Torch> {
    let command = || {
        let python = torch::PYTHON;
        format!("`pip install torch`, or set {python} to a Python that has it")
    };
    let Some(python) = torch::python(machine) else {
        return Found::Missing("no python3 on the PATH".to_owned(), command());
    };
    match Torch::start(&python) {
        Ok(torch) => Found::Here(torch),
        Err(error) => Found::Missing(format!("{}: {error:#}", python.display()), command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use crate::builder::Ptx;
    use warpfold_suite::Arch;

    struct NoBuilder;

    impl Builder for NoBuilder {
        fn kernels(
            &self,
            _: &Workspace,
            _: &Machine,
            _: Choice,
            _: Option<Arch>,
            _: Kernels,
        ) -> Result<Ptx> {
            unreachable!("kernels are not built here")
        }
        fn twins(&self, _: &Workspace, _: &Machine, _: Option<Arch>) -> Result<Ptx> {
            unreachable!("twins are not built here")
        }
        fn cub(&self, _: &Workspace, _: &Machine) -> Result<PathBuf> {
            unreachable!("CUB is not built here")
        }
    }

    #[test]
    fn unknown_peer_error_names_the_nearest() {
        let others = Peer::OTHERS.map(|peer| parse_other(peer.name()).unwrap());
        let rust = ["llvm", "nvvm"].map(|name| parse_codegen(name).unwrap());
        assert_eq!((others, rust), (Peer::OTHERS, Peer::RUST));
        let error = parse_other("cuda").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown peer `cuda`, did you mean `cuda-c`?; there are cuda-c, cub and torch; \
             --codegen chooses among the Rust kernels"
        );
        let error = parse_codegen("nvm").unwrap_err().to_string();
        assert_eq!(error, "unknown code generator `nvm`, did you mean `nvvm`?; there are llvm and nvvm");
        assert!(parse_other("rust-llvm").is_err() && parse_codegen("cuda-c").is_err());
    }

    fn line<T>(peer: Peer, found: Result<Found<T>>) -> String {
        let mut skipped = Vec::new();
        assert!(peers_or_skip(peer, found.unwrap(), &mut skipped).is_none());
        assert_eq!(skipped.len(), 1);
        assert_eq!(skipped[0].lines().count(), 1, "{skipped:?}");
        skipped.remove(0)
    }

    #[test]
    fn missing_peer_is_one_line_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let bare = Machine::empty(folder.path());
        let workspace = Workspace::at(folder.path()).unwrap();
        let nvcc =
            "no nvcc on the PATH or in a CUDA toolkit; `cargo xtask doctor --fetch-cuda` fetches it";
        assert_eq!(
            line(Peer::CudaC, kernels(Peer::CudaC, &NoBuilder, &bare, Kernels::Suite)),
            format!("skipped: cuda-c: {nvcc}")
        );
        assert_eq!(
            line(Peer::Cub, library(&NoBuilder, &workspace, &bare)),
            format!("skipped: cub: {nvcc}")
        );
        assert_eq!(
            line(Peer::Torch, Ok(process(&bare))),
            "skipped: torch: no python3 on the PATH; `pip install torch`, or set WARPFOLD_PYTHON to a Python that has it"
        );

        let ptx = folder.path().join("ptx");
        std::fs::create_dir_all(ptx.join("llvm/sm_90")).unwrap();
        let packed = bare.clone().with(PTX_DIR, ptx.display().to_string());
        assert!(matches!(
            kernels(Peer::RustLlvm, &NoBuilder, &packed, Kernels::Suite).unwrap(),
            Found::Here(_)
        ));
        let said = line(Peer::RustNvvm, kernels(Peer::RustNvvm, &NoBuilder, &packed, Kernels::Suite));
        assert!(said.starts_with("skipped: rust-nvvm: no PTX by nvvm in /"), "{said}");
        assert!(said.ends_with("; `cargo xtask build-ptx --codegen nvvm` makes it"), "{said}");
        let said = line(Peer::Cub, library(&NoBuilder, &workspace, &packed));
        assert!(said.contains("WARPFOLD_CUB is not set; set it to the libwarpfold_cub.so"), "{said}");

        let needs = ["a", "b"].map(|thing| format!("codegen nvvm needs {thing}"));
        let (why, command) = lacking(&Failure::new(needs).into()).unwrap();
        assert_eq!(why, "2 requirements are missing");
        assert_eq!(command, "`cargo xtask build-ptx --codegen nvvm` lists them and how to get them");
    }

    #[test]
    fn broken_peer_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path()).unwrap();
        let broken = folder.path().join("libwarpfold_cub.so");
        std::fs::write(&broken, "no library").unwrap();
        let machine = Machine::empty(folder.path()).with(CUB, broken.display().to_string());
        let error = library(&NoBuilder, &workspace, &machine).err().unwrap().to_string();
        assert!(error.contains("libwarpfold_cub.so") && error.lines().count() == 1, "{error}");
        assert_eq!(lacking(&Failure::new(["kernels/src/lib.rs: error"]).into()), None);
        assert_eq!(lacking(&anyhow::anyhow!("codegen nvvm needs no words")), None);
        let machine = Machine::empty(folder.path()).with(PTX_DIR, "/no/such/folder");
        assert!(kernels(Peer::RustLlvm, &NoBuilder, &machine, Kernels::Suite).is_err());
    }

    #[test]
    fn strict_requires_all_peers() {
        let folder = tempfile::tempdir().unwrap();
        let store = PtxStore::at(folder.path(), Some(Codegen::Nvvm)).unwrap();
        let kernels = vec![(Peer::RustNvvm, store)];
        let line = "skipped: rust-llvm: no rust-src; fetch it";
        let skipped = vec![line.to_owned()];
        let peers = Peers { kernels: kernels.clone(), skipped: skipped.clone(), ..Peers::default() };
        assert!(peers.require(false).is_ok());
        assert_eq!(peers.require(true).unwrap_err().to_string(), format!("--strict: {line}"));
        assert!(Peers { kernels, ..Peers::default() }.require(true).is_ok());
        // Without Rust kernels there is nothing to compare.
        let peers = Peers { skipped, ..Peers::default() };
        let said = peers.require(false).unwrap_err().to_string();
        assert_eq!(said, format!("no Rust kernels to compare: {line}"));
    }
}
