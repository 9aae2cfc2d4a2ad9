//! Runs `cpu_serial`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("cpu_serial")
}
