//! Standard output and standard error of the command lines, which may be closed or full.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, Stdout, Write},
};

use crate::visible::visible_lines;

/// Standard output. What a terminal obeys, line ends apart, is written as `\u001b`: it can only come
/// from outside. When its reader has gone, as `head` does when it has seen enough, what is written is
/// dropped without a word: the exit status still says how the run ended, and [`finish`](Self::finish)
/// that its result was not read. Anything else that fails, such as a full disk, is an error that names
/// standard output.
#[derive(Debug)]
pub struct Output<W = Stdout> {
    to: W,
    closed: bool,
}

/// [`Output`] to standard output.
pub fn stdout() -> Output {
    Output { to: io::stdout(), closed: started::without_stdout() }
}

/// What the process was started with. Before `main` the standard library opens /dev/null in place of a
/// closed standard output, where a result then goes without an error.
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

    // SAFETY: the loader calls each address in this section once, as a C function, before `main`. The
    // section's other addresses stay as they are.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: this command takes no third argument and changes nothing; of a closed descriptor it
        // fails.
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
    /// Writes what is left. For programs whose result is what they print.
    ///
    /// # Errors
    /// It cannot be written, or the reader has gone before it had all.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self.closed {
            true => Err(io::Error::new(
                ErrorKind::BrokenPipe,
                "standard output cannot be written: it is closed, or its reader has gone before the end \
                 of the result",
            )),
            false => Ok(()),
        }
    }

    /// `full` stands for what was to be written.
    fn accept<T>(&mut self, written: io::Result<T>, full: T) -> io::Result<T> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(full)
            }
            // Asked to be tried again.
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
        // Texts are written whole, so that no character is cut in two.
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

/// Writes a line to standard error, whether anyone reads it or not. What comes from outside stays in it:
/// see [`visible`](crate::visible).
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        // There is nowhere left to complain.
        let _ = writeln!(std::io::stderr(), "{}", $crate::visible(&format!($($argument)*)));
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails whatever is written, and counts the attempts.
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
    fn a_reader_that_has_gone_is_no_error_and_written_to_once() {
        let mut output = Output { to: Broken(ErrorKind::BrokenPipe, 0), closed: false };
        writeln!(output, "{} {}", 1, 2).unwrap();
        writeln!(output, "3").unwrap();
        output.flush().unwrap();
        assert_eq!(output.to.1, 1);
        assert_eq!(output.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
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
