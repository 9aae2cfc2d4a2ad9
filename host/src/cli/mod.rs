//! The command lines of the binaries: one binary per variant, the same options for a family.
//!
//! Exit codes: 0 right, 1 wrong result, 2 usage or environment.

mod cpu;
mod movement;
mod print;
mod reducer;
mod reduction;
mod transfer;

use std::{env, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, FromArgMatches, builder::RangedI64ValueParser};

use crate::{
    CODEGEN, Codegen, Data, Device, Dtype, Error, Kind, PtxStore, Record, Reducer, Selection, Statistic,
    Tuning, Value,
    catalogue::{self, Variant, Work},
    default_codegen, input,
    measure::{MAX_ITERATIONS, Options},
    parse_name,
    reference::Expected,
    say,
};

pub use warpfold_io::{Output, files, stdout, table, usage};

/// Runs the program of a variant's binary.
pub fn main(id: &str) -> ExitCode {
    let variant = catalogue::find(id).expect("every binary has a row");
    match variant.work {
        Work::Reduction(_) => program::<reduction::Arguments>(variant),
        Work::Reducer => program::<reducer::Arguments>(variant),
        Work::Copy { .. } | Work::Transpose => program::<movement::Arguments>(variant),
        Work::Transfer { .. } => program::<transfer::Arguments>(variant),
        Work::Cpu { .. } => program::<cpu::Arguments>(variant),
    }
}

/// The options of one family of variants, and the function that runs it.
trait Program: CommandFactory + FromArgMatches {
    fn run(&self, variant: &'static Variant) -> anyhow::Result<Vec<Record>>;
    fn json(&self) -> bool;
}

fn program<P: Program>(variant: &'static Variant) -> ExitCode {
    let command =
        P::command().name(variant.id).about(format!("{}\n\nShows: {}.", variant.summary, variant.shows));
    let arguments = match command.try_get_matches().and_then(|matches| P::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let printed = arguments.run(variant).and_then(|records| {
        print::records(&mut stdout(), &records, arguments.json())?;
        Ok(records.iter().all(|record| record.ok))
    });
    match printed {
        Ok(right) => ExitCode::from(u8::from(!right)),
        Err(error) => {
            say!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The default number of elements, as in write-up E of docs/sources.md.
pub const DEFAULT_N: u64 = 4 << 20;

/// The elements to reduce, and the operation.
#[derive(Args, Debug)]
struct Elements {
    /// Number of random elements: 1000, 4Mi, 2^20, 10M [default: 4Mi]
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with = "input")]
    n: Option<u64>,
    /// Elements from a file: .npy, or raw little-endian with --dtype
    #[arg(long, value_name = "FILE", conflicts_with = "below")]
    input: Option<PathBuf>,
    /// Random integers from 0 up to BOUND (exclusive), in any type
    #[arg(long, value_name = "BOUND", value_parser = parse_count)]
    below: Option<u64>,
    /// Type of the elements [default: the file's, else the variant's first]
    #[arg(long, value_parser = parse_name::<Dtype>)]
    dtype: Option<Dtype>,
    /// Operation: sum, min, max, sumsq, argmin, argmax, mean or norm; not every variant has all
    #[arg(long, default_value = "sum", value_parser = str::parse::<Statistic>)]
    op: Statistic,
    /// Seed of the random elements
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Elements {
    fn file(&self) -> Result<Option<Data>, Error> {
        self.input.as_deref().map(|path| input::read(path, self.dtype)).transpose()
    }

    fn extent(&self, variant: &Variant, file: Option<&Data>) -> (Dtype, u64) {
        let dtype = file.map(Data::dtype).or(self.dtype).unwrap_or(variant.dtypes[0]);
        (dtype, file.map_or(self.n.unwrap_or(DEFAULT_N), |data| data.len() as u64))
    }

    fn make(
        &self,
        variant: &Variant,
        file: Option<Data>,
        (dtype, n): (Dtype, u64),
    ) -> Result<(Data, Expected), Error> {
        if file.is_none() {
            crate::cpu::require_memory(n.saturating_mul(dtype.size() as u64))?;
        }
        let n = n as usize;
        let data = match (file, self.below) {
            (Some(data), _) => data,
            (None, Some(bound)) => Data::random_below(dtype, n, self.seed, bound),
            (None, None) => {
                let op = self.op.op();
                let mut data = Data::drawn(op, dtype, n, self.seed);
                let expected = Expected::mark(op, &mut data, n)?;
                self.require(variant, &data)?;
                return Ok((data, expected));
            }
        };
        self.require(variant, &data)?;
        let expected = Expected::of(self.op.op(), &data)?;
        Ok((data, expected))
    }

    fn require(&self, variant: &Variant, data: &Data) -> Result<(), Error> {
        let n = data.len() as u64;
        if n == 0 && self.op == Statistic::Mean {
            return Err(Error::NoValue { statistic: self.op });
        }
        if n > 0 && matches!(self.op, Statistic::Mean | Statistic::Norm) {
            let extreme = |op| Ok::<Value, Error>(Expected::of(op, data)?.value);
            let extremes = [extreme(crate::Op::Min)?, extreme(crate::Op::Max)?];
            self.op.require(n, extremes, variant.sum(data.dtype()))?;
        }
        Ok(())
    }
}

/// The device, the measurement and the output format.
#[derive(Args, Debug)]
struct Setting {
    /// Timed runs on a GPU; 0 only checks the result [default: 20]
    #[arg(long, value_parser = iterations())]
    iters: Option<u32>,
    /// Device to run on: auto (a GPU if available, else the simulator), cuda or sim
    #[arg(long, default_value = "auto", value_parser = str::parse::<Selection>)]
    device: Selection,
    /// Code generator of the kernels: llvm, nvvm (rust-cuda), or cuda-c for the CUDA C twin [default:
    /// WARPFOLD_CODEGEN, else llvm]
    #[arg(long, value_parser = str::parse::<Codegen>)]
    codegen: Option<Codegen>,
    /// Print JSON instead of text, one object per line
    #[arg(long)]
    json: bool,
}

impl Setting {
    fn options(&self) -> Options {
        let default = Options::default();
        Options { iterations: self.iters.unwrap_or(default.iterations), ..default }
    }

    fn device(&self) -> Result<Device, Error> {
        open(self.device)
    }

    fn store(&self) -> Result<PtxStore, Error> {
        let (codegen, why) = codegen(self.codegen)?;
        say!("note: codegen {codegen}: {why}");
        PtxStore::locate(Some(codegen))
    }
}

/// Returns the code generator to use, which is the requested or the default one, and the reason for it.
pub fn codegen(asked: Option<Codegen>) -> Result<(Codegen, &'static str), Error> {
    match asked {
        Some(codegen) => Ok((codegen, "asked for")),
        None if env::var_os(CODEGEN).is_some() => Ok((default_codegen()?, "named by WARPFOLD_CODEGEN")),
        None => Ok((default_codegen()?, "the default; --codegen nvvm takes rust-cuda's")),
    }
}

/// Returns a parser for the number of timed runs, from 0 to [`MAX_ITERATIONS`].
pub fn iterations() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(MAX_ITERATIONS))
}

/// Parses a count: digits, with `_` between them, a suffix (k, M, G by thousands; Ki, Mi, Gi by 1024),
/// or a power such as 2^20.
pub fn parse_count(given: &str) -> Result<u64, String> {
    let number = |digits: &str| digits.replace('_', "").parse::<u64>().ok();
    let suffixes = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("k", 1000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
    ];
    let count = if let Some((base, exponent)) = given.split_once('^') {
        let exponent = exponent.parse().ok();
        number(base).zip(exponent).and_then(|(base, exponent)| base.checked_pow(exponent))
    } else if let Some((digits, unit)) =
        suffixes.iter().find_map(|&(suffix, unit)| Some((given.strip_suffix(suffix)?, unit)))
    {
        number(digits).and_then(|number| number.checked_mul(unit))
    } else {
        number(given)
    };
    count.ok_or_else(|| "write a count such as 1000, 4Mi, 10M or 2^20".to_owned())
}

/// Opens a device. Prints a note to stderr if [`Selection::Auto`] fell back to the simulator.
pub fn open(selection: Selection) -> Result<Device, Error> {
    let device = Device::open(selection)?;
    if selection == Selection::Auto && device.info().kind == Kind::Sim {
        say!("note: no CUDA device; running on the simulator, which has no times");
    }
    Ok(device)
}

/// Creates a reducer with this PTX and the device's tuning. Prints a warning to stderr if the tuning
/// file that the user named was not used.
pub fn reducer(device: &Device, store: &PtxStore) -> Result<Reducer, Error> {
    let tuning = Tuning::of(device.info());
    if let Some(warning) = tuning.warning() {
        say!("warning: {warning}");
    }
    Reducer::with(device, store, tuning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_every_notation() {
        for (given, count) in [
            ("0", 0),
            ("1_000_003", 1_000_003),
            ("4Mi", 4 << 20),
            ("10M", 10_000_000),
            ("2k", 2000),
            ("2^33", 1 << 33),
            ("8Gi", 8 << 30),
        ] {
            assert_eq!(parse_count(given), Ok(count), "{given}");
        }
        for given in ["", "x", "-1", "1.5", "4 Mi", "2^64", "99999999999Gi", "Mi"] {
            assert!(parse_count(given).is_err(), "{given}");
        }
    }

    #[test]
    fn the_command_lines_are_sound() {
        reduction::Arguments::command().debug_assert();
        reducer::Arguments::command().debug_assert();
        movement::Arguments::command().debug_assert();
        transfer::Arguments::command().debug_assert();
        cpu::Arguments::command().debug_assert();
    }
}
