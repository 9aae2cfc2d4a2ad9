//! The extension module `warpfold._native`: arrays in device memory, and the kernels that reduce them.
//! Only the package's Python files call it; they define the public interface.
//!
//! It does not rely on the GIL, so a free-threaded interpreter does not enable it on import: all classes
//! are `frozen`, and all state is locked or set once.

mod array;
mod borrow;
mod cpu;
mod describe;
mod device;
mod dot;
mod elements;
mod error;
mod functions;
mod kernels;
mod several;
mod topk;
mod torch;
mod within;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::borrow::{borrow_cuda_array, borrow_dlpack, borrow_tensor, upload};
    #[pymodule_export]
    use super::cpu::{
        reduce_dot_on_cpu, reduce_rows_on_cpu, reduce_segments_on_cpu, reduce_topk_on_cpu,
        reduce_within_on_cpu,
    };
    #[pymodule_export]
    use super::describe::{describe, describe_on_cpu};
    #[pymodule_export]
    use super::device::{Device, devices, open};
    #[pymodule_export]
    use super::dot::reduce_dot;
    #[pymodule_export]
    use super::elements::types;
    #[pymodule_export]
    use super::error::{Error, ViewError};
    #[pymodule_export]
    use super::functions::{expression, functions, outcome};
    #[pymodule_export]
    use super::kernels::{error_bound, reduce, reduce_segments};
    #[pymodule_export]
    use super::several::reduce_tensors;
    #[pymodule_export]
    use super::topk::reduce_topk;
    #[pymodule_export]
    use super::torch::reduce_tensor;
    #[pymodule_export]
    use super::within::reduce_within;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
