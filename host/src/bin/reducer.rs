//! Runs the library's reducer; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("reducer")
}
