//! `cargo xtask fuzz`: tries randomly broken external inputs. Any outcome other than a result or a
//! one-line error is a finding.
//!
//! Targets run in worker processes. A panic, an abort, a stack overflow, unbounded memory use and an
//! endless loop all end the process, and its last input is kept. Inputs are derived from those in
//! `tests/corpus/<target>`, and from inputs of earlier runs that had a new kind of outcome, which are in
//! `target/fuzz/corpus/<target>`. Findings go to `target/fuzz/findings`. Once fixed, they are added to
//! `tests/corpus`, whose inputs are tried first, also by the tests.

mod driver;
mod mutation;
mod program;
mod targets;
mod worker;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use warpfold_suite::say;

use crate::workspace::Workspace;

pub use targets::Target;

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Targets to run [default: all]
    #[arg(value_enum)]
    pub targets: Vec<Target>,
    /// Total seconds for all targets; 0 runs only the existing inputs
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub seconds: u64,
    /// Seed of the random changes [default: the current time]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Start only from the committed inputs, without those that earlier runs have kept
    #[arg(long)]
    pub committed: bool,
    /// Run as a worker process, which writes the current input to this file
    #[arg(long, hide = true, value_name = "FILE")]
    pub worker: Option<PathBuf>,
}

/// The time after which a worker is killed. The largest input takes milliseconds.
const TOO_LONG: Duration = Duration::from_secs(10);

const MEMORY_KIB: u64 = 512 << 10;

/// The number of findings after which a target is abandoned.
const ENOUGH: usize = 10;

/// Runs the command. Exits 1 if there is a finding.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let seed = args.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.map_or(0, |since| since.as_nanos() as u64)
    });
    let targets = if args.targets.is_empty() { Target::ALL } else { &args.targets };
    if let Some(current) = &args.worker {
        let [target] = targets else { bail!("a worker takes exactly one target") };
        worker::work(&workspace, *target, args, seed, current)?;
        return Ok(ExitCode::SUCCESS);
    }
    if targets.iter().any(|target| target.call().is_some()) {
        program::build(&workspace)?;
    }
    let time = Duration::from_secs(args.seconds) / targets.len() as u32;
    let mut findings = 0;
    for &target in targets {
        findings +=
            Campaign { workspace: &workspace, target, seed, committed: args.committed }.run(time)?;
    }
    Ok(ExitCode::from(u8::from(findings > 0)))
}

struct Campaign<'w> {
    workspace: &'w Workspace,
    target: Target,
    seed: u64,
    committed: bool,
}

impl Campaign<'_> {
    fn run(&self, time: Duration) -> Result<usize> {
        let (start, mut findings, mut tried, mut kinds) = (Instant::now(), 0, 0, 0);
        let folder = self.workspace.target.join("fuzz");
        fs::create_dir_all(folder.join("findings"))
            .with_context(|| format!("{} cannot be written", folder.display()))?;
        let name = self.target.name();
        let current = folder.join(format!("{name}.current"));
        loop {
            let left = time.saturating_sub(start.elapsed()).as_secs_f64().ceil() as u64;
            let (ending, said) = self.worker(left, self.seed.wrapping_add(findings as u64), &current)?;
            let counts = |line: &str| -> Option<(u64, u64)> {
                let (tried, kinds) = line.strip_prefix("tried ")?.split_once(' ')?;
                Some((tried.parse().ok()?, kinds.parse().ok()?))
            };
            let last = said.lines().filter_map(counts).next_back();
            let (more, of_kinds) = last.unwrap_or_default();
            (tried, kinds) = (tried + more, kinds.max(of_kinds));
            let Some(why) = ending else { break };
            findings += 1;
            let kept = self.keep(&current, &folder.join("findings"))?;
            say!("{name}: {why}: {}", complaint(&said));
            say!("{name}: the input is in {}", self.workspace.show(&kept));
            if start.elapsed() > time || findings == ENOUGH {
                break;
            }
        }
        let _ = fs::remove_file(&current);
        let seconds = start.elapsed().as_secs_f64();
        say!(
            "{name}: {tried} inputs in {seconds:.0} s, {kinds} kinds of outcome, {findings} findings \
             (seed {})",
            self.seed
        );
        Ok(findings)
    }

    /// Runs a worker to its end; returns the reason if it ended abnormally, and its output.
    fn worker(&self, seconds: u64, seed: u64, current: &Path) -> Result<(Option<String>, String)> {
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        let (mut said, said_too) = (tempfile::tempfile()?, tempfile::tempfile()?);
        fs::write(current, "").with_context(|| format!("{} cannot be written", current.display()))?;
        let script = format!("ulimit -v {MEMORY_KIB} && ulimit -c 0 && exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script])
            .arg(program)
            .args(["fuzz", self.target.name(), "--worker"])
            .arg(current);
        shell.args(["--seconds", &seconds.to_string(), "--seed", &seed.to_string()]);
        shell.args(self.committed.then_some("--committed"));
        shell.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        // Each arena of malloc and each thread reserves address space, which the limit includes.
        shell.env("MALLOC_ARENA_MAX", "1").env("RAYON_NUM_THREADS", "2");
        let mut child = shell
            .stdout(said.try_clone()?)
            .stderr(said_too.try_clone()?)
            .spawn()
            .context("sh does not start")?;
        let hung = wait(&mut child, current)?;
        let status = child.wait()?;
        let mut text = read(&mut said)?;
        text.push_str(&read(&mut { said_too })?);
        let ending = match status {
            _ if hung => Some(format!("it did not end within {} s", TOO_LONG.as_secs())),
            status if status.success() => None,
            status => Some(status.to_string()),
        };
        ensure!(
            status.code() != Some(2),
            "the worker of {} failed: {}",
            self.target.name(),
            complaint(&text)
        );
        Ok((ending, text))
    }

    fn keep(&self, current: &Path, folder: &Path) -> Result<PathBuf> {
        let input =
            fs::read(current).with_context(|| format!("{} cannot be read", current.display()))?;
        let path = folder.join(format!("{}-{:016x}", self.target.name(), mutation::hash(&input)));
        fs::write(&path, input).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }
}

/// Waits for a worker, or kills it if it exceeds the time limit for one input; returns whether it was
/// killed.
fn wait(child: &mut Child, current: &Path) -> Result<bool> {
    loop {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        let changed = fs::metadata(current).and_then(|found| found.modified());
        if changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > TOO_LONG)) {
            child.kill()?;
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn read(file: &mut fs::File) -> Result<String> {
    use std::io::{Read, Seek};

    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the line with a worker's error; for a panic, the line after its location.
fn complaint(said: &str) -> &str {
    let lines = said.lines().filter(|line| !line.is_empty() && !line.starts_with("tried "));
    let told = |line: &&str| !line.starts_with("note: ");
    let mut lines = lines.filter(told).skip_while(|line| !line.contains("panicked at"));
    match (lines.next(), lines.next()) {
        (Some(_), Some(reason)) => reason,
        _ => said.lines().next_back().unwrap_or("it printed nothing"),
    }
}
