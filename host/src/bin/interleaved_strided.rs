//! Runs the `interleaved_strided` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("interleaved_strided")
}
