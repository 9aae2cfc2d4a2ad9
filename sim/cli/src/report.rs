//! What is found, as the commands tell it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use warpfold_sim_report::{Diagnostic, Suppressions, sarif};

use crate::Done;

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// A file of what is known and passed over: a line for each, such as
    /// `read-write-race kernel=sum* file=*/sum.cu line=12  # why`
    #[arg(long, value_name = "FILE")]
    suppress: Option<PathBuf>,
    /// Write what is found as SARIF, for code review, to this file, too
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
}

impl ReportArgs {
    /// The suppressions, before anything is run.
    pub(crate) fn suppressions(&self) -> Result<Suppressions> {
        let Some(path) = &self.suppress else { return Ok(Suppressions::default()) };
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
        Suppressions::parse(&text).with_context(|| name.to_string())
    }

    /// Tells what was found in a file, and whether that is nothing. `print` shows one of them.
    pub(crate) fn tell(
        &self,
        found: Vec<Diagnostic>,
        known: &Suppressions,
        ptx: &Path,
        print: impl Fn(&str),
    ) -> Result<Done> {
        let reasons = found.into_iter().map(|found| {
            let reason = known.reason(&found).map(str::to_owned);
            (found, reason)
        });
        let found: Vec<(Diagnostic, Option<String>)> = reasons.collect();
        let mut done = Done::Right;
        for (one, _) in found.iter().filter(|(_, reason)| reason.is_none()) {
            print(&one.text());
            done = Done::Wrong;
        }
        let passed = found.iter().filter(|(_, reason)| reason.is_some()).count();
        if passed > 0 {
            eprintln!("warpfold-sim: {passed} suppressed");
        }
        if let Some(path) = &self.suppress {
            for (number, line) in known.unused() {
                eprintln!("warpfold-sim: {} line {number} suppresses nothing: {line}", path.display());
            }
        }
        if let Some(path) = &self.sarif {
            let root = env::current_dir().context("the current folder is not there")?;
            let log = sarif(&found, &root, &ptx.to_string_lossy());
            let text = serde_json::to_string_pretty(&log)?;
            fs::write(path, text + "\n")
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(done)
    }
}
