//! Runs the `unroll_last_warp` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("unroll_last_warp")
}
