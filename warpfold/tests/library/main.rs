//! Tests of the public interface: results against a plain reference, lifetimes, errors, and foreign
//! memory.

#[macro_use]
mod common;

mod adversarial;
mod allocations;
mod axis;
mod bounds;
mod buffers;
mod by_key;
mod combine;
mod counted;
#[cfg(feature = "cudarc")]
mod cudarc;
#[cfg(feature = "cust")]
mod cust;
mod devices;
mod dlpack;
#[cfg(feature = "simulator")]
mod errors;
#[cfg(feature = "simulator")]
mod everything;
mod everywhere;
mod everywhere_others;
mod exact;
mod expressions;
#[cfg(unix)]
mod fork;
mod forms;
#[cfg(feature = "simulator")]
mod given_back;
mod group;
mod group_recorded;
mod group_shapes;
mod group_streamed;
mod invariance;
mod kernels;
mod large;
mod late;
mod log_sum_exp;
mod nccl;
mod numbers;
mod operations;
mod pairs;
#[cfg(feature = "simulator")]
mod programs;
mod recordings;
mod reductions;
#[cfg(feature = "simulator")]
mod results;
mod rounding;
mod rows;
mod running;
mod segments;
#[cfg(feature = "simulator")]
mod shown;
mod spreads;
#[path = "../nccl/mod.rs"]
mod stand_in;
mod streamed;
mod streams;
mod together;
mod top_k;
mod truths;
mod views;
mod wide;
mod within;
mod world;
