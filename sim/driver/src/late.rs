//! Running work as late as the interface allows.

use std::cell::Cell;
use std::env;
use std::marker::PhantomData;
use std::sync::LazyLock;

/// Environment variable that makes work run [late](run_late) in the whole process if it is `1`.
pub const LATE_VARIABLE: &str = "WARPFOLD_SIM_LATE";

/// Number of queries that leave work pending in late mode before a query runs it: more than a program
/// makes by chance, and few enough that a polling loop soon ends.
const QUERIES: u32 = 32;

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// A guard of [`run_late`]: until the guard is dropped, calls of its thread run work late.
#[derive(Debug)]
pub struct RunsLate {
    _of_this_thread: PhantomData<*const ()>,
}

/// Makes calls of this thread run work as late, and in as unlikely an order, as the interface allows: a
/// query runs work only after 32 others have left it pending, and a call that waits runs its work newest
/// first wherever the order is free. So a missing wait is hidden neither by a query elsewhere nor by the
/// order of the calls.
#[must_use = "work runs late while this is there"]
pub fn run_late() -> RunsLate {
    HELD.set(HELD.get() + 1);
    RunsLate { _of_this_thread: PhantomData }
}

impl Drop for RunsLate {
    fn drop(&mut self) {
        let _gone = HELD.try_with(|held| held.set(held.get() - 1));
    }
}

pub(crate) fn is_late() -> bool {
    HELD.try_with(|held| held.get() > 0).unwrap_or(false) || *of_the_process() == Ok(true)
}

/// Returns the number of queries that leave work pending before a query runs it: `usual`, or `QUERIES`
/// in late mode.
pub(crate) fn queries(usual: u32) -> u32 {
    if is_late() { QUERIES } else { usual }
}

fn of_the_process() -> &'static Result<bool, String> {
    static LATE: LazyLock<Result<bool, String>> = LazyLock::new(|| {
        let text = env::var_os(LATE_VARIABLE).unwrap_or_default();
        match &*text.to_string_lossy() {
            "" | "0" => Ok(false),
            "1" => Ok(true),
            text => Err(format!("{LATE_VARIABLE} is `{}`; allowed are 0 and 1", text.escape_debug())),
        }
    });
    &LATE
}

pub(crate) fn check_environment() -> Result<(), String> {
    of_the_process().as_ref().map(|_| ()).map_err(Clone::clone)
}
