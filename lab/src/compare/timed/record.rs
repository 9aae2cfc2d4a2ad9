//! What a comparison writes: one JSON object a line, the machine first, then a time each.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use warpfold_bench::{Ratio, Spread};

use crate::files;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// What ran it all.
    Machine(Machine),
    /// How one contender did.
    Time(Time),
}

/// Where, when and with what the times were taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The name of the GPU.
    pub gpu: String,
    /// The architecture of the GPU, such as `sm_90`.
    pub arch: String,
    /// The GPU driver's release; none where the system does not tell.
    pub driver: Option<String>,
    /// The driver's CUDA version.
    pub cuda: Option<String>,
    /// The name of the CPU.
    pub cpu: String,
    /// Peak bandwidth of the GPU's memory in 10^9 bytes per second, by clock and bus width.
    pub peak_gbps: Option<f64>,
    /// How many multiprocessors the GPU has.
    pub multiprocessors: u32,
    /// Bytes of its L2 cache.
    pub l2_bytes: u64,
    /// Compiler of the Rust kernels by rustc's own NVPTX target, as the PTX names it.
    pub rustc: Option<String>,
    /// Compiler of the Rust kernels by rust-cuda, likewise.
    pub nvvm: Option<String>,
    /// Compiler of the twins, likewise.
    pub nvcc: Option<String>,
    /// The release of CUB.
    pub cub: Option<String>,
    /// The release of PyTorch.
    pub torch: Option<String>,
    /// When it began, in UTC: `2026-11-21T04:05:06Z`.
    pub date: String,
    /// How it was called.
    pub command: String,
    /// How times were taken.
    pub method: String,
}

/// How one contender did on one case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// The variant; `library` for those of others, `empty` for a launch that does nothing.
    pub variant: String,
    /// Who: `rust-llvm`, `rust-nvvm`, `cuda-c`, `cub`, `cub-offsets`, `torch`, or `empty`.
    pub peer: String,
    /// The operation; none for what moves elements.
    pub op: Option<String>,
    /// The type of the elements.
    pub dtype: String,
    /// Their number; of those written, for what moves them.
    pub n: u64,
    /// Elements of a row: of a transpose's input, or of a matrix whose rows are reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// Its rows, or the matrix's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    /// Distance of the elements that a strided copy reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u64>,
    /// Threads of a block; none for libraries.
    pub block: Option<u32>,
    /// Blocks of the first launch; none for libraries.
    pub grid: Option<u64>,
    /// Which of the reducer's kernels, or of those for rows; none for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What the cache had of the elements, in a comparison by that: `rotated`, `swept`, `warm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// Whether the runs were recorded in a CUDA graph.
    pub graph: bool,
    /// Timed runs; of graphs, where it is one.
    pub runs: usize,
    /// Microseconds of a run; none where the result was wrong.
    pub time_us: Option<Spread>,
    /// Useful bytes over the median, in 10^9 bytes per second: those that are read, and of what moves
    /// elements or reduces rows those that it writes.
    pub bandwidth_gbps: Option<f64>,
    /// That, of the memory's peak.
    pub percent_of_peak: Option<f64>,
    /// Over the time of the CUDA C twin of the same round; none without a twin, and for the twin.
    pub ratio_to_cuda_c: Option<Ratio>,
    /// Of `rust-nvvm`: over the time of `rust-llvm` of the same round; none for all others, and where
    /// that did not take part.
    #[serde(default)]
    pub ratio_to_llvm: Option<Ratio>,
    /// Over CUB's time of the same round; none without CUB, and for CUB.
    pub ratio_to_cub: Option<Ratio>,
    /// The median over what could be reached: an empty launch, and the bytes at the best bandwidth
    /// that any reduction had in the same comparison. None for what moves elements.
    pub ratio_to_limit: Option<f64>,
    /// The median over that of an empty launch of the same case, in a graph where this is one. None for
    /// what moves elements.
    #[serde(default)]
    pub ratio_to_empty: Option<f64>,
    /// Whether every result was right.
    pub ok: bool,
}

/// Where a text will be written: whole, when all is there, or not at all.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
}

impl Destination {
    /// Accepts a path that can be written. What is there stays.
    ///
    /// # Errors
    /// No such folder, or one that cannot be written to.
    pub fn new(path: &Path) -> Result<Self> {
        let destination = Self { path: path.to_owned() };
        if path.is_dir() {
            bail!("--out {} is a folder; name a file", path.display());
        }
        files::require_writable(path)
            .with_context(|| format!("--out {} cannot be written", path.display()))?;
        Ok(destination)
    }

    /// Puts these lines in place of what was there, in one step.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, lines: &[Line]) -> Result<()> {
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        self.write_text(&text)
    }

    /// Puts a text in place of what was there, in one step.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_text(&self, text: &str) -> Result<()> {
        files::replace(&self.path, text).context("--out")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn lines() -> Vec<Line> {
        let spread = Spread { median: 2.5, min: 1.0, max: 9.0, q1: 2.0, q3: 3.0 };
        let time = Time {
            variant: "vectorized".into(),
            peer: "rust-llvm".into(),
            op: Some("sum".into()),
            dtype: "f32".into(),
            n: 1 << 20,
            block: Some(256),
            grid: Some(1056),
            runs: 100,
            time_us: Some(spread),
            bandwidth_gbps: Some(1677.7),
            ratio_to_cuda_c: Some(Ratio { median: 1.01, q1: 0.99, q3: 1.02 }),
            ok: true,
            ..Time::default()
        };
        let strided = Time { stride: Some(4), op: None, time_us: None, ok: false, ..time.clone() };
        let machine = Machine { gpu: "NVIDIA H200".into(), ..Machine::default() };
        vec![Line::Machine(machine), Line::Time(time), Line::Time(strided)]
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.jsonl");
        Destination::new(&path).unwrap().write(&lines()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let read: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, lines());
        let objects: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&objects[0]["kind"], &objects[1]["kind"]), (&"machine".into(), &"time".into()));
        let time = &objects[1];
        assert_eq!(time["time_us"]["q3"], 3.0);
        assert_eq!(time["ratio_to_cuda_c"]["median"], 1.01);
        // What there is none of is null, but for what only some families have.
        assert!(
            time["ratio_to_cub"].is_null() && time.as_object().unwrap().contains_key("ratio_to_cub")
        );
        assert!(time.get("stride").is_none());
        assert_eq!(objects[2]["stride"], 4);
    }

    #[test]
    fn all_is_written_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.jsonl");
        fs::write(&path, "earlier\n").unwrap();
        let destination = Destination::new(&path).unwrap();
        // Between the two calls a comparison may break off: what was there is there.
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        destination.write(&lines()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let gone = Destination::new(&path).unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(gone.write(&lines()).is_err());
        for path in [path.as_path(), Path::new("/no/such/folder/x.jsonl"), Path::new("/")] {
            let error = format!("{:#}", Destination::new(path).unwrap_err());
            assert!(error.starts_with("--out /") && error.lines().count() == 1, "{error}");
        }
    }
}
