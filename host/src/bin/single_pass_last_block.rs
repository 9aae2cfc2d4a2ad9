//! Runs the `single_pass_last_block` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("single_pass_last_block")
}
