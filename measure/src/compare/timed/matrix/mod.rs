//! `cargo xtask compare --rows`: compares reductions of every row of a matrix with CUB's segments and
//! PyTorch.

pub mod shape;
pub(super) mod table;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::contest::{Contest, Matrix, Options};
use anyhow::{Result, bail};
use warpfold_suite::{Op, say};

use super::{
    Comparison, Outputs, finish, machine,
    peers::{Peer, Peers},
    record::Machine,
    session::Session,
    wanted,
};
use crate::{
    Builder,
    builder::Kernels,
    suite::{self, unique},
};
use shape::Shape;
use table::Verdicts;

/// The name of the library's row kernels, and the prefix of their entries.
pub const ROWS: &str = "reducer_rows";

/// Name of CUB with row offsets; `cub` is CUB with rows of equal length.
pub(super) const OFFSETS: &str = "cub-offsets";

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub comparison: Comparison<'a>,
    /// Only these shapes; if empty, the standard ones.
    pub shapes: &'a [Shape],
    /// No shape is started after this time.
    pub limit: Option<Duration>,
}

/// Runs the command. Exits 1 when a result is wrong.
pub fn run(request: &Request<'_>, builder: &dyn Builder) -> Result<ExitCode> {
    let start = Instant::now();
    let comparison = &request.comparison;
    let ops = ops(comparison.ops)?;
    let shapes = shapes(request);
    let outputs = Outputs::new(comparison)?;
    if comparison.peers.contains(&Peer::CudaC) {
        bail!(
            "--peer cuda-c was given, but the kernels for rows have no CUDA C twin; --rows takes --peer \
             cub and torch"
        );
    }
    let device = suite::gpu("timing needs a GPU")?;
    let wanted = wanted(comparison.codegens, comparison.peers, false);
    let mut peers = Peers::gather(&wanted, builder, Kernels::All)?;
    peers.require(comparison.strict)?;
    peers.skipped.iter().for_each(|line| say!("{line}"));

    let options = options(comparison);
    let described = machine::describe(device.info(), &peers, options);
    let machine = Machine { method: method(options), ..described };
    let mut session = Session::new(&device, &mut peers, options, Contest::new);
    session.strict = comparison.strict;
    session.require_memory_of_rows(&shapes)?;
    let progress = suite::progress(shapes.len());
    let until = request.limit.map(|limit| start + limit);
    let times = session.run_rows(&shapes, &ops, until, &progress)?;
    progress.finish_and_clear();
    session.notes.iter().for_each(|line| say!("{line}"));
    let told = Verdicts::of(&times).summary();
    finish(outputs, machine, times, table::text, told, (&device, start))
}

fn ops(given: &[Op]) -> Result<Vec<Op>> {
    if let Some(other) = given.iter().find(|op| !Matrix::OPS.contains(op)) {
        let [first, second] = Matrix::OPS;
        bail!("--rows cannot compare {other} yet; it takes --op {first} and {second}");
    }
    let all = if given.is_empty() { &Matrix::OPS[..] } else { given };
    Ok(unique(all, Op::eq))
}

fn shapes(request: &Request<'_>) -> Vec<Shape> {
    match (request.shapes, request.comparison.quick) {
        ([], true) => Shape::quick(),
        ([], false) => Shape::standard(),
        (given, _) => unique(given, Shape::eq),
    }
}

/// Returns options with few rounds, because there are many shapes, but enough for stable quartiles.
fn options(comparison: &Comparison<'_>) -> Options {
    let rounds = comparison.rounds.unwrap_or(if comparison.quick { 20 } else { 50 });
    Options { rounds, slices: 2.min(rounds), budget: 1e5, ..Options::default() }
}

fn method(options: Options) -> String {
    format!(
        "The library's kernels by both code generators, CUB and an empty launch take turns in one \
         process and on one stream, forwards and backwards by the round, {} rounds; what takes long sits \
         out some. Device events stand around each run. All read copies of the same matrix of f32, rotated \
         past the L2 cache; results stay in device memory, each contender's in its own, and temporary \
         storage and offsets are allocated before. cub: segments of equal lengths; cub-offsets: the same \
         rows by 32-bit offsets. Every result of every row is compared with known values before the \
         timing and after it. Bandwidths are of the elements and of the results as each writes them: of \
         an argmax 16 bytes, by CUB and PyTorch 8. Ratios to CUB and llvm are taken round by round. A \
         graph is {} runs of one contender on rotated inputs in one CUDA graph, its time divided by their \
         number. PyTorch is another process, which cannot take turns run by run: it is timed in {} slices \
         between the others', on random elements of its own, rotated likewise.",
        options.rounds,
        crate::contest::GRAPH_RUNS,
        options.slices
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_without_a_comparison_are_refused() {
        assert_eq!(ops(&[]).unwrap(), [Op::Sum, Op::ArgMax]);
        assert_eq!(ops(&[Op::ArgMax, Op::ArgMax]).unwrap(), [Op::ArgMax]);
        let error = ops(&[Op::Sum, Op::Min]).unwrap_err().to_string();
        assert_eq!(error, "--rows cannot compare min yet; it takes --op sum and argmax");
    }

    #[test]
    fn shapes_are_those_named_or_the_standard_ones() {
        let given: Vec<Shape> = ["3x5", "16x2^4", "3x5"].map(|shape| shape.parse().unwrap()).to_vec();
        let request = |shapes, quick| {
            let comparison = Comparison { quick, ..Comparison::default() };
            Request { comparison, shapes, limit: None }
        };
        assert_eq!(shapes(&request(&given, true)), given[..2]);
        assert_eq!(shapes(&request(&[], true)).len(), 11);
        assert_eq!(shapes(&request(&[], false)), Shape::standard());
    }
}
