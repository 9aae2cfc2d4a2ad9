//! Runs other programs with captured output and a time limit.

use std::{
    fs::File,
    io::{self, Read, Seek},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Returns the standard output of a successful program. Otherwise the error is the program's last
    /// line that is marked as an error, else its last line.
    pub fn success(self) -> Result<String> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        let said = complaint(&self.stderr).or_else(|| complaint(&self.stdout));
        match said {
            Some(line) => bail!("{line}"),
            None => bail!("ended with {}", self.status),
        }
    }
}

/// Runs a program until it exits, or kills it after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Files, not pipes: a pipe would block if the program leaves children that hold it open.
    let (mut stdout, mut stderr) = (capture()?, capture()?);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .map_err(|error| explain(&name, &error))?;

    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            // The program's children are not killed: they exit when their parent is gone. They stay in
            // this process group, so that an interrupt from the terminal reaches all.
            child.kill()?;
            child.wait()?;
            bail!("{name} gave no answer within {} s", limit.as_secs_f32());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    Ok(Output { status, stdout: read(&mut stdout)?, stderr: read(&mut stderr)? })
}

fn explain(name: &str, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!("{name} is not on the PATH"),
        _ => anyhow::anyhow!("{name} cannot be started: {error}"),
    }
}

fn capture() -> Result<File> {
    tempfile::tempfile().context("a temporary file for a program's output cannot be created")
}

fn read(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the last line that is marked as an error, else the last one.
fn complaint(text: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.starts_with("error") || line.starts_with("E:");
    lines().rfind(is_error).or_else(|| lines().next_back()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_captured() {
        let output = run(&mut shell("echo out; echo err >&2"), Duration::from_secs(5)).unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(output.success().unwrap(), "out\n");
    }

    #[test]
    fn failure_message_is_the_programs_error() {
        let output = run(
            &mut shell("echo 'error: no such thing' >&2; echo 'at frame 7' >&2; exit 3"),
            Duration::from_secs(5),
        );
        assert_eq!(output.unwrap().success().unwrap_err().to_string(), "error: no such thing");
        let silent = run(&mut shell("exit 3"), Duration::from_secs(5)).unwrap();
        assert_eq!(silent.success().unwrap_err().to_string(), "ended with exit status: 3");
    }

    #[test]
    fn a_program_that_hangs_is_stopped() {
        let start = Instant::now();
        let error =
            run(&mut shell("echo waiting; exec sleep 60"), Duration::from_millis(100)).unwrap_err();
        assert_eq!(error.to_string(), "sh gave no answer within 0.1 s");
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program"), Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program is not on the PATH");
    }
}
