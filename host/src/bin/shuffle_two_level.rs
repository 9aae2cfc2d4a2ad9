fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("shuffle_two_level")
}
