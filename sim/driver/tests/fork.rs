//! Forked children of a process that has initialised the driver: their calls fail, as with NVIDIA's
//! driver.
#![cfg(unix)]

#[path = "../../../driver/tests/child/mod.rs"]
mod child;
mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::{ptr, thread};

use child::in_child;
use common::{LEGACY, Pointer, Session, Word, code, detail, ok, peek};
use warpfold_driver::sys::*;

/// Makes several calls, and returns the number, from 1, of the first one that does not return
/// `CUDA_ERROR_NOT_INITIALIZED`; 0 if all do.
fn first_served(session: &Session, word: CUdeviceptr) -> u8 {
    let (mut number, mut stream) = (0, ptr::null_mut());
    let answers = [
        code!(cuInit(0)),
        code!(cuDeviceGetCount(&mut number)),
        code!(cuCtxSetCurrent(session.context)),
        code!(cuMemcpyDtoH_v2((&raw mut number).cast(), word, 4)),
        code!(cuStreamCreate(&mut stream, 0)),
        code!(cuCtxSynchronize()),
        code!(cuMemFree_v2(word)),
        code!(cuCtxDestroy_v2(session.context)),
    ];
    let served = answers.iter().position(|&answer| answer != CUDA_ERROR_NOT_INITIALIZED);
    served.map_or(0, |at| at as u8 + 1)
}

#[test]
fn calls_fail_in_a_forked_child_but_not_in_its_parent() {
    let session = Session::new();
    let word = session.word(1);
    session.launch("add", LEGACY, &[Pointer(word), Word(10)]);
    assert_eq!(in_child(|| first_served(&session, word)), Some(0));
    let told = in_child(|| {
        let failed = code!(cuCtxSynchronize()) == CUDA_ERROR_NOT_INITIALIZED;
        let (mut version, mut text) = (0, ptr::null());
        // Functions that use no state of the driver still work.
        let served =
            code!(cuDriverGetVersion(&mut version)) == 0 && code!(cuGetErrorName(3, &mut text)) == 0;
        (failed && served && detail().contains("forked after cuInit")).into()
    });
    assert_eq!(told, Some(1));
    ok!(cuCtxSynchronize());
    assert_eq!(peek(word), 11);
}

/// Locks that threads hold when the process is forked stay locked in the child.
#[test]
fn forked_child_does_not_wait_for_inherited_locks() {
    let session = Session::new();
    let word = session.word(0);
    let done = AtomicBool::new(false);
    let context = session.context.addr();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                ok!(cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                while !done.load(Ordering::Relaxed) {
                    ok!(cuMemsetD32_v2(word, 7, 1));
                    ok!(cuCtxSynchronize());
                    assert_eq!(peek(word), 7);
                }
            });
        }
        let said: Vec<_> = (0..100).map(|_| in_child(|| first_served(&session, word))).collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(said, [Some(0); 100]);
    });
}
