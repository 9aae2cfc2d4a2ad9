//! Names and formats shared by a program that runs in the simulator and the command that runs it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use warpfold_sim::{Entry, Error, Stats};

/// Environment variable that selects the kind of watching: [`CHECK`], [`STRICT`], [`EXPLAIN`] or
/// [`COVER`].
pub const WATCH: &str = "WARPFOLD_SIM_WATCH";
/// Value of [`WATCH`]: report all hazards.
pub const CHECK: &str = "check";
/// Value of [`WATCH`]: report all hazards, and legal code that is usually a mistake.
pub const STRICT: &str = "strict";
/// Value of [`WATCH`]: count instructions and memory accesses by source line.
pub const EXPLAIN: &str = "explain";
/// Value of [`WATCH`]: count the threads at each source line and branch.
pub const COVER: &str = "cover";
/// Environment variable with the folder in which each process stores its results.
pub const FOLDER: &str = "WARPFOLD_SIM_FOLDER";
/// Extension of a file with findings, one JSON object per line.
pub const FOUND: &str = "found";
/// Extension of a file with counters, as text.
pub const EXPLAINED: &str = "explained";
/// Extension of a file with a [`Coverage`](crate::Coverage) in JSON.
pub const COVERED: &str = "covered";
/// Extension of a file with a [`Ran`] in JSON.
pub const RAN: &str = "ran";
/// Environment variable with the maximum instructions of a thread.
pub const STEPS: &str = "WARPFOLD_SIM_STEPS";
/// Environment variable with the maximum seconds of a launch.
pub const SECONDS: &str = "WARPFOLD_SIM_SECONDS";
/// Environment variable with the seed that chooses an order of threads.
pub const SEED: &str = "WARPFOLD_SIM_SEED";
/// Environment variable with the file to which each refused driver call is appended as a JSON array of
/// two strings in a line of its own: the function, and the reason, which may be empty.
pub const REFUSED: &str = "WARPFOLD_SIM_REFUSED";

/// Totals of the launches of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ran {
    /// Number of launches, with those that ended with a fault.
    pub launches: u64,
    /// Number of launches that ended with a fault.
    pub failed: u64,
    /// Instructions of the launches that did not fail, counted once per warp.
    pub warp_instructions: u64,
    /// Names of the kernels. Kernels of one name count once.
    pub kernels: BTreeSet<String>,
    /// Instructions of the kernels whose results may have other bits on a GPU.
    pub approximate: BTreeSet<String>,
}

impl Ran {
    /// Adds a launch.
    pub fn add_launch(&mut self, entry: &Entry, ran: &Result<Stats, Error>) {
        self.launches += 1;
        match ran {
            Ok(stats) => self.warp_instructions += stats.warp_instructions,
            Err(_) => self.failed += 1,
        }
        if !self.kernels.contains(entry.name()) {
            self.kernels.insert(entry.name().to_owned());
            self.approximate.extend(approximate(entry));
        }
    }

    /// Adds the totals of another process.
    pub fn add(&mut self, other: Self) {
        self.launches += other.launches;
        self.failed += other.failed;
        self.warp_instructions += other.warp_instructions;
        self.kernels.extend(other.kernels);
        self.approximate.extend(other.approximate);
    }

    /// Returns the totals as a line.
    pub fn line(&self) -> String {
        let of = |count: u64, what: &str, plural: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { plural })
        };
        let mut line = format!(
            "{} of {}, {}",
            of(self.launches, "launch", "es"),
            of(self.kernels.len() as u64, "kernel", "s"),
            of(self.warp_instructions, "warp instruction", "s"),
        );
        if self.failed > 0 {
            line += &format!("; {} failed", self.failed);
        }
        if !self.approximate.is_empty() {
            let names: Vec<&str> = self.approximate.iter().map(String::as_str).collect();
            line += &format!("; may differ from a GPU in the last bits: {}", names.join(", "));
        }
        line
    }
}

fn approximate(entry: &Entry) -> impl Iterator<Item = String> {
    let names = entry.instructions().iter().filter_map(|instruction| {
        let mut words = instruction.text.split([' ', ';']);
        words.find(|word| word.starts_with(&*instruction.opcode))
    });
    let is_approximate = |name: &&str| name.split('.').any(|part| matches!(part, "approx" | "full"));
    names.filter(is_approximate).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_has_run() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut ran =
            Ran { launches: 1, warp_instructions: 1, kernels: names(&["sum"]), ..Ran::default() };
        assert_eq!(ran.line(), "1 launch of 1 kernel, 1 warp instruction");
        let other = Ran {
            launches: 2,
            failed: 1,
            warp_instructions: 40,
            kernels: names(&["sum", "exp"]),
            approximate: names(&["ex2.approx.f32", "div.full.f32"]),
        };
        ran.add(other);
        assert_eq!(
            ran.line(),
            "3 launches of 2 kernels, 41 warp instructions; 1 failed; may differ from a GPU in \
             the last bits: div.full.f32, ex2.approx.f32"
        );
    }
}
