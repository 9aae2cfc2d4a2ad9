//! Tests that the library releases every driver resource that it creates: memory, streams, events,
//! modules, graphs, contexts, and entries of a thread's context stack.
//!
//! The simulator's driver counts the calls of a thread.

use warpfold::{Device, Selection};
use warpfold_sim_driver::{CallLog, record_calls};

use crate::everything::Run;

/// Functions that create a resource, with the function that releases it.
const PAIRS: [(&str, &str); 10] = [
    ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"),
    ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"),
    ("cuStreamCreate", "cuStreamDestroy_v2"),
    ("cuEventCreate", "cuEventDestroy_v2"),
    ("cuMemAlloc_v2", "cuMemFree_v2"),
    ("cuMemHostAlloc", "cuMemFreeHost"),
    ("cuModuleLoadDataEx", "cuModuleUnload"),
    ("cuStreamBeginCapture_v2", "cuStreamEndCapture"),
    ("cuStreamEndCapture", "cuGraphDestroy"),
    ("cuGraphInstantiateWithFlags", "cuGraphExecDestroy"),
];

const MAKING: [&str; 8] =
    ["Retain", "Push", "Create", "Alloc", "Load", "BeginCapture", "EndCapture", "Instantiate"];

/// A check that this thread releases every driver resource that it creates after the check began.
pub(crate) struct GivenBack<'a> {
    log: CallLog,
    /// The function that fails once.
    failing: Option<&'a str>,
}

impl<'a> GivenBack<'a> {
    fn after_all() -> Self {
        Self { log: record_calls(), failing: None }
    }

    pub(crate) fn after_a_failure_of(function: &'a str) -> Self {
        Self { log: record_calls(), failing: Some(function) }
    }

    fn done(&self, function: &str) -> u64 {
        self.log.count(function) - u64::from(self.failing == Some(function))
    }

    /// Returns 1 if the failed call would have released a resource or entered its context. A context
    /// that could not be popped is popped by the next call.
    fn allowed_leaks(&self) -> u64 {
        let entering = ["cuCtxGetCurrent", "cuCtxPushCurrent_v2"];
        let giving_back = PAIRS.map(|(_, gives_back)| gives_back);
        let lost = |failing| {
            failing != "cuCtxPopCurrent_v2"
                && failing != "cuStreamEndCapture"
                && (entering.contains(&failing) || giving_back.contains(&failing))
        };
        self.failing.is_some_and(lost).into()
    }

    #[track_caller]
    pub(crate) fn check(self) {
        let making = |name: &str| MAKING.iter().any(|part| name.contains(part));
        for (name, _) in self.log.calls().into_iter().filter(|(name, _)| making(name)) {
            assert!(PAIRS.iter().any(|(makes, _)| *makes == name), "what gives back what {name} makes?");
        }
        let mut left = Vec::new();
        for (makes, gives_back) in PAIRS {
            let (made, given_back) = (self.done(makes), self.done(gives_back));
            assert!(given_back <= made, "{given_back} of {gives_back}, {made} of {makes}");
            left.extend((given_back..made).map(|_| makes));
        }
        let failing = self.failing.unwrap_or("nothing");
        assert!(left.len() as u64 <= self.allowed_leaks(), "{left:?} are not released, {failing} fails");
    }
}

#[test]
fn all_driver_resources_are_released() {
    let given_back = GivenBack::after_all();
    let device = Device::open(Selection::Sim).unwrap();
    Run::new(&device).unwrap().all().unwrap();
    drop(device);
    for (makes, _) in PAIRS {
        assert!(given_back.log.count(makes) > 0, "the run makes nothing by {makes}");
    }
    given_back.check();
}
