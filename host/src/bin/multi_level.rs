fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("multi_level")
}
