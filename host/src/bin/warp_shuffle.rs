fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("warp_shuffle")
}
