//! `cargo xtask compare`: compares the Rust kernels with CUDA C and libraries, by times on a GPU or,
//! with `--static`, by machine code.

pub mod against;
pub mod machine_code;
pub mod side_by_side;
pub mod timed;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use timed::{
    Comparison,
    inputs::Inputs,
    matrix::{self, shape::Shape},
    peers::{self, Peer},
    sizes::Sizes,
};
use warpfold_bench::LEAST_ROUNDS;
use warpfold_suite::{Arch, Dtype, Op, catalogue::Variant, cli, measure::MAX_ITERATIONS};

use crate::{Builder, options};

const TIMED: &str = "Options of times, which need a GPU (not with --static)";

const ROWS: &str = "Options of rows (with --rows)";

const STATIC: &str = "Options of machine code (with --static)";

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Compare the machine code: registers, instructions, accesses. Needs no GPU
    #[arg(long = "static")]
    pub machine_code: bool,
    /// Only these variants, separated by commas [default: all kernels]
    #[arg(long = "variant", value_name = "ID", value_delimiter = ',', value_parser = options::variant(), hide_possible_values = true)]
    pub variants: Vec<&'static Variant>,
    /// Only these element types, separated by commas [default: f32, and all with --static]
    #[arg(long = "dtype", value_name = "TYPE", value_delimiter = ',', value_parser = options::dtype(), hide_possible_values = true)]
    pub dtypes: Vec<Dtype>,
    /// The Rust kernels by these code generators, separated by commas: llvm, nvvm [default: both]
    #[arg(long, value_delimiter = ',', value_parser = peers::parse_codegen)]
    pub codegen: Vec<Peer>,
    /// A code generator, a peer or a kernel of theirs that is not there is an error
    #[arg(long)]
    pub strict: bool,
    /// Print JSON lines instead of a table: one per time, or per entry and compiler
    #[arg(long)]
    pub json: bool,
    /// Only these operations, separated by commas [default: sum, and sum,argmax with --rows]
    #[arg(
        long = "op",
        help_heading = TIMED,
        value_name = "OP",
        value_delimiter = ',',
        value_parser = options::op(), hide_possible_values = true,
        conflicts_with = "machine_code"
    )]
    pub ops: Vec<Op>,
    /// Numbers of elements: a range by powers of two, or a list: 2^10..2^32, 1000,4Mi [default:
    /// 2^10..2^28]
    #[arg(
        long,
        help_heading = TIMED,
        value_name = "RANGE",
        value_parser = str::parse::<Sizes>,
        conflicts_with = "machine_code"
    )]
    pub n: Option<Sizes>,
    /// Whom to compare them with, separated by commas: cuda-c, cub, torch [default: all]
    #[arg(
        long = "peer",
        help_heading = TIMED,
        value_name = "PEER",
        value_delimiter = ',',
        value_parser = peers::parse_other,
        conflicts_with = "machine_code"
    )]
    pub peers: Vec<Peer>,
    /// Time each case for these states of the cache, separated by commas: copies of the elements that
    /// take turns, a swept cache, one copy that stays. Without PyTorch, which cannot take part [default:
    /// rotated, with it]
    #[arg(
        long,
        help_heading = TIMED,
        value_name = "STATE",
        value_delimiter = ',',
        conflicts_with_all = ["machine_code", "rows"]
    )]
    pub inputs: Vec<Inputs>,
    /// Few sizes and rounds; reductions alone, unless variants are named
    #[arg(long, help_heading = TIMED, conflicts_with = "machine_code")]
    pub quick: bool,
    /// Timed rounds, 5 at least [default: 100, and 30 with --quick]
    #[arg(
        long,
        help_heading = TIMED,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(i64::from(LEAST_ROUNDS)..=i64::from(MAX_ITERATIONS)),
        conflicts_with = "machine_code"
    )]
    pub iters: Option<u32>,
    /// Write JSON lines to a file when all is done, in place of what it held
    #[arg(long, help_heading = TIMED, value_name = "FILE", conflicts_with = "machine_code")]
    pub out: Option<PathBuf>,
    /// Compare f32 results of every row of a matrix, in place of one of a whole buffer
    #[arg(
        long,
        help_heading = ROWS,
        conflicts_with_all = ["machine_code", "variants", "dtypes", "n"]
    )]
    pub rows: bool,
    /// Only these matrices, ROWSxLEN, separated by commas: 4096x65536,2^20x2^8 [default: 2^28, 2^24,
    /// 2^20 and 2^16 elements in rows of many lengths]
    #[arg(
        long = "shape",
        help_heading = ROWS,
        value_name = "SHAPE",
        value_delimiter = ',',
        value_parser = str::parse::<Shape>,
        requires = "rows"
    )]
    pub shapes: Vec<Shape>,
    /// Begin no shape after N seconds; those left out are said
    #[arg(
        long,
        help_heading = ROWS,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "rows"
    )]
    pub seconds: Option<u64>,
    /// GPU architecture of the machine code [default: sm_90, on any machine]
    #[arg(long, help_heading = STATIC, value_name = "sm_NN", requires = "machine_code")]
    pub arch: Option<Arch>,
    /// Compare the Rust kernels with earlier PTX of theirs in this folder, names and lines apart; exit 1
    /// where the machine code differs. One --codegen [default: llvm]
    #[arg(
        long,
        help_heading = STATIC,
        value_name = "FOLDER",
        requires = "machine_code",
        conflicts_with_all = ["dtypes", "sim_n", "strict"]
    )]
    pub against: Option<PathBuf>,
    /// Elements of the runs in the simulator that count executed instructions; 0 leaves them out
    #[arg(
        long,
        help_heading = STATIC,
        value_name = "N",
        default_value = "2^16",
        value_parser = cli::parse_count,
        requires = "machine_code"
    )]
    pub sim_n: u64,
}

/// Runs the command. Exits 1 when a result is wrong, or with `--against` when machine code differs.
///
/// # Errors
/// A machine or arguments that do not allow the comparison.
pub fn run(args: &Args, builder: &dyn Builder) -> Result<ExitCode> {
    if !args.inputs.is_empty() && args.peers.contains(&Peer::Torch) {
        bail!(
            "--inputs leaves PyTorch out, whose process cannot sweep the cache: take torch out of --peer"
        );
    }
    if let Some(folder) = &args.against {
        return against::run(
            &against::Request {
                folder,
                variants: &args.variants,
                codegens: &args.codegen,
                arch: args.arch,
                json: args.json,
            },
            builder,
        );
    }
    if args.machine_code {
        let request = side_by_side::Request {
            variants: &args.variants,
            dtypes: &args.dtypes,
            codegens: &args.codegen,
            strict: args.strict,
            arch: args.arch,
            sim_n: args.sim_n,
            json: args.json,
        };
        return side_by_side::run(&request, builder).map(|()| ExitCode::SUCCESS);
    }
    let comparison = Comparison {
        ops: &args.ops,
        codegens: &args.codegen,
        peers: &args.peers,
        quick: args.quick,
        strict: args.strict,
        rounds: args.iters,
        json: args.json,
        out: args.out.as_deref(),
    };
    if args.rows {
        let limit = args.seconds.map(Duration::from_secs);
        return matrix::run(&matrix::Request { comparison, shapes: &args.shapes, limit }, builder);
    }
    let request = timed::Request {
        comparison,
        variants: &args.variants,
        dtypes: &args.dtypes,
        sizes: args.n.as_ref(),
        inputs: &args.inputs,
    };
    timed::run(&request, builder)
}
