//! The tuning file: generated, validated by the library's own reader, and written atomically.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use warpfold_suite::{
    DeviceInfo, Tuning, input,
    reducer::tuning::{FORMAT, Table, TuningFile},
};

use super::{
    brackets::{brackets, ranges},
    session::Tuned,
};
use crate::compare::timed::record::Destination;

/// Returns a file with the new measurements, which replace those of the same operations and types in an
/// earlier file. Other tables are kept if the device is the same.
pub(super) fn file(
    tuned: &[Tuned],
    earlier: Option<TuningFile>,
    info: &DeviceInfo,
    command: String,
) -> TuningFile {
    let driver = info.driver.map_or("none".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    let device = (info.name.as_str(), info.arch, info.multiprocessors);
    let same = |file: &TuningFile| (file.gpu.as_str(), file.arch, file.multiprocessors) == device;
    let mut tables = earlier.filter(same).map(|file| file.tables).unwrap_or_default();
    for Tuned { op, dtype, points } in tuned.iter().filter(|tuned| !tuned.points.is_empty()) {
        let table = Table { op: *op, dtype: *dtype, brackets: brackets(&ranges(points)) };
        tables.retain(|other| (other.op, other.dtype) != (table.op, table.dtype));
        tables.push(table);
    }
    tables.sort_by_key(|table| (table.op, table.dtype));
    TuningFile {
        format: FORMAT,
        gpu: info.name.clone(),
        arch: info.arch,
        multiprocessors: info.multiprocessors,
        driver,
        command,
        tables,
    }
}

/// Reads the existing file; `None` if it is missing or cannot be parsed.
pub(super) fn earlier(path: &Path) -> Option<TuningFile> {
    serde_json::from_str(&input::text(path, input::MAX_TEXT).ok()?).ok()
}

/// Writes the file, after the library's reader has accepted it.
pub(super) fn write(file: &TuningFile, info: &DeviceInfo, destination: &Destination) -> Result<()> {
    let text = serde_json::to_string_pretty(file)? + "\n";
    let trial = tempfile::Builder::new().suffix(".json").tempfile()?;
    fs::write(trial.path(), &text)?;
    Tuning::read(trial.path(), info).context("the library refuses the measured tuning")?;
    destination.write_text(&text)
}
