//! The suite: every kernel, binary, example and page, in the simulator or on a GPU.

mod check;
mod collectives;
mod dependencies;
mod embed_ptx;
mod examples;
mod explain;
mod faults;
mod float_hardware;
mod hand_over;
mod ladder;
mod ladder_runs;
mod overlap;
mod partners;
mod planted;
mod probe;
mod programs;
mod reducer;
mod reduction;
mod security;
