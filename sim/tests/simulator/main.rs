//! The simulator, by its public interface: programs of PTX, their results, findings and counters.

mod access;
mod broken;
mod calls;
mod common;
mod conditions;
mod constants;
mod count;
mod device_heap;
mod errors;
mod facade;
mod float;
mod fuzz;
mod golden;
mod hazard;
mod hopper;
mod kernels;
mod limits;
mod litmus;
mod lockstep;
mod matrix;
mod memories;
mod observe;
mod reports;
mod scheduling;
mod seeds;
mod texture;
