//! Runs `cpu_parallel`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("cpu_parallel")
}
