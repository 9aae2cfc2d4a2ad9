//! Host memory and functions of the program, as work uses them.
//!
//! Addresses and functions come from the program, as arguments of driver calls. The interface obliges
//! it to keep them valid, and to leave the bytes alone, until the work is done.

use std::ptr;
use std::slice;

use warpfold_driver::sys::*;

use crate::world::{HostCall, HostFunction};

/// Bytes of the host to be read.
///
/// # Safety
/// The program gave the address to work that reads `bytes` bytes there, and which is not done.
pub(crate) unsafe fn with_bytes<T>(address: u64, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> T {
    if bytes == 0 {
        return read(&[]);
    }
    let first = ptr::with_exposed_provenance(address as usize);
    // SAFETY: the caller's contract, and the interface's: nobody writes to the bytes meanwhile.
    read(unsafe { slice::from_raw_parts(first, bytes as usize) })
}

/// Bytes of the host to be written.
///
/// # Safety
/// The program gave the address to work that writes `bytes` bytes there, and which is not done.
pub(crate) unsafe fn with_bytes_mut<T>(
    address: u64,
    bytes: u64,
    write: impl FnOnce(&mut [u8]) -> T,
) -> T {
    if bytes == 0 {
        return write(&mut []);
    }
    let first = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller's contract, and the interface's: nobody else uses the bytes meanwhile. Any
    // value of theirs is one of `u8`.
    write(unsafe { slice::from_raw_parts_mut(first, bytes as usize) })
}

/// Copies between two places of the host that may overlap.
///
/// # Safety
/// That of [`with_bytes`] for `from` and of [`with_bytes_mut`] for `to`.
pub(crate) unsafe fn copy(to: u64, from: u64, bytes: u64) {
    let (to, from) = (ptr::with_exposed_provenance_mut::<u8>(to as usize), from as usize);
    // SAFETY: the caller's contract.
    unsafe { ptr::copy(ptr::with_exposed_provenance::<u8>(from), to, bytes as usize) };
}

/// Calls a function of the program; `status` says how what was before went.
///
/// # Safety
/// The program asked for the call, and it was not made yet.
pub(crate) unsafe fn call(call: &HostCall, status: c_int) {
    let data = ptr::with_exposed_provenance_mut(call.data);
    match call.function {
        // SAFETY: the caller's contract: the program keeps function and data ready for this call.
        HostFunction::Plain(function) => unsafe { function(data) },
        // SAFETY: as above.
        HostFunction::Callback(function, stream) => unsafe { function(stream.raw(), status, data) },
    }
}
