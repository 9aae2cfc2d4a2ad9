fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("copy_strided")
}
