//! Output of findings, and their suppression.

use std::{
    env, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use warpfold_io::{MAX_TEXT, files, say};
use warpfold_sim_report::{Diagnostic, Suppressions, sarif};

use crate::{Done, file};

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// File of known findings to suppress, one per line, such as
    /// `read-write-race kernel=sum* file=*/sum.cu line=12  # why`
    #[arg(long, value_name = "FILE")]
    suppress: Option<PathBuf>,
    /// Also write the findings to a file as SARIF, for code review
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
}

impl ReportArgs {
    /// Reads the suppressions before anything runs, and checks that the SARIF report can be written
    /// afterwards.
    pub(crate) fn suppressions(&self) -> Result<Suppressions> {
        if let Some(path) = &self.sarif {
            files::require_writable(path)
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        let Some(path) = &self.suppress else { return Ok(Suppressions::default()) };
        Suppressions::parse(&file::text(path, MAX_TEXT)?).with_context(|| path.display().to_string())
    }

    /// Prints each finding that is not suppressed, writes the SARIF report, and returns [`Done::Wrong`]
    /// if any was printed.
    pub(crate) fn tell(
        &self,
        found: Vec<Diagnostic>,
        known: &Suppressions,
        ptx: &Path,
        mut print: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<Done> {
        let reasons = found.into_iter().map(|found| {
            let reason = known.reason(&found).map(str::to_owned);
            (found, reason)
        });
        let found: Vec<(Diagnostic, Option<String>)> = reasons.collect();
        let mut done = Done::Right;
        for (one, _) in found.iter().filter(|(_, reason)| reason.is_none()) {
            print(&one.text())?;
            done = Done::Wrong;
        }
        let passed = found.iter().filter(|(_, reason)| reason.is_some()).count();
        if passed > 0 {
            say!("warpfold-sim: {passed} suppressed");
        }
        if let Some(path) = &self.suppress {
            for (number, line) in known.unused() {
                say!("warpfold-sim: {} line {number} suppresses nothing: {line}", path.display());
            }
        }
        if let Some(path) = &self.sarif {
            let root = env::current_dir().context("the current folder cannot be found")?;
            let log = sarif(&found, &root, &ptx.to_string_lossy());
            let text = serde_json::to_string_pretty(&log)?;
            files::replace(path, text + "\n")?;
        }
        Ok(done)
    }
}
