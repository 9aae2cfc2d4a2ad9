//! Reductions whose kernels and memory are ready allocate nothing on the host.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use warpfold::op;

use crate::common::{device, on_gpu, reducer, small};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls forward to the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // During a thread's exit its counter may already be destroyed.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller passes a layout of nonzero size.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` was allocated by `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn once_loaded_a_reduction_allocates_nothing() {
    // The simulator's driver allocates on the host for device resources.
    if !on_gpu() {
        return;
    }
    let reducer = reducer().clone();
    let stream = device().stream().unwrap();
    let buffer = device().upload(&small::<f32>(1 << 20, 1)).unwrap();
    let mut output = device().output().unwrap();
    let together = (op::Sum, op::Min, op::Max);
    let mut recorder = reducer.record();
    recorder.reduce(op::Sum, &buffer).unwrap();
    recorder.reduce(op::ArgMax, &buffer).unwrap();
    recorder.reduce(together, &buffer).unwrap();
    recorder.reduce(op::Sum, buffer.rows(1 << 10).unwrap()).unwrap();
    let mut recording = recorder.finish().unwrap();
    let mut turn = || {
        reducer.sum(&buffer).unwrap();
        reducer.on(&stream).reduce(op::ArgMax, &buffer).unwrap().wait().unwrap();
        reducer.reduce(together, &buffer).unwrap();
        reducer.on(&stream).reduce(together, &buffer).unwrap().wait().unwrap();
        reducer.on(&stream).reduce_into(op::Sum, &buffer, &mut output).unwrap();
        output.read().unwrap();
        recording.run().unwrap();
        recording.launch(&stream).unwrap().wait().unwrap();
    };
    (0..3).for_each(|_| turn());
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| turn());
    // Downloading a result that stays on the device allocates one vector.
    assert_eq!(ALLOCATIONS.get() - before, 100);
}
