//! The file of a comparison: one JSON object per line, first the machine, then the times.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use warpfold_bench::{Ratio, Spread};

use crate::files;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The machine and the method.
    Machine(Machine),
    /// One contender's time.
    Time(Time),
}

/// The machine, date and method of the times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the GPU.
    pub gpu: String,
    /// Architecture of the GPU, such as `sm_90`.
    pub arch: String,
    /// Release of the GPU's driver, if known.
    pub driver: Option<String>,
    /// CUDA version of the driver.
    pub cuda: Option<String>,
    /// Name of the CPU.
    pub cpu: String,
    /// Peak bandwidth of the GPU's memory in 10^9 bytes per second, by clock and bus width.
    pub peak_gbps: Option<f64>,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// Compiler of the Rust kernels by rustc's own NVPTX target, as the PTX names it.
    pub rustc: Option<String>,
    /// Compiler of the Rust kernels by rust-cuda, as the PTX names it.
    pub nvvm: Option<String>,
    /// Compiler of the twins, as the PTX names it.
    pub nvcc: Option<String>,
    /// Release of CUB.
    pub cub: Option<String>,
    /// Release of PyTorch.
    pub torch: Option<String>,
    /// Start in UTC: `2026-11-21T04:05:06Z`.
    pub date: String,
    /// The command line.
    pub command: String,
    /// Description of how times were taken.
    pub method: String,
}

/// One contender's time of one case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// The variant; `library` for CUB and PyTorch, `empty` for an empty launch.
    pub variant: String,
    /// The contender: `rust-llvm`, `rust-nvvm`, `cuda-c`, `cub`, `cub-offsets`, `torch`, or `empty`.
    pub peer: String,
    /// The operation; `None` for kernels that move elements.
    pub op: Option<String>,
    /// The element type.
    pub dtype: String,
    /// Number of elements; for kernels that move them, of written ones.
    pub n: u64,
    /// Row length of a transpose's input, or of a matrix whose rows are reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// Number of rows of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    /// Stride at which a strided copy reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u64>,
    /// Threads per block; `None` for libraries.
    pub block: Option<u32>,
    /// Blocks of the first launch; `None` for libraries.
    pub grid: Option<u64>,
    /// The kernel of the reducer or for rows; `None` for other variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The state of the L2 cache, in a comparison by inputs: `rotated`, `swept`, `warm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// The runs were recorded in a CUDA graph.
    pub graph: bool,
    /// Number of timed runs, or of timed graphs.
    pub runs: usize,
    /// Microseconds per run; `None` if the result was wrong.
    pub time_us: Option<Spread>,
    /// Useful bytes over the median time, in 10^9 bytes per second: bytes read, and for moves and
    /// reductions of rows also bytes written.
    pub bandwidth_gbps: Option<f64>,
    /// The bandwidth in percent of the memory's peak.
    pub percent_of_peak: Option<f64>,
    /// Ratio to the CUDA C twin's time of the same round; `None` without a twin, and for the twin.
    pub ratio_to_cuda_c: Option<Ratio>,
    /// For `rust-nvvm`, ratio to `rust-llvm`'s time of the same round; `None` for others, and without
    /// `rust-llvm`.
    #[serde(default)]
    pub ratio_to_llvm: Option<Ratio>,
    /// Ratio to CUB's time of the same round; `None` without CUB, and for CUB.
    pub ratio_to_cub: Option<Ratio>,
    /// Ratio of the median to the attainable time: an empty launch, plus the bytes at the best bandwidth
    /// of any reduction in the same comparison. `None` for kernels that move elements.
    pub ratio_to_limit: Option<f64>,
    /// Ratio of the median to that of an empty launch of the same case, in a graph if this is one.
    /// `None` for kernels that move elements.
    #[serde(default)]
    pub ratio_to_empty: Option<f64>,
    /// All results were right.
    pub ok: bool,
}

/// A file that is replaced atomically once the text is complete.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
}

impl Destination {
    /// Checks that the path can be written. An existing file stays unchanged.
    ///
    /// # Errors
    /// The folder does not exist, or cannot be written to.
    pub fn new(path: &Path) -> Result<Self> {
        let destination = Self { path: path.to_owned() };
        if path.is_dir() {
            bail!("--out {} is a folder; name a file", path.display());
        }
        files::require_writable(path)
            .with_context(|| format!("--out {} cannot be written", path.display()))?;
        Ok(destination)
    }

    /// Replaces the file with these lines atomically.
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

    /// Replaces the file with a text atomically.
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
        // Missing values are null, except for fields that only some families have.
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
        // A comparison may fail between the two calls; the earlier file must remain.
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
