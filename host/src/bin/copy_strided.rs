//! Runs `copy_strided`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("copy_strided")
}
