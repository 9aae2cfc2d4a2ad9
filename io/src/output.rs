//! Standard output and standard error of the command lines, which may be closed or full.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, Stdout, Write},
};

use crate::visible::visible_lines;

/// Standard output. Control characters except line ends are escaped, such as `\u001b`: they can only
/// come from external text. If the reader has closed its end, as `head` does, further output is silently
/// discarded: the exit status still tells the result, and [`finish`](Self::finish) reports that the
/// output was not read. Other failures, such as a full disk, are errors that name standard output.
#[derive(Debug)]
pub struct Output<W = Stdout> {
    to: W,
    closed: bool,
}

pub fn stdout() -> Output {
    Output { to: io::stdout(), closed: started::without_stdout() }
}

/// The state of standard output at process start. Before `main` the standard library replaces a closed
/// standard output by /dev/null, which would discard results without an error.
#[cfg(target_os = "linux")]
mod started {
    use std::{
        ffi::c_int,
        sync::atomic::{AtomicBool, Ordering::Relaxed},
    };

    unsafe extern "C" {
        fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    }

    const STDOUT: c_int = 1;
    const F_GETFD: c_int = 1;

    static WITHOUT_STDOUT: AtomicBool = AtomicBool::new(false);

    // SAFETY: the loader calls each address in this section once before `main`, as a C function such as
    // `look`. The section's other addresses are unchanged.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: `F_GETFD` takes no third argument and changes nothing; it fails if the descriptor is
        // closed.
        WITHOUT_STDOUT.store(unsafe { fcntl(STDOUT, F_GETFD) } < 0, Relaxed);
    }

    pub(super) fn without_stdout() -> bool {
        WITHOUT_STDOUT.load(Relaxed)
    }
}

#[cfg(not(target_os = "linux"))]
mod started {
    pub(super) fn without_stdout() -> bool {
        false
    }
}

impl<W: Write> Output<W> {
    /// Flushes the output, for programs whose printed output is their result. Fails if the reader closed
    /// its end early.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self.closed {
            true => Err(io::Error::new(
                ErrorKind::BrokenPipe,
                "standard output cannot be written: it is closed, or its reader has exited before the \
                 end of the result",
            )),
            false => Ok(()),
        }
    }

    /// Accepts a write to a closed pipe as a complete one, by returning `full`.
    fn accept<T>(&mut self, written: io::Result<T>, full: T) -> io::Result<T> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(full)
            }
            // `write_all` retries interrupted writes.
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) => {
                Err(io::Error::new(error.kind(), format!("standard output cannot be written: {error}")))
            }
            Ok(written) => Ok(written),
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        // Text is written whole, so that no character is split.
        let shown = match str::from_utf8(bytes).map(visible_lines) {
            Ok(Cow::Owned(shown)) => shown,
            _ => {
                let written = self.to.write(bytes);
                return self.accept(written, bytes.len());
            }
        };
        let written = self.to.write_all(shown.as_bytes());
        self.accept(written.map(|()| bytes.len()), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let flushed = self.to.flush();
        self.accept(flushed, ())
    }
}

/// Prints clap's message and returns the exit code: help and version in full on stdout with 0, an error
/// in one line on stderr with 2. Without arguments where some are required, prints the help on stderr
/// with 2.
#[cfg(feature = "cli")]
pub fn usage(error: &clap::Error) -> std::process::ExitCode {
    use std::process::ExitCode;

    use crate::say;

    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // There is nowhere left to report a failure.
        let _ = error.print();
        return ExitCode::from(2);
    }
    if !error.use_stderr() {
        return match error.print() {
            Err(full) if full.kind() != ErrorKind::BrokenPipe => {
                say!("error: standard output cannot be written: {full}");
                ExitCode::from(2)
            }
            _ => ExitCode::SUCCESS,
        };
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| {
        !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    say!("{}", lines.collect::<Vec<_>>().join("; "));
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind, u32);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn broken_pipe_is_not_an_error_and_ends_writing() {
        let mut output = Output { to: Broken(ErrorKind::BrokenPipe, 0), closed: false };
        writeln!(output, "{} {}", 1, 2).unwrap();
        writeln!(output, "3").unwrap();
        output.flush().unwrap();
        assert_eq!(output.to.1, 1);
        assert_eq!(output.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut output = Output { to: Vec::new(), closed: false };
        output.write_all("a \u{1b}[31m\nµs \u{9b}\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(output.to).unwrap(), "a \\u001b[31m\nµs \\u009b\n");
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_standard_output() {
        let mut output = Output { to: Broken(ErrorKind::StorageFull, 0), closed: false };
        let error = writeln!(output, "1").unwrap_err();
        assert!(error.to_string().starts_with("standard output cannot be written: "), "{error}");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
}
