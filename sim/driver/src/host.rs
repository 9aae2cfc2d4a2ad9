//! Accesses of work to host memory, and calls of host functions.
//!
//! Addresses and functions come from the arguments of driver calls. The interface obliges the program to
//! keep them valid, and not to touch the bytes, until the work is done.

use std::ptr;
use std::slice;

use warpfold_driver::sys::*;

use crate::world::{HostCall, HostFunction};

/// Calls `read` with bytes of the host.
///
/// # Safety
/// The program passed the address to work that reads `bytes` bytes there and is not done.
pub(crate) unsafe fn with_bytes<T>(address: u64, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> T {
    if bytes == 0 {
        return read(&[]);
    }
    let first = ptr::with_exposed_provenance(address as usize);
    // SAFETY: the caller's contract, and the interface's: the bytes are not written meanwhile.
    read(unsafe { slice::from_raw_parts(first, bytes as usize) })
}

/// Calls `write` with bytes of the host.
///
/// # Safety
/// The program passed the address to work that writes `bytes` bytes there and is not done.
pub(crate) unsafe fn with_bytes_mut<T>(
    address: u64,
    bytes: u64,
    write: impl FnOnce(&mut [u8]) -> T,
) -> T {
    if bytes == 0 {
        return write(&mut []);
    }
    let first = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller's contract, and the interface's: nothing else uses the bytes meanwhile. Every
    // value of a byte is a valid `u8`.
    write(unsafe { slice::from_raw_parts_mut(first, bytes as usize) })
}

/// Copies between two host ranges that may overlap.
///
/// # Safety
/// That of [`with_bytes`] for `from` and of [`with_bytes_mut`] for `to`.
pub(crate) unsafe fn copy(to: u64, from: u64, bytes: u64) {
    let (to, from) = (ptr::with_exposed_provenance_mut::<u8>(to as usize), from as usize);
    // SAFETY: the caller's contract.
    unsafe { ptr::copy(ptr::with_exposed_provenance::<u8>(from), to, bytes as usize) };
}

/// Calls a function of the program; `status` is the outcome of the work before it.
///
/// # Safety
/// The program asked for the call, which was not made yet.
pub(crate) unsafe fn call(call: &HostCall, status: c_int) {
    let data = ptr::with_exposed_provenance_mut(call.data);
    match call.function {
        // SAFETY: the caller's contract: the program keeps function and data ready for this call.
        HostFunction::Plain(function) => unsafe { function(data) },
        // SAFETY: as above.
        HostFunction::Callback(function, stream) => unsafe { function(stream.raw(), status, data) },
    }
}
