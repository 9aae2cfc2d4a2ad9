//! `cargo xtask compare`: times every Rust kernel beside its CUDA C twin, CUB and PyTorch.

mod cases;
pub mod inputs;
pub(crate) mod machine;
pub mod matrix;
pub mod peers;
#[cfg(test)]
mod planted;
pub mod record;
pub mod reducer;
mod rows;
mod session;
pub mod sizes;
mod table;
pub mod targets;
pub mod torch;

use std::{collections::BTreeSet, io::Write, path::Path, process::ExitCode, time::Instant};

use crate::contest::{Contest, Options};
use anyhow::{Result, bail};
use warpfold_suite::{Device, Dtype, Op, catalogue::Variant, cli, say};

use crate::{
    Builder,
    builder::Kernels,
    suite::{self, unique},
};
use cases::Wanted;
use inputs::Inputs;
use peers::{Peer, Peers};
use record::{Destination, Line, Machine, Time};
pub(crate) use session::NewContest;
use session::Session;
use sizes::Sizes;

/// Options that all comparisons share.
#[derive(Debug, Clone, Copy, Default)]
pub struct Comparison<'a> {
    /// Only these operations; if empty, the comparison's default.
    pub ops: &'a [Op],
    /// The code generators of [`Peer::RUST`] to compare; if empty, all.
    pub codegens: &'a [Peer],
    /// The peers of [`Peer::OTHERS`] to compare with; if empty, all.
    pub peers: &'a [Peer],
    pub quick: bool,
    /// Makes a missing code generator, peer or kernel an error.
    pub strict: bool,
    pub rounds: Option<u32>,
    pub json: bool,
    pub out: Option<&'a Path>,
}

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The shared options; with `quick`, only reductions unless variants are named.
    pub comparison: Comparison<'a>,
    /// Only these variants; if empty, all kernels.
    pub variants: &'a [&'static Variant],
    /// Only these types; if empty, f32.
    pub dtypes: &'a [Dtype],
    pub sizes: Option<&'a Sizes>,
    /// The states of the L2 cache to time one after the other, without PyTorch. If empty, inputs are
    /// rotated, and PyTorch takes part.
    pub inputs: &'a [Inputs],
}

/// Runs the command. Exits 1 when a result is wrong, and then leaves the file of an earlier comparison
/// unchanged.
pub fn run(request: &Request<'_>, builder: &dyn Builder) -> Result<ExitCode> {
    let start = Instant::now();
    let comparison = &request.comparison;
    let (mut cases, notes) = cases(request)?;
    let outputs = Outputs::new(comparison)?;
    let device = suite::gpu("timing needs a GPU, comparing machine code with --static does not")?;
    let mut wanted = wanted(comparison.codegens, comparison.peers, cases::needs_twins(&cases));
    if !request.inputs.is_empty() {
        wanted.retain(|peer| *peer != Peer::Torch);
    }
    let mut peers = Peers::gather(&wanted, builder, Kernels::Suite)?;
    peers.require(comparison.strict)?;
    let too_new = skip_too_new(&mut cases, &device, &peers);
    for line in peers.skipped.iter().chain(&too_new).chain(&notes) {
        say!("{line}");
    }
    if cases.is_empty() {
        bail!("nothing to compare: all of these variants need a newer GPU");
    }

    let options = options(comparison);
    let mut machine = machine::describe(device.info(), &peers, options);
    let mut session = Session::new(&device, &mut peers, options, Contest::new);
    session.strict = comparison.strict;
    session.require_memory(&cases)?;
    let progress = suite::progress(cases.len() * request.inputs.len().max(1));
    let times = match unique(request.inputs, Inputs::eq).as_slice() {
        [] => session.run(&cases, &progress)?,
        inputs => {
            machine.method += inputs::METHOD;
            session.run_by_inputs(&cases, inputs, &progress)?
        }
    };
    progress.finish_and_clear();
    session.notes.iter().for_each(|line| say!("{line}"));
    let targets = reducer::summary(&times);
    finish(outputs, machine, times, tables, targets, (&device, start))
}

fn cases(request: &Request<'_>) -> Result<(Vec<cases::Case>, Vec<String>)> {
    let Comparison { ops, quick, .. } = request.comparison;
    let sizes = request.sizes.cloned().unwrap_or_else(|| match quick {
        true => Sizes::quick(),
        false => Sizes::standard(),
    });
    let dtypes = if request.dtypes.is_empty() { &[Dtype::F32] } else { request.dtypes };
    let ops = if ops.is_empty() { &[Op::Sum] } else { ops };
    let wanted = Wanted {
        variants: &unique(request.variants, |a, b| a.id == b.id),
        dtypes: &unique(dtypes, Dtype::eq),
        ops: &unique(ops, Op::eq),
        sizes: &sizes,
        moves: !quick,
    };
    wanted.cases()
}

struct Outputs {
    json: bool,
    destination: Option<Destination>,
}

impl Outputs {
    /// Checks that the output path can be written, before anything runs.
    fn new(comparison: &Comparison<'_>) -> Result<Self> {
        let destination = comparison.out.map(Destination::new).transpose()?;
        Ok(Self { json: comparison.json, destination })
    }
}

/// Prints and writes the results, and prints `summary` to standard error. The status is 1 when a result
/// is wrong, and then no file is written.
fn finish(
    outputs: Outputs,
    machine: Machine,
    times: Vec<Time>,
    tables: fn(&[Time]) -> String,
    summary: Option<String>,
    (device, start): (&Device, Instant),
) -> Result<ExitCode> {
    let wrong = times.iter().filter(|time| !time.ok).count();
    let shown = (!outputs.json).then(|| format!("{}\n{}", tables(&times), machine.method));
    let lines: Vec<Line> =
        [Line::Machine(machine)].into_iter().chain(times.into_iter().map(Line::Time)).collect();
    let mut out = cli::stdout();
    match shown {
        Some(shown) => writeln!(out, "{shown}")?,
        None => {
            for line in &lines {
                writeln!(out, "{}", serde_json::to_string(line)?)?;
            }
        }
    }
    let all = lines.len() - 1;
    let (gpu, seconds) = (&device.info().name, start.elapsed().as_secs_f32());
    summary.iter().for_each(|summary| say!("{summary}"));
    say!("{} of {all} right, on {gpu}, in {seconds:.1} s", all - wrong);
    match outputs.destination {
        Some(_) if wrong > 0 => say!("nothing is written to --out: a result is wrong"),
        Some(destination) => destination.write(&lines)?,
        None => {}
    }
    Ok(ExitCode::from(u8::from(wrong > 0)))
}

fn wanted(codegens: &[Peer], peers: &[Peer], twins: bool) -> Vec<Peer> {
    let rust = if codegens.is_empty() { &Peer::RUST[..] } else { codegens };
    let others = if peers.is_empty() { &Peer::OTHERS[..] } else { peers };
    rust.iter().chain(others).copied().filter(|peer| twins || *peer != Peer::CudaC).collect()
}

/// Returns two tables: that of all contenders, unless only the reducer was compared, and the reducer's.
fn tables(times: &[Time]) -> String {
    let others = times.iter().any(|time| table::is_suite(time) && time.variant != reducer::REDUCER);
    let reducer = reducer::table(times).map(|table| format!("{table}\n{}", reducer::LEGEND));
    let all = (others || reducer.is_none()).then(|| table::table(times).to_string());
    all.into_iter().chain(reducer).collect::<Vec<_>>().join("\n")
}

/// Removes variants that need a newer GPU or PTX, and cases that are left without variants. Returns a
/// line for each removed variant.
fn skip_too_new(cases: &mut Vec<cases::Case>, device: &Device, peers: &Peers) -> BTreeSet<String> {
    let arch = device.info().arch;
    let built = peers.kernels.iter().filter_map(|(_, store)| store.arch());
    let arch = built.fold(arch, |least, built| least.min(built));
    let mut lines = BTreeSet::new();
    for case in cases.iter_mut() {
        let (run, skipped) = case.variants.iter().copied().partition(|v| v.min_arch <= arch);
        case.variants = run;
        let skipped: Vec<&'static Variant> = skipped;
        lines.extend(
            skipped.iter().map(|v| format!("skipped: {} needs {}, this is {arch}", v.id, v.min_arch)),
        );
    }
    cases.retain(|case| !case.variants.is_empty());
    lines
}

fn options(comparison: &Comparison<'_>) -> Options {
    let standard = match comparison.quick {
        true => Options { rounds: 30, slices: 3, budget: 2e5, ..Options::default() },
        false => Options::default(),
    };
    let rounds = comparison.rounds.unwrap_or(standard.rounds);
    Options { rounds, slices: standard.slices.min(rounds), ..standard }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_peers_omit_cuda_c_without_twins() {
        assert_eq!(wanted(&[], &[], true), Peer::ALL);
        let all = [Peer::RustLlvm, Peer::RustNvvm, Peer::Cub, Peer::Torch];
        assert_eq!(wanted(&[], &[], false), all);
        let some = wanted(&[Peer::RustNvvm], &[Peer::CudaC, Peer::Cub], false);
        assert_eq!(some, [Peer::RustNvvm, Peer::Cub]);
    }

    #[test]
    fn the_reducer_has_a_table_of_its_own() {
        let time = |variant: &str| Time { variant: variant.into(), ok: true, ..Time::default() };
        let all = [time(table::EMPTY), time("vectorized"), time(reducer::REDUCER)];
        let heads = |times: &[Time]| {
            let text = tables(times);
            (text.contains("variant"), text.contains("x cub"))
        };
        assert_eq!(heads(&all), (true, true));
        assert_eq!(heads(&all[..2]), (true, false));
        assert_eq!(heads(&all[2..]), (false, true));
    }
}
