//! Runs `transpose_padded`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("transpose_padded")
}
