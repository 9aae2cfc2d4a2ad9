//! Runs `cluster`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("cluster")
}
