//! Runs the `interleaved_strided` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("interleaved_strided")
}
