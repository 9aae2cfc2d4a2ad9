//! `warpfold-sim run`, `check`, `explain` and `explore`

use std::io::Write;

use anyhow::{Result, bail, ensure};
use warpfold_sim::{ExploreError, Explored};
use warpfold_sim_report::Explanation;

use crate::{
    Done,
    call::{self, Call, How},
    report,
};

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    call: call::CallArgs,
    /// Check for races, missing barriers and reads of unwritten memory, as `check` does
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    more: More,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    call: call::CallArgs,
    #[command(flatten)]
    more: More,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    call: call::CallArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExploreArgs {
    #[command(flatten)]
    call: call::CallArgs,
    /// Maximum number of executions, with redundant ones
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    executions: u64,
}

#[derive(Debug, clap::Args)]
struct More {
    /// Repeat the run on the same arrays with the seeds 0 to COUNT - 1, and compare the results
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    seeds: u64,
    #[command(flatten)]
    report: report::ReportArgs,
}

pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> Result<Done> {
    let how = if args.check { How::Checked } else { How::Plain };
    reported(&args.call, &args.more, how, out)
}

pub(crate) fn check(args: &CheckArgs, out: &mut dyn Write) -> Result<Done> {
    reported(&args.call, &args.more, How::Checked, out)
}

fn reported(args: &call::CallArgs, more: &More, how: How, out: &mut dyn Write) -> Result<Done> {
    let known = more.report.suppressions()?;
    let modules = call::modules(args)?;
    let (done, found) = Call::new(args, &modules, how)?.run(more.seeds, out)?;
    let told = more.report.tell(found, &known, &args.file, |line| writeln!(out, "{line}"))?;
    Ok(if done == Done::Right { told } else { done })
}

pub(crate) fn explain(args: &ExplainArgs, out: &mut dyn Write) -> Result<Done> {
    let modules = call::modules(&args.call)?;
    let mut call = Call::new(&args.call, &modules, How::Counted)?;
    let (done, found) = call.run(0, out)?;
    found.iter().try_for_each(|found| writeln!(out, "{}", found.text()))?;
    let (entry, profile) = call.counted();
    let mut explanation = Explanation::new();
    explanation.add(entry.name(), entry.instructions(), &profile);
    write!(out, "{}", explanation.text())?;
    Ok(done)
}

pub(crate) fn explore(args: &ExploreArgs, out: &mut dyn Write) -> Result<Done> {
    ensure!(
        args.call.out.is_empty() && args.call.seed.is_none(),
        "explore has many orders and results; leave out --seed and --out"
    );
    let modules = call::modules(&args.call)?;
    match Call::new(&args.call, &modules, How::Plain)?.explore(args.executions) {
        Ok(Explored { executions, redundant, .. }) => {
            let of = match executions {
                1 => "1 execution has".to_owned(),
                _ => format!("{executions} executions have"),
            };
            let result = if args.call.expect.is_empty() { "one result" } else { "the expected result" };
            writeln!(out, "{of} {result}; redundant: {redundant}")?;
            Ok(Done::Right)
        }
        // A wrong execution is a result of this command, not its failure.
        Err(wrong @ ExploreError::Wrong { .. }) => {
            writeln!(out, "{wrong}")?;
            Ok(Done::Wrong)
        }
        Err(ExploreError::TooMany { limit }) => bail!(
            "the launch has more than {limit} executions; use fewer blocks or threads, or raise --executions"
        ),
        Err(error) => Err(error.into()),
    }
}
