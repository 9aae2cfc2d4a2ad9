//! `warpfold`: reduces the data of a file on a GPU, in its simulator or on the CPU.
//!
//! A file becomes one [column](input::Column) of elements, which is cut into [pieces](pieces::Pieces);
//! the library reduces all pieces by every operation ([`reduce`]), and the results are [printed](print)
//! or [written](out). A file that is larger than memory is reduced while it is read ([`stream`]), and so
//! are several files, optionally by several processes ([`joined`]).

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod input;
mod joined;
mod memory;
mod options;
mod out;
mod pieces;
mod print;
mod reduce;
mod statistic;
mod stream;

use std::{io::Write, process::ExitCode};

use anyhow::{Context, Result, bail};
use arrow_buffer::NullBuffer;
use clap::{CommandFactory, Parser};
use warpfold::{Rendezvous, Way, internal::Dtype};
use warpfold_io::{say, stdout, usage};

use crate::{
    input::{Asked, Column, Source, name_of},
    options::{Options, is_standard_input},
    out::Target,
    pieces::Pieces,
    print::Heading,
    reduce::{Answer, Machine, Work},
    statistic::Statistic,
};

const CHOOSE: &str = "choose one by --column";

/// Exit status for usage errors and for unsuitable data or machines.
const CANNOT: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return usage(&error),
    };
    let done = match options.completions {
        Some(shell) => completions(shell),
        None => run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let message = format!("error: {error:#}");
            match error.downcast_ref() {
                // Shows the expression with a caret, on lines of their own.
                Some(warpfold::Error::Expression { .. }) => {
                    message.lines().for_each(|line| say!("{line}"))
                }
                _ => say!("{message}"),
            }
            ExitCode::from(CANNOT)
        }
    }
}

/// Runs the reduction; if there are several processes, errors name the rank of this one.
fn run(options: &Options) -> Result<()> {
    let rendezvous = Rendezvous::from_env()?;
    match rendezvous.size() {
        1 => reduce(options, &rendezvous),
        _ => reduce(options, &rendezvous).with_context(|| format!("process {}", rendezvous.rank())),
    }
}

/// Reduces the files. All checks precede the first reduction, and the cheap ones are first.
fn reduce(options: &Options, rendezvous: &Rendezvous) -> Result<()> {
    let ops = options.statistics()?;
    let is_first = rendezvous.rank() == 0;
    let path = options.out.as_deref().filter(|_| is_first);
    let target = path.map(|path| Target::new(path, &ops)).transpose()?;
    let joined = match (rendezvous.size(), options.files()) {
        (1, [_]) => None,
        (1, _) => Some("several files"),
        _ => Some("several processes"),
    };
    if let Some(how) = joined {
        options.require_streamable(how)?;
        if options.files().iter().any(|file| is_standard_input(file)) {
            bail!("{how} cannot be combined with standard input; give files");
        }
    } else if options.stream {
        options.require_streamable("--stream")?;
    }
    let machine = Machine::open(joined::place(options.device, rendezvous), is_first)?;
    let Reduced { heading, dtype, answers, pieces } = match (joined, options.stream) {
        (Some(_), _) => together(options, &machine, &ops, target.as_ref(), rendezvous)?,
        (None, true) => streamed(options, &machine, &ops, target.as_ref())?,
        (None, false) => held(options, &machine, &ops, target.as_ref())?,
    };
    // Only one process prints.
    if !is_first {
        return Ok(());
    }
    if let Some(target) = target {
        target.write(&answers, &pieces)?;
    }
    let mut out = stdout();
    match options.json {
        true => print::json(&mut out, dtype, &answers, &pieces)?,
        false => print::table(&mut out, &heading, &answers, &pieces, options.all)?,
    }
    Ok(out.finish()?)
}

struct Reduced {
    heading: Heading,
    dtype: Dtype,
    answers: Vec<Answer>,
    pieces: Pieces,
}

fn held(
    options: &Options,
    machine: &Machine,
    ops: &[Statistic],
    target: Option<&Target>,
) -> Result<Reduced> {
    let source = Source::new(options.file(), options.asked())?;
    let column = source.column(options.column.as_deref(), CHOOSE)?;
    let pieces = pieces(options, &source, &column)?;
    ops.iter().try_for_each(|op| op.require(column.data.dtype(), options.level))?;
    target.map_or(Ok(()), |target| target.require(ops, &pieces))?;
    let Column { data, shape, nulls, stored } = column;
    let dtype = data.dtype();
    let heading = Heading::new(&name(options), dtype, &shape, stored.as_deref(), machine);
    let work = Work { pieces: &pieces, shape: &shape, nulls: nulls.as_ref(), level: options.level };
    let answers = machine.reduce(data, ops, &work)?;
    Ok(Reduced { heading, dtype, answers, pieces })
}

fn streamed(
    options: &Options,
    machine: &Machine,
    ops: &[Statistic],
    target: Option<&Target>,
) -> Result<Reduced> {
    let source = Source::unread(options.file(), options.asked())?;
    let streamed = source.streamed(options.column.as_deref(), CHOOSE)?;
    let (dtype, stored) = (streamed.dtype, streamed.stored.clone());
    ops.iter().try_for_each(|op| op.require(dtype, options.level))?;
    let ended = machine.stream(&source, streamed, ops, options.level).with_context(|| source.name())?;
    let stream::Ended { answers, pieces, shape } = ended;
    // The number of elements may be unknown until now.
    target.map_or(Ok(()), |target| target.require(ops, &pieces))?;
    let heading = Heading::new(&name(options), dtype, &shape, stored.as_deref(), machine);
    Ok(Reduced { heading, dtype, answers, pieces })
}

/// Reduces several files as one, or this process's share of a joint reduction.
fn together(
    options: &Options,
    machine: &Machine,
    ops: &[Statistic],
    target: Option<&Target>,
    rendezvous: &Rendezvous,
) -> Result<Reduced> {
    let ended = joined::reduce(options, machine, ops, rendezvous, CHOOSE)?;
    let joined::Ended { answers, pieces, dtype, stored, way } = ended;
    target.map_or(Ok(()), |target| target.require(ops, &pieces))?;
    let mut name = name(options);
    match options.files().len() {
        1 => {}
        2 => name += " and 1 file more",
        count => name += &format!(" and {} files more", count - 1),
    }
    if rendezvous.size() > 1 {
        name += &format!(", by {} processes", rendezvous.size());
        name += if way == Way::Nccl { " over NCCL" } else { "" };
    }
    let rows = pieces.elements(0) + pieces.nulls(0);
    let heading = Heading::new(&name, dtype, &[rows as usize], stored.as_deref(), machine);
    Ok(Reduced { heading, dtype, answers, pieces })
}

fn name(options: &Options) -> String {
    let column = options.column.as_ref().map_or(String::new(), |column| format!(", {column}"));
    name_of(options.file()) + &column
}

fn pieces(options: &Options, source: &Source, column: &Column) -> Result<Pieces> {
    let rows = || column.rows().with_context(|| source.name());
    if let Some(by) = options.by()? {
        let (rows, beside) = (rows()?, by.file.map(|file| Source::new(file, Asked::BESIDE)));
        let keys = beside.transpose()?;
        let keys = keys.as_ref().unwrap_or(source).keys(by.column)?;
        if keys.rows() != rows {
            let file = by.file.map_or_else(|| source.name(), name_of);
            let keys = keys.rows();
            bail!("{file}: {keys} keys for {rows} elements of {}; give one for each", source.name());
        }
        return Ok(Pieces::by_keys(keys, column));
    }
    if let Some(file) = &options.offsets {
        let rows = rows()?;
        let offsets = Source::new(file, Asked::BESIDE)?;
        let read = offsets.column(None, "give a file that has one")?;
        return Pieces::by_offsets(&read, rows, column).with_context(|| offsets.name());
    }
    match &options.axis[..] {
        [] => {
            let nulls = column.nulls.as_ref().map_or(0, NullBuffer::null_count);
            Ok(Pieces::whole(column.data.len() as u64, nulls as u64))
        }
        axes => Pieces::along(axes, column).with_context(|| source.name()),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    // Written to memory first, because the generator panics on write errors.
    clap_complete::generate(shell, &mut Options::command(), "warpfold", &mut script);
    let mut out = stdout();
    out.write_all(&script)?;
    Ok(out.finish()?)
}
