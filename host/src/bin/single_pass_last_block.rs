fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("single_pass_last_block")
}
