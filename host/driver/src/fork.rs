//! Forks of the process: a child has a copy of the memory, and none of the threads, of its parent.

use std::sync::atomic::{AtomicU32, Ordering};

/// Forks between the process that asked first and this one, counted from 1; 0 before anyone asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process that first used something.
///
/// A process that was made by `fork` cannot go on with what its parent has used: threads do not exist in
/// it, locks that they held stay locked, and no driver serves it. As a static or a field this tells the
/// child so before it waits for any of them:
///
/// ```
/// use warpfold_driver::ForkGuard;
///
/// static THREADS: ForkGuard = ForkGuard::new();
/// assert!(THREADS.is_same_process());
/// ```
///
/// Forks by the C library's `fork` are noticed, by `vfork` and a bare system call they are not. The
/// check reads two words of memory.
#[derive(Debug, Default)]
pub struct ForkGuard(AtomicU32);

impl ForkGuard {
    /// Returns a guard that no process has used yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns whether the calling process is the one that asked first.
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

/// Returns whether this process was forked after its parent had called this, or used a [`ForkGuard`].
pub fn is_forked() -> bool {
    generation() > 1
}

fn generation() -> u32 {
    match GENERATION.load(Ordering::Relaxed) {
        0 => first_generation(),
        here => here,
    }
}

/// Asks the C library to count forks. Threads that do so at once count each fork several times, and no
/// lock is needed that a fork could leave locked.
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
        // SAFETY: the declaration is that of POSIX. The handler does nothing but change an atomic, which
        // is allowed in a child of a process with several threads. The C library forgets it when the
        // library that this code is in is closed. Without memory for it the call fails, and forks are
        // not noticed.
        unsafe { pthread_atfork(None, None, Some(count)) };
    }
    let _ = GENERATION.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    GENERATION.load(Ordering::Relaxed)
}
