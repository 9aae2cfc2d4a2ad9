//! `cargo xtask compare --static --against FOLDER`: compares the Rust kernels with an earlier build.
//!
//! The comparison proves that a change of sources changes no kernel. Each entry of the current PTX is
//! compared with the entry of the same name in a folder of earlier PTX, ignoring names and line tables,
//! and so is the machine code that `ptxas` generates from both.

mod normal;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Error, Result, bail, ensure};
use rayon::prelude::*;
use serde::Serialize;
use warpfold_suite::{
    Arch,
    catalogue::{Variant, Work},
    cli, input, say,
};

use super::{
    machine_code::{self, Assembled, Assembler},
    side_by_side::{kernels_of, rust_folder},
    timed::peers::Peer,
};
use crate::{Builder, failure::Failure, machine::Machine, workspace::Workspace};

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The folder of earlier PTX, with the files of `target/ptx/<codegen>/<arch>`.
    pub folder: &'a Path,
    /// Only these variants; if empty, all variants and the kernels that test the suite.
    pub variants: &'a [&'static Variant],
    /// The code generator of the current PTX, one of [`Peer::RUST`]; if empty, llvm.
    pub codegens: &'a [Peer],
    /// The requested architecture; by default that of the earlier PTX.
    pub arch: Option<Arch>,
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Version {
    ptx_instructions: usize,
    registers: u32,
    sass_instructions: u32,
    static_shared_bytes: u32,
    stack_bytes: u32,
    spill_bytes: u32,
    #[serde(skip)]
    ptx: Vec<String>,
    #[serde(skip)]
    sass: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Pair {
    entry: String,
    earlier: Option<Version>,
    now: Option<Version>,
    same_ptx: bool,
    same_sass: bool,
}

/// Runs the command. Exits 1 when the machine code of an entry differs, or only one side has the entry.
pub fn run(request: &Request<'_>, builder: &dyn Builder) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let machine = Machine::this(&workspace);
    machine_code::programs(&machine, ["ptxas", "nvdisasm"])?;
    let assembler = Assembler::find(&workspace, &machine)?;
    let codegen = match request.codegens {
        [] => Peer::RustLlvm,
        [one] => *one,
        _ => {
            bail!(
                "--against compares the PTX of one code generator with its earlier PTX; name one with \
                 --codegen"
            )
        }
    };
    let earlier = files(request.folder, request.variants)?;
    let arch = arch(request, &earlier)?;
    let folder =
        rust_folder(builder, &workspace, &machine, codegen, arch, kernels_of(request.variants))?;
    let now = files(&folder, request.variants)?;
    // The same label as without `--against`, so that both comparisons share cache entries.
    let label = codegen.name().trim_start_matches("rust-");
    let earlier = versions(&assembler, "earlier", &earlier, arch)?;
    let pairs = pairs(earlier, versions(&assembler, label, &now, arch)?);
    let mut out = cli::stdout();
    if request.json {
        for pair in &pairs {
            writeln!(out, "{}", serde_json::to_string(pair)?)?;
        }
    } else if let Some(table) = table::table(&pairs) {
        writeln!(out, "{table}")?;
    }
    let summary = format!("{}; {}", table::summary(&pairs), assembler.name());
    if request.json {
        say!("{summary}")
    } else {
        writeln!(out, "{summary}")?
    }
    Ok(ExitCode::from(u8::from(!pairs.iter().all(|pair| pair.same_sass))))
}

fn files(folder: &Path, variants: &[&'static Variant]) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(folder).with_context(|| {
        format!("{} cannot be read: --against names a folder of PTX", folder.display())
    })?;
    let is_wanted = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let of = |variant: &&Variant| match variant.work {
            Work::Reducer => stem.starts_with(&format!("{}_", variant.id)),
            _ => stem == variant.id,
        };
        path.extension().is_some_and(|end| end == "ptx")
            && (variants.is_empty() || variants.iter().any(of))
    };
    let mut files = Vec::new();
    for entry in listed {
        files.push(entry?.path());
    }
    files.retain(is_wanted);
    files.sort();
    ensure!(
        !files.is_empty(),
        "{} has no PTX of these variants; their files are <variant>.ptx",
        folder.display()
    );
    Ok(files)
}

/// Returns the earlier PTX's architecture, from which `--arch` may not differ.
fn arch(request: &Request<'_>, files: &[PathBuf]) -> Result<Arch> {
    let mut named = BTreeSet::new();
    for path in files {
        let text = read(path)?;
        let target = text.lines().find_map(|line| line.strip_prefix(".target "));
        let target =
            target.and_then(|target| target.split(',').next()).map(|target| target.trim().to_owned());
        named.insert(target.with_context(|| format!("{} has no .target directive", path.display()))?);
    }
    let folder = request.folder.display();
    let all: Vec<String> = named.into_iter().collect();
    ensure!(
        all.len() == 1,
        "{folder} has PTX for {}; give a folder of one architecture",
        all.join(", ")
    );
    let arch: Arch = all[0].parse()?;
    match request.arch {
        Some(wanted) if wanted != arch => {
            bail!("{folder} has PTX for {arch}, but --arch is {wanted}; leave --arch out")
        }
        _ => Ok(arch),
    }
}

fn read(path: &Path) -> Result<String> {
    let text = input::text(path, input::MAX_PTX).map_err(Error::msg);
    text.with_context(|| format!("{} cannot be read", path.display()))
}

fn versions(
    assembler: &Assembler,
    side: &str,
    files: &[PathBuf],
    arch: Arch,
) -> Result<BTreeMap<String, Version>> {
    let results: Vec<Result<BTreeMap<String, Version>>> =
        files.par_iter().map(|path| file(assembler, side, path, arch)).collect();
    let mut versions = BTreeMap::new();
    let mut failed = Vec::new();
    for result in results {
        match result {
            Ok(some) => versions.extend(some),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if failed.is_empty() { Ok(versions) } else { Err(Failure::new(failed).into()) }
}

fn file(
    assembler: &Assembler,
    side: &str,
    path: &Path,
    arch: Arch,
) -> Result<BTreeMap<String, Version>> {
    let ptx = read(path)?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut assembled = assembler.assembled(&format!("{side}-{stem}"), &ptx, arch)?;
    let codes = normal::entries(&ptx).with_context(|| path.display().to_string())?;
    let version = |(name, code): (String, normal::Code)| {
        let lacks = || format!("{}: ptxas produced no code for {name}", path.display());
        let assembled = assembled.remove(&name).with_context(lacks)?;
        Ok((name, Version::new(code, assembled)))
    };
    codes.into_iter().map(version).collect()
}

impl Version {
    fn new(ptx: normal::Code, Assembled { code, listing }: Assembled) -> Self {
        let resources = code.resources;
        Self {
            ptx_instructions: ptx.instructions,
            registers: resources.registers,
            sass_instructions: code.instructions.total,
            static_shared_bytes: resources.static_shared_bytes,
            stack_bytes: resources.stack_bytes,
            spill_bytes: resources.spill_store_bytes + resources.spill_load_bytes,
            ptx: ptx.lines,
            sass: listing,
        }
    }
}

fn pairs(mut earlier: BTreeMap<String, Version>, mut now: BTreeMap<String, Version>) -> Vec<Pair> {
    let names: BTreeSet<String> = earlier.keys().chain(now.keys()).cloned().collect();
    let pair = |entry: String| {
        let (earlier, now) = (earlier.remove(&entry), now.remove(&entry));
        let same = |of: fn(&Version) -> &[String]| match (&earlier, &now) {
            (Some(earlier), Some(now)) => of(earlier) == of(now),
            _ => false,
        };
        let (same_ptx, same_sass) = (same(|version| &version.ptx), same(|version| &version.sass));
        Pair { entry, earlier, now, same_ptx, same_sass }
    };
    names.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests;
