//! Signatures of the part of rust-cuda's `cuda_std` (revision 946c91f) that the device crates use: two
//! attributes. They are rewritten from the documentation of `cuda_std`, without any of its code. The
//! device crates declare everything else themselves. Nothing here runs.
//!
//! `cargo xtask lint nvvm` compiles the device crates against this crate on every machine, so that a
//! change cannot break their rust-cuda side unnoticed. With `--cuda-std PATH` the command uses the real
//! crate instead, which shows whether these signatures are still right.
#![no_std]

pub use cuda_std_signature_attributes::{address_space, kernel};
