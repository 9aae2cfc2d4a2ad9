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
use warpfold::{Selection, internal::Dtype};
use warpfold_suite::parse_name;

use crate::{input::Asked, statistic::Statistic};

const EXAMPLES: &str = "\
Examples:
  warpfold data.npy --op mean,l2,argmax
  warpfold images.npy --op max --axis 1,2 --out brightest.npy
  warpfold arrays.npz --column weights --op minmax --level everywhere
  warpfold values.bin --dtype f32 --shape 100,1000 --op sum --axis 0
  warpfold trips.parquet --column fare --by-column city --op sum,max --json
  warpfold values.npy --by keys.npy --op spread
  warpfold huge.npy --stream --op sum,mean,argmax
  producer | warpfold - --format arrow --column price --op sum,nonzero
  mpirun -n 4 warpfold part-*.npy --op sum,spread

Exit status: 0 done, 2 a wrong call, or data or a machine that cannot be taken.";

/// Sums, extremes and their places, means, norms, counts and bits of a file's data, on a GPU, in its
/// simulator or on the CPU
#[derive(Debug, Parser)]
#[command(name = "warpfold", version, after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data: .npy, .npz, .arrow, .feather, .ipc, .parquet, or raw with --dtype; - is standard input.
    /// Several files are reduced as one, as with --stream, and so is what several processes have that
    /// mpirun, srun or torchrun started
    #[arg(value_name = "FILE", required_unless_present = "completions")]
    files: Vec<PathBuf>,
    /// What to compute, one or several
    #[arg(
        long,
        value_name = "OP",
        value_delimiter = ',',
        default_value = "sum",
        value_parser = statistics()
    )]
    op: Vec<Statistic>,
    /// The axis to reduce along, or several; negative ones count from the last
    /// [default: all elements]
    #[arg(
        long,
        value_name = "AXIS",
        value_delimiter = ',',
        value_parser = axis,
        allow_hyphen_values = true,
        conflicts_with_all = ["by", "by_column", "offsets"]
    )]
    pub(crate) axis: Vec<i64>,
    /// A file of keys, one for each element: a result for every run of equal neighbouring keys
    #[arg(long, value_name = "FILE")]
    by: Option<PathBuf>,
    /// The column of the keys, of the same file unless --by names another
    #[arg(long, value_name = "NAME")]
    by_column: Option<String>,
    /// A file of offsets: a result for the elements from each to before the next
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "by_column"])]
    pub(crate) offsets: Option<PathBuf>,
    /// The column of a table, or the array of an .npz
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Option<String>,
    /// What the data is, where neither its first bytes nor its name say it
    #[arg(long)]
    format: Option<FormatName>,
    /// Type of raw elements, which are little endian: i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16,
    /// f32 or f64. A file that says its format must hold this type
    #[arg(long, value_parser = parse_name::<Dtype>)]
    dtype: Option<Dtype>,
    /// Shape of raw elements [default: as many as there are]
    #[arg(
        long,
        value_name = "LENGTH",
        value_delimiter = ',',
        value_parser = length,
        requires = "dtype"
    )]
    shape: Vec<usize>,
    /// Read the data while it is reduced, and hold 32 MiB of it at most: for what is larger than memory.
    /// All elements have one result, of any number of operations in one pass; of .npy, raw, .arrow or
    /// .parquet, on a GPU or its simulator
    #[arg(long)]
    pub(crate) stream: bool,
    /// Where to reduce: auto, cuda, cuda:<number>, sim or cpu
    #[arg(long, default_value = "auto")]
    pub(crate) device: Place,
    /// Which results have the same bits
    #[arg(long, value_enum, default_value_t = Level::RunToRun)]
    pub(crate) level: Level,
    /// Print a JSON object for every result instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all rows of a long table
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Write the results too: of one operation as .npy, of any number as .npz
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print completions for a shell, and do nothing else
    #[arg(long, value_name = "SHELL", exclusive = true)]
    pub(crate) completions: Option<Shell>,
}

/// Which results have the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Those of the same call on the same device
    RunToRun,
    /// All, on any device, of sums of floats as well
    Everywhere,
}

/// What a file may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// One array of NumPy's
    Npy,
    /// Several arrays of NumPy's
    Npz,
    /// Elements alone, with --dtype
    Raw,
    /// Arrow's file or stream, which is Feather as well
    Arrow,
    /// A file of Parquet's format
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

/// Parses an operation by name, with all names as possible values.
fn statistics() -> impl TypedValueParser<Value = Statistic> {
    PossibleValuesParser::new(Statistic::all().map(Statistic::name)).map(|name| {
        Statistic::all().find(|op| op.name() == name).expect("the parser takes the names of all")
    })
}

pub(crate) struct By<'a> {
    /// A separate file, if not that of the data.
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

    /// Returns the operations; an error if one is given twice.
    pub(crate) fn statistics(&self) -> Result<Vec<Statistic>> {
        for (at, op) in self.op.iter().enumerate() {
            if self.op[..at].contains(op) {
                bail!("--op has {op} twice; give it once");
            }
        }
        Ok(self.op.clone())
    }

    pub(crate) fn by(&self) -> Result<Option<By<'_>>> {
        let by = By { file: self.by.as_deref(), column: self.by_column.as_deref() };
        if by.file.is_some_and(is_standard_input) {
            bail!("--by - is standard input, which only the data may be; write the keys to a file");
        }
        Ok((by.file.is_some() || by.column.is_some()).then_some(by))
    }

    /// Returns an error for options that streaming does not support; `how` is the reason for streaming.
    pub(crate) fn require_streamable(&self, how: &str) -> Result<()> {
        let pieces = [
            ("--axis", !self.axis.is_empty()),
            ("--by", self.by.is_some()),
            ("--by-column", self.by_column.is_some()),
            ("--offsets", self.offsets.is_some()),
        ];
        if let Some((option, _)) = pieces.iter().find(|(_, given)| *given) {
            bail!("{how} with {option}; there is one result, of all elements: leave either out");
        }
        if self.device == Place::Cpu {
            bail!(
                "{how} with --device cpu, which reduces what is in memory; take --device sim or cuda, or \
                 leave either out"
            );
        }
        Ok(())
    }

    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { is_data: true, format: self.format, dtype: self.dtype, shape: &self.shape }
    }
}

/// Returns whether a path stands for standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}
