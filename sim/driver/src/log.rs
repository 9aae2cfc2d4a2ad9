//! Counts of the driver calls of a thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;

type Counts = Rc<RefCell<BTreeMap<&'static str, u64>>>;

thread_local! {
    static LOGS: RefCell<Vec<Counts>> = const { RefCell::new(Vec::new()) };
}

/// A count of the creating thread's driver calls until the log is dropped. Logs may be nested.
#[derive(Debug)]
pub struct CallLog {
    counts: Counts,
    _of_this_thread: PhantomData<*const ()>,
}

/// Starts to count the driver calls of the calling thread.
#[must_use = "the calls are counted while the log is there"]
pub fn record_calls() -> CallLog {
    let counts = Counts::default();
    LOGS.with_borrow_mut(|logs| logs.push(counts.clone()));
    CallLog { counts, _of_this_thread: PhantomData }
}

impl CallLog {
    /// Returns the functions called since the log was created, by name, with the number of calls.
    #[must_use]
    pub fn calls(&self) -> Vec<(&'static str, u64)> {
        self.counts.borrow().iter().map(|(&name, &count)| (name, count)).collect()
    }

    /// Returns the number of calls of a function since the log was created.
    #[must_use]
    pub fn count(&self, function: &str) -> u64 {
        self.counts.borrow().get(function).copied().unwrap_or(0)
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        // The thread-local list may be dropped before this log.
        let _gone = LOGS.try_with(|logs| {
            logs.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.counts));
        });
    }
}

pub(crate) fn count(name: &'static str) {
    let _gone = LOGS.try_with(|logs| {
        for log in logs.borrow().iter() {
            *log.borrow_mut().entry(name).or_default() += 1;
        }
    });
}
