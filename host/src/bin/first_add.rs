//! Runs the `first_add` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("first_add")
}
