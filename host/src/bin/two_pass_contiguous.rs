fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("two_pass_contiguous")
}
