fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("grid_stride")
}
