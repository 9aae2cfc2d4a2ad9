//! Runs cases in the simulator under its hazard observer and collects the hazards.

use std::{collections::BTreeMap, fmt, fs, path::Path, sync::Arc};

use anyhow::Result;
use serde::Serialize;
use warpfold_sim::{Fault, FaultKind, Finding, HazardKind, Hazards, Site};
use warpfold_sim_driver::Checks;
use warpfold_suite::{Device, PtxStore};

use crate::explain::{attribution::is_shown, case::Case, lines::Lines};

/// The kind of a hazard: found by the observer, or a fault that stops a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    ReadWriteRace,
    WriteWriteRace,
    NoAcquire,
    Unwritten,
    UnwrittenResult,
    UnwaitedCopy,
    OutOfBounds,
    Misaligned,
    /// A barrier that only some of its threads reach.
    DivergentBarrier,
    /// A shuffle, vote or warp barrier with a lane that has not reached it.
    InactiveLane,
    SizedExternal,
    Fault,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadWriteRace => "read-write race",
            Self::WriteWriteRace => "write-write race",
            Self::NoAcquire => "race for want of an acquire fence",
            Self::Unwritten => "read of unwritten memory",
            Self::UnwrittenResult => "result that nothing wrote",
            Self::UnwaitedCopy => "copy used before its wait",
            Self::OutOfBounds => "access out of bounds",
            Self::Misaligned => "misaligned access",
            Self::DivergentBarrier => "divergent barrier",
            Self::InactiveLane => "inactive lane",
            Self::SizedExternal => "external shared array with a size",
            Self::Fault => "fault",
        })
    }
}

impl Kind {
    fn of_fault(kind: &FaultKind) -> Self {
        match kind {
            FaultKind::OutOfBounds { .. }
            | FaultKind::ExitedBlock { .. }
            | FaultKind::NoSuchBlock { .. } => Self::OutOfBounds,
            FaultKind::Misaligned { .. } => Self::Misaligned,
            FaultKind::DivergentBarrier { .. }
            | FaultKind::BarrierDeadlock { .. }
            | FaultKind::ClusterDeadlock { .. }
            | FaultKind::DivergentClusterBarrier { .. } => Self::DivergentBarrier,
            FaultKind::MemberInactive { .. }
            | FaultKind::MemberExited { .. }
            | FaultKind::NotMember { .. } => Self::InactiveLane,
            FaultKind::CopyUnderWay { .. } => Self::UnwaitedCopy,
            _ => Self::Fault,
        }
    }

    fn of_hazard(kind: HazardKind) -> Self {
        match kind {
            HazardKind::ReadWriteRace => Self::ReadWriteRace,
            HazardKind::WriteWriteRace => Self::WriteWriteRace,
            HazardKind::NoAcquire => Self::NoAcquire,
            HazardKind::Unwritten => Self::Unwritten,
            HazardKind::UnwrittenResult => Self::UnwrittenResult,
            HazardKind::UnwaitedCopy => Self::UnwaitedCopy,
            HazardKind::ShuffleFromInactive => Self::InactiveLane,
            HazardKind::SizedExternal => Self::SizedExternal,
            _ => Self::Fault,
        }
    }
}

/// A thread's instruction and its source lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `file:line`, innermost first; several if a helper was inlined.
    pub source: Vec<String>,
    /// The text of the innermost line.
    pub code: String,
    pub ptx_line: u32,
    pub instruction: String,
    pub block: [u32; 3],
    pub thread: [u32; 3],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hazard {
    pub kind: Kind,
    pub entry: String,
    /// The location in memory, or the simulator's message.
    pub what: String,
    /// The instruction at which the hazard was found, and the earlier instruction that it conflicts
    /// with.
    pub places: Vec<Place>,
    pub count: u64,
}

/// Runs a case and returns its hazards. A launch that the simulator stops is a hazard, not an error.
pub fn hazards(case: &Case, store: &PtxStore, root: &Path) -> Result<Vec<Hazard>> {
    let watch = Arc::new(Checks::new(Hazards::new()));
    let device = Device::watched(watch.clone())?;
    let ptx = store.find(&case.ptx(), device.info())?;
    // `Hazards` requires that all launches run on one host thread.
    let ran =
        rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| case.run(&device, store));
    let faults = watch.take_faults();
    if faults.is_empty() {
        ran?;
    }
    let mut sources = Sources { root, lines: Lines::read(&ptx.text, root), files: BTreeMap::new() };
    let mut found: Vec<Hazard> =
        watch.hazards().findings().iter().map(|f| sources.hazard(f, case)).collect();
    found.extend(faults.iter().map(|fault| sources.stopped(fault)));
    Ok(found)
}

struct Sources<'a> {
    root: &'a Path,
    lines: Lines,
    files: BTreeMap<String, String>,
}

impl Sources<'_> {
    fn hazard(&mut self, finding: &Finding, case: &Case) -> Hazard {
        let sites = [&finding.access, &finding.other].into_iter().flatten();
        let entry = if finding.kernel.is_empty() { case.entry() } else { finding.kernel.clone() };
        Hazard {
            kind: Kind::of_hazard(finding.kind),
            entry,
            what: format!("{} address {:#x}", finding.space, finding.address),
            places: sites.map(|site| self.place(site)).collect(),
            count: finding.count,
        }
    }

    fn stopped(&mut self, fault: &Fault) -> Hazard {
        Hazard {
            kind: Kind::of_fault(&fault.kind),
            entry: fault.kernel.clone(),
            what: fault.kind.to_string(),
            places: vec![self.place(&Site::from(fault))],
            count: 1,
        }
    }

    fn place(&mut self, site: &Site) -> Place {
        let places = self.lines.of(site.line);
        let mut shown: Vec<_> = places.iter().filter(|place| is_shown(&place.file)).cloned().collect();
        if shown.is_empty() {
            shown.extend(places.first().cloned());
        }
        let code = shown.first().map(|place| {
            let read = || fs::read_to_string(self.root.join(&place.file)).unwrap_or_default();
            let text = self.files.entry(place.file.clone()).or_insert_with(read);
            text.lines().nth(place.line as usize - 1).unwrap_or_default().trim().to_owned()
        });
        Place {
            source: shown.iter().map(|place| format!("{}:{}", place.file, place.line)).collect(),
            code: code.unwrap_or_default(),
            ptx_line: site.line,
            instruction: site.text.clone(),
            block: site.block,
            thread: site.thread,
        }
    }
}
