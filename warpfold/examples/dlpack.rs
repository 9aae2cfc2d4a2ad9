//! A shared library that reduces tensors of PyTorch, CuPy and other libraries in place. `dlpack.py` in
//! this folder calls it. Only a tensor pointer and a number cross the boundary.

use std::{panic, ptr, sync::OnceLock};

use warpfold::{
    Buffer, Device, Element, Reducer, Result, Selection, bf16,
    dlpack::{DataType, ManagedTensor},
    f16,
};

/// Returns the reducer that all calls share.
fn reducer() -> Result<&'static Reducer> {
    static REDUCER: OnceLock<Reducer> = OnceLock::new();
    if let Some(reducer) = REDUCER.get() {
        return Ok(reducer);
    }
    let reducer = Reducer::new(&Device::open(Selection::Cuda)?)?;
    Ok(REDUCER.get_or_init(|| reducer))
}

/// Writes the sum of a tensor's elements to `sum`. Takes ownership of the tensor and releases it through
/// its deleter.
///
/// Returns 0 on success. Otherwise prints the error to standard error and returns 1; the tensor then
/// still belongs to the caller.
///
/// # Safety
/// `tensor` must fulfil the contract of [`Buffer::from_dlpack`], and no pending work may write its
/// elements. `sum` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpfold_sum(tensor: *mut ManagedTensor, sum: *mut f64) -> i32 {
    // SAFETY: `tensor` points to a valid tensor.
    let dtype = unsafe { (*tensor).dl_tensor.dtype };
    // SAFETY: `tensor` fulfils the contract of `from_dlpack`.
    let reduced = panic::catch_unwind(|| unsafe {
        match dtype {
            _ if dtype == DataType::of::<i32>() => sum_of::<i32>(tensor, |sum| sum as f64),
            _ if dtype == DataType::of::<i64>() => sum_of::<i64>(tensor, |sum| sum as f64),
            _ if dtype == DataType::of::<u8>() => sum_of::<u8>(tensor, |sum| sum as f64),
            _ if dtype == DataType::of::<f16>() => sum_of::<f16>(tensor, f64::from),
            _ if dtype == DataType::of::<bf16>() => sum_of::<bf16>(tensor, f64::from),
            _ if dtype == DataType::of::<f64>() => sum_of::<f64>(tensor, f64::from),
            // For any other type, `from_dlpack` returns the type mismatch as its error.
            _ => sum_of::<f32>(tensor, f64::from),
        }
    });
    match reduced {
        Ok(Ok(value)) => {
            // SAFETY: `sum` is valid for writes.
            unsafe { sum.write(value) };
            0
        }
        Ok(Err(error)) => {
            eprintln!("{error}");
            1
        }
        Err(_) => 1,
    }
}

/// # Safety
/// `tensor` must fulfil the contract of [`Buffer::from_dlpack`].
unsafe fn sum_of<T: Element>(tensor: *mut ManagedTensor, into: fn(T::Sum) -> f64) -> Result<f64> {
    let reducer = reducer()?;
    // SAFETY: `tensor` fulfils the contract of `from_dlpack`.
    let buffer = unsafe { Buffer::<T>::from_dlpack(reducer.device(), tensor)? };
    reducer.sum(&buffer).map(into)
}

/// Returns a tensor of `n` ones on the device, or null on an error.
#[unsafe(no_mangle)]
pub extern "C" fn warpfold_ones(n: usize) -> *mut ManagedTensor {
    let made = || -> Result<_> { Ok(reducer()?.device().upload(&vec![1.0_f32; n])?.into_dlpack()) };
    made().unwrap_or(ptr::null_mut())
}
