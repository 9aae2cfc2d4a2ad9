//! Tests that a launch allocates no host memory. The allocator counts for the whole program, so this
//! test is a program of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use warpfold_driver::sys::*;
use warpfold_driver::{Driver, Function, LaunchShape, ParameterCut, Parameters, Provider, Stream};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all calls go to the system's allocator; counting does not touch the allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: callers of `alloc` keep its contract, which is that of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: callers of `dealloc` keep its contract, and the memory is from `System.alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Implements every driver function. Reads no argument.
extern "C" fn succeed() -> c_int {
    CUDA_SUCCESS
}

struct Succeeding;

impl Provider for Succeeding {
    fn name(&self) -> &str {
        "one that succeeds"
    }

    fn find(&self, _: &str) -> Option<NonNull<c_void>> {
        NonNull::new(succeed as *mut c_void)
    }
}

#[test]
fn a_launch_allocates_nothing() {
    // SAFETY: `succeed` reads no argument, and in the calling conventions of all systems that have a
    // driver the caller places and removes the arguments.
    let driver = unsafe { Driver::provided(&Succeeding) }.unwrap();
    let function = Function::from_raw(ptr::null_mut());
    let plain = LaunchShape::new([1, 1, 1], [32, 1, 1]);
    let cuts = [ParameterCut { offset: 0, bytes: 8 }; 100];
    for shape in [
        plain,
        LaunchShape { cooperative: true, ..plain },
        LaunchShape { cluster: Some([1, 1, 1]), overlapping: true, ..plain },
    ] {
        let before = ALLOCATIONS.get();
        let parameters = Parameters::Bytes { values: &[0; 4096], cuts: &cuts };
        // SAFETY: `succeed` reads no argument.
        unsafe { driver.launch(function, &shape, Stream::DEFAULT, parameters) }.unwrap();
        assert_eq!(ALLOCATIONS.get(), before, "{shape:?}");
    }
    let before = ALLOCATIONS.get();
    drop(Box::new(before));
    assert_eq!(ALLOCATIONS.get(), before + 1, "allocations are counted");
}
