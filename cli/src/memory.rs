//! Handling of failed allocations in third-party readers.
//!
//! These readers allocate the sizes that a file declares, by `Vec::with_capacity` for example. The
//! standard library aborts the process if such an allocation fails, and stable Rust cannot turn that
//! into an error. Here the process ends as for any other invalid file, with one line and status 2.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::RefCell,
    process,
};

use warpfold_io::say;

use crate::CANNOT;

thread_local! {
    static FILE: RefCell<Option<String>> = const { RefCell::new(None) };
}

#[global_allocator]
static ALLOCATOR: Guarded = Guarded;

/// Runs a reader of the file `name`; a failed allocation in the reader ends the process.
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
    // The code below allocates a little too. Taking the name prevents a recursion if that fails.
    let file = FILE.try_with(|file| file.try_borrow_mut().ok()?.take()).ok().flatten();
    if let Some(file) = file {
        say!(
            "error: {file}: its reader cannot allocate {bytes} bytes of memory; the file is damaged, or \
             too large for this process"
        );
        process::exit(CANNOT.into());
    }
}

// SAFETY: each method passes its arguments to the system allocator and returns its result. If that is
// null, the process may exit instead, which needs no memory. Nothing unwinds: `say` ignores errors.
unsafe impl GlobalAlloc for Guarded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `layout` has a nonzero size, as `GlobalAlloc::alloc` requires of the caller.
        Self::checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `layout` has a nonzero size, as `GlobalAlloc::alloc_zeroed` requires of the caller.
        Self::checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller passes a block that `System` allocated with `layout`, and a valid new size.
        Self::checked(unsafe { System.realloc(pointer, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a block that `System` allocated with `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
