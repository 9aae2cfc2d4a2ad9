//! Runs the `shuffle_two_level` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("shuffle_two_level")
}
