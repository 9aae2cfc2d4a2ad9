//! `warpfold`: reduces the data of a file, on a GPU, in its simulator or on the CPU.
//!
//! A file becomes one [column](input::Column) of elements, which is cut into [pieces](pieces::Pieces);
//! every operation is made of all pieces by the library ([`reduce`]), and what comes out is
//! [shown](print) or [written](out).

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod input;
mod options;
mod out;
mod pieces;
mod print;
mod reduce;
mod statistic;

use std::{io::Write, process::ExitCode};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use warpfold_suite::{cli, say};

use crate::{
    input::{Column, Format, Source},
    options::Options,
    out::Target,
    pieces::Pieces,
    print::Heading,
    reduce::{Machine, Work},
};

/// Exit status for a wrong call, and for data or a machine that cannot be taken.
const CANNOT: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return cli::usage(&error),
    };
    let done = match options.completions {
        Some(shell) => completions(shell),
        None => run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("error: {error:#}");
            ExitCode::from(CANNOT)
        }
    }
}

/// What is cheap to find wrong is looked at first, and all of it before anything is reduced.
fn run(options: &Options) -> Result<()> {
    let ops = options.statistics()?;
    let target = options.out.as_deref().map(|path| Target::new(path, &ops)).transpose()?;
    let machine = Machine::open(options.device)?;
    let source = Source::new(options.file(), options.format()?)?;
    let column = source.column(options.column.as_deref(), "choose one by --column")?;
    let pieces = pieces(options, &source, &column)?;
    ops.iter().try_for_each(|op| op.require(column.data.dtype(), options.level))?;
    target.as_ref().map_or(Ok(()), |target| target.require(&ops, &pieces))?;
    let Column { data, shape, nulls, stored } = column;
    let column = options.column.as_ref().map_or(String::new(), |column| format!(", {column}"));
    let name = source.name() + &column;
    let heading = Heading::new(&name, &data, &shape, stored.as_deref(), &machine);
    let dtype = data.dtype();
    let work = Work { pieces: &pieces, shape: &shape, nulls: nulls.as_ref(), level: options.level };
    let answers = machine.reduce(data, &ops, &work)?;
    if let Some(target) = target {
        target.write(&answers, &pieces)?;
    }
    let mut out = cli::stdout();
    match options.json {
        true => print::json(&mut out, dtype, &answers, &pieces)?,
        false => print::table(&mut out, &heading, &answers, &pieces, options.all)?,
    }
    Ok(())
}

/// What each result is made of.
fn pieces(options: &Options, source: &Source, column: &Column) -> Result<Pieces> {
    if let Some(by) = options.by()? {
        let keys = match by.file {
            Some(file) => Source::new(file, Format::of_name(file)?)?.keys(by.column)?,
            None => source.keys(by.column)?,
        };
        return Pieces::by_keys(keys, column).with_context(|| source.name());
    }
    if let Some(file) = &options.offsets {
        let offsets = Source::new(file, Format::of_name(file)?)?;
        let read = offsets.column(None, "give a file that has one")?;
        return Pieces::by_offsets(&read, column).with_context(|| offsets.name());
    }
    match &options.axis[..] {
        [] => Ok(Pieces::whole(column)),
        axes => Pieces::along(axes, column).with_context(|| source.name()),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    // By way of memory: what it writes to must not fail.
    clap_complete::generate(shell, &mut Options::command(), "warpfold", &mut script);
    Ok(cli::stdout().write_all(&script)?)
}
