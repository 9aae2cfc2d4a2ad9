//! Runs the `redux` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("redux")
}
