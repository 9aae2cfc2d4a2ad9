//! Runs `copy_random`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("copy_random")
}
