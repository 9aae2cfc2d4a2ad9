//! A kernel with one hazard, as in `hazards`, that needs compute capability 9.0: the tile is read before
//! the bulk copy is complete.

use crate::reduce::prelude::*;
use warpfold_device::bulk::{Mbarrier, copy_bulk, fence_mbarrier_init};

entries!(testing_unwaited_copy(Reduce) for i32);

const BYTES: u32 = 256;

shared_array! {
    fn tile: testing_unwaited_copy_tile = [u64; BYTES / 8]
}
shared_array! {
    fn landed: testing_unwaited_copy_landed = [u64; 1]
}

/// # Safety
/// `input` has 64 readable elements and `output` one writable element per block.
#[inline(always)]
unsafe fn testing_unwaited_copy<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let (tile, landed) = (tile().cast::<T>(), Mbarrier::at(*landed()));
    let tid = thread_idx_x();
    // SAFETY: accesses are in bounds; the early read is intended.
    unsafe {
        if tid == 0 && n >= u64::from(BYTES / 4) {
            landed.init(1);
            fence_mbarrier_init();
            landed.arrive_expect(BYTES);
            copy_bulk(tile, input, BYTES, landed);
        }
        sync_threads();
        let value = R::map(tile.get(tid % (BYTES / 4))); // the hazard
        if tid == 0 && n >= u64::from(BYTES / 4) {
            landed.wait(0);
        }
        steps::write_block(output, value);
    }
}
