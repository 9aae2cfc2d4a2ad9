//! Attributes the counters of a run's instructions to source lines.

use std::collections::BTreeMap;

use warpfold_sim::Tally;
use warpfold_suite::catalogue::Work;

use super::{
    lines::Place,
    recorder::{Launched, Run},
};

#[derive(Debug, Default)]
pub struct Attribution {
    /// Counters per shown file and line. An instruction counts once in each file, at its innermost line
    /// there: a helper's work appears in the helper's file and at the kernel's call of the helper.
    pub files: BTreeMap<String, BTreeMap<u32, Tally>>,
    /// Every instruction once, at its innermost line in any shown file.
    pub innermost: BTreeMap<Place, Tally>,
    /// Instructions without a line in the kernel's own file: parameters, and code that the compiler
    /// merged from several places.
    pub elsewhere: Tally,
    pub total: Tally,
}

/// Returns whether a file is shown with its counters: kernels and their helpers, but not the device
/// crate's primitives, macros or the standard library.
pub(crate) fn is_shown(file: &str) -> bool {
    let kernels = ["kernels/src/", "device/src/reduction/", "device/src/bulk/ring.rs"];
    let plumbing =
        ["/reduce/mod.rs", "/memory/mod.rs", "/testing/mod.rs", "/op.rs", "/traits.rs", "/unrolled.rs"];
    let plumbing = plumbing.iter().any(|end| file.ends_with(end));
    file.starts_with("cuda/") || !plumbing && kernels.iter().any(|folder| file.starts_with(folder))
}

impl Attribution {
    pub fn of(run: &Run) -> Self {
        let own = run.own_file();
        let mut all = Self::default();
        for launch in &run.launches {
            all.add(run, launch, &own);
        }
        all
    }

    fn add(&mut self, run: &Run, launch: &Launched, own: &str) {
        for (info, &tally) in launch.instructions.iter().zip(&launch.profile.instructions) {
            self.total += tally;
            let places = run.lines.of(info.line).iter().filter(|place| is_shown(&place.file));
            let mut seen: Vec<&str> = Vec::new();
            for place in places {
                if seen.is_empty() {
                    *self.innermost.entry(place.clone()).or_default() += tally;
                }
                if !seen.contains(&place.file.as_str()) {
                    seen.push(&place.file);
                    let lines = self.files.entry(place.file.clone()).or_default();
                    *lines.entry(place.line).or_default() += tally;
                }
            }
            if !seen.contains(&own) {
                self.elsewhere += tally;
            }
        }
    }
}

impl Run {
    /// Returns the path of the kernel's own source file, relative to the workspace's root.
    pub fn own_file(&self) -> String {
        let id = self.case.variant.id;
        if self.ptx.lines().take(6).any(|line| line == "// codegen: cuda-c") {
            return format!("cuda/{id}.cu");
        }
        if self.case.variant.work == Work::Reducer {
            return format!("kernels/src/reduce/{id}/mod.rs");
        }
        match (id.strip_prefix("testing_"), self.case.moves()) {
            (Some(_), _) => format!("kernels/src/testing/{}.rs", self.testing_file()),
            (None, true) => format!("kernels/src/memory/{id}.rs"),
            (None, false) => format!("kernels/src/reduce/{id}.rs"),
        }
    }

    /// Returns the file of a test kernel: the first one that its instructions refer to, because several
    /// kernels share a file.
    fn testing_file(&self) -> String {
        let launch = self.launches.first();
        let places = launch.iter().flat_map(|launch| &launch.instructions);
        let file = places
            .flat_map(|info| self.lines.of(info.line))
            .find_map(|place| place.file.strip_prefix("kernels/src/testing/")?.strip_suffix(".rs"));
        file.unwrap_or("broken").to_owned()
    }
}
