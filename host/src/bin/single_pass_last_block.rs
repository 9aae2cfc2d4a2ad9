//! Runs the `single_pass_last_block` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("single_pass_last_block")
}
