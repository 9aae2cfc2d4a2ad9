//! Instructions on floats, one kernel for each.

mod cases;

use cases::{catalogue, kernel};
use warpfold_sim::Module;

#[test]
fn the_simulator_takes_every_instruction() {
    for instruction in catalogue::instructions() {
        let parsed = Module::parse(&kernel::ptx(&instruction));
        parsed.unwrap_or_else(|error| panic!("{}: {error}", instruction.text));
    }
}

#[test]
fn an_instruction_is_listed_once() {
    let mut texts: Vec<String> = catalogue::instructions().into_iter().map(|one| one.text).collect();
    let count = texts.len();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), count);
}
