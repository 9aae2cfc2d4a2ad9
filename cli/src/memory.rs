//! Handling of failed allocations in third-party readers.
//!
//! They allocate what a file declares, by `Vec::with_capacity` for example, and the standard library
//! aborts the process if such an allocation fails; stable Rust has no way to turn that into an error.
//! Here it ends the process like any other invalid file, with one line and status 2.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::RefCell,
    process,
};

use warpfold_suite::say;

use crate::CANNOT;

thread_local! {
    static FILE: RefCell<Option<String>> = const { RefCell::new(None) };
}

#[global_allocator]
static ALLOCATOR: Guarded = Guarded;

/// Runs a reader of a file of this name, in which a failed allocation ends the process.
pub(crate) fn reading<T>(name: &str, read: impl FnOnce() -> T) -> T {
    let outer = FILE.replace(Some(name.to_owned()));
    let read = read();
    FILE.set(outer);
    read
}

struct Guarded;

impl Guarded {
    #[inline]
    fn checked(pointer: *mut u8, bytes: usize) -> *mut u8 {
        if pointer.is_null() {
            failed(bytes);
        }
        pointer
    }
}

#[cold]
fn failed(bytes: usize) {
    // The code below allocates too, but little. The name is taken, so that it is gone if even that
    // fails.
    let file = FILE.try_with(|file| file.try_borrow_mut().ok()?.take()).ok().flatten();
    if let Some(file) = file {
        say!(
            "error: {file}: its reader asks for {bytes} bytes of memory, which there are not; it is \
             damaged, or too large for this process"
        );
        process::exit(CANNOT.into());
    }
}

// SAFETY: each method passes its arguments to the system allocator and returns its result; if that is
// null, the process may exit first, which needs no valid memory. Nothing unwinds: `say` ignores errors.
unsafe impl GlobalAlloc for Guarded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is that of this method.
        Self::checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is that of this method.
        Self::checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's contract is that of this method.
        Self::checked(unsafe { System.realloc(pointer, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is that of this method.
        unsafe { System.dealloc(pointer, layout) }
    }
}
