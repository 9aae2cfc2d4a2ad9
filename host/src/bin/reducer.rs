//! Runs the library's reducer; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("reducer")
}
