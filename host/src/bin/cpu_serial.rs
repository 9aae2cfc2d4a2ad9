//! Runs `cpu_serial`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("cpu_serial")
}
