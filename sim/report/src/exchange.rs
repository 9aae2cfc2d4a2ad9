//! How a program that runs in the simulator and the command that runs it talk to each other.

/// The environment variable that says what is looked for: [`CHECK`], [`STRICT`] or [`EXPLAIN`].
pub const WATCH: &str = "WARPFOLD_SIM_WATCH";
/// The report of all hazards.
pub const CHECK: &str = "check";
/// The same, and what is no race and mostly a mistake.
pub const STRICT: &str = "strict";
/// Counters beside source lines.
pub const EXPLAIN: &str = "explain";
/// That of the folder in which each process leaves what came of it.
pub const FOLDER: &str = "WARPFOLD_SIM_FOLDER";
/// The end of a file's name with findings, a JSON object in each line.
pub const FOUND: &str = "found";
/// The end of a file's name with counters, as text.
pub const EXPLAINED: &str = "explained";
/// That of how many instructions a thread may take.
pub const STEPS: &str = "WARPFOLD_SIM_STEPS";
/// That of how many seconds a launch may take.
pub const SECONDS: &str = "WARPFOLD_SIM_SECONDS";
/// That of the seed that chooses an order of threads.
pub const SEED: &str = "WARPFOLD_SIM_SEED";
