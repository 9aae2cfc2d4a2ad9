//! A case per opcode: instruction, inputs and expected bits, from the PTX manual or host arithmetic.

mod asynchronous;
mod control;
mod convert;
mod float;
mod harness;
mod integer;
mod logic;
mod memory;
mod narrow;
mod video;
mod warp;

use harness::{Case, run};

fn all() -> Vec<Case> {
    let groups = [
        integer::cases(),
        logic::cases(),
        float::cases(),
        convert::cases(),
        memory::cases(),
        control::cases(),
        warp::cases(),
        asynchronous::cases(),
        narrow::cases(),
        video::cases(),
    ];
    groups.into_iter().flatten().collect()
}

#[test]
fn integer_arithmetic() {
    integer::cases().iter().for_each(run);
}

#[test]
fn logic_and_shifts() {
    logic::cases().iter().for_each(run);
}

#[test]
fn floating_point() {
    float::cases().iter().for_each(run);
}

#[test]
fn conversions_and_moves() {
    convert::cases().iter().for_each(run);
}

#[test]
fn parts_of_words() {
    video::cases().iter().for_each(run);
}

#[test]
fn narrow_and_wide_values() {
    narrow::cases().iter().for_each(run);
}

#[test]
fn memory_accesses() {
    memory::cases().iter().for_each(run);
}

#[test]
fn control_flow() {
    control::cases().iter().for_each(run);
}

#[test]
fn warp_operations() {
    warp::cases().iter().for_each(run);
}

#[test]
fn asynchronous_copies_mbarriers_and_clusters() {
    asynchronous::cases().iter().for_each(run);
}

#[test]
fn every_opcode_has_a_case() {
    let tested: std::collections::BTreeSet<String> = all().iter().map(Case::opcode).collect();
    let missing: Vec<&str> =
        warpfold_sim::opcodes().filter(|opcode| !tested.contains(*opcode)).collect();
    assert!(missing.is_empty(), "opcodes without a golden case: {missing:?}");
    let unknown: Vec<&String> =
        tested.iter().filter(|name| !warpfold_sim::opcodes().any(|opcode| opcode == *name)).collect();
    assert!(unknown.is_empty(), "cases for opcodes that do not exist: {unknown:?}");
}
