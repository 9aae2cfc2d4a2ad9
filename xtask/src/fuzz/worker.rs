//! A worker process that tries inputs of a target until its time is over or it crashes.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    panic,
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use warpfold_suite::cli;

use super::{
    Args,
    mutation::{LARGEST, Random, hash, mutate},
    targets::{Ready, Target},
};
use crate::workspace::Workspace;

/// The time limit for one input, on a busy machine; to exceed it is a finding.
const SLOW: Duration = Duration::from_secs(5);

/// The maximum number of inputs from which changed ones are made.
const MOST: usize = 2000;

/// The maximum size in bytes of inputs that are kept, to be changed later.
const KEPT: usize = 16 << 10;

/// Tries all existing inputs, and then changed ones until the time is over. Prints the number of inputs
/// and the number of kinds of outcome. A panic ends the process, even one that is caught.
pub(super) fn work(
    workspace: &Workspace,
    target: Target,
    args: &Args,
    seed: u64,
    current: &Path,
) -> Result<()> {
    let (start, time) = (Instant::now(), Duration::from_secs(args.seconds));
    let mut worker = Worker::new(workspace, target, seed, current, args.committed)?;
    let mut told = start;
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        process::abort();
    }));
    while worker.has_own() || start.elapsed() < time {
        worker.one_more()?;
        // The parent reads the last of these lines as the result, even if the worker crashes.
        if told.elapsed() > Duration::from_millis(500) {
            told = Instant::now();
            worker.tell()?;
        }
    }
    worker.tell()
}

struct Worker {
    ready: Ready,
    random: Random,
    /// The file of the current input, read by the parent if this process crashes.
    current: File,
    /// Inputs that are tried unchanged first, and then changed.
    inputs: Vec<Vec<u8>>,
    folder: PathBuf,
    kinds: HashSet<String>,
    tried: usize,
    own: usize,
}

impl Worker {
    fn new(
        workspace: &Workspace,
        target: Target,
        seed: u64,
        current: &Path,
        committed: bool,
    ) -> Result<Self> {
        let folder = workspace.target.join("fuzz/corpus").join(target.name());
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be written", folder.display()))?;
        let mut all = Vec::new();
        for committed in target.corpus() {
            let of_folder = inputs(&workspace.root.join(committed))?;
            ensure!(!of_folder.is_empty(), "{committed} has no inputs");
            all.extend(of_folder);
        }
        if !committed {
            all.extend(inputs(&folder)?);
        }
        all.truncate(MOST);
        let current = File::create(current).with_context(|| current.display().to_string())?;
        Ok(Self {
            ready: Ready::new(target)?,
            random: Random(seed),
            current,
            own: all.len(),
            inputs: all.into_iter().map(|(_, input)| input).collect(),
            folder,
            kinds: HashSet::new(),
            tried: 0,
        })
    }

    fn has_own(&self) -> bool {
        self.tried < self.own
    }

    /// Tries the next input: first each of the initial inputs unchanged, then changed ones.
    fn one_more(&mut self) -> Result<()> {
        let number = self.tried;
        self.tried += 1;
        if number < self.own {
            let input = self.inputs[number].clone();
            return self.is_new(&input).map(drop);
        }
        let [input, other] = [(); 2].map(|()| self.random.below(self.inputs.len()));
        let made = mutate(&self.inputs[input], &self.inputs[other], &mut self.random);
        if self.is_new(&made)? && self.inputs.len() < MOST && made.len() <= KEPT {
            let path = self.folder.join(format!("{:016x}", hash(&made)));
            fs::write(&path, &made).with_context(|| format!("{} cannot be written", path.display()))?;
            self.inputs.push(made);
        }
        Ok(())
    }

    /// Tries an input; returns whether any part of its outcome is of a new [`kind()`].
    fn is_new(&mut self, input: &[u8]) -> Result<bool> {
        self.current.write_all_at(input, 0)?;
        self.current.set_len(input.len() as u64)?;
        let start = Instant::now();
        let said = self.ready.run(input)?;
        let took = start.elapsed();
        // A target that starts the program in its own process has a limit of its own.
        let is_slow = took > SLOW && self.ready.is_in_process();
        assert!(!is_slow, "{} bytes took {took:?}", input.len());
        let mut is_new = false;
        for part in said.split("; ") {
            let kind = kind(part);
            is_new |= !self.kinds.contains(&kind) && self.kinds.insert(kind);
        }
        Ok(is_new)
    }

    fn tell(&self) -> Result<()> {
        Ok(writeln!(cli::stdout(), "tried {} {}", self.tried, self.kinds.len())?)
    }
}

/// Returns the constant part of a message: the text before the first and after the last quote, without
/// numbers.
fn kind(said: &str) -> String {
    let quotes = ['`', '"', '\u{2026}'];
    let (first, last) = (said.split(quotes).next(), said.rsplit(quotes).next());
    let parts = first.into_iter().chain(last.filter(|_| said.contains(quotes)));
    parts.flat_map(|part| part.chars().filter(|c| !c.is_numeric()).take(80)).collect()
}

/// Returns the files of a folder, sorted by name, except for those that are too large.
fn inputs(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let input = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok((path, input))
    };
    let mut all: Vec<_> = paths.into_iter().map(read).collect::<Result<_>>()?;
    all.retain(|(_, input)| input.len() <= LARGEST);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_only_in_input_share_a_kind() {
        for (said, same) in [
            ("line 3: expected `;`, found `x`", "line 77: expected `,`, found `a `b\" c`"),
            ("`x` is no token", "`longer` is no token"),
            ("unknown field `a…", "unknown field `other…"),
        ] {
            assert_eq!(kind(said), kind(same), "{said}");
        }
        assert_ne!(kind("`x` is no token"), kind("`x` is no opcode"));
        assert_ne!(kind("out of bounds"), kind("misaligned"));
    }
}
