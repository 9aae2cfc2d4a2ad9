//! Host memory and functions of the program, as work uses them.
//!
//! The functions here are safe to call from this crate alone, for what a driver call was given:
//! addresses and functions come from the program, which the interface obliges to keep them valid
//! until the work is done.

use std::ptr;
use std::slice;

use warpfold_driver::sys::*;

use crate::world::{HostCall, HostFunction};

/// Bytes of the host to be read.
pub(crate) fn with_bytes<T>(address: u64, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> T {
    if bytes == 0 {
        return read(&[]);
    }
    let first = ptr::with_exposed_provenance(address as usize);
    // SAFETY: the program gave the address to a copy of so many bytes, and leaves them alone until
    // the copy is done: it is blocked in the call, or the interface obliges it to wait.
    read(unsafe { slice::from_raw_parts(first, bytes as usize) })
}

/// Bytes of the host to be written.
pub(crate) fn with_bytes_mut<T>(address: u64, bytes: u64, write: impl FnOnce(&mut [u8]) -> T) -> T {
    if bytes == 0 {
        return write(&mut []);
    }
    let first = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: as for `with_bytes`. What is written is plain bytes, and nobody reads them first.
    write(unsafe { slice::from_raw_parts_mut(first, bytes as usize) })
}

/// Copies between two places of the host that may overlap.
pub(crate) fn copy(to: u64, from: u64, bytes: u64) {
    let (to, from) = (ptr::with_exposed_provenance_mut::<u8>(to as usize), from as usize);
    // SAFETY: as for `with_bytes`, of both ranges.
    unsafe { ptr::copy(ptr::with_exposed_provenance::<u8>(from), to, bytes as usize) };
}

/// Calls a function of the program; `status` says how what was before went.
pub(crate) fn call(call: &HostCall, status: c_int) {
    let data = ptr::with_exposed_provenance_mut(call.data);
    match call.function {
        // SAFETY: the program asked for this call, once, when what was before is done.
        HostFunction::Plain(function) => unsafe { function(data) },
        // SAFETY: as above.
        HostFunction::Callback(function, stream) => unsafe { function(stream.raw(), status, data) },
    }
}
