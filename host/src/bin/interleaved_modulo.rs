//! Runs the `interleaved_modulo` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("interleaved_modulo")
}
