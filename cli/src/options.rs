//! The options of the command line.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Result, bail};
use clap::{
    Parser, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use warpfold::{
    Selection,
    internal::{Dtype, ExpressionText, OpKind},
};
use warpfold_suite::parse_name;

use crate::{
    input::Asked,
    statistic::{Statistic, SumType},
};

const EXAMPLES: &str = "\
Examples:
  warpfold data.npy --op mean,l2,argmax
  warpfold images.npy --op max --axis 1,2 --out brightest.npy
  warpfold arrays.npz --column weights --op minmax --level everywhere
  warpfold values.bin --dtype f32 --shape 100,1000 --op sum --axis 0
  warpfold trips.parquet --column fare --by-column city --op sum,max --json
  warpfold values.npy --by keys.npy --op spread
  warpfold values.npy --map 'x * x - 2' --where 'x > 0' --op sum,max
  warpfold counters.npy --accumulate i128
  warpfold huge.npy --stream --op sum,mean,argmax
  producer | warpfold - --format arrow --column price --op sum,nonzero
  mpirun -n 4 warpfold part-*.npy --op sum,spread

Exit status: 0 on success, 2 for invalid arguments or data, an unusable device, an unwritable output or, with
--checked, a sum that overflows.";

/// Compute sums, extremes and their indices, means, norms, counts and bitwise operations of a file's
/// data, on a GPU, in the simulator or on the CPU
#[derive(Debug, Parser)]
#[command(name = "warpfold", version, after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Input: .npy, .npz, .arrow, .feather, .ipc, .parquet, or raw elements with --dtype; - is standard
    /// input. Several files are reduced as one, as with --stream. Processes started by mpirun, srun or
    /// torchrun reduce a part each, and the first one prints the result
    #[arg(value_name = "FILE", required_unless_present = "completions")]
    files: Vec<PathBuf>,
    /// Operations to compute, separated by commas
    #[arg(
        long,
        value_name = "OP",
        value_delimiter = ',',
        default_value = "sum",
        value_parser = statistics()
    )]
    op: Vec<Statistic>,
    /// Expression of the element x, such as 'x * x - 2', whose values sum, min and max reduce. The help
    /// of --where lists the language
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    map: Option<String>,
    /// Condition of the elements that are reduced, such as 'x > 0'. There are + - * / ** %, & ^ |,
    /// comparisons, && || !, c ? a : b, abs, min, max, and for floats sqrt, exp, log, floor, ceil,
    /// trunc, rint, fma, is_nan, inf and nan
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Type in which sum adds [default: i64 or u64 for integers, f64 for f64, f32 for other floats]
    #[arg(long, value_name = "TYPE", value_enum, conflicts_with_all = ["map", "filter"])]
    accumulate: Option<SumType>,
    /// Fail if --op sum of integers overflows, instead of wrapping around
    #[arg(long, conflicts_with_all = ["accumulate", "map", "filter"])]
    checked: bool,
    /// Axes to reduce along, separated by commas; negative axes count from the last [default: all
    /// elements]
    #[arg(
        long,
        value_name = "AXIS",
        value_delimiter = ',',
        value_parser = axis,
        allow_hyphen_values = true,
        conflicts_with_all = ["by", "by_column", "offsets"]
    )]
    pub(crate) axis: Vec<i64>,
    /// File of keys, one per element: one result for each run of equal adjacent keys
    #[arg(long, value_name = "FILE")]
    by: Option<PathBuf>,
    /// Column that contains the keys, in the input file unless --by names another
    #[arg(long, value_name = "NAME")]
    by_column: Option<String>,
    /// File of offsets: one result for each segment, from one offset up to the next (exclusive)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "by_column"])]
    pub(crate) offsets: Option<PathBuf>,
    /// Column of a table, or array of an .npz file
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Option<String>,
    /// Format of the input [default: detected from its first bytes, else from its name]
    #[arg(long)]
    format: Option<FormatName>,
    /// Type of raw little-endian elements: i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32 or f64.
    /// A file that declares its type must have this type
    #[arg(long, value_parser = parse_name::<Dtype>)]
    dtype: Option<Dtype>,
    /// Shape of raw elements, such as 100,1000 [default: one dimension of all elements]
    #[arg(
        long,
        value_name = "LENGTH",
        value_delimiter = ',',
        value_parser = length,
        requires = "dtype"
    )]
    shape: Vec<usize>,
    /// Reduce the input while it is read, holding at most 32 MiB of it, for inputs larger than memory.
    /// One pass computes a result of all elements for each operation. Supports .npy, raw, .arrow and
    /// .parquet, on a GPU or the simulator
    #[arg(long)]
    pub(crate) stream: bool,
    /// Device: auto (a GPU if available, else the simulator), cuda, cuda:<number>, sim or cpu
    #[arg(long, default_value = "auto")]
    pub(crate) device: Place,
    /// Reproducibility of the results
    #[arg(long, value_enum, default_value_t = Level::RunToRun)]
    pub(crate) level: Level,
    /// Print one JSON object per result instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all rows of a long table
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Also write the results to a file: .npy for one operation, .npz for any number
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print shell completions and exit
    #[arg(long, value_name = "SHELL", exclusive = true)]
    pub(crate) completions: Option<Shell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Same bits in every run on the same device
    RunToRun,
    /// Same bits on any device, also for sums of floats
    Everywhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// One NumPy array
    Npy,
    /// Archive of NumPy arrays
    Npz,
    /// Elements only, of the type given by --dtype
    Raw,
    /// Arrow file or stream, or Feather file
    Arrow,
    /// Parquet file
    Parquet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Cpu,
    Device(Selection),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        if given == "cpu" {
            return Ok(Self::Cpu);
        }
        given.parse().map(Self::Device).map_err(|_| {
            "there are auto, cuda, cuda:<number>, sim, sim:<number>, cpu and PCI addresses such as \
             0000:3b:00.0"
                .to_owned()
        })
    }
}

fn axis(given: &str) -> Result<i64, String> {
    given.parse().map_err(|_| "give whole numbers, such as --axis 0,1 or --axis -1".to_owned())
}

fn length(given: &str) -> Result<usize, String> {
    given.parse().map_err(|_| "give whole numbers of 0 or more, such as --shape 100,1000".to_owned())
}

/// Parses an operation by its name; help and errors list all names.
fn statistics() -> impl TypedValueParser<Value = Statistic> {
    PossibleValuesParser::new(Statistic::all().map(Statistic::name)).map(|name| {
        Statistic::all().find(|op| op.name() == name).expect("the parser takes the names of all")
    })
}

pub(crate) struct By<'a> {
    /// The file of the keys; `None` if the data's file contains them.
    pub(crate) file: Option<&'a Path>,
    pub(crate) column: Option<&'a str>,
}

impl Options {
    pub(crate) fn file(&self) -> &Path {
        self.files.first().expect("the parser asks for it")
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the operations, or an error if one is given twice.
    pub(crate) fn statistics(&self) -> Result<Vec<Statistic>> {
        for (at, op) in self.op.iter().enumerate() {
            if self.op[..at].contains(op) {
                bail!("--op has {op} twice; give it once");
            }
        }
        let sum = match self.accumulate {
            Some(sum) => Some(("--accumulate", Statistic::SumIn(sum))),
            None => self.checked.then_some(("--checked", Statistic::CheckedSum)),
        };
        if let Some((option, sum)) = sum {
            let plain = Statistic::Of(OpKind::Sum.plain());
            if !self.op.contains(&plain) {
                bail!("{option} is for --op sum, which is not among the operations; leave it out");
            }
            return Ok(self.op.iter().map(|&op| if op == plain { sum } else { op }).collect());
        }
        if self.map.is_none() && self.filter.is_none() {
            return Ok(self.op.clone());
        }
        let map = self.map.as_deref().unwrap_or("x").to_owned();
        // As long as the process, because it has one command line.
        let text: &'static _ = Box::leak(Box::new(ExpressionText::new(map, self.filter.clone())));
        let ops = self.op.iter().map(|op| op.of_values(text)).collect::<Result<_>>()?;
        if self.device == Place::Cpu {
            bail!(
                "--map and --where cannot be combined with --device cpu, because expressions are compiled \
                 for devices; take --device sim or cuda"
            );
        }
        Ok(ops)
    }

    pub(crate) fn by(&self) -> Result<Option<By<'_>>> {
        let by = By { file: self.by.as_deref(), column: self.by_column.as_deref() };
        if by.file.is_some_and(is_standard_input) {
            bail!("--by - is standard input, which is for the data only; write the keys to a file");
        }
        Ok((by.file.is_some() || by.column.is_some()).then_some(by))
    }

    /// Returns an error for options that streaming does not support; `how` names the reason to stream.
    pub(crate) fn require_streamable(&self, how: &str) -> Result<()> {
        let pieces = [
            ("--axis", !self.axis.is_empty()),
            ("--by", self.by.is_some()),
            ("--by-column", self.by_column.is_some()),
            ("--offsets", self.offsets.is_some()),
        ];
        if let Some((option, _)) = pieces.iter().find(|(_, given)| *given) {
            bail!(
                "{how} cannot be combined with {option}, because all elements have one result; leave \
                 either out"
            );
        }
        if self.device == Place::Cpu {
            bail!(
                "{how} cannot be combined with --device cpu, which reduces only data in memory; take \
                 --device sim or cuda, or leave either out"
            );
        }
        Ok(())
    }

    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { is_data: true, format: self.format, dtype: self.dtype, shape: &self.shape }
    }
}

pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}
