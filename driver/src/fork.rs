//! Detection of forks: a forked child has a copy of its parent's memory, but only one thread.

use std::sync::atomic::{AtomicU32, Ordering};

/// 1 plus the number of forks between the process of the first query and this one; 0 before any query.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A record of the process that first used a resource.
///
/// A forked child cannot continue to use its parent's resources: the parent's threads do not exist in
/// the child, locks that they held stay locked, and the driver does not work. A guard in a static or a
/// field detects the fork before the child waits for such a thread or lock:
///
/// ```
/// use warpfold_driver::ForkGuard;
///
/// static THREADS: ForkGuard = ForkGuard::new();
/// assert!(THREADS.is_same_process());
/// ```
///
/// The guard detects forks by the C library's `fork`, but not by `vfork` or a raw system call. The check
/// reads two words of memory.
#[derive(Debug, Default)]
pub struct ForkGuard(AtomicU32);

impl ForkGuard {
    /// Returns a guard that is not yet bound to a process.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns whether the calling process is the one that first called this on the guard.
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

/// Registers the fork counter with the C library. There is no lock, because a fork could leave it
/// locked: concurrent first calls register the counter several times, and a fork counts more than once.
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
        // allowed in the child of a multithreaded process. The C library removes the handler when the
        // shared library that contains this code is closed. If memory for the registration cannot be
        // allocated, the call fails, and forks go unnoticed.
        unsafe { pthread_atfork(None, None, Some(count)) };
    }
    let _ = GENERATION.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    GENERATION.load(Ordering::Relaxed)
}
