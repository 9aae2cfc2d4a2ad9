//! Runs the `warp_shuffle` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("warp_shuffle")
}
