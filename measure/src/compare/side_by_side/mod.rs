//! `cargo xtask compare --static`: compares the machine code of every Rust kernel, by both code
//! generators, with that of its CUDA C twin. The reducer, which has no twin, is compared between the
//! code generators.
//!
//! All sides are PTX, assembled by the same `ptxas` for the same architecture, so that differences are
//! due to compilers and sources alone. Nothing is timed, and no GPU is needed.

mod executed;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Error, Result, bail, ensure};
use rayon::prelude::*;
use serde::Serialize;
use warpfold_suite::{
    Arch, Codegen, Dtype, Op,
    catalogue::{self, Family, KernelFile, VARIANTS, Variant, Work},
    cli, input, say,
};

use super::{
    machine_code::{self, Assembler, MachineCode},
    timed::peers::{self, Peer},
};
use crate::{
    Builder,
    builder::{Choice, Kernels},
    failure::Failure,
    machine::Machine,
    workspace::Workspace,
};
pub use executed::Executed;

/// Default architecture, the same on all machines so that their tables can be compared.
const ARCH: Arch = Arch::new(9, 0);

/// A row is marked if Rust needs over 10 % more than its twin.
const MARK: f64 = 1.1;

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Only these variants; if empty, all.
    pub variants: &'a [&'static Variant],
    /// Only these types; if empty, all.
    pub dtypes: &'a [Dtype],
    /// The code generators of [`Peer::RUST`] to compare; if empty, all.
    pub codegens: &'a [Peer],
    /// Makes an unavailable code generator an error.
    pub strict: bool,
    pub arch: Option<Arch>,
    /// Elements of the runs in the simulator; 0 skips these runs.
    pub sim_n: u64,
    pub json: bool,
}

/// An entry point of a variant for one operation and type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Entry {
    #[serde(rename = "entry")]
    pub name: String,
    pub variant: &'static str,
    /// The operation; `None` for kernels that only move elements.
    pub op: Option<Op>,
    pub dtype: Dtype,
    /// The reducer's kernel; `None` for other variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// An entry as compiled by one compiler: one line of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    #[serde(flatten)]
    pub entry: Entry,
    /// The compiler to PTX: `rust-llvm`, `rust-nvvm` or `cuda-c`.
    pub compiler: &'static str,
    pub arch: String,
    /// The assembler and disassembler, with versions.
    pub tools: String,
    #[serde(flatten)]
    pub code: MachineCode,
    /// The simulator's counts; `None` if the kernel was not run there.
    pub executed: Option<Executed>,
}

/// A Rust kernel and the kernel that it is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The Rust kernel, by either code generator.
    pub rust: &'a Side,
    /// The CUDA C twin; if there is none, the same Rust kernel by llvm.
    pub twin: &'a Side,
}

pub fn run(request: &Request<'_>, builder: &dyn Builder) -> Result<()> {
    let workspace = Workspace::locate()?;
    let machine = Machine::this(&workspace);
    machine_code::programs(&machine, ["nvcc", "ptxas", "nvdisasm"])?;
    let assembler = Assembler::find(&workspace, &machine)?;
    if request.arch.is_none() {
        say!("for {ARCH}, as on every machine; --arch chooses another");
    }
    let arch = request.arch.unwrap_or(ARCH);
    let sources = sources(builder, &workspace, &machine, request, arch)?;
    let mut sides = assemble(&assembler, &sources, request, arch)?;
    if sides.is_empty() {
        bail!("no kernel to compare: none of these variants has one for these types on {arch}");
    }
    if request.sim_n > 0 {
        executed::count(&workspace, arch, request.sim_n, &mut sides)?;
    }
    let mut out = cli::stdout();
    if request.json {
        for side in &sides {
            writeln!(out, "{}", serde_json::to_string(side)?)?;
        }
    }
    let rows = rows(&sides);
    if !request.json {
        writeln!(out, "{}", table::table(&rows))?;
    }
    missing(&sides).iter().for_each(|line| say!("{line}"));
    let marked = rows.iter().filter(|row| !row.marks().is_empty()).count();
    let tools = assembler.name();
    say!("{} rows, {marked} marked: over 10 % more than the kernel beside it; {tools}", rows.len());
    Ok(())
}

struct Source {
    codegen: Codegen,
    variant: &'static str,
    path: PathBuf,
}

/// Returns the requested variants' files of all compilers, building those that are stale.
fn sources(
    builder: &dyn Builder,
    workspace: &Workspace,
    machine: &Machine,
    request: &Request<'_>,
    arch: Arch,
) -> Result<Vec<Source>> {
    let wanted = |variant: &&Variant| {
        request.variants.is_empty() || request.variants.iter().any(|wanted| wanted.id == variant.id)
    };
    let mut sources = Vec::new();
    for (codegen, folder) in folders(builder, workspace, machine, request, arch)? {
        for variant in VARIANTS.iter().filter(wanted) {
            sources.extend(files(variant).into_iter().map(|file| Source {
                codegen,
                variant: variant.id,
                path: folder.join(file).with_extension("ptx"),
            }));
        }
    }
    sources.retain(|source| source.path.is_file());
    Ok(sources)
}

fn files(variant: &Variant) -> Vec<String> {
    match variant.work {
        Work::Reducer => {
            let reductions = KernelFile::all().filter(|file| matches!(file, KernelFile::Reduction(..)));
            reductions.map(KernelFile::name).collect()
        }
        _ => vec![variant.id.to_owned()],
    }
}

fn folders(
    builder: &dyn Builder,
    workspace: &Workspace,
    machine: &Machine,
    request: &Request<'_>,
    arch: Arch,
) -> Result<Vec<(Codegen, PathBuf)>> {
    let codegens = if request.codegens.is_empty() { &Peer::RUST[..] } else { request.codegens };
    let mut folders = Vec::new();
    for &peer in codegens {
        match rust_folder(builder, workspace, machine, peer, arch, kernels_of(request.variants)) {
            Ok(folder) => folders.push((codegen(peer), folder)),
            Err(error) => match peers::lacking(&error) {
                Some((why, command)) if !request.strict => {
                    say!("skipped: {peer}: {why}; {command}")
                }
                _ => return Err(error),
            },
        }
    }
    ensure!(
        !folders.is_empty(),
        "no Rust kernels to compare: the requested code generators are missing"
    );
    folders.push((Codegen::CudaC, builder.twins(workspace, machine, Some(arch))?.folder));
    Ok(folders)
}

const fn codegen(peer: Peer) -> Codegen {
    match peer {
        Peer::RustNvvm => Codegen::Nvvm,
        _ => Codegen::Llvm,
    }
}

/// Returns the kernels to build for these variants, or for all variants if the slice is empty. Builds
/// for the reducer include all kernels of the library.
pub(super) fn kernels_of(variants: &[&Variant]) -> Kernels {
    let others = |variant: &&Variant| variant.work != Work::Reducer;
    if !variants.is_empty() && variants.iter().all(others) { Kernels::Suite } else { Kernels::All }
}

/// Returns the folder of the Rust kernels' current PTX by a code generator. If a requirement of the code
/// generator is missing, a prebuilt folder is used unchanged.
pub(super) fn rust_folder(
    builder: &dyn Builder,
    workspace: &Workspace,
    machine: &Machine,
    peer: Peer,
    arch: Arch,
    kernels: Kernels,
) -> Result<PathBuf> {
    let codegen = codegen(peer);
    let choice = if codegen == Codegen::Nvvm { Choice::Nvvm } else { Choice::Llvm };
    let built = builder.kernels(workspace, machine, choice, Some(arch), kernels);
    let folder = workspace.target.join("ptx").join(codegen.name()).join(arch.to_string());
    match built {
        Ok(built) => Ok(built.folder),
        Err(error) if peers::lacking(&error).is_some() && folder.is_dir() => {
            say!("{}: used as it is, because its compiler is missing", workspace.show(&folder));
            Ok(folder)
        }
        Err(error) => Err(error),
    }
}

fn assemble(
    assembler: &Assembler,
    sources: &[Source],
    request: &Request<'_>,
    arch: Arch,
) -> Result<Vec<Side>> {
    let results: Vec<Result<Vec<Side>>> =
        sources.par_iter().map(|source| source.sides(assembler, arch)).collect();
    let mut sides = Vec::new();
    let mut failed = Vec::new();
    for result in results {
        match result {
            Ok(some) => sides.extend(some),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if !failed.is_empty() {
        return Err(Failure::new(failed).into());
    }
    sides.retain(|side| request.dtypes.is_empty() || request.dtypes.contains(&side.entry.dtype));
    let place = |id| VARIANTS.iter().position(|variant| variant.id == id);
    sides.sort_by_cached_key(|Side { entry, .. }| {
        (place(entry.variant), entry.dtype, entry.op, entry.kernel.clone())
    });
    Ok(sides)
}

impl Source {
    fn sides(&self, assembler: &Assembler, arch: Arch) -> Result<Vec<Side>> {
        let Self { codegen, variant, ref path } = *self;
        let ptx = read(path)?;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(variant);
        let entries = assembler.machine_code(&format!("{codegen}-{stem}"), &ptx, arch)?;
        entries
            .into_iter()
            .map(|(name, code)| {
                let entry = Entry::of(variant, &name).with_context(|| {
                    format!("{}: {name} is not named {variant}_<op>_<dtype>", path.display())
                })?;
                let (arch, tools) = (arch.to_string(), assembler.name().to_owned());
                Ok(Side { entry, compiler: compiler(codegen), arch, tools, code, executed: None })
            })
            .collect()
    }
}

fn read(path: &Path) -> Result<String> {
    let text = input::text(path, input::MAX_PTX).map_err(Error::msg);
    text.with_context(|| format!("{} cannot be read", path.display()))
}

const fn compiler(codegen: Codegen) -> &'static str {
    match codegen {
        Codegen::Llvm => "rust-llvm",
        Codegen::Nvvm => "rust-nvvm",
        Codegen::CudaC => TWIN,
    }
}

const TWIN: &str = "cuda-c";

impl Entry {
    /// Parses a PTX symbol: `<variant>_<op>_<dtype>` or `<variant>_<dtype>`, or that of a [`Family`] of
    /// the reducer's kernels.
    fn of(variant: &'static str, symbol: &str) -> Option<Self> {
        if catalogue::find(variant).is_ok_and(|row| row.work == Work::Reducer) {
            return Family::ALL.iter().find_map(|&family| Self::of_reducer(variant, symbol, family));
        }
        let rest = symbol.strip_prefix(variant)?.strip_prefix('_')?;
        let (op, dtype) = match rest.split_once('_') {
            Some((op, dtype)) => (Some(op.parse().ok()?), dtype),
            None => (None, rest),
        };
        Some(Self { name: symbol.to_owned(), variant, op, dtype: dtype.parse().ok()?, kernel: None })
    }

    fn of_reducer(variant: &'static str, symbol: &str, family: Family) -> Option<Self> {
        let (rest, kernel) = symbol.strip_prefix(family.prefix())?.rsplit_once('_')?;
        let (op, dtype) = rest.split_once('_')?;
        let kernel = family.kernels().into_iter().find(|known| known.name == kernel)?.name;
        let kernel = match family {
            Family::Buffer => kernel.to_owned(),
            Family::Counted => "counted".to_owned(),
            Family::Rows => format!("rows, {kernel}"),
            Family::Axis => format!("axis, {kernel}"),
            Family::View => format!("view, {kernel}"),
            Family::Segments => "segments".to_owned(),
            Family::Continued => "continued".to_owned(),
            Family::Buffers => "buffers".to_owned(),
        };
        let (name, op, dtype) = (symbol.to_owned(), Some(op.parse().ok()?), dtype.parse().ok()?);
        Some(Self { name, variant, op, dtype, kernel: Some(kernel) })
    }
}

/// Pairs each Rust side with its twin. If there is no twin, pairs nvvm's side with llvm's.
fn rows(sides: &[Side]) -> Vec<Row<'_>> {
    let by = |compiler: &str| -> BTreeMap<&str, &Side> {
        let mine = sides.iter().filter(|side| side.compiler == compiler);
        mine.map(|side| (side.entry.name.as_str(), side)).collect()
    };
    let (twins, llvm) = (by(TWIN), by(compiler(Codegen::Llvm)));
    let beside = |rust: &Side| {
        let name = rust.entry.name.as_str();
        let own = rust.compiler == compiler(Codegen::Llvm);
        twins.get(name).or_else(|| llvm.get(name).filter(|_| !own)).copied()
    };
    let rust = sides.iter().filter(|side| !side.is_twin());
    rust.filter_map(|rust| Some(Row { rust, twin: beside(rust)? })).collect()
}

/// Returns a line for each variant and compiler that lacks entries which another compiler has. Twins of
/// the reducer's entries are not expected.
fn missing(sides: &[Side]) -> Vec<String> {
    let compilers: BTreeSet<&str> = sides.iter().map(|side| side.compiler).collect();
    let entries: BTreeSet<&Entry> = sides.iter().map(|side| &side.entry).collect();
    let has: BTreeSet<(&str, &str)> =
        sides.iter().map(|side| (side.entry.name.as_str(), side.compiler)).collect();
    let mut lacking: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (entry, &compiler) in entries.iter().flat_map(|e| compilers.iter().map(move |c| (e, c))) {
        let expected = compiler != TWIN || entry.kernel.is_none();
        if expected && !has.contains(&(entry.name.as_str(), compiler)) {
            *lacking.entry((entry.variant, compiler)).or_default() += 1;
        }
    }
    let line = |((variant, compiler), entries)| format!("{variant}: {compiler} lacks {entries} entries");
    lacking.into_iter().map(line).collect()
}

impl Side {
    fn is_twin(&self) -> bool {
        self.compiler == TWIN
    }
}

impl Row<'_> {
    /// Returns the ratio of registers, Rust over CUDA C.
    pub fn registers(&self) -> f64 {
        ratio(self.rust.code.resources.registers.into(), self.twin.code.resources.registers.into())
    }

    /// Returns the ratio of machine instructions, Rust over CUDA C.
    pub fn instructions(&self) -> f64 {
        ratio(self.rust.code.instructions.total.into(), self.twin.code.instructions.total.into())
    }

    /// Returns the ratio of executed PTX instructions, Rust over CUDA C.
    pub fn executed(&self) -> Option<f64> {
        let of = |side: &Side| side.executed.map(|executed| executed.warp_instructions);
        Some(ratio(of(self.rust)?, of(self.twin)?))
    }

    /// Returns the names of the counts that are over 10 % higher for Rust. For registers, the name tells
    /// if the number allocated is the same, because then the occupancy is the same too.
    pub fn marks(&self) -> Vec<&'static str> {
        let allocated = [self.rust, self.twin].map(|side| side.code.resources.allocated_registers());
        let registers =
            if allocated[0] == allocated[1] { "registers (allocated alike)" } else { "registers" };
        let needs = [(registers, self.registers()), ("instructions", self.instructions())];
        needs.into_iter().filter(|(_, ratio)| *ratio > MARK).map(|(what, _)| what).collect()
    }
}

fn ratio(rust: u64, twin: u64) -> f64 {
    rust as f64 / twin.max(1) as f64
}

#[cfg(test)]
mod tests;
