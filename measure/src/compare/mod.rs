//! `cargo xtask compare`: compares the Rust kernels with CUDA C and libraries, by times on a GPU or,
//! with `--static`, by machine code.

pub mod against;
pub mod machine_code;
pub mod side_by_side;
pub mod timed;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use crate::contest::LEAST_ROUNDS;
use anyhow::{Result, bail};
use timed::{
    Comparison,
    inputs::Inputs,
    matrix::{self, shape::Shape},
    peers::{self, Peer},
    sizes::Sizes,
};
use warpfold_suite::{Arch, Dtype, Op, catalogue::Variant, cli, measure::MAX_ITERATIONS};

use crate::{Builder, options};

const TIMED: &str = "Timing options, which need a GPU (not with --static)";

const ROWS: &str = "Row options (with --rows)";

const STATIC: &str = "Machine code options (with --static)";

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Compare machine code instead of times: registers, instructions, memory accesses. Needs no GPU
    #[arg(long = "static")]
    pub machine_code: bool,
    /// Only these variants, separated by commas [default: all kernels]
    #[arg(long = "variant", value_name = "ID", value_delimiter = ',', value_parser = options::variant(), hide_possible_values = true)]
    pub variants: Vec<&'static Variant>,
    /// Only these element types, separated by commas [default: f32; with --static all]
    #[arg(long = "dtype", value_name = "TYPE", value_delimiter = ',', value_parser = options::dtype(), hide_possible_values = true)]
    pub dtypes: Vec<Dtype>,
    /// Code generators of the Rust kernels, separated by commas: llvm, nvvm [default: both]
    #[arg(long, value_delimiter = ',', value_parser = peers::parse_codegen)]
    pub codegen: Vec<Peer>,
    /// Fail if a code generator, a peer or one of its kernels is missing, instead of skipping it
    #[arg(long)]
    pub strict: bool,
    /// Print JSON lines instead of a table: one per time, or with --static one per entry and compiler
    #[arg(long)]
    pub json: bool,
    /// Only these operations, separated by commas [default: sum; with --rows sum,argmax]
    #[arg(
        long = "op",
        help_heading = TIMED,
        value_name = "OP",
        value_delimiter = ',',
        value_parser = options::op(), hide_possible_values = true,
        conflicts_with = "machine_code"
    )]
    pub ops: Vec<Op>,
    /// Numbers of elements: a list such as 1000,4Mi, or a range such as 2^10..2^32, which doubles at
    /// each step [default: 2^10..2^28, or with --quick some of them]
    #[arg(
        long,
        help_heading = TIMED,
        value_name = "RANGE",
        value_parser = str::parse::<Sizes>,
        conflicts_with = "machine_code"
    )]
    pub n: Option<Sizes>,
    /// Peers to compare with, separated by commas: cuda-c, cub, torch [default: all]
    #[arg(
        long = "peer",
        help_heading = TIMED,
        value_name = "PEER",
        value_delimiter = ',',
        value_parser = peers::parse_other,
        conflicts_with = "machine_code"
    )]
    pub peers: Vec<Peer>,
    /// Time each case in these states of the L2 cache, separated by commas, without PyTorch, whose
    /// process cannot sweep the cache [default: rotated, with PyTorch]
    #[arg(
        long,
        help_heading = TIMED,
        value_name = "STATE",
        value_delimiter = ',',
        conflicts_with_all = ["machine_code", "rows"]
    )]
    pub inputs: Vec<Inputs>,
    /// Time few sizes in few rounds, and only reductions unless variants are named
    #[arg(long, help_heading = TIMED, conflicts_with = "machine_code")]
    pub quick: bool,
    /// Timed rounds, at least 5 [default: 100, with --quick 30; with --rows 50, with --rows --quick 20]
    #[arg(
        long,
        help_heading = TIMED,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(i64::from(LEAST_ROUNDS)..=i64::from(MAX_ITERATIONS)),
        conflicts_with = "machine_code"
    )]
    pub iters: Option<u32>,
    /// Write JSON lines to a file at the end, replacing its contents, unless a result is wrong
    #[arg(long, help_heading = TIMED, value_name = "FILE", conflicts_with = "machine_code")]
    pub out: Option<PathBuf>,
    /// Compare f32 reductions of each row of a matrix instead of a whole buffer
    #[arg(
        long,
        help_heading = ROWS,
        conflicts_with_all = ["machine_code", "variants", "dtypes", "n"]
    )]
    pub rows: bool,
    /// Only these matrices, as ROWSxLEN, separated by commas: 4096x65536,2^20x2^8 [default: 2^28, 2^24,
    /// 2^20 and 2^16 elements in rows of many lengths; with --quick only 2^28]
    #[arg(
        long = "shape",
        help_heading = ROWS,
        value_name = "SHAPE",
        value_delimiter = ',',
        value_parser = str::parse::<Shape>,
        requires = "rows"
    )]
    pub shapes: Vec<Shape>,
    /// Start no shape after N seconds, and list the omitted shapes
    #[arg(
        long,
        help_heading = ROWS,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "rows"
    )]
    pub seconds: Option<u64>,
    /// GPU architecture of the machine code [default: sm_90; with --against that of the earlier PTX]
    #[arg(long, help_heading = STATIC, value_name = "sm_NN", requires = "machine_code")]
    pub arch: Option<Arch>,
    /// Compare the Rust kernels with their earlier PTX in a folder, ignoring names and line tables; exit
    /// 1 if the machine code differs. Takes at most one --codegen [default: llvm]
    #[arg(
        long,
        help_heading = STATIC,
        value_name = "FOLDER",
        requires = "machine_code",
        conflicts_with_all = ["dtypes", "sim_n", "strict"]
    )]
    pub against: Option<PathBuf>,
    /// Number of elements in the simulator's runs, which count executed instructions; 0 skips these runs
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
pub fn run(args: &Args, builder: &dyn Builder) -> Result<ExitCode> {
    if !args.inputs.is_empty() && args.peers.contains(&Peer::Torch) {
        bail!(
            "--inputs cannot be combined with --peer torch, whose process cannot sweep the cache; take \
             torch out of --peer"
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
