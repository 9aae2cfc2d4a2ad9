//! Runs `cluster`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("cluster")
}
