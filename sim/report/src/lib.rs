//! What the simulator finds and counts, as it is shown: findings with their rules, which a file may
//! suppress and code review may take as SARIF, and counters beside source lines.

// Standard output and error may be closed or full, which is no reason to panic.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod counters;
mod diagnostic;
pub mod exchange;
mod rules;
mod sarif;
mod suppress;

pub use counters::{Explanation, GAP, HEAD, LEGEND, columns, listing};
pub use diagnostic::{Diagnostic, Place, Spot};
pub use rules::{Level, RULES, Rule};
pub use sarif::{SCHEMA, sarif};
pub use suppress::{Suppressions, WrongLine};
