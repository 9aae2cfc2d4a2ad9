//! Runs the `warp_shuffle` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("warp_shuffle")
}
