//! NCCL communicators of this process's devices.

use std::{
    ffi::c_int,
    ptr, thread,
    time::{Duration, Instant},
};

use super::{BYTES_TYPE, Config, IN_PROGRESS, Library, RawCommunicator, SUCCESS, UniqueId, Version};
use crate::{Device, Error, Result, Stream};

/// The ranks of a clique that belong to this process, each on a device of its own.
pub(crate) struct Clique {
    library: &'static Library,
    members: Vec<Member>,
}

struct Member {
    raw: RawCommunicator,
    device: Device,
}

// SAFETY: NCCL accepts calls on a communicator from any thread, one at a time.
unsafe impl Send for Clique {}

/// One rank's all-gather, in the order of its stream.
#[derive(Clone, Copy)]
pub(crate) struct AllGather<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) from: u64,
    /// The address to which the bytes of all ranks go, in the order of the ranks.
    pub(crate) to: u64,
    pub(crate) bytes: usize,
}

impl Clique {
    /// Begins to create communicators for `members`, which are some of a clique's `size` ranks, each
    /// with its device. They can be used when [`is_ready`](Self::is_ready) returns true.
    ///
    /// # Errors
    /// [`Error::Nccl`]; [`Error::Driver`] if a device's context is lost.
    pub(crate) fn begin(
        library: &'static Library,
        members: &[(u32, &Device)],
        size: u32,
        id: UniqueId,
    ) -> Result<Self> {
        let mut clique = Self { library, members: Vec::new() };
        let pushed = clique.grouped("making communicators", |clique| {
            members.iter().try_for_each(|&(rank, device)| clique.push(rank, device, size, id))
        });
        match pushed {
            Ok(()) => Ok(clique),
            Err(error) => {
                clique.abort();
                Err(error)
            }
        }
    }

    fn push(&mut self, rank: u32, device: &Device, size: u32, id: UniqueId) -> Result<()> {
        // Leaked, because NCCL before 2.18 reads and writes it from a thread after `ncclGroupEnd`.
        let raw: *mut RawCommunicator = Box::into_raw(Box::new(ptr::null_mut()));
        let mut config = Config::non_blocking();
        let code = device.call("making a communicator", |_| {
            // SAFETY: the device's context is current, which selects the device; the memory of the
            // handle is never freed, and NCCL copies the configuration.
            Ok(unsafe {
                let (size, rank) = (size as c_int, rank as c_int);
                let make = self.library.functions.ncclCommInitRankConfig;
                make(raw, size, id, rank, &raw mut config)
            })
        })?;
        // SAFETY: it was initialized, and no thread of NCCL writes it before the group is launched.
        let raw = unsafe { *raw };
        if !raw.is_null() {
            self.members.push(Member { raw, device: device.clone() });
        }
        self.library.check(accept_in_progress(code), "making a communicator", None)
    }

    pub(crate) fn version(&self) -> Version {
        self.library.version
    }

    /// Begins as many all-gathers for each rank of this process, in the order of the ranks. All ranks
    /// of the clique must do the same. They are enqueued when [`is_ready`](Self::is_ready) returns
    /// true.
    ///
    /// # Errors
    /// [`Error::Nccl`]: then the clique cannot be used any more.
    ///
    /// # Safety
    /// The streams must be of the ranks' devices. At `from` of each all-gather `bytes` bytes must be
    /// readable, and at `to` there must be space for `bytes` bytes of every rank of the clique. Nothing
    /// but what is enqueued on the stream may use them until the all-gather has ended, or the clique
    /// was aborted and the stream has ended.
    pub(crate) unsafe fn all_gather(&mut self, gathers: &[&[AllGather<'_>]]) -> Result<()> {
        assert_eq!(gathers.len(), self.members.len(), "each rank passes something");
        self.grouped("passing values", |clique| {
            for (member, gathers) in clique.members.iter().zip(gathers) {
                for gather in *gathers {
                    // SAFETY: the caller's contract.
                    unsafe { clique.enqueue(member, *gather) }?;
                }
            }
            Ok(())
        })
    }

    /// # Safety
    /// As [`all_gather`](Self::all_gather), inside a group.
    unsafe fn enqueue(&self, member: &Member, gather: AllGather<'_>) -> Result<()> {
        let AllGather { stream, from, to, bytes } = gather;
        let code = member.device.call("passing values", |_| {
            let (from, to) = (from as usize as *const _, to as usize as *mut _);
            let all_gather = self.library.functions.ncclAllGather;
            // SAFETY: the caller's contract.
            Ok(unsafe { all_gather(from, to, bytes, BYTES_TYPE, member.raw, stream.as_raw()) })
        })?;
        self.library.check(accept_in_progress(code), "passing values", Some(member.raw))
    }

    /// Groups calls, so that those of several devices do not wait for each other.
    fn grouped(&mut self, doing: &str, calls: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        // SAFETY: this thread's group, which is ended below in any case.
        let started = unsafe { (self.library.functions.ncclGroupStart)() };
        self.library.check(started, doing, None)?;
        let made = calls(self);
        // SAFETY: the group was started above.
        let ended = unsafe { (self.library.functions.ncclGroupEnd)() };
        made?;
        self.library.check(accept_in_progress(ended), doing, None)
    }

    /// Returns whether everything that was begun is done, or enqueued on its stream.
    ///
    /// # Errors
    /// [`Error::Nccl`] if it never will be, including what was enqueued since.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        let mut ready = true;
        for Member { raw, .. } in &self.members {
            let mut state = SUCCESS;
            // SAFETY: the communicator is alive; the function writes a number.
            let asked = unsafe { (self.library.functions.ncclCommGetAsyncError)(*raw, &raw mut state) };
            self.library.check(asked, "asking for a communicator's state", Some(*raw))?;
            ready &= state != IN_PROGRESS;
            self.library.check(accept_in_progress(state), "a communicator", Some(*raw))?;
        }
        Ok(ready)
    }

    /// Polls a condition, less and less often, until it is true. `check` is called before each pause
    /// and can end the wait.
    ///
    /// # Errors
    /// The errors of `is_done` and of `check`.
    pub(crate) fn wait(
        &self,
        is_done: impl Fn(&Self) -> Result<bool>,
        mut check: impl FnMut(Duration) -> Result<()>,
    ) -> Result<()> {
        let start = Instant::now();
        while !is_done(self)? {
            let waited = start.elapsed();
            check(waited)?;
            pause(waited);
        }
        Ok(())
    }

    /// Ends everything that is in progress here, without the other ranks, which do not receive it.
    pub(crate) fn abort(&mut self) {
        self.end(self.library.functions.ncclCommAbort);
    }

    fn end(&mut self, end: unsafe extern "C" fn(RawCommunicator) -> i32) {
        for Member { raw, device } in self.members.drain(..) {
            // SAFETY: the communicator is alive, and was removed, so that nothing uses it from now on.
            let ended = device.call("ending a communicator", |_| Ok(unsafe { end(raw) }));
            let ended =
                ended.and_then(|code| self.library.check(accept_in_progress(code), "ending it", None));
            if let Err(error) = ended {
                log::debug!("{}", crate::error::in_full(&error));
            }
        }
    }
}

impl Drop for Clique {
    fn drop(&mut self) {
        self.end(self.library.functions.ncclCommDestroy);
    }
}

/// The time in which a poll only yields, and the longest sleep between later polls.
const SOON: Duration = Duration::from_micros(500);
const RARELY: Duration = Duration::from_millis(20);

/// Pauses between polls: exchanging a few bytes takes no time, but a rank that computes may take hours.
pub(crate) fn pause(waited: Duration) {
    if waited < SOON {
        thread::yield_now();
    } else {
        thread::sleep((waited / 16).min(RARELY));
    }
}

fn accept_in_progress(code: c_int) -> c_int {
    if code == IN_PROGRESS { SUCCESS } else { code }
}

/// Checks that NCCL can use a device.
///
/// # Errors
/// [`Error::Nccl`] for a simulated device, and for a context that is not the primary one.
pub(crate) fn require(device: &Device) -> Result<()> {
    let reason = if device.info().simulated {
        format!("{} is no GPU, and NCCL is for GPUs; take another way", device.info().name)
    } else if !device.is_primary() {
        format!("{} is in a context of its own; NCCL works in primary ones", device.info().name)
    } else {
        return Ok(());
    };
    Err(Error::Nccl { reason })
}
