//! Sums on several GPUs of one host, as measured by `scripts/gpu/scale.sh`.

use std::{fs, path::Path};

use anyhow::{Context, Error, Result, ensure};
use serde::Deserialize;
use warpfold_suite::input;

use super::{library, results::Set};

const FOLDER: &str = "experiments";
const STEM: &str = "group-";

#[derive(Debug, Clone)]
pub(super) struct Groups {
    pub(super) set: Set,
    pub(super) cases: Vec<Case>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Case {
    pub(super) devices: u32,
    /// The transport between devices; PyTorch's cases have an implementation instead.
    way: Option<String>,
    implementation: Option<String>,
    /// Elements per device.
    pub(super) n: u64,
    /// A call that waits for its result.
    pub(super) us: Time,
    /// The same by one device's reducer, in the same round.
    pub(super) alone_us: Option<Time>,
    /// One of many runs in a CUDA graph.
    pub(super) recorded_us: Option<Time>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Time {
    median: f64,
}

impl Case {
    fn who(&self) -> &str {
        let torch = self.implementation.as_deref().and_then(|name| name.split(' ').next());
        self.way.as_deref().or(torch).unwrap_or_default()
    }
}

impl Groups {
    /// Reads the newest file of a machine's folder with several devices of this GPU, if any.
    ///
    /// # Errors
    /// A file that cannot be read or parsed.
    pub(super) fn read(folder: &Path, shown: &str, gpu: Option<&str>) -> Result<Option<Self>> {
        let Ok(listed) = fs::read_dir(folder.join(FOLDER)) else { return Ok(None) };
        let mut newest: Option<Self> = None;
        for entry in listed {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with(STEM) || !name.ends_with(".jsonl") {
                continue;
            }
            let file = format!("{FOLDER}/{name}");
            let text = input::text(&folder.join(&file), input::MAX_TEXT).map_err(Error::msg)?;
            let Some(groups) =
                Self::of(file, &text).with_context(|| format!("{shown}/{FOLDER}/{name}"))?
            else {
                continue;
            };
            let of_gpu = groups.set.machine.as_ref().map(|machine| machine.gpu.as_str()) == gpu;
            let is_newer = newest.as_ref().is_none_or(|newest| newest.set.date() < groups.set.date());
            if of_gpu && is_newer {
                newest = Some(groups);
            }
        }
        Ok(newest)
    }

    /// Parses a file; `None` if it holds other results, or only single devices.
    fn of(file: String, text: &str) -> Result<Option<Self>> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let Ok(machine) = library::machine(lines.next().context("is empty")?) else { return Ok(None) };
        let mut cases = Vec::new();
        for line in lines {
            // Such files also contain lines of tests.
            let value: serde_json::Value = serde_json::from_str(line)?;
            if value.get("devices").is_some() && value.get("us").is_some() {
                let case: Case = serde_json::from_value(value)?;
                let times = [Some(case.us), case.alone_us, case.recorded_us];
                let right = times.iter().flatten().all(|time| time.median > 0.0 && time.median < 1e9);
                ensure!(right && case.n > 0, "a time or a number of elements that no measurement gives");
                cases.push(case);
            }
        }
        let set = Set { file, machine: Some(machine), ..Set::default() };
        Ok(cases.iter().any(|case| case.devices > 1).then_some(Self { set, cases }))
    }

    pub(super) fn devices(&self) -> u32 {
        self.cases.iter().map(|case| case.devices).max().unwrap_or_default()
    }

    /// Returns the mean of the rounds' medians of an implementation, on this many devices with `n`
    /// elements each.
    pub(super) fn time(
        &self,
        who: &str,
        devices: u32,
        n: u64,
        of: impl Fn(&Case) -> Option<Time>,
    ) -> Option<f64> {
        let is_case = |case: &&Case| (case.who(), case.devices, case.n) == (who, devices, n);
        let times: Vec<f64> =
            self.cases.iter().filter(is_case).filter_map(|case| Some(of(case)?.median)).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str =
        r#"{"kind": "machine", "gpu": "NVIDIA H200", "date": "2026-11-25T02:01:10Z", "command": "c"}"#;

    fn line(round: u32, devices: u32, way: &str, us: f64) -> String {
        format!(
            r#"{{"round": {round}, "devices": {devices}, {way}, "n": 1024, "us": {{"median": {us}}}}}"#
        )
    }

    #[test]
    fn rounds_are_averaged_and_other_lines_left_out() {
        let (peers, torch) = (r#""way": "Peers""#, r#""implementation": "PyTorch 2.11.0, NCCL 2""#);
        let lines = [
            MACHINE.to_owned(),
            line(1, 2, peers, 20.0),
            r#"{"test": "a", "passed": 1}"#.to_owned(),
            line(2, 2, peers, 24.0),
            line(1, 1, peers, 15.0),
            line(1, 2, torch, 60.0),
        ];
        let groups = Groups::of("group-a.jsonl".to_owned(), &lines.join("\n")).unwrap().unwrap();
        let time = |who, devices| groups.time(who, devices, 1024, |case| Some(case.us));
        assert_eq!((groups.devices(), groups.cases.len()), (2, 4));
        assert_eq!((time("Peers", 2), time("Peers", 1)), (Some(22.0), Some(15.0)));
        assert_eq!((time("PyTorch", 2), time("Nccl", 2)), (Some(60.0), None));
        let single = [MACHINE.to_owned(), line(1, 1, peers, 15.0)].join("\n");
        assert!(Groups::of(String::new(), &single).unwrap().is_none());
        let wrong = [MACHINE.to_owned(), line(1, 2, peers, -1.0)].join("\n");
        assert!(Groups::of(String::new(), &wrong).is_err());
    }

    #[test]
    fn the_newest_file_of_the_same_card_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        let put = |name: &str, machine: &str, us: f64| {
            let text = format!("{machine}\n{}\n", line(1, 2, r#""way": "Peers""#, us));
            fs::write(folder.path().join(FOLDER).join(name), text).unwrap();
        };
        put("group-new.jsonl", MACHINE, 20.0);
        put("group-old.jsonl", &MACHINE.replace("2026", "2025"), 30.0);
        put("group-other.jsonl", &MACHINE.replace("H200", "H100").replace("2026", "2027"), 40.0);
        let read = |gpu| Groups::read(folder.path(), "here", gpu).unwrap();
        let taken = read(Some("NVIDIA H200")).unwrap();
        assert_eq!(taken.set.file, "experiments/group-new.jsonl");
        assert!(read(Some("NVIDIA A100")).is_none());
        assert!(Groups::read(&folder.path().join("none"), "here", None).unwrap().is_none());
    }
}
