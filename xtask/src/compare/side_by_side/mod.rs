//! `cargo xtask compare --static`: the machine code of every Rust kernel beside its CUDA C twin's.
//!
//! Both sides are PTX, assembled by the same `ptxas` for the same architecture, so that what differs
//! is what the compilers and the sources make of it. Nothing is timed, and no GPU takes part.

mod executed;
mod table;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde::Serialize;
use warpfold::{
    Codegen, Dtype, Op,
    catalogue::{VARIANTS, Variant},
};

use super::machine_code::{self, Assembler, MachineCode};
use crate::{
    arch::Arch,
    build_ptx::{self, Choice},
    doctor::Machine,
    failure::Failure,
    suite, twins,
    workspace::Workspace,
};
pub use executed::Executed;

/// What is compiled for where nothing else is asked for: tables of one architecture compare, wherever
/// they are made.
const ARCH: Arch = Arch::of_compute_capability(9, 0);

/// A row is marked where Rust needs over 10 % more than its twin.
const MARK: f64 = 1.1;

/// What to compare.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Only these variants; none are all.
    pub variants: &'a [&'static Variant],
    /// Only these types; none are all.
    pub dtypes: &'a [Dtype],
    /// The architecture, if the user named one.
    pub arch: Option<Arch>,
    /// Elements of the runs in the simulator; 0 leaves them out.
    pub sim_n: u64,
    /// One JSON object per entry and compiler in place of the table.
    pub json: bool,
}

/// An entry point: what a variant has for one operation and type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Entry {
    /// Its name in the PTX.
    #[serde(rename = "entry")]
    pub name: String,
    /// The variant that it is of.
    pub variant: &'static str,
    /// The operation; none where elements are moved and nothing is computed.
    pub op: Option<Op>,
    /// The elements' type.
    pub dtype: Dtype,
}

/// An entry as one compiler made it. One line of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Which entry.
    #[serde(flatten)]
    pub entry: Entry,
    /// What compiled it to PTX: `rust-llvm`, `rust-nvvm` or `cuda-c`.
    pub compiler: &'static str,
    /// What it is assembled for.
    pub arch: String,
    /// What assembled it and took it apart.
    pub tools: String,
    /// The outcome.
    #[serde(flatten)]
    pub code: MachineCode,
    /// What the simulator counted; none where it has no run of such a kernel.
    pub executed: Option<Executed>,
}

/// A Rust kernel and its twin.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// By one of the code generators for Rust.
    pub rust: &'a Side,
    /// By nvcc.
    pub twin: &'a Side,
}

/// The command.
///
/// # Errors
/// Missing programs, kernels or twins that do not compile, PTX that `ptxas` rejects, and nothing to
/// compare.
pub fn run(request: &Request<'_>) -> Result<()> {
    let workspace = Workspace::locate()?;
    let machine = Machine::this(&workspace);
    machine_code::programs(&machine, ["nvcc", "ptxas", "nvdisasm"])?;
    let assembler = Assembler::find(&workspace, &machine)?;
    if request.arch.is_none() {
        eprintln!("for {ARCH}, as on every machine; --arch chooses another");
    }
    let arch = request.arch.unwrap_or(ARCH);
    let sources = sources(&workspace, &machine, request, arch)?;
    let mut sides = assemble(&assembler, &sources, request, arch)?;
    if sides.is_empty() {
        bail!("no kernel to compare: none of these variants has one for these types on {arch}");
    }
    if request.sim_n > 0 {
        executed::count(&workspace, arch, request.sim_n, &mut sides)?;
    }
    if request.json {
        for side in &sides {
            println!("{}", serde_json::to_string(side)?);
        }
    }
    let rows = rows(&sides);
    if !request.json {
        println!("{}", table::table(&rows));
    }
    without_partner(&sides);
    let marked = rows.iter().filter(|row| !row.marks().is_empty()).count();
    eprintln!("{} rows, {marked} marked: over 10 % more by Rust; {}", rows.len(), assembler.name());
    Ok(())
}

/// A PTX file of a variant.
struct Source {
    codegen: Codegen,
    variant: &'static str,
    path: PathBuf,
}

/// The files of all compilers for the variants that are asked for, built where they are not.
fn sources(
    workspace: &Workspace,
    machine: &Machine,
    request: &Request<'_>,
    arch: Arch,
) -> Result<Vec<Source>> {
    let rust = build_ptx::ensure(
        workspace,
        &build_ptx::Request {
            codegen: Choice::Llvm,
            arch: Some(arch),
            detect_arch: &|| None,
            variants: &suite::variants(),
            machine,
            verbose: false,
        },
    )?;
    let twins = twins::ensure(workspace, machine, Some(arch))?;
    // Its compiler is rarely at hand: what it made is taken as it is.
    let nvvm = folder(workspace, Codegen::Nvvm, arch);
    if nvvm.is_dir() {
        eprintln!("{}: as it was built", workspace.show(&nvvm));
    }
    let wanted = |variant: &&Variant| {
        request.variants.is_empty() || request.variants.iter().any(|wanted| wanted.id == variant.id)
    };
    let folders = [(Codegen::Llvm, rust.folder), (Codegen::Nvvm, nvvm), (Codegen::CudaC, twins.folder)];
    let files = VARIANTS.iter().filter(wanted).flat_map(|variant| {
        folders.iter().map(|(codegen, folder)| Source {
            codegen: *codegen,
            variant: variant.id,
            path: folder.join(variant.id).with_extension("ptx"),
        })
    });
    Ok(files.filter(|source| source.path.is_file()).collect())
}

fn folder(workspace: &Workspace, codegen: Codegen, arch: Arch) -> PathBuf {
    workspace.target.join("ptx").join(codegen.name()).join(arch.to_string())
}

/// Every entry of every file, in the order of the catalogue, compilers of an entry side by side.
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
    let order = |side: &Side| (place(side.entry.variant), side.entry.dtype, side.entry.op);
    sides.sort_by_key(order);
    Ok(sides)
}

impl Source {
    fn sides(&self, assembler: &Assembler, arch: Arch) -> Result<Vec<Side>> {
        let Self { codegen, variant, ref path } = *self;
        let ptx = read(path)?;
        let entries = assembler.machine_code(&format!("{codegen}-{variant}"), &ptx, arch)?;
        entries
            .into_iter()
            .map(|(name, code)| {
                let entry = Entry::of(variant, &name).with_context(|| {
                    format!("{}: {name} is no {variant}_<op>_<dtype>", path.display())
                })?;
                let (arch, tools) = (arch.to_string(), assembler.name().to_owned());
                Ok(Side { entry, compiler: compiler(codegen), arch, tools, code, executed: None })
            })
            .collect()
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// What a compiler of PTX is called in a comparison.
const fn compiler(codegen: Codegen) -> &'static str {
    match codegen {
        Codegen::Llvm => "rust-llvm",
        Codegen::Nvvm => "rust-nvvm",
        Codegen::CudaC => TWIN,
    }
}

const TWIN: &str = "cuda-c";

impl Entry {
    /// The entry that a PTX symbol is: `<variant>_<op>_<dtype>` or `<variant>_<dtype>`.
    fn of(variant: &'static str, symbol: &str) -> Option<Self> {
        let rest = symbol.strip_prefix(variant)?.strip_prefix('_')?;
        let (op, dtype) = match rest.split_once('_') {
            Some((op, dtype)) => (Some(op.parse().ok()?), dtype),
            None => (None, rest),
        };
        Some(Self { name: symbol.to_owned(), variant, op, dtype: dtype.parse().ok()? })
    }
}

/// Each Rust side with its twin.
fn rows(sides: &[Side]) -> Vec<Row<'_>> {
    let (twins, rust): (Vec<&Side>, Vec<&Side>) = sides.iter().partition(|side| side.is_twin());
    let twins: BTreeMap<&str, &Side> =
        twins.into_iter().map(|twin| (twin.entry.name.as_str(), twin)).collect();
    let with_twin = |rust| Some(Row { rust, twin: twins.get(rust.entry.name.as_str())? });
    rust.into_iter().filter_map(|rust: &Side| with_twin(rust)).collect()
}

/// Tells of the entries that nothing stands beside, one line per variant.
fn without_partner(sides: &[Side]) {
    let mut lonely: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for side in sides {
        let partner =
            |other: &&Side| other.entry.name == side.entry.name && other.is_twin() != side.is_twin();
        if !sides.iter().any(|other| partner(&other)) {
            let lacks = if side.is_twin() { "Rust kernel" } else { "CUDA C twin" };
            *lonely.entry((side.entry.variant, lacks)).or_default() += 1;
        }
    }
    for ((variant, lacks), entries) in lonely {
        eprintln!("{variant}: {entries} entries without a {lacks}");
    }
}

impl Side {
    fn is_twin(&self) -> bool {
        self.compiler == TWIN
    }
}

impl Row<'_> {
    /// Rust over CUDA C in registers.
    pub fn registers(&self) -> f64 {
        ratio(self.rust.code.resources.registers.into(), self.twin.code.resources.registers.into())
    }

    /// Rust over CUDA C in instructions of the machine code.
    pub fn instructions(&self) -> f64 {
        ratio(self.rust.code.instructions.total.into(), self.twin.code.instructions.total.into())
    }

    /// Rust over CUDA C in PTX instructions that a run executes.
    pub fn executed(&self) -> Option<f64> {
        let of = |side: &Side| side.executed.map(|executed| executed.warp_instructions);
        Some(ratio(of(self.rust)?, of(self.twin)?))
    }

    /// What Rust needs over 10 % more of. Registers are marked by what the code uses, and said to be
    /// allocated alike where that makes no difference to a launch.
    pub fn marks(&self) -> Vec<&'static str> {
        let allocated = [self.rust, self.twin].map(|side| side.code.resources.allocated_registers());
        let registers =
            if allocated[0] == allocated[1] { "registers (allocated alike)" } else { "registers" };
        let needs = [(registers, self.registers()), ("instructions", self.instructions())];
        needs.into_iter().filter(|(_, ratio)| *ratio > MARK).map(|(what, _)| what).collect()
    }
}

/// One count over another; both are of the same thing, of which a kernel has at least one.
fn ratio(rust: u64, twin: u64) -> f64 {
    rust as f64 / twin.max(1) as f64
}

#[cfg(test)]
mod tests;
