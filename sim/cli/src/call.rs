//! Runs a kernel of a file on arrays: the common part of `run`, `check`, `explain` and `explore`.

use std::{io::Write, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use warpfold_sim::{
    Args as Parameters, Config, Entry, Error, Exploration, ExploreError, Explored, Fault, Gpu, Hazards,
    Launch, Module, Profiler, Stats,
};
use warpfold_sim_driver::host_room;
use warpfold_sim_report::Diagnostic;

use crate::{
    Done,
    arguments::{Argument, Content, InFile},
    image,
};

const SHOWN: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct CallArgs {
    /// PTX text, a fat binary, or a program that contains one
    pub(crate) file: PathBuf,
    /// Kernel to run, by its name in PTX or in the source; required if the file has several
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Blocks in the grid, as X, X,Y or X,Y,Z
    #[arg(long, value_name = "BLOCKS", default_value = "1", value_parser = shape)]
    grid: [u32; 3],
    /// Threads per block, as X, X,Y or X,Y,Z
    #[arg(long, value_name = "THREADS", default_value = "1", value_parser = shape)]
    block: [u32; 3],
    /// Bytes of dynamic shared memory; 1k is 1024
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    shared: u32,
    /// Kernel parameter, in the kernel's order: NAME:TYPE=NUMBER, NAME:TYPE=@FILE.npy for an array from
    /// a file, NAME:TYPE[COUNT] for an unwritten array, or NAME:TYPE[COUNT]=NUMBER for a filled one
    #[arg(long = "arg", value_name = "PARAMETER", allow_hyphen_values = true)]
    arguments: Vec<Argument>,
    /// Compare an array with a file after the run: NAME=@FILE.npy
    #[arg(long, value_name = "NAME=@FILE")]
    pub(crate) expect: Vec<InFile>,
    /// Allowed relative difference from the file of --expect, between runs with different seeds, and
    /// between executions of explore
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    tolerance: f64,
    /// Write an array to a file after the run: NAME=@FILE.npy
    #[arg(long, value_name = "NAME=@FILE")]
    pub(crate) out: Vec<InFile>,
    /// Also report likely mistakes that PTX allows: member masks that name exited lanes and, if races
    /// are checked, lanes that communicate without a barrier as if in lockstep
    #[arg(long)]
    strict: bool,
    /// Run lanes, warps and blocks in a random order with this seed [default: lockstep and round robin]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// Limits that stop a kernel which would run too long.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Limits {
    /// Maximum number of instructions per thread
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000_000)]
    pub(crate) steps: u64,
    /// Maximum number of seconds per launch
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) seconds: u64,
}

impl Limits {
    fn config(self, strict: bool) -> Config {
        let (thread_step_limit, time_limit) = (self.steps, Some(Duration::from_secs(self.seconds)));
        let plain = Config::default();
        // A simulated device cannot have more memory than the host.
        let memory_limit = plain.memory_limit.min(host_room());
        // Steps are limited per thread, not per launch.
        let step_limit = u64::MAX;
        Config { strict, step_limit, thread_step_limit, time_limit, memory_limit, ..plain }
    }
}

fn shape(text: &str) -> Result<[u32; 3], String> {
    let mut shape = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("more than three numbers are given; give X, X,Y or X,Y,Z".to_owned());
    }
    for (side, part) in shape.iter_mut().zip(parts) {
        *side = part.parse().map_err(|_| format!("{part} is not a number"))?;
    }
    Ok(shape)
}

fn bytes(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1024),
        None => (text, 1),
    };
    let number: Option<u32> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("{text} is not a number of bytes; give one such as 1024 or 1k"))
}

struct Array<'a> {
    of: &'a Argument,
    address: u64,
    before: Vec<u8>,
    after: Vec<u8>,
    expected: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    Checked,
    Counted,
}

pub(crate) struct Call<'a> {
    args: &'a CallArgs,
    module: &'a Module,
    entry: &'a Entry,
    gpu: Gpu,
    hazards: Hazards,
    profiler: Profiler,
    how: How,
    launch: Launch,
    parameters: Parameters,
    arrays: Vec<Array<'a>>,
}

pub(crate) fn modules(args: &CallArgs) -> Result<Vec<Module>> {
    let texts = image::texts(&args.file)?;
    let each = texts.iter().map(|text| Module::parse_each(text));
    each.collect::<Result<_, _>>()
        .with_context(|| format!("{} cannot be read as PTX", args.file.display()))
}

fn expected(args: &CallArgs, of: &Argument, bytes: usize) -> Result<Option<Vec<u8>>> {
    let Some(expected) = args.expect.iter().find(|expected| expected.name == of.name) else {
        return Ok(None);
    };
    let wanted = of.ty.read(&expected.path)?;
    let [count, wanted_count] = [bytes, wanted.len()].map(|bytes| bytes / of.ty.size);
    ensure!(
        count == wanted_count,
        "{} has {count} elements, but {} has {wanted_count}",
        of.name,
        expected.path.display()
    );
    Ok(Some(wanted))
}

impl<'a> Call<'a> {
    pub(crate) fn new(args: &'a CallArgs, modules: &'a [Module], how: How) -> Result<Self> {
        let (module, entry) = chosen(args, modules)?;
        require_parameters(entry, &args.arguments)?;
        for named in args.expect.iter().chain(&args.out) {
            let is_array = |one: &&Argument| !matches!(one.content, Content::Number(_));
            let mut arrays = args.arguments.iter().filter(is_array).map(|one| one.name.as_str());
            if !arrays.any(|name| name == named.name) {
                bail!("array {} is not declared; declare each array by an --arg", named.name);
            }
        }
        for out in &args.out {
            let of = args.arguments.iter().find(|one| one.name == out.name).expect("there is one");
            of.ty.require_writable(&out.path)?;
        }
        // Checks must observe events in the order in which they happen, so a single thread runs all
        // blocks.
        let threads = (how != How::Plain).then_some(1);
        let gpu = Gpu::new(Config { threads, ..args.limits.config(args.strict) });
        let hazards = if args.strict { Hazards::strict() } else { Hazards::new() };
        let launch = Launch::new(args.grid, args.block).with_dynamic_shared(args.shared);
        let launch = Launch { seed: args.seed, ..launch };
        let (parameters, arrays, profiler) = (Parameters::new(), Vec::new(), Profiler::new());
        let mut call =
            Self { args, module, entry, gpu, hazards, profiler, how, launch, parameters, arrays };
        args.arguments.iter().try_for_each(|of| call.place(of))?;
        Ok(call)
    }

    fn place(&mut self, of: &'a Argument) -> Result<()> {
        let parameters = std::mem::take(&mut self.parameters);
        let Some((before, is_written)) = of.array()? else {
            let Content::Number(number) = &of.content else { unreachable!("it is no array") };
            self.parameters = parameters.bytes(&of.ty.number(number)?, of.ty.size);
            return Ok(());
        };
        let (bytes, address) = (before.len() as u64, self.gpu.alloc(before.len() as u64)?);
        self.gpu.memory().set_name(address, &of.name);
        self.hazards.allocated(address, bytes);
        self.gpu.write(address, &before)?;
        if is_written {
            self.hazards.written(address, bytes);
        }
        self.parameters = parameters.ptr(address);
        let (after, expected) = (vec![0; before.len()], expected(self.args, of, before.len())?);
        self.arrays.push(Array { of, address, before, after, expected });
        Ok(())
    }

    fn once(&self, launch: &Launch) -> Result<Stats, Error> {
        let (name, parameters) = (self.entry.name(), &self.parameters);
        match self.how {
            How::Plain => self.gpu.launch(self.module, name, launch, parameters),
            How::Checked => {
                let observer = self.hazards.launch();
                self.gpu.launch_observed(self.module, name, launch, parameters, &observer)
            }
            How::Counted => {
                self.gpu.launch_observed(self.module, name, launch, parameters, &self.profiler)
            }
        }
    }

    pub(crate) fn run(&mut self, seeds: u64, out: &mut dyn Write) -> Result<(Done, Vec<Diagnostic>)> {
        let launched = self.once(&self.launch);
        out.write_all(&self.gpu.take_printed())?;
        let stats = match launched {
            Ok(stats) => stats,
            // A fault of the kernel is a result of this command, not its failure.
            Err(Error::Fault(fault)) => return Ok((Done::Wrong, self.found(Some(&fault)))),
            Err(error) => return Err(error.into()),
        };
        writeln!(out, "{} warp instructions", stats.warp_instructions)?;
        for array in &mut self.arrays {
            self.gpu.read(array.address, &mut array.after)?;
            if self.how == How::Checked && array.expected.is_some() {
                self.hazards.read(array.address, array.after.len() as u64);
            }
        }
        let done = told(self.args, &self.arrays, out)?;
        let mut ordered = None;
        for seed in 0..seeds {
            match self.under(seed)? {
                Ok(None) => {}
                Ok(Some(differs)) => {
                    ordered = Some(Diagnostic::of_order(self.entry.name(), &differs));
                    break;
                }
                Err(fault) => return Ok((Done::Wrong, self.found(Some(&fault)))),
            }
        }
        let mut found = self.found(None);
        found.extend(ordered);
        Ok((done, found))
    }

    /// Describes how the results under a seed differ from those of the first run; `None` if they are
    /// equal.
    fn under(&self, seed: u64) -> Result<Result<Option<String>, Box<Fault>>> {
        for array in &self.arrays {
            self.gpu.write(array.address, &array.before)?;
        }
        // Variables of the module start from their initial values again.
        self.gpu.unload(self.module);
        let launched = self.once(&self.launch.with_seed(seed));
        let _ = self.gpu.take_printed();
        match launched {
            Ok(_) => {}
            Err(Error::Fault(fault)) => return Ok(Err(fault)),
            Err(error) => return Err(error.into()),
        }
        for Array { of, address, after, .. } in &self.arrays {
            let mut now = vec![0; after.len()];
            self.gpu.read(*address, &mut now)?;
            if let Some((at, [now, before])) = of.ty.difference(&now, after, self.args.tolerance) {
                let name = &of.name;
                return Ok(Ok(Some(format!(
                    "{name}: element {at} is {now} under seed {seed}, but was {before} in the first \
                     run; it depends on the order of threads"
                ))));
            }
        }
        Ok(Ok(None))
    }

    /// Runs the kernel in every order of its steps, at most `limit` times. Compares the arrays after
    /// each execution with the files of `--expect`, and others with those after the first execution.
    pub(crate) fn explore(&self, limit: u64) -> Result<Explored, ExploreError> {
        let exploration = Exploration::new(&self.gpu).with_limit(limit);
        let exploration =
            exploration.launch(self.module, self.entry.name(), &self.launch, &self.parameters)?;
        let mut first: Vec<Option<Vec<u8>>> = vec![None; self.arrays.len()];
        exploration.run(|gpu| {
            let _printed = gpu.take_printed();
            for (Array { of, address, before, expected, .. }, first) in
                self.arrays.iter().zip(&mut first)
            {
                let mut now = vec![0; before.len()];
                gpu.read(*address, &mut now).map_err(|error| error.to_string())?;
                let (wanted, was) = match (expected, &*first) {
                    (Some(expected), _) => (expected, "and should be"),
                    (None, Some(first)) => (first, "but was in the first execution"),
                    (None, None) => {
                        *first = Some(now);
                        continue;
                    }
                };
                if let Some((at, [now, wanted])) = of.ty.difference(&now, wanted, self.args.tolerance) {
                    return Err(format!("{}: element {at} is {now}, {was} {wanted}", of.name));
                }
            }
            Ok(())
        })
    }

    fn found(&self, fault: Option<&Fault>) -> Vec<Diagnostic> {
        let mut found: Vec<_> = self.hazards.findings().iter().map(Diagnostic::of_finding).collect();
        found.extend(fault.map(Diagnostic::of_fault));
        found
    }

    pub(crate) fn counted(&self) -> (&Entry, warpfold_sim::Profile) {
        (self.entry, self.profiler.profile())
    }
}

/// Returns the kernel that `--kernel` names, or the file's only one.
fn chosen<'a>(args: &CallArgs, modules: &'a [Module]) -> Result<(&'a Module, &'a Entry)> {
    let all = || modules.iter().flat_map(|module| module.entries().map(move |entry| (module, entry)));
    let file = args.file.display();
    let Some(wanted) = &args.kernel else {
        let mut each = all();
        return match (each.next(), each.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => bail!("{file} has no kernel that can run; `warpfold-sim ls` shows the reasons"),
            _ => bail!("{file} has several kernels; select one with --kernel"),
        };
    };
    let mut refused = None;
    for module in modules {
        match module.search(wanted) {
            Ok(entry) => return Ok((module, entry)),
            Err(Error::BrokenEntry { reason, .. }) => refused = Some(reason),
            Err(_) => {}
        }
    }
    if let Some(reason) = refused {
        bail!("{wanted} does not run: {reason}");
    }
    let names: Vec<&str> = all().map(|(_, entry)| entry.name()).collect();
    bail!("{file} has no kernel {wanted}; it has {}", names.join(", "))
}

fn require_parameters(entry: &Entry, given: &[Argument]) -> Result<()> {
    let (name, takes) = (entry.name(), entry.params());
    ensure!(
        takes.len() == given.len(),
        "{name} has {} parameters, but {} are given; give an --arg for each",
        takes.len(),
        given.len()
    );
    for (at, (param, argument)) in takes.iter().zip(given).enumerate() {
        let (bytes, what) = match argument.content {
            Content::Number(_) => (argument.ty.size, argument.ty.name),
            _ => (size_of::<u64>(), "the address of an array"),
        };
        ensure!(
            param.size == bytes,
            "parameter {} of {name} has {} bytes, but {} is {what} of {bytes} bytes",
            at + 1,
            param.size,
            argument.name
        );
    }
    Ok(())
}

fn told(args: &CallArgs, arrays: &[Array<'_>], out: &mut dyn Write) -> Result<Done> {
    let mut done = Done::Right;
    for Array { of, before, after, expected, .. } in arrays {
        for file in args.out.iter().filter(|file| file.name == of.name) {
            of.ty.write(&file.path, after)?;
        }
        let Some(wanted) = expected else {
            if before != after {
                let most = SHOWN * of.ty.size;
                let elements = of.ty.shown(&after[..after.len().min(most)]);
                let more = if after.len() > most { ", …" } else { "" };
                writeln!(out, "{}: {}{more}", of.name, elements.join(", "))?;
            }
            continue;
        };
        match of.ty.difference(after, wanted, args.tolerance) {
            None => writeln!(out, "{}: as expected", of.name)?,
            Some((at, [found, wanted])) => {
                writeln!(out, "{}: element {at} is {found}, and should be {wanted}", of.name)?;
                done = Done::Wrong;
            }
        }
    }
    Ok(done)
}
