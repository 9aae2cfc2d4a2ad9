//! Runs the `two_pass_interleaved` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("two_pass_interleaved")
}
