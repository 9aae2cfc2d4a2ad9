//! Runs the `interleaved_modulo` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("interleaved_modulo")
}
