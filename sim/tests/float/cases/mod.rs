//! What is tried of an instruction: its PTX, a kernel around it, operands, and how exact its result
//! must be.
//!
//! The simulator's tests compare with an independent implementation; the program `float_hardware` of the
//! whole-system tests takes the same modules and compares with a GPU.

pub(crate) mod accuracy;
pub(crate) mod catalogue;
pub(crate) mod instruction;
pub(crate) mod kernel;
pub(crate) mod operands;
