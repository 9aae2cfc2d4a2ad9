//! Runs the `grid_stride` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("grid_stride")
}
