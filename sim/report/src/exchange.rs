//! Names shared by a program that runs in the simulator and the command that runs it.

/// Environment variable that selects the kind of watching: [`CHECK`], [`STRICT`] or [`EXPLAIN`].
pub const WATCH: &str = "WARPFOLD_SIM_WATCH";
/// Value of [`WATCH`]: report all hazards.
pub const CHECK: &str = "check";
/// Value of [`WATCH`]: report all hazards, and legal code that is usually a mistake.
pub const STRICT: &str = "strict";
/// Value of [`WATCH`]: count instructions and memory accesses by source line.
pub const EXPLAIN: &str = "explain";
/// Environment variable with the folder in which each process stores its results.
pub const FOLDER: &str = "WARPFOLD_SIM_FOLDER";
/// Extension of a file with findings, one JSON object per line.
pub const FOUND: &str = "found";
/// Extension of a file with counters, as text.
pub const EXPLAINED: &str = "explained";
/// Environment variable with the maximum instructions of a thread.
pub const STEPS: &str = "WARPFOLD_SIM_STEPS";
/// Environment variable with the maximum seconds of a launch.
pub const SECONDS: &str = "WARPFOLD_SIM_SECONDS";
/// Environment variable with the seed that chooses an order of threads.
pub const SEED: &str = "WARPFOLD_SIM_SEED";
