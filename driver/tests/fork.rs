//! Tests of `ForkGuard` and `is_forked` in forked children.
#![cfg(unix)]

mod child;

use child::in_child;
use warpfold_driver::{ForkGuard, is_forked};

#[test]
fn a_child_is_another_process() {
    let (used, unused) = (ForkGuard::new(), ForkGuard::new());
    assert!(used.is_same_process() && used.is_same_process() && !is_forked());
    let right = || !used.is_same_process() && unused.is_same_process() && is_forked();
    let of_grandchild = || !used.is_same_process() && !unused.is_same_process();
    let said =
        in_child(|| u8::from(right()) + 2 * u8::from(in_child(|| of_grandchild().into()) == Some(1)));
    assert_eq!(said, Some(3));
    assert!(used.is_same_process() && unused.is_same_process() && !is_forked());
}

#[test]
fn first_use_binds_the_guard_to_its_process() {
    let guard = ForkGuard::new();
    let same = std::thread::scope(|scope| scope.spawn(|| guard.is_same_process()).join().unwrap());
    assert!(same && guard.is_same_process());
}
