//! The file of a comparison: one JSON object per line, first the machine, then the times.

use std::path::{Path, PathBuf};

use crate::contest::{Ratio, Spread};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::files;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    Machine(Machine),
    Time(Time),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub gpu: String,
    /// Architecture of the GPU, such as `sm_90`.
    pub arch: String,
    /// Release of the GPU's driver, if known.
    pub driver: Option<String>,
    /// CUDA version of the driver.
    pub cuda: Option<String>,
    pub cpu: String,
    /// Peak bandwidth of the GPU's memory in 10^9 bytes per second, by clock and bus width.
    pub peak_gbps: Option<f64>,
    pub multiprocessors: u32,
    pub l2_bytes: u64,
    /// Compiler of the Rust kernels by rustc's own NVPTX target, as named in the PTX.
    pub rustc: Option<String>,
    /// Compiler of the Rust kernels by rust-cuda, as named in the PTX.
    pub nvvm: Option<String>,
    /// Compiler of the twins, as named in the PTX.
    pub nvcc: Option<String>,
    /// Release of CUB.
    pub cub: Option<String>,
    /// Release of PyTorch.
    pub torch: Option<String>,
    /// Time of the start in UTC: `2026-11-21T04:05:06Z`.
    pub date: String,
    pub command: String,
    pub method: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// The variant; `library` for CUB and PyTorch, `empty` for an empty launch.
    pub variant: String,
    /// The contender: `rust-llvm`, `rust-nvvm`, `cuda-c`, `cub`, `cub-offsets`, `torch`, or `empty`.
    pub peer: String,
    /// The operation; `None` for kernels that move elements.
    pub op: Option<String>,
    pub dtype: String,
    /// Number of elements; for kernels that move elements, the number of elements written.
    pub n: u64,
    /// Row length of a transpose's input, or of a matrix whose rows are reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// Number of rows of a transpose's input, or of a matrix whose rows are reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u64>,
    /// Threads per block; `None` for libraries.
    pub block: Option<u32>,
    /// Blocks of the first launch; `None` for libraries.
    pub grid: Option<u64>,
    /// The kernel of the reducer or of a reduction of rows; `None` for other variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// State of the L2 cache before a run, if states were compared: `rotated`, `swept`, `warm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// True if the runs were recorded in a CUDA graph.
    pub graph: bool,
    /// Number of timed runs, or of timed graphs.
    pub runs: usize,
    /// Microseconds per run; `None` if the result was wrong.
    pub time_us: Option<Spread>,
    /// Useful bytes over the median time, in 10^9 bytes per second: bytes read, and for moves and
    /// reductions of rows also bytes written.
    pub bandwidth_gbps: Option<f64>,
    pub percent_of_peak: Option<f64>,
    /// Ratio to the CUDA C twin's time of the same round; `None` without a twin, and for the twin.
    pub ratio_to_cuda_c: Option<Ratio>,
    /// For `rust-nvvm`, ratio to `rust-llvm`'s time of the same round; `None` for others, and without
    /// `rust-llvm`.
    #[serde(default)]
    pub ratio_to_llvm: Option<Ratio>,
    /// Ratio to CUB's time of the same round; `None` without CUB, and for CUB.
    pub ratio_to_cub: Option<Ratio>,
    /// Ratio of the median to the attainable time: an empty launch's, plus the time to read the bytes at
    /// the best bandwidth of any reduction in the same comparison. `None` for kernels that move
    /// elements.
    pub ratio_to_limit: Option<f64>,
    /// Ratio of the median to that of an empty launch of the same case, in a graph if this run is in a
    /// graph. `None` for kernels that move elements.
    #[serde(default)]
    pub ratio_to_empty: Option<f64>,
    pub ok: bool,
}

/// A file that is replaced atomically once its text is complete.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
}

impl Destination {
    /// Checks that the path can be written. An existing file stays unchanged.
    pub fn new(path: &Path) -> Result<Self> {
        let destination = Self { path: path.to_owned() };
        if path.is_dir() {
            bail!("--out {} is a folder; name a file", path.display());
        }
        files::require_writable(path)
            .with_context(|| format!("--out {} cannot be written", path.display()))?;
        Ok(destination)
    }

    pub fn write(&self, lines: &[Line]) -> Result<()> {
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        self.write_text(&text)
    }

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
        // Missing values are null. Fields that only some families of variants have are omitted.
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
        // A comparison may fail between `new` and `write`: the earlier file must remain.
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
