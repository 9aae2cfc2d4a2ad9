//! Test cases of instructions: PTX, a kernel around it, operands, and the required accuracy.
//!
//! The simulator's tests compare with an independent implementation; the whole-system program
//! `float_hardware` compares the same modules with a GPU.

pub(crate) mod accuracy;
pub(crate) mod catalogue;
pub(crate) mod instruction;
pub(crate) mod kernel;
pub(crate) mod operands;
