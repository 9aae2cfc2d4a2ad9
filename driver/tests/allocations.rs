//! A launch allocates nothing. This is a program of its own because it counts what is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use warpfold_driver::sys::*;
use warpfold_driver::{Driver, Function, LaunchShape, ParameterCut, Parameters, Provider, Stream};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it is the system's allocator; counting touches no memory that was asked for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Stands for functions that are called with whatever arguments, and reads none of them.
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
    // SAFETY: the function reads none of its arguments, which the caller places and removes in the
    // calling conventions of every system that there is a driver for.
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
        // SAFETY: nothing is read.
        unsafe { driver.launch(function, &shape, Stream::DEFAULT, parameters) }.unwrap();
        assert_eq!(ALLOCATIONS.get(), before, "{shape:?}");
    }
    let before = ALLOCATIONS.get();
    drop(Box::new(before));
    assert_eq!(ALLOCATIONS.get(), before + 1, "allocations are counted");
}
