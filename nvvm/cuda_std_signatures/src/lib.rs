//! What the device crates use of rust-cuda's `cuda_std` (revision 946c91f), as signatures alone: names,
//! parameters and results, written down anew from its documentation, and no line of its code. It is two
//! attributes: all else that the device crates need of the machine they declare themselves. Nothing here
//! runs.
//!
//! `cargo xtask check-nvvm` compiles the device crates against it on every machine, so that a change
//! cannot break their rust-cuda side unseen; with `--cuda-std PATH` it takes the real crate in its
//! place, which is how to find out that this one still says the truth.
#![no_std]

pub use cuda_std_signature_attributes::{address_space, kernel};
