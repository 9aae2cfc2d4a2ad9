//! A host that polls memory without driver calls sees results eventually. The test is alone in its
//! program, because the patience is a setting of the process.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{LEGACY, Pointer, Session, Word, detail, get};
use warpfold_driver::sys::*;
use warpfold_sim_driver::set_patience;

#[test]
fn host_polling_mapped_memory_sees_the_result() {
    set_patience(Duration::from_secs(600));
    let session = Session::new();
    let locked: *mut c_void = get!(cuMemAllocHost_v2(4));
    session.launch("set", LEGACY, &[Pointer(locked.addr() as u64), Word(9)]);
    set_patience(Duration::from_millis(50));
    // SAFETY: the driver writes the word by atomic operations only.
    let word = unsafe { AtomicU32::from_ptr(locked.cast()) };
    let start = Instant::now();
    while word.load(Ordering::Relaxed) != 9 {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", detail());
        std::thread::sleep(Duration::from_millis(1));
    }
}
