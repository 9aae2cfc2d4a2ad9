//! Totals of the launches of a process.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use warpfold_sim::{Entry, Error, Stats};

use crate::watch::{Counters, SimLaunch};

/// Totals of the launches of a process on all simulated devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Counters of the launches that ended without a fault.
    pub counters: Counters,
    /// Number of launches that ended with a fault.
    pub failed: u64,
    /// Names of the kernels that were launched. Kernels of one name count once.
    pub kernels: BTreeSet<String>,
    /// Instructions of these kernels whose results are as accurate as a GPU's, but not the same bits,
    /// such as `ex2.approx.f32`.
    pub approximate: BTreeSet<String>,
}

static TOTALS: Mutex<Option<Totals>> = Mutex::new(None);

/// Returns the totals since the start of the process.
#[must_use]
pub fn totals() -> Totals {
    TOTALS.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

static AFTER_FIRST: OnceLock<fn()> = OnceLock::new();

/// Sets a function that is called after the first launch of the process, which may end without notice. A
/// second function is ignored.
pub fn after_first_launch(call: fn()) {
    let _kept = AFTER_FIRST.set(call);
}

pub(crate) fn add(launch: &SimLaunch<'_>, ran: &Result<Stats, Error>) {
    let mut guard = TOTALS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = guard.is_none();
    let totals = guard.get_or_insert_default();
    match ran {
        Ok(stats) => totals.counters.add(stats),
        Err(_) => totals.failed += 1,
    }
    let entry = launch.entry();
    if !totals.kernels.contains(entry.name()) {
        totals.kernels.insert(entry.name().to_owned());
        totals.approximate.extend(approximate(entry));
    }
    drop(guard);
    if is_first && let Some(call) = AFTER_FIRST.get() {
        call();
    }
}

fn approximate(entry: &Entry) -> impl Iterator<Item = String> {
    let names = entry.instructions().iter().filter_map(|instruction| {
        let mut words = instruction.text.split([' ', ';']);
        words.find(|word| word.starts_with(&*instruction.opcode))
    });
    let is_approximate = |name: &&str| name.split('.').any(|part| matches!(part, "approx" | "full"));
    names.filter(is_approximate).map(str::to_owned)
}
