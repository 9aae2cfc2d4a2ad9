//! The C interface of the driver: types, constants, codes, and the table of functions.
//!
//! Names, numbers and layouts are those of `cuda.h` of CUDA 13. Where a function exists in several
//! versions, the name is the exported one (`cuMemAlloc_v2`), and the type is that version's.
//!
//! A driver may be newer than this list. So nothing here is a Rust enum: a code or a property is an
//! integer as in C, with constants for its values.

#![allow(non_camel_case_types, reason = "these are the names of C")]

mod arrays;
mod codes;
mod constants;
mod device_attributes;
mod functions;
mod tensor_maps;
mod types;

pub use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_ushort, c_void};

pub use arrays::*;
pub use codes::*;
pub use constants::*;
pub use device_attributes::*;
pub use tensor_maps::*;
pub use types::*;
