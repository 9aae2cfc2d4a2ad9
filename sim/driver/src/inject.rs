//! Fault injection: a chosen call returns a chosen code.

use std::cell::RefCell;
use std::env;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use warpfold_driver::sys::c_int;

use crate::api;
use crate::failure::{Failure, Outcome};
use crate::world;

/// Environment variable that injects one fault into the whole process: `function:k:code` or
/// `function:k:code:sticky`.
pub const FAIL_VARIABLE: &str = "WARPFOLD_SIM_FAIL";

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault<'a> {
    /// The name of the exported function, such as `cuMemAlloc_v2`.
    pub function: &'a str,
    /// The call of that function that fails, counted from 1.
    pub call: u64,
    /// The code that the call returns without any other effect.
    pub code: c_int,
    /// `true` if the current context is lost then: every later call returns the same code.
    pub sticky: bool,
}

#[derive(Debug)]
struct Armed {
    function: &'static str,
    call: u64,
    code: c_int,
    sticky: bool,
    seen: AtomicU64,
}

thread_local! {
    static ARMED: RefCell<Vec<Rc<Armed>>> = const { RefCell::new(Vec::new()) };
}

/// A guard of an injected fault, which affects only the creating thread. Dropping it removes the fault.
#[derive(Debug)]
pub struct Injected {
    armed: Rc<Armed>,
    _of_this_thread: PhantomData<*const ()>,
}

/// Makes a call of this thread fail.
///
/// # Panics
/// Panics if the driver has no such function, and for call 0 or code 0.
#[must_use = "the fault is there while this is"]
pub fn inject(fault: Fault<'_>) -> Injected {
    let armed = Rc::new(fault.arm().unwrap_or_else(|wrong| panic!("{wrong}")));
    ARMED.with_borrow_mut(|list| list.push(armed.clone()));
    Injected { armed, _of_this_thread: PhantomData }
}

impl Injected {
    /// Returns whether the fault has occurred.
    #[must_use]
    pub fn has_struck(&self) -> bool {
        self.armed.seen.load(Ordering::Relaxed) >= self.armed.call
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        let _gone = ARMED.try_with(|list| {
            list.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.armed));
        });
    }
}

impl Fault<'_> {
    fn arm(self) -> Result<Armed, String> {
        let Self { function, call, code, sticky } = self;
        let known = api::NAMES.iter().find(|&&name| name == function);
        let function = *known.ok_or_else(|| format!("the driver has no function `{function}`"))?;
        if call == 0 || code == 0 {
            return Err(format!(
                "call {call} with code {code} is not possible; calls count from 1, and the code must \
                 not be 0"
            ));
        }
        Ok(Armed { function, call, code, sticky, seen: AtomicU64::new(0) })
    }

    fn parse(text: &str) -> Result<Armed, String> {
        let mut parts = text.split(':');
        let mut part = || parts.next().unwrap_or_default();
        let (function, call, code, sticky) = (part(), part(), part(), part());
        let numbers = call.parse().ok().zip(code.parse().ok());
        let sticky = match sticky {
            "" => Some(false),
            "sticky" => Some(true),
            _ => None,
        };
        let (Some((call, code)), Some(sticky), None) = (numbers, sticky, parts.next()) else {
            return Err("allowed is function:k:code or function:k:code:sticky".to_owned());
        };
        Fault { function, call, code, sticky }.arm()
    }
}

fn of_the_process() -> &'static Result<Option<Armed>, String> {
    static FAULT: LazyLock<Result<Option<Armed>, String>> = LazyLock::new(|| {
        let Some(text) = env::var_os(FAIL_VARIABLE).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let text = text.to_string_lossy();
        Fault::parse(&text)
            .map(Some)
            .map_err(|wrong| format!("{FAIL_VARIABLE}={}: {wrong}", text.escape_debug()))
    });
    &FAULT
}

pub(crate) fn check_environment() -> Result<(), String> {
    of_the_process().as_ref().map(|_| ()).map_err(Clone::clone)
}

pub(crate) fn strike(name: &'static str) -> Outcome {
    let mut due = None;
    let _gone = ARMED.try_with(|list| {
        for armed in list.borrow().iter() {
            due = due.or(armed.count(name));
        }
    });
    if let Ok(Some(armed)) = of_the_process() {
        due = due.or(armed.count(name));
    }
    let Some((code, sticky)) = due else { return Ok(()) };
    let failure = Failure::new(code, format!("the fault was injected into {name}"));
    if sticky {
        world::lose_current_context(&failure);
    }
    Err(failure)
}

impl Armed {
    /// Counts a call. If that call is to fail, returns its code and whether the code is sticky.
    fn count(&self, name: &'static str) -> Option<(c_int, bool)> {
        let here = self.function == name;
        (here && self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.call)
            .then_some((self.code, self.sticky))
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn faults_are_parsed_and_invalid_ones_refused() {
        let armed = Fault::parse("cuMemAlloc_v2:3:700:sticky").expect("a fault");
        assert_eq!(
            (armed.function, armed.call, armed.code, armed.sticky),
            ("cuMemAlloc_v2", 3, 700, true)
        );
        assert!(!Fault::parse("cuMemAlloc_v2:1:2").expect("a fault").sticky);
        for wrong in
            ["", "cuMemAlloc_v2", "cuMemAlloc_v2:0:2", "cuNone:1:2", "cuInit:1:2:s", "cuInit:x:2"]
        {
            assert!(Fault::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Fault::parse("cuInit:1:2:sticky:3").is_err());
    }
}
