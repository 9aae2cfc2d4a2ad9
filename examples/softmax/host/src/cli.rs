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
use warpfold::{Device, Selection};

use crate::{
    Matrix, PTX, Softmax,
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
    /// A file with PTX of the kernel to use instead of what was built with the program
    #[arg(long, value_name = "PATH")]
    pub ptx: Option<PathBuf>,
    /// Print one line of JSON, with the time on a GPU
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub device: String,
    pub rows: usize,
    pub columns: usize,
    pub block: u32,
    /// The largest error, as a fraction of the allowed one; `None` if an element is wrong.
    pub error: Option<f64>,
    /// A description of the first wrong element.
    pub wrong: Option<String>,
    /// Median time of a launch in microseconds, between two events; only for a right result on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    /// The bytes of the matrix read once and written once, divided by the median time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gigabytes_per_second: Option<f64>,
}

/// Runs the kernel as the arguments specify. A wrong result is not an error.
pub fn run(args: &Args) -> Result<Report> {
    let &Args { device, rows, columns, block, ref ptx, json } = args;
    let text = match ptx {
        Some(path) => fs::read_to_string(path).with_context(|| path.display().to_string())?,
        None => PTX.to_owned(),
    };
    let input = Matrix::random(rows, columns, 1)?;
    let device = Device::open(device)?;
    let softmax = Softmax::load(&device, &text, block)?;
    let judged = reference::judge(&input, &softmax.run(&input, 0)?, block);
    let microseconds = if json && judged.is_ok() { softmax.time(&input, 100)? } else { None };
    let bytes = (2 * rows * columns * size_of::<f32>()) as f64;
    Ok(Report {
        device: device.info().name.clone(),
        rows,
        columns,
        block,
        error: judged.ok(),
        wrong: judged.err().as_ref().map(Wrong::to_string),
        microseconds,
        gigabytes_per_second: microseconds.map(|microseconds| bytes / microseconds / 1e3),
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
