//! Runs the `two_pass_contiguous` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("two_pass_contiguous")
}
