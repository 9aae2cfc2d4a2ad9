//! The extension module `warpfold._native`: arrays in device memory, in and out, and the kernels that
//! reduce them. What a user sees is made of it by the Python files of the package, which alone call it.

mod array;
mod borrow;
mod device;
mod elements;
mod error;
mod functions;
mod kernels;
mod within;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::borrow::{borrow_cuda_array, borrow_dlpack, borrow_tensor, upload};
    #[pymodule_export]
    use super::device::{Device, devices, open};
    #[pymodule_export]
    use super::elements::types;
    #[pymodule_export]
    use super::error::{Error, ViewError};
    #[pymodule_export]
    use super::functions::functions;
    #[pymodule_export]
    use super::kernels::{error_bound, outcome, reduce, reduce_segments};
    #[pymodule_export]
    use super::within::reduce_within;
}
