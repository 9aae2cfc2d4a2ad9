//! `warpfold-sim run`

use std::{io::Write, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use warpfold_sim::{Args as Parameters, Config, Entry, Gpu, Hazards, Launch, Module, demangled};

use crate::{
    Done,
    arguments::{self, Argument, Content, InFile},
    image,
};

/// Elements of an array that are shown.
const SHOWN: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// PTX text, a fat binary, or a program that contains one
    file: PathBuf,
    /// The kernel, by its name in PTX or in its source; needed where there are several
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Blocks, as X, X,Y or X,Y,Z
    #[arg(long, value_name = "BLOCKS", default_value = "1", value_parser = shape)]
    grid: [u32; 3],
    /// Threads of a block, as X, X,Y or X,Y,Z
    #[arg(long, value_name = "THREADS", default_value = "1", value_parser = shape)]
    block: [u32; 3],
    /// Bytes of dynamic shared memory; 1k is 1024
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    shared: u32,
    /// A parameter, in their order: NAME:TYPE=NUMBER, NAME:TYPE=@FILE.npy, or NAME:TYPE[COUNT] with or
    /// without =NUMBER for an array
    #[arg(long = "arg", value_name = "PARAMETER", allow_hyphen_values = true)]
    arguments: Vec<Argument>,
    /// What an array must be afterwards: NAME=@FILE.npy
    #[arg(long, value_name = "NAME=@FILE")]
    expect: Vec<InFile>,
    /// How far from that a number may be, as a part of it
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    tolerance: f64,
    /// Where to write an array to afterwards: NAME=@FILE.npy
    #[arg(long, value_name = "NAME=@FILE")]
    out: Vec<InFile>,
    /// Look for races, missing barriers and what is read before it is written
    #[arg(long)]
    check: bool,
    /// Refuse what PTX allows and is mostly a mistake
    #[arg(long)]
    strict: bool,
}

fn shape(text: &str) -> Result<[u32; 3], String> {
    let mut shape = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("there are more than three numbers".to_owned());
    }
    for (side, part) in shape.iter_mut().zip(parts) {
        *side = part.parse().map_err(|_| format!("{part} is no number"))?;
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
        .ok_or_else(|| format!("{text} is no number of bytes"))
}

/// An array in the simulated memory.
struct Array<'a> {
    of: &'a Argument,
    address: u64,
    before: Vec<u8>,
    after: Vec<u8>,
    /// What it must be afterwards, if that is asked for.
    expected: Option<Vec<u8>>,
}

/// What an array of so many bytes must be afterwards.
fn expected(args: &Args, of: &Argument, bytes: usize) -> Result<Option<Vec<u8>>> {
    let Some(expected) = args.expect.iter().find(|expected| expected.name == of.name) else {
        return Ok(None);
    };
    let wanted = arguments::read(of.dtype, &expected.path)?;
    let [count, wanted_count] = [bytes, wanted.len()].map(|bytes| bytes / of.dtype.size());
    ensure!(
        count == wanted_count,
        "{} has {count} elements, and {} {wanted_count}",
        of.name,
        expected.path.display()
    );
    Ok(Some(wanted))
}

pub(crate) fn run(args: &Args) -> Result<Done> {
    let texts = image::texts(&args.file)?;
    let modules: Vec<Module> = texts
        .iter()
        .map(|text| Module::parse_each(text))
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is no PTX that can be read", args.file.display()))?;
    let (module, entry) = chosen(args, &modules)?;
    require_parameters(entry, &args.arguments)?;
    for named in args.expect.iter().chain(&args.out) {
        let is_array = |one: &&Argument| !matches!(one.content, Content::Number(_));
        let mut arrays = args.arguments.iter().filter(is_array).map(|one| one.name.as_str());
        if !arrays.any(|name| name == named.name) {
            bail!("there is no array {}; an --arg names each", named.name);
        }
    }

    let gpu = Gpu::new(Config { strict: args.strict, ..Config::default() });
    let hazards = Hazards::new();
    let mut parameters = Parameters::new();
    let mut arrays = Vec::new();
    for of in &args.arguments {
        match of.array()? {
            None => {
                let Content::Number(number) = &of.content else { unreachable!("it is no array") };
                parameters = parameters.bytes(&arguments::number(of.dtype, number)?, of.dtype.size());
            }
            Some((before, is_written)) => {
                let (bytes, address) = (before.len() as u64, gpu.alloc(before.len() as u64)?);
                hazards.allocated(address, bytes);
                gpu.write(address, &before)?;
                if is_written {
                    hazards.written(address, bytes);
                }
                parameters = parameters.ptr(address);
                let (after, expected) = (vec![0; before.len()], expected(args, of, before.len())?);
                arrays.push(Array { of, address, before, after, expected });
            }
        }
    }
    let launch = Launch::new(args.grid, args.block).with_dynamic_shared(args.shared);
    let launched = match args.check {
        false => gpu.launch(module, entry.name(), &launch, &parameters),
        true => {
            let observer = hazards.launch();
            gpu.launch_observed(module, entry.name(), &launch, &parameters, &observer)
        }
    };
    std::io::stdout().write_all(&gpu.take_printed())?;
    let stats = match launched {
        Ok(stats) => stats,
        // What a thread has done wrong is what this is asked for.
        Err(error @ warpfold_sim::Error::Fault(_)) => {
            println!("{error}");
            return Ok(Done::Wrong);
        }
        Err(error) => return Err(error.into()),
    };
    println!("{} warp instructions", stats.warp_instructions);
    for array in &mut arrays {
        gpu.read(array.address, &mut array.after)?;
        if args.check && array.expected.is_some() {
            hazards.read(array.address, array.after.len() as u64);
        }
    }
    let mut done = told(args, &arrays)?;
    for finding in if args.check { hazards.findings() } else { Vec::new() } {
        println!("{finding}");
        done = Done::Wrong;
    }
    Ok(done)
}

/// The kernel that is asked for.
fn chosen<'a>(args: &Args, modules: &'a [Module]) -> Result<(&'a Module, &'a Entry)> {
    let all = || modules.iter().flat_map(|module| module.entries().map(move |entry| (module, entry)));
    let Some(wanted) = &args.kernel else {
        let mut each = all();
        return match (each.next(), each.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => {
                bail!("{} has no kernel that runs; `warpfold-sim ls` says why", args.file.display())
            }
            _ => bail!("{} has several kernels; name one by --kernel", args.file.display()),
        };
    };
    let is_wanted = |name: &str| {
        let plain = demangled(name).unwrap_or_default();
        name == wanted || plain == *wanted || plain.split('(').next() == Some(wanted)
    };
    if let Some(found) = all().find(|(_, entry)| is_wanted(entry.name())) {
        return Ok(found);
    }
    let mut broken = modules.iter().flat_map(Module::broken).filter(|broken| broken.is_entry());
    if let Some(broken) = broken.find(|broken| is_wanted(broken.name())) {
        bail!("{wanted} does not run: {}", broken.error());
    }
    let names: Vec<&str> = all().map(|(_, entry)| entry.name()).collect();
    bail!("{} has no kernel {wanted}; it has {}", args.file.display(), names.join(", "))
}

/// Refuses parameters that are not the kernel's.
fn require_parameters(entry: &Entry, given: &[Argument]) -> Result<()> {
    let (name, takes) = (entry.name(), entry.params());
    ensure!(
        takes.len() == given.len(),
        "{name} has {} parameters, and {} are given; give an --arg for each",
        takes.len(),
        given.len()
    );
    for (at, (param, argument)) in takes.iter().zip(given).enumerate() {
        let (bytes, what) = match argument.content {
            Content::Number(_) => (argument.dtype.size(), argument.dtype.name()),
            _ => (size_of::<u64>(), "the address of an array"),
        };
        ensure!(
            param.size == bytes,
            "parameter {} of {name} has {} bytes, and {} is {what}, of {bytes}",
            at + 1,
            param.size,
            argument.name
        );
    }
    Ok(())
}

/// Writes, compares and shows what is in the arrays now.
fn told(args: &Args, arrays: &[Array<'_>]) -> Result<Done> {
    let mut done = Done::Right;
    for Array { of, before, after, expected, .. } in arrays {
        for out in args.out.iter().filter(|out| out.name == of.name) {
            arguments::write(of.dtype, &out.path, after)?;
        }
        let Some(wanted) = expected else {
            if before != after {
                let most = SHOWN * of.dtype.size();
                let elements = arguments::shown(of.dtype, &after[..after.len().min(most)]);
                let more = if after.len() > most { ", …" } else { "" };
                println!("{}: {}{more}", of.name, elements.join(", "));
            }
            continue;
        };
        match arguments::first_off(of.dtype, after, wanted, args.tolerance) {
            None => println!("{}: as expected", of.name),
            Some(at) => {
                let [found, wanted] = [after, wanted].map(|bytes| arguments::shown(of.dtype, bytes));
                println!("{}: element {at} is {}, and should be {}", of.name, found[at], wanted[at]);
                done = Done::Wrong;
            }
        }
    }
    Ok(done)
}
