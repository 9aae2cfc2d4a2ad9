//! Runs `copy_random`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("copy_random")
}
