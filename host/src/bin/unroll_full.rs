fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("unroll_full")
}
