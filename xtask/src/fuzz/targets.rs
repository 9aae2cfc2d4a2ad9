//! The fuzz targets: each takes any bytes and returns a line about the outcome.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use warpfold::{Element, Reducer, op};
use warpfold_measure::report;
use warpfold_sim::{Args, Config, Entry, Error, Gpu, Launch, Module};
use warpfold_suite::{Device, DeviceInfo, Selection, Tuning, input, shortened, visible};

use super::program;

/// A receiver of random input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// PTX, parsed and decoded
    Ptx,
    /// PTX whose entries are all run
    Execute,
    /// Files given to warpfold-sim: fat binaries, programs and PTX, listed and run
    Sim,
    /// Elements from a file: .npy
    Npy,
    /// The tuning of a reducer
    Tuning,
    /// An expression and, on the next line, a condition, compiled and run for several types
    Expression,
    /// Results, shown as a page
    Results,
    /// Calls of the simulator as a CUDA driver
    Driver,
    /// The program on an .npy
    ProgramNpy,
    /// The program on an .npz
    ProgramNpz,
    /// The program on columns of an Arrow file or stream
    ProgramArrow,
    /// The program on columns of Parquet
    ProgramParquet,
    /// The program on raw elements
    ProgramRaw,
    /// The program on offsets of segments
    ProgramOffsets,
    /// The program on keys
    ProgramKeys,
    /// A target that fails if its input says so, for tests of the fuzzer
    #[value(hide = true)]
    Planted,
}

impl Target {
    /// All targets except [`Planted`](Self::Planted).
    pub const ALL: &'static [Self] = &[
        Self::Ptx,
        Self::Execute,
        Self::Sim,
        Self::Npy,
        Self::Tuning,
        Self::Expression,
        Self::Results,
        Self::Driver,
        Self::ProgramNpy,
        Self::ProgramNpz,
        Self::ProgramArrow,
        Self::ProgramParquet,
        Self::ProgramRaw,
        Self::ProgramOffsets,
        Self::ProgramKeys,
    ];

    /// Returns the target's name, which also names its corpus folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ptx => "ptx",
            Self::Execute => "execute",
            Self::Sim => "sim",
            Self::Npy => "npy",
            Self::Tuning => "tuning",
            Self::Expression => "expression",
            Self::Results => "results",
            Self::Driver => "driver",
            Self::ProgramNpy => "program-npy",
            Self::ProgramNpz => "program-npz",
            Self::ProgramArrow => "program-arrow",
            Self::ProgramParquet => "program-parquet",
            Self::ProgramRaw => "program-raw",
            Self::ProgramOffsets => "program-offsets",
            Self::ProgramKeys => "program-keys",
            Self::Planted => "planted",
        }
    }
}

impl Target {
    /// Returns the folders of the committed inputs, relative to the root.
    pub(super) fn corpus(self) -> &'static [&'static str] {
        match self {
            // Compiler output that is committed for other tests.
            Self::Ptx | Self::Execute => &["tests/corpus/ptx", "sim/tests/ptx"],
            Self::Sim => &["tests/corpus/sim", "tests/corpus/ptx"],
            Self::Npy => &["tests/corpus/npy"],
            Self::Tuning => &["tests/corpus/tuning"],
            Self::Expression => &["tests/corpus/expression"],
            Self::Results => &["tests/corpus/results"],
            Self::Driver => &["tests/corpus/driver"],
            Self::ProgramNpy => &["tests/corpus/program-npy", "tests/corpus/npy"],
            Self::ProgramNpz => &["tests/corpus/program-npz"],
            Self::ProgramArrow => &["tests/corpus/program-arrow"],
            Self::ProgramParquet => &["tests/corpus/program-parquet"],
            Self::ProgramRaw => &["tests/corpus/program-raw"],
            Self::ProgramOffsets => &["tests/corpus/program-offsets"],
            Self::ProgramKeys => &["tests/corpus/program-keys"],
            Self::Planted => &["tests/corpus/planted"],
        }
    }
}

impl Target {
    /// Returns the program's arguments for an input, which is the file `a`.
    pub(super) fn call(self) -> Option<&'static str> {
        Some(match self {
            Self::ProgramNpy => "a --format npy --op sum,argmax,spread --axis -1 --json",
            Self::ProgramNpz => "a --format npz --op sum,argmax --json",
            Self::ProgramArrow => "a --format arrow --column x --by-column k --op sum,argmax --json",
            Self::ProgramParquet => "a --format parquet --column x --by-column k --op sum,argmax --json",
            Self::ProgramRaw => "a --format raw --dtype i16 --op sum,argmax,spread --json",
            Self::ProgramOffsets => "v.npy --offsets a --op sum,max --json",
            Self::ProgramKeys => "v.npy --by a --op sum,max --json",
            _ => return None,
        })
    }
}

pub(super) struct Ready {
    target: Target,
    folder: tempfile::TempDir,
    info: DeviceInfo,
}

impl Ready {
    pub(super) fn new(target: Target) -> Result<Self> {
        // In memory if possible, because thousands of files are written per second.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.context("a temporary folder cannot be created")?;
        if target.call().is_some() {
            fs::write(folder.path().join(program::ARRAY), program::array())?;
        }
        Ok(Self { target, folder, info: Device::open(Selection::Sim)?.info().clone() })
    }

    pub(super) fn is_in_process(&self) -> bool {
        self.target.call().is_none()
    }

    /// Tries an input; returns the outcome. Panics if a guarantee is violated, which is a finding, like
    /// any other end of the process.
    pub(super) fn run(&self, bytes: &[u8]) -> Result<String> {
        let said = match self.target {
            Target::Ptx => parse(bytes),
            Target::Execute => execute(bytes),
            Target::Sim => sim(&self.file("image", bytes)?),
            Target::Npy => npy(&self.file("a.npy", bytes)?, bytes.len()),
            Target::Tuning => tuning(&self.file("tuning.json", bytes)?, &self.info),
            Target::Expression => expression(bytes),
            Target::Results => {
                let set = self.file("sets/a.jsonl", bytes)?;
                let library = self.library(bytes)?;
                let said = [set.parent(), library.parent().and_then(Path::parent)]
                    .map(|folder| results(folder.expect("a file is in a folder")));
                said.join("; ")
            }
            Target::Driver => super::driver::run(bytes),
            Target::ProgramNpy
            | Target::ProgramNpz
            | Target::ProgramArrow
            | Target::ProgramParquet
            | Target::ProgramRaw
            | Target::ProgramOffsets
            | Target::ProgramKeys => {
                self.file("a", bytes)?;
                program::run(self.folder.path(), self.target.call().expect("each has one"))?
            }
            Target::Planted => planted(bytes),
        };
        let shown = visible(&said);
        assert!(said.len() < 8000, "a line of {} bytes: {}", said.len(), shortened(&shown));
        Ok(said)
    }

    /// Writes the input as two result files, one per compiler, of the library bench that it names.
    fn library(&self, bytes: &[u8]) -> Result<PathBuf> {
        let text = String::from_utf8_lossy(bytes);
        let bench = report::library_benches().find(|bench| text.contains(bench)).unwrap_or("operations");
        self.file(&format!("{bench}/library/{bench}.rust-cuda.jsonl"), bytes)?;
        self.file(&format!("{bench}/library/{bench}.jsonl"), bytes)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        let folder = path.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }
}

fn one_line(said: String) -> String {
    assert!(!said.contains(char::is_control), "more than a line: {said:?}");
    said
}

fn parse(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match Module::parse_each(&text) {
        Ok(module) => {
            let broken = module.broken().map(|broken| one_line(broken.error().to_string())).min();
            assert_eq!(Module::parse(&text).is_ok(), broken.is_none(), "{broken:?}");
            format!("{} entries; {}", module.entries().len(), broken.unwrap_or_default())
        }
        Err(refused) => one_line(refused.to_string()),
    }
}

fn execute(bytes: &[u8]) -> String {
    let module = match Module::parse_each(&String::from_utf8_lossy(bytes)) {
        Ok(module) => module,
        Err(refused) => return one_line(refused.to_string()),
    };
    let config =
        Config { memory_limit: 64 << 20, step_limit: 20_000, threads: Some(1), ..Config::default() };
    let gpu = Gpu::new(config);
    let Ok(data) = gpu.alloc(1 << 16) else { return "no memory".to_owned() };
    let broken = module.broken().filter(|broken| broken.is_entry()).take(4);
    let refused = broken.map(|broken| {
        let ran = gpu.launch(&module, broken.name(), &Launch::linear(1, 1), &Args::new());
        one_line(ran.expect_err("it is broken").to_string())
    });
    let ran = module.entries().take(4).map(|entry| match launch(&gpu, &module, entry, data) {
        Ok(()) => "ran".to_owned(),
        Err(Error::Fault(fault)) => {
            one_line(fault.to_string());
            // Only the kind of the fault, without its position.
            format!("{:?}", std::mem::discriminant(&fault.kind))
        }
        Err(refused) => one_line(refused.to_string()),
    });
    ran.chain(refused).collect::<Vec<_>>().join("; ")
}

/// Runs an entry whose parameters alternate between the address of memory and a small number.
fn launch(gpu: &Gpu, module: &Module, entry: &Entry, data: u64) -> Result<(), Error> {
    let mut parameters = vec![0; entry.param_bytes()];
    for (place, chunk) in parameters.chunks_mut(8).enumerate() {
        let value = if place.is_multiple_of(2) || chunk.len() < 8 { data } else { 100 };
        chunk.copy_from_slice(&value.to_le_bytes()[..chunk.len()]);
    }
    let block = entry.required_threads().unwrap_or([64, 1, 1]);
    let cluster = entry.required_cluster();
    let grid = cluster.unwrap_or([2, 1, 1]);
    let shape = Launch { cluster, ..Launch::new(grid, block).with_dynamic_shared(1024) };
    gpu.launch(module, entry.name(), &shape, &Args::new().bytes(&parameters, 1)).map(drop)
}

/// Lists a file's kernels by `warpfold-sim ls`, and runs the file by `warpfold-sim run`.
fn sim(path: &Path) -> String {
    let path = &*path.to_string_lossy();
    let list = ["warpfold-sim", "ls", path];
    let run = ["warpfold-sim", "run", path, "--block", "33", "--steps", "20000", "--seconds", "2"];
    let said = [&list[..], &run].map(|call| {
        let mut printed = Vec::new();
        match warpfold_sim_cli::call(call, &mut printed) {
            Ok(done) => format!("{done:?}"),
            Err(refused) => one_line(said_of(Path::new(path), &format!("{refused:#}"))),
        }
    });
    said.join("; ")
}

fn npy(path: &Path, bytes: usize) -> String {
    match input::read(path, None) {
        Ok(data) => {
            assert!(data.as_bytes().len() < bytes, "{} elements of {bytes} bytes", data.len());
            format!("elements of {}", data.dtype())
        }
        Err(refused) => said_of(path, &refused.to_string()),
    }
}

fn tuning(path: &Path, info: &DeviceInfo) -> String {
    match Tuning::read(path, info) {
        Ok(_) => "a tuning".to_owned(),
        Err(refused) => said_of(path, &refused.to_string()),
    }
}

fn expression(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let (map, condition) = text.split_once('\n').unwrap_or((&text, "x == x"));
    let expr = op::expr(map).filter(condition);
    [reduced::<f32>(&expr), reduced::<f64>(&expr), reduced::<i32>(&expr), reduced::<u32>(&expr)]
        .join("; ")
}

fn reduced<T: Element + From<u16>>(expr: &op::Expr) -> String {
    let reduction = match expr.max::<T>() {
        Ok(reduction) => reduction,
        Err(refused) => {
            // A line, the text and the caret.
            let said = refused.to_string();
            assert!(matches!(said.lines().count(), 1 | 3), "{said:?}");
            let line = one_line(said.lines().next().unwrap_or_default().to_owned());
            return line.split('`').step_by(2).collect();
        }
    };
    let run = || -> warpfold::Result<T::Sum> {
        let device = warpfold::Device::open(warpfold::Selection::Sim)?;
        let values = device.upload(&[0_u16, 1, 2, 65_535].map(T::from))?;
        Reducer::new(&device)?.reduce(&reduction, &values)
    };
    run().expect("an expression that compiles runs");
    "a value".to_owned()
}

fn results(folder: &Path) -> String {
    match report::page_of(folder) {
        Ok(page) => {
            let hidden = |c: char| c.is_control() && c != '\n';
            assert!(!page.contains(hidden), "control characters on a page");
            "a page".to_owned()
        }
        Err(refused) => said_of(folder, &format!("{refused:#}")),
    }
}

fn planted(bytes: &[u8]) -> String {
    assert!(!bytes.starts_with(b"panic"), "told to panic");
    "nothing".to_owned()
}

fn said_of(path: &Path, said: &str) -> String {
    said.replace(&path.display().to_string(), "")
}
