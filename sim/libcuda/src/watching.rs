//! Settings of `warpfold-sim exec`, which the environment passes: limits, thread orders, checks and
//! counters for whole programs. Findings and counters are written to a folder, one file per process.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{env, fs, process};

use warpfold_sim::{Config, Error, Hazards, Profiler, Stats};
use warpfold_sim_driver::{
    Checks, SimLaunch, Watcher, after_launches, after_refusals, set_config, set_seed, watch_all,
};
use warpfold_sim_report::exchange::{self, Ran};
use warpfold_sim_report::{Coverage, Diagnostic, Explanation, ThreadCounter};

#[derive(Default)]
struct Seen {
    /// Findings by their identity: the rule, the kernel, and the instructions.
    found: BTreeMap<(String, String, Vec<u32>), Diagnostic>,
    explanation: Explanation,
    coverage: Coverage,
    ran: Ran,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);
static FILE: OnceLock<PathBuf> = OnceLock::new();
static REFUSED: OnceLock<fs::File> = OnceLock::new();

fn with_seen<T>(act: impl FnOnce(&mut Seen) -> T) -> T {
    act(SEEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

pub(crate) fn begin() {
    let number = |name: &str| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (steps, seconds) = (number(exchange::STEPS), number(exchange::SECONDS));
    let what = env::var(exchange::WATCH).unwrap_or_default();
    let plain = Config::default();
    let is_watched = !what.is_empty();
    set_config(Config {
        step_limit: if steps.is_some() { u64::MAX } else { plain.step_limit },
        thread_step_limit: steps.unwrap_or(plain.thread_step_limit),
        time_limit: seconds.map(Duration::from_secs),
        strict: what == exchange::STRICT,
        // Checks must observe events in the order in which they happen, so they run on one thread.
        threads: is_watched.then_some(1),
        ..plain
    });
    set_seed(number(exchange::SEED));
    let refusals = env::var_os(exchange::REFUSED);
    let refusals = refusals.and_then(|path| fs::File::options().append(true).open(path).ok());
    if refusals.is_some_and(|file| REFUSED.set(file).is_ok()) {
        after_refusals(refused);
    }
    let Some(folder) = env::var_os(exchange::FOLDER) else { return };
    let _first = FILE.set(PathBuf::from(folder).join(process::id().to_string()));
    // SAFETY: `at_end` is part of this library, which stays loaded until the process ends.
    unsafe { atexit(at_end) };
    after_launches(count);
    if !is_watched {
        return;
    }
    if what == exchange::EXPLAIN {
        watch_all(|| Arc::new(Counting));
    } else if what == exchange::COVER {
        watch_all(|| Arc::new(Covering));
    } else {
        let strict = what == exchange::STRICT;
        watch_all(move || {
            let hazards = if strict { Hazards::strict() } else { Hazards::new() };
            Arc::new(Checks::new(hazards).telling(found))
        });
    }
}

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

extern "C" fn at_end() {
    with_seen(|seen| write(seen, true));
}

/// Takes the findings of checks, and writes new ones at once because the program may be killed at any
/// time.
fn found(checks: &Checks) {
    let found = checks.hazards().take_findings();
    let found = found.iter().map(Diagnostic::of_finding);
    let found: Vec<Diagnostic> =
        found.chain(checks.take_faults().iter().map(Diagnostic::of_fault)).collect();
    if found.is_empty() {
        return;
    }
    with_seen(|seen| {
        let mut is_new = false;
        for one in found {
            let lines = one.places.iter().map(|place| place.ptx_line).collect();
            let key = (one.rule.clone(), one.kernel.clone(), lines);
            match seen.found.get_mut(&key) {
                Some(known) => known.count += one.count,
                None => {
                    seen.found.insert(key, one);
                    is_new = true;
                }
            }
        }
        if is_new {
            write(seen, false);
        }
    });
}

/// Writes the results. Errors are ignored; the results are then lost.
fn write(seen: &Seen, ended: bool) {
    let Some(path) = FILE.get() else { return };
    if !seen.found.is_empty() {
        let lines = seen.found.values().filter_map(|found| serde_json::to_string(found).ok());
        let text: String = lines.map(|line| line + "\n").collect();
        let _ = fs::write(path.with_extension(exchange::FOUND), text);
    }
    if ended && !seen.explanation.is_empty() {
        let _ = fs::write(path.with_extension(exchange::EXPLAINED), seen.explanation.text());
    }
    if ended
        && seen.coverage != Coverage::default()
        && let Ok(text) = serde_json::to_string(&seen.coverage)
    {
        let _ = fs::write(path.with_extension(exchange::COVERED), text);
    }
    if ended {
        write_ran(&seen.ran);
    }
}

/// Appends a refused call to the file of [`exchange::REFUSED`] by one write, so that lines of several
/// processes stay whole.
pub(crate) fn refused(function: &str, reason: &str) {
    let Some(mut file) = REFUSED.get() else { return };
    if let Ok(line) = serde_json::to_string(&[function, reason]) {
        // The line is lost if the file cannot be written.
        let _lost = file.write_all((line + "\n").as_bytes());
    }
}

/// Counts a launch. Writes the first one at once, because the process may end without `at_end`.
fn count(launch: &SimLaunch<'_>, ran: &Result<Stats, Error>) {
    with_seen(|seen| {
        seen.ran.add_launch(launch.entry(), ran);
        if seen.ran.launches == 1 {
            write_ran(&seen.ran);
        }
    });
}

fn write_ran(ran: &Ran) {
    let Some(path) = FILE.get() else { return };
    if let Ok(text) = serde_json::to_string(ran) {
        let _ = fs::write(path.with_extension(exchange::RAN), text);
    }
}

struct Counting;

impl Watcher for Counting {
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error> {
        let profiler = Profiler::new();
        let ran = launch.run_observed(&profiler)?;
        let entry = launch.entry();
        with_seen(|seen| seen.explanation.add(entry.name(), entry.instructions(), &profiler.profile()));
        Ok(ran)
    }
}

struct Covering;

impl Watcher for Covering {
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error> {
        let counter = ThreadCounter::default();
        let ran = launch.run_observed(&counter);
        let entry = launch.entry();
        let counts = counter.take();
        with_seen(|seen| seen.coverage.add_launch(entry.name(), entry.instructions(), &counts));
        ran
    }
}
