//! Reports of the simulator: findings, with rules, suppression files and SARIF for code review, and
//! counters beside source lines, and coverage.

// Printing macros panic if standard output or error is closed or full.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod counters;
mod coverage;
mod diagnostic;
pub mod exchange;
mod rules;
mod sarif;
mod suppress;

pub use counters::{Explanation, GAP, HEAD, LEGEND, columns, listing};
pub use coverage::{Coverage, ThreadCounter, Threads};
pub use diagnostic::{Diagnostic, Place, Spot};
pub use rules::{Level, RULES, Rule};
pub use sarif::{SCHEMA, sarif};
pub use suppress::{Suppressions, WrongLine};
