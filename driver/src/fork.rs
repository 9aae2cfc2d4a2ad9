//! Detection of forks: a child has a copy of its parent's memory, but none of its threads.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks since the first query, counted from 1; 0 before any query.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process that first used a resource.
///
/// A forked child cannot continue to use its parent's resources: the threads do not exist in it, locks
/// that they held stay locked, and the driver does not work in it. A guard, in a static or a field,
/// tells the child before it waits for any of them:
///
/// ```
/// use warpfold_driver::ForkGuard;
///
/// static THREADS: ForkGuard = ForkGuard::new();
/// assert!(THREADS.is_same_process());
/// ```
///
/// Detects forks by the C library's `fork`, but not `vfork` or a raw system call. The check reads two
/// words of memory.
#[derive(Debug, Default)]
pub struct ForkGuard(AtomicU32);

impl ForkGuard {
    /// Returns a guard that is not yet bound to a process.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns whether the calling process is the one that called first.
    pub fn is_same_process(&self) -> bool {
        let here = generation();
        let owner = match self.0.load(Ordering::Relaxed) {
            0 => self
                .0
                .compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed)
                .err()
                .unwrap_or(here),
            owner => owner,
        };
        owner == here
    }
}

/// Returns whether this process was forked after its parent had called this or used a [`ForkGuard`].
pub fn is_forked() -> bool {
    generation() > 1
}

fn generation() -> u32 {
    match GENERATION.load(Ordering::Relaxed) {
        0 => first_generation(),
        here => here,
    }
}

/// Registers the fork counter with the C library. Concurrent first calls register it several times, so
/// that a fork counts more than once; this avoids a lock that a fork could leave locked.
#[cold]
fn first_generation() -> u32 {
    #[cfg(unix)]
    {
        type Handler = Option<extern "C" fn()>;
        unsafe extern "C" {
            fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> std::ffi::c_int;
        }
        extern "C" fn count() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the declaration is that of POSIX. The handler only modifies an atomic, which is
        // allowed in the child of a multithreaded process. The C library removes it when the library
        // that contains this code is closed. If memory for it cannot be allocated, the call fails, and
        // forks go unnoticed.
        unsafe { pthread_atfork(None, None, Some(count)) };
    }
    let _ = GENERATION.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    GENERATION.load(Ordering::Relaxed)
}
