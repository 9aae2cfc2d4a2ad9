//! Assembles PTX with NVIDIA's `ptxas`, disassembles it with `nvdisasm` and counts the instructions.
//!
//! No GPU is needed. Assembling a file takes about a second, so that the programs' outputs are cached in
//! `target/machine-code` by a hash of all their inputs. Only counting is repeated.

mod cache;
mod disassembly;
mod instructions;
mod resources;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::{
    machine::{Machine, version_of},
    process::{self, Output},
    workspace::Workspace,
};
use cache::{Cache, Listing};
use warpfold_suite::Arch;

pub use instructions::{ByWidth, Instructions};
pub use resources::Resources;

/// Time limit of one program run, far above the time for one file on a slow machine.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineCode {
    pub resources: Resources,
    pub instructions: Instructions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    pub code: MachineCode,
    /// One instruction per line: predicate, operation, operands. The entry's name is replaced by
    /// `entry`, so that equal code of two entries compares equal.
    pub listing: Vec<String>,
}

/// NVIDIA's assembler and disassembler.
#[derive(Debug)]
pub struct Assembler {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
    name: String,
    cache: Cache,
}

impl Assembler {
    pub fn find(workspace: &Workspace, machine: &Machine) -> Result<Self> {
        let [ptxas, nvdisasm] = programs(machine, ["ptxas", "nvdisasm"])?;
        let version = |path: &Path| {
            version_of(path).with_context(|| format!("{} does not answer to --version", path.display()))
        };
        let name = format!("ptxas {}, nvdisasm {}", version(&ptxas)?, version(&nvdisasm)?);
        let cache = Cache::at(workspace.target.join("machine-code"));
        Ok(Self { ptxas, nvdisasm, name, cache })
    }

    /// Returns the programs and their versions, in one line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Assembles a PTX file and returns each entry's machine code by name.
    ///
    /// `label` names the text in errors and in the cache: `llvm-sequential`.
    pub fn machine_code(
        &self,
        label: &str,
        ptx: &str,
        arch: Arch,
    ) -> Result<BTreeMap<String, MachineCode>> {
        let assembled = self.assembled(label, ptx, arch)?;
        Ok(assembled.into_iter().map(|(name, assembled)| (name, assembled.code)).collect())
    }

    /// Assembles like [`machine_code`](Self::machine_code) and returns the listings as well.
    pub fn assembled(&self, label: &str, ptx: &str, arch: Arch) -> Result<BTreeMap<String, Assembled>> {
        let what = || format!("{label} for {arch}");
        let key = (&self.name, ptx);
        let listing = match self.cache.get(arch, label, &key) {
            Some(listing) => listing,
            None => {
                let work = self.cache.work(arch)?;
                let listing = self.assemble(work.path(), ptx, arch).with_context(what)?;
                self.cache.put(work, arch, label, &key, &listing)?;
                listing
            }
        };
        count(&listing).with_context(what)
    }

    fn assemble(&self, folder: &Path, ptx: &str, arch: Arch) -> Result<Listing> {
        fs::write(folder.join("code.ptx"), ptx)
            .with_context(|| format!("{} cannot be written", folder.display()))?;
        let mut ptxas = Command::new(&self.ptxas);
        ptxas.current_dir(folder).arg(format!("-arch={arch}")).args([
            "-v",
            "-o",
            "code.cubin",
            "code.ptx",
        ]);
        let said = process::run(&mut ptxas, LIMIT)?;
        ensure!(said.status.success(), "{}", complaint(&said));

        let mut nvdisasm = Command::new(&self.nvdisasm);
        nvdisasm.current_dir(folder).args(["-json", "code.cubin"]);
        let listed = process::run(&mut nvdisasm, LIMIT)?;
        ensure!(
            listed.status.success(),
            "{}; `cargo xtask doctor --fetch-cuda` fetches an nvdisasm that lists code as JSON",
            complaint(&listed)
        );
        Ok(Listing { resources: said.stdout + &said.stderr, code: listed.stdout })
    }
}

/// Returns the paths of these CUDA programs. If any is missing, the error names the command that fetches
/// it.
pub fn programs<const N: usize>(machine: &Machine, names: [&str; N]) -> Result<[PathBuf; N]> {
    let found = names.map(|name| machine.cuda_program(name));
    let missing: Vec<&str> =
        names.iter().zip(&found).filter(|(_, path)| path.is_none()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        let them = if missing.len() == 1 { "it" } else { "them" };
        let names = missing.join(", no ");
        bail!(
            "no {names} on the PATH or in a CUDA toolkit: `cargo xtask doctor --fetch-cuda` fetches {them}"
        );
    }
    Ok(found.map(Option::unwrap_or_default))
}

fn count(listing: &Listing) -> Result<BTreeMap<String, Assembled>> {
    let mut kernels = disassembly::kernels(&listing.code)?;
    let entries = resources::entries(&listing.resources)?.into_iter().map(|(name, resources)| {
        let kernel = kernels
            .remove(name.as_str())
            .with_context(|| format!("nvdisasm lists no code of {name}"))?;
        let code = MachineCode { resources, instructions: Instructions::of(&kernel) };
        let listing = kernel.lines(&name);
        Ok((name, Assembled { code, listing }))
    });
    entries.collect()
}

/// Returns the first line with an error. Later lines only report that the program gave up.
fn complaint(output: &Output) -> String {
    let lines = || output.stderr.lines().chain(output.stdout.lines()).map(str::trim);
    let is_error = |line: &&str| line.contains("error") || line.contains("fatal");
    let said = lines().find(is_error).or_else(|| lines().find(|line| !line.is_empty()));
    said.map_or_else(|| format!("ended with {}", output.status), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_code_is_an_error() {
        let resources = "ptxas info    : Compiling entry function 'f' for 'sm_90'\nptxas info    : Function properties for f\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 8 registers\n";
        let listing = |code: &str| Listing { resources: resources.to_owned(), code: code.to_owned() };
        let code = r#"[{},[{"function-name":"f","start":0,"length":128,"sass-instructions":[{"opcode":"EXIT"}]}]]"#;
        let entries = count(&listing(code)).unwrap();
        let code = &entries["f"].code;
        assert_eq!((code.resources.registers, code.instructions.total), (8, 1));
        assert_eq!(count(&listing("[{},[]]")).unwrap_err().to_string(), "nvdisasm lists no code of f");
    }

    #[test]
    fn first_error_is_reported() {
        let said = |stderr: &str| {
            let status = std::process::ExitStatus::default();
            complaint(&Output { status, stdout: String::new(), stderr: stderr.to_owned() })
        };
        let two = "ptxas info    : 0 bytes gmem\nptxas code.ptx, line 10; fatal   : Parsing error near 'x'\nptxas fatal   : Ptx assembly aborted due to errors\n";
        assert_eq!(said(two), "ptxas code.ptx, line 10; fatal   : Parsing error near 'x'");
        assert_eq!(said("\n killed\n"), "killed");
        assert_eq!(said(""), "ended with exit status: 0");
    }
}
