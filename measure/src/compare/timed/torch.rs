//! PyTorch as a peer: a Python process that takes commands on its standard input.
//!
//! PyTorch cannot alternate with the other contenders, and is timed in slices between their rounds.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;

use crate::machine::Machine;

const SCRIPT: &str = include_str!("torch_peer.py");

/// Environment variable that names a Python with PyTorch.
pub const PYTHON: &str = "WARPFOLD_PYTHON";

/// Time limit of an answer, far above the time for the largest input or for a PyTorch on a slow disk.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    pub op: &'a str,
    pub dtype: &'a str,
    pub n: u64,
    /// Number of rows, each with its own result; `None` for one result of all elements.
    pub rows: Option<u64>,
    pub slots: u64,
}

/// A running Python process, which is killed on drop.
pub struct Torch {
    process: Child,
    /// Taken on drop, which closes the pipe.
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    complaints: File,
    version: String,
}

/// The fields of all kinds of answers. Each answer has only some of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    error: Option<String>,
    torch: Option<String>,
    right: Option<bool>,
    times_us: Option<Vec<f64>>,
}

/// Returns the Python that the user names, otherwise the one on the PATH.
pub fn python(machine: &Machine) -> Option<PathBuf> {
    machine.variable(PYTHON).map(PathBuf::from).or_else(|| machine.on_path("python3"))
}

impl Torch {
    /// Starts a Python and checks that PyTorch and a GPU are available. All errors are one line.
    pub fn start(python: &Path) -> Result<Self> {
        Self::with(python, PATIENCE)
    }

    fn with(python: &Path, patience: Duration) -> Result<Self> {
        let mut complaints =
            tempfile::tempfile().context("a temporary file for a program's output cannot be created")?;
        let mut process = Command::new(python)
            .args(["-u", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone()?)
            .spawn()
            .with_context(|| format!("{} cannot be started", python.display()))?;
        let requests = process.stdin.take();
        let output = process.stdout.take().context("its output is not captured")?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        complaints.rewind()?;
        let mut torch = Self { process, requests, answers, complaints, version: String::new() };
        torch.version = torch.answer(patience)?.torch.context("it does not report its version")?;
        Ok(torch)
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// Creates the inputs and checks one result; `false` if it is wrong. Earlier inputs are freed.
    ///
    /// The process generates its own elements and checks the result itself. An index is right if its
    /// element is extreme, because PyTorch need not return the first of several.
    pub fn prepare(&mut self, case: Case<'_>) -> Result<bool> {
        let Case { op, dtype, n, rows, slots } = case;
        let request = json!({
            "command": "prepare", "op": op, "dtype": dtype, "n": n, "rows": rows, "slots": slots,
            "seed": 1
        });
        self.ask(&request)?.right.context("its answer has no verdict")
    }

    /// Returns the microseconds of each of `runs` runs.
    pub fn time(&mut self, runs: u32) -> Result<Vec<f64>> {
        let times = self.ask(&json!({"command": "time", "runs": runs}))?.times_us;
        let times = times.context("its answer has no times")?;
        if times.len() != runs as usize || !times.iter().all(|time| time.is_finite() && *time > 0.0) {
            bail!("its answer has {} times for {runs} runs", times.len());
        }
        Ok(times)
    }

    fn ask(&mut self, request: &serde_json::Value) -> Result<Answer> {
        let requests = self.requests.as_mut().context("it has been stopped")?;
        // If the process has exited, the missing answer reports it.
        let _ = writeln!(requests, "{request}");
        self.answer(PATIENCE)
    }

    fn answer(&mut self, patience: Duration) -> Result<Answer> {
        let line = match self.answers.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!("no answer within {} s", patience.as_secs_f32()),
            Err(RecvTimeoutError::Disconnected) => bail!("it ended: {}", self.complaint()),
        };
        let answer: Answer = serde_json::from_str(&line).map_err(|_| {
            anyhow::anyhow!(
                "its answer cannot be parsed: {:?}",
                line.chars().take(80).collect::<String>()
            )
        })?;
        match answer.error {
            Some(error) => bail!("{}", error.split_whitespace().collect::<Vec<_>>().join(" ")),
            None => Ok(answer),
        }
    }

    fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.complaints.rewind();
        let _ = self.complaints.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.unwrap_or("it printed nothing").to_owned()
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // Closing its input ends the process. A run in progress is not waited for.
        self.requests.take();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::{fs, time::Instant};

    pub(in crate::compare::timed) fn fake(folder: &Path, lines: &str) -> Torch {
        Torch::start(&python_with(folder, &format!("{FAKE}\n{lines}"))).unwrap()
    }

    /// Writes a script that starts Python with `torch` as the source of its module `torch`.
    fn python_with(folder: &Path, torch: &str) -> PathBuf {
        fs::write(folder.join("torch.py"), torch).unwrap();
        script(folder, &format!("PYTHONPATH='{}' exec python3 \"$@\"", folder.display()))
    }

    fn script(folder: &Path, text: &str) -> PathBuf {
        // Another process writes the script: a program that this process has open for writing cannot be
        // started by the children of concurrent tests (ETXTBSY).
        let path = folder.join("python");
        let mut writer = Command::new("sh");
        writer.args(["-c", "cat >\"$0\" && chmod +x \"$0\""]).arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn().unwrap();
        writer.stdin.take().unwrap().write_all(format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        path
    }

    const FAKE: &str = include_str!("fake_torch.py");

    fn case(op: &'static str, dtype: &'static str, n: u64) -> Case<'static> {
        Case { op, dtype, n, rows: None, slots: 3 }
    }

    #[test]
    fn peer_script_runs_on_the_fake_pytorch() {
        let folder = tempfile::tempdir().unwrap();
        let mut torch = Torch::start(&python_with(folder.path(), FAKE)).unwrap();
        assert_eq!(torch.version(), "9.9");
        for dtype in ["i8", "u8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"] {
            for op in ["sum", "min", "max", "argmin", "argmax"] {
                assert!(torch.prepare(case(op, dtype, 1000)).unwrap(), "{op} {dtype}");
            }
        }
        // The clock of the fake PyTorch advances by 2 ms per event.
        assert_eq!(torch.time(3).unwrap(), [2000.0; 3]);
        let refused = |result: Result<bool>| result.unwrap_err().to_string();
        let said = refused(torch.prepare(case("sumsq", "f32", 10)));
        assert_eq!(said, "ValueError: PyTorch has no sumsq of f32 in one call");
        for dtype in ["u16", "u32", "u64"] {
            let said = refused(torch.prepare(case("sum", dtype, 10)));
            assert_eq!(said, format!("ValueError: PyTorch has no sum of {dtype} in one call"));
        }
        assert_eq!(refused(torch.prepare(case("sum", "f32", 1 << 40))), "MemoryError: out of memory");
        // A failed preparation frees the inputs of the earlier case. The next case works.
        assert!(torch.time(1).is_err());
        assert!(torch.prepare(case("sum", "f32", 10)).unwrap());
    }

    #[test]
    fn a_wrong_result_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = format!("{FAKE}\nWRONG = 1\n");
        let mut torch = Torch::start(&python_with(folder.path(), &wrong)).unwrap();
        let ops = ["sum", "min", "max", "argmin", "argmax"];
        let dtypes = ["i8", "u8", "i16", "i32", "f16", "f32"];
        for (op, dtype) in ops.into_iter().flat_map(|op| dtypes.map(|dtype| (op, dtype))) {
            assert!(!torch.prepare(case(op, dtype, 1000)).unwrap(), "{op} {dtype}");
        }
    }

    fn rows(op: &'static str, rows: u64, len: u64) -> Case<'static> {
        Case { rows: Some(rows), ..case(op, "f32", rows * len) }
    }

    #[test]
    fn every_row_has_its_result() {
        let folder = tempfile::tempdir().unwrap();
        let mut torch = Torch::start(&python_with(folder.path(), FAKE)).unwrap();
        for op in ["sum", "min", "max", "argmin", "argmax"] {
            for (count, len) in [(1, 1000), (1000, 1), (7, 143)] {
                assert!(torch.prepare(rows(op, count, len)).unwrap(), "{op} {count} x {len}");
            }
        }
        assert_eq!(torch.time(3).unwrap(), [2000.0; 3]);
        let whole = torch.prepare(Case { dtype: "i32", ..rows("sum", 4, 5) }).unwrap_err().to_string();
        assert!(whole.starts_with("ValueError: rows of "), "{whole}");
    }

    /// One wrong row of many is detected, whether its value is wrong or its index out of range.
    #[test]
    fn a_wrong_row_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in [1, -1, 1000, -1000] {
            let fake = format!("{FAKE}\nWRONG = {wrong}\n");
            let mut torch = Torch::start(&python_with(folder.path(), &fake)).unwrap();
            for op in ["sum", "min", "max", "argmin", "argmax"] {
                for (count, len) in [(1, 1000), (7, 143)] {
                    let right = torch.prepare(rows(op, count, len)).unwrap();
                    assert!(!right, "{op} {count} x {len} {wrong}");
                }
            }
        }
    }

    #[test]
    fn an_index_past_the_elements_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in ["1000", "-1000"] {
            let fake = format!("{FAKE}\nWRONG = {wrong}\n");
            let mut torch = Torch::start(&python_with(folder.path(), &fake)).unwrap();
            for op in ["argmin", "argmax"] {
                assert!(!torch.prepare(case(op, "i8", 1000)).unwrap(), "{op} {wrong}");
            }
        }
    }

    #[test]
    fn start_failure_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let start = |python: &Path| format!("{:#}", Torch::start(python).err().unwrap());
        let said = start(&folder.path().join("no-python"));
        assert!(said.contains("no-python cannot be started") && said.lines().count() == 1, "{said}");
        // A fake module fails like a missing PyTorch, because the installed Python may have one.
        let none = "raise ModuleNotFoundError(\"No module named 'torch'\")";
        let said = start(&python_with(folder.path(), none));
        assert_eq!(said, "ModuleNotFoundError: No module named 'torch'");
        let blind = FAKE.replace("return True", "return False");
        assert_eq!(start(&python_with(folder.path(), &blind)), "RuntimeError: PyTorch sees no GPU");
        for (text, said) in [
            ("echo one >&2; echo two >&2; exit 1", "it ended: two"),
            ("exit 0", "it ended: it printed nothing"),
            ("echo 'Python 2'", "its answer cannot be parsed: \"Python 2\""),
            ("echo '{}'", "it does not report its version"),
        ] {
            assert_eq!(start(&script(folder.path(), text)), said, "{text}");
        }
    }

    #[test]
    fn missing_and_invalid_answers_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let python = script(folder.path(), "exec sleep 60");
        let begin = Instant::now();
        let said = Torch::with(&python, Duration::from_millis(100)).err().unwrap().to_string();
        assert_eq!(said, "no answer within 0.1 s");
        assert!(begin.elapsed() < Duration::from_secs(30));

        let python = script(
            folder.path(),
            "echo '{\"torch\": \"1\"}'; read a; echo '{\"times_us\": [1.0]}'; read a; echo '{\"right\": true}'",
        );
        let mut torch = Torch::start(&python).unwrap();
        assert_eq!(torch.time(2).unwrap_err().to_string(), "its answer has 1 times for 2 runs");
        assert_eq!(torch.time(2).unwrap_err().to_string(), "its answer has no times");
        assert_eq!(torch.time(2).unwrap_err().to_string(), "it ended: it printed nothing");
    }
}
