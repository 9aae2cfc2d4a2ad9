//! Command-line options.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize;
use warpfold_suite::{Device, Selection, Spread, measure::Options};

use crate::{
    Matrix, Softmax,
    reference::{self, Wrong},
};

/// Runs the softmax kernel on random rows and checks every element
#[derive(Debug, Clone, Parser)]
#[command(name = "softmax-host")]
pub struct Args {
    /// Device: auto, cuda or sim
    #[arg(long, default_value = "auto")]
    pub device: Selection,
    /// Rows of the matrix, a block each
    #[arg(long, default_value_t = 16)]
    pub rows: usize,
    /// Elements of a row
    #[arg(long, default_value_t = 1000)]
    pub columns: usize,
    /// Threads of a block
    #[arg(long, default_value_t = 256)]
    pub block: u32,
    /// The file with the kernel's PTX
    #[arg(long, value_name = "PATH")]
    pub ptx: PathBuf,
    /// Print one line of JSON, with the time on a GPU
    #[arg(long)]
    pub json: bool,
}

/// The outcome of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the device.
    pub device: String,
    /// Rows of the matrix.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// Threads of a block.
    pub block: u32,
    /// The largest error, as a fraction of the allowed one; none if an element was wrong.
    pub error: Option<f64>,
    /// The first element that was wrong.
    pub wrong: Option<String>,
    /// Microseconds between two events around a launch; only for a right result, and only on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<Spread>,
    /// The bytes of the matrix read once and written once, divided by the median time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gigabytes_per_second: Option<f64>,
}

/// Runs the kernel as the arguments specify.
///
/// # Errors
/// If the arguments, the PTX or the device cannot be used; a wrong result is not an error.
pub fn run(args: &Args) -> Result<Report> {
    let &Args { device, rows, columns, block, ref ptx, json } = args;
    let text = fs::read_to_string(ptx).with_context(|| {
        format!("{} cannot be read; build it as examples/softmax/README.md says", ptx.display())
    })?;
    let input = Matrix::random(rows, columns, 1)?;
    let device = Device::open(device)?;
    let softmax = Softmax::load(&device, ptx, &text, block)?;
    let judged = reference::judge(&input, &softmax.run(&input, 0)?, block);
    let options = Options { iterations: 100, warm_up: 10 };
    let microseconds = if json && judged.is_ok() { softmax.time(&input, options)? } else { None };
    let bytes = 2 * (rows * columns * size_of::<f32>()) as u64;
    Ok(Report {
        device: device.info().name.clone(),
        rows,
        columns,
        block,
        error: judged.ok(),
        wrong: judged.err().as_ref().map(Wrong::to_string),
        microseconds,
        gigabytes_per_second: microseconds.map(|timing| timing.gigabytes_per_second(bytes)),
    })
}

impl Report {
    fn line(&self) -> String {
        let Self { device, rows, columns, block, .. } = self;
        let what = format!("softmax of {rows} x {columns}, {block} threads a row, on {device}");
        match (&self.wrong, self.error) {
            (Some(wrong), _) => format!("{what}: WRONG, {wrong}"),
            (None, error) => {
                format!("{what}: right, errors up to {:.3} of what is allowed", error.unwrap_or(0.0))
            }
        }
    }
}

/// Runs the program: exit status 0 for a right result, 1 for a wrong one, 2 if there is none.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let shown = run(&args).and_then(|report| {
        let line = if args.json { serde_json::to_string(&report)? } else { report.line() };
        writeln!(io::stdout(), "{line}")?;
        Ok(report.wrong.is_none())
    });
    match shown {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
