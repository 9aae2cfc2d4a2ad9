//! Access to host memory for copies, and calls of host functions.
//!
//! Addresses and functions come from the arguments of driver calls. CUDA requires that the program keeps
//! them valid, and does not touch the bytes, until the copy or call is done.

use std::ptr;
use std::slice;

use warpfold_driver::sys::*;

use crate::world::{HostCall, HostFunction};

/// Calls `read` with bytes of the host.
///
/// # Safety
/// The program requested work that reads `bytes` bytes at the address, and the work is not done.
pub(crate) unsafe fn with_bytes<T>(address: u64, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> T {
    if bytes == 0 {
        return read(&[]);
    }
    let first = ptr::with_exposed_provenance(address as usize);
    // SAFETY: the work is not done, so the program keeps the bytes valid and does not write them.
    read(unsafe { slice::from_raw_parts(first, bytes as usize) })
}

/// Calls `write` with bytes of the host.
///
/// # Safety
/// The program requested work that writes `bytes` bytes at the address, and the work is not done.
pub(crate) unsafe fn with_bytes_mut<T>(
    address: u64,
    bytes: u64,
    write: impl FnOnce(&mut [u8]) -> T,
) -> T {
    if bytes == 0 {
        return write(&mut []);
    }
    let first = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the work is not done, so the program keeps the bytes valid and does not use them. Every
    // value of a byte is a valid `u8`.
    write(unsafe { slice::from_raw_parts_mut(first, bytes as usize) })
}

/// Copies between two host ranges that may overlap.
///
/// # Safety
/// `from` meets the contract of [`with_bytes`], and `to` that of [`with_bytes_mut`].
pub(crate) unsafe fn copy(to: u64, from: u64, bytes: u64) {
    let (to, from) = (ptr::with_exposed_provenance_mut::<u8>(to as usize), from as usize);
    // SAFETY: the work is not done, so the program keeps both ranges valid and does not use them.
    unsafe { ptr::copy(ptr::with_exposed_provenance::<u8>(from), to, bytes as usize) };
}

/// Calls a function of the program; `status` is the outcome of the preceding work.
///
/// # Safety
/// The program requested the call, and it has not been made yet.
pub(crate) unsafe fn call(call: &HostCall, status: c_int) {
    let data = ptr::with_exposed_provenance_mut(call.data);
    match call.function {
        // SAFETY: the call has not been made yet, so the program keeps function and data valid.
        HostFunction::Plain(function) => unsafe { function(data) },
        // SAFETY: the call has not been made yet, so the program keeps function and data valid.
        HostFunction::Callback(function, stream) => unsafe { function(stream.raw(), status, data) },
    }
}
