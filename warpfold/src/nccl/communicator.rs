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

#[derive(Clone, Copy)]
pub(crate) struct AllGather<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) from: u64,
    /// Destination address of the bytes of all ranks, in rank order.
    pub(crate) to: u64,
    pub(crate) bytes: usize,
}

impl Clique {
    /// Begins to create communicators for `members`, the ranks of this process among the `size` ranks of
    /// a clique. The communicators can be used when [`is_ready`](Self::is_ready) returns true.
    pub(crate) fn begin(
        library: &'static Library,
        members: &[(u32, &Device)],
        size: u32,
        id: UniqueId,
    ) -> Result<Self> {
        let mut clique = Self { library, members: Vec::new() };
        let pushed = clique.grouped("creating communicators", |clique| {
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
        // Leaked, because a thread of NCCL before 2.18 accesses the handle after `ncclGroupEnd`.
        let raw: *mut RawCommunicator = Box::into_raw(Box::new(ptr::null_mut()));
        let mut config = Config::non_blocking();
        let code = device.call("creating a communicator", |_| {
            // SAFETY: the device's context is current, which selects the device; the memory of the
            // handle is never freed, and NCCL copies the configuration.
            Ok(unsafe {
                let (size, rank) = (size as c_int, rank as c_int);
                let make = self.library.functions.ncclCommInitRankConfig;
                make(raw, size, id, rank, &raw mut config)
            })
        })?;
        // SAFETY: the pointer was initialized, and no thread of NCCL writes it before the group is
        // launched.
        let raw = unsafe { *raw };
        if !raw.is_null() {
            self.members.push(Member { raw, device: device.clone() });
        }
        self.library.check(accept_in_progress(code), "creating a communicator", None)
    }

    pub(crate) fn version(&self) -> Version {
        self.library.version
    }

    /// Begins all-gathers, those in `gathers[i]` for the i-th rank of this process. All ranks of the
    /// clique must begin equally many. The all-gathers are enqueued when [`is_ready`](Self::is_ready)
    /// returns true. After an error the clique cannot be used any more.
    ///
    /// # Safety
    /// The streams must be of the ranks' devices. At `from` of each all-gather `bytes` bytes must be
    /// readable, and `to` must have space for `bytes` bytes of every rank of the clique. Only work on
    /// the stream may use them until the all-gather has ended, or the clique was aborted and the
    /// stream's work has ended.
    pub(crate) unsafe fn all_gather(&mut self, gathers: &[&[AllGather<'_>]]) -> Result<()> {
        assert_eq!(gathers.len(), self.members.len(), "each rank passes something");
        self.grouped("passing values", |clique| {
            for (member, gathers) in clique.members.iter().zip(gathers) {
                for gather in *gathers {
                    // SAFETY: a group has begun; the caller guarantees the stream and the addresses.
                    unsafe { clique.enqueue(member, *gather) }?;
                }
            }
            Ok(())
        })
    }

    /// # Safety
    /// Same as for [`all_gather`](Self::all_gather); a group must have begun.
    unsafe fn enqueue(&self, member: &Member, gather: AllGather<'_>) -> Result<()> {
        let AllGather { stream, from, to, bytes } = gather;
        let code = member.device.call("passing values", |_| {
            let (from, to) = (from as usize as *const _, to as usize as *mut _);
            let all_gather = self.library.functions.ncclAllGather;
            // SAFETY: the communicator is alive; the caller guarantees the stream and the addresses.
            Ok(unsafe { all_gather(from, to, bytes, BYTES_TYPE, member.raw, stream.as_raw()) })
        })?;
        self.library.check(accept_in_progress(code), "passing values", Some(member.raw))
    }

    /// Makes the calls in one NCCL group, so that calls for several devices do not wait for each other.
    fn grouped(&mut self, doing: &str, calls: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        // SAFETY: the group belongs to this thread, and is ended below also if the calls fail.
        let started = unsafe { (self.library.functions.ncclGroupStart)() };
        self.library.check(started, doing, None)?;
        let made = calls(self);
        // SAFETY: the group was started above.
        let ended = unsafe { (self.library.functions.ncclGroupEnd)() };
        made?;
        self.library.check(accept_in_progress(ended), doing, None)
    }

    /// Returns whether all operations begun so far are complete, or enqueued on their streams. After an
    /// error, neither they nor later operations ever complete.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        let mut ready = true;
        for Member { raw, .. } in &self.members {
            let mut state = SUCCESS;
            // SAFETY: the communicator is alive; the function writes a number.
            let asked = unsafe { (self.library.functions.ncclCommGetAsyncError)(*raw, &raw mut state) };
            self.library.check(asked, "querying a communicator's state", Some(*raw))?;
            ready &= state != IN_PROGRESS;
            self.library.check(accept_in_progress(state), "a communicator", Some(*raw))?;
        }
        Ok(ready)
    }

    /// Polls a condition at growing intervals until it is true. `check` is called before each pause and
    /// can end the wait.
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

    /// Aborts everything in progress on this process's ranks. The other ranks are not notified.
    pub(crate) fn abort(&mut self) {
        self.end(self.library.functions.ncclCommAbort);
    }

    fn end(&mut self, end: unsafe extern "C" fn(RawCommunicator) -> i32) {
        for Member { raw, device } in self.members.drain(..) {
            // SAFETY: the communicator is alive. It was removed from `members`, so it is not used again.
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

/// Time for which a wait only yields the thread between polls.
const SOON: Duration = Duration::from_micros(500);
/// Maximum sleep between two later polls.
const RARELY: Duration = Duration::from_millis(20);

/// Pauses between two polls, longer as the wait grows: another rank may compute for hours.
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

/// Returns an error for a device that NCCL cannot use: a simulated one, or one whose context is not the
/// primary one.
pub(crate) fn require(device: &Device) -> Result<()> {
    let reason = if device.info().simulated {
        format!("{} is not a GPU, and NCCL is for GPUs only; take another way", device.info().name)
    } else if !device.is_primary() {
        format!("{} is in a context of its own; NCCL works only in primary contexts", device.info().name)
    } else {
        return Ok(());
    };
    Err(Error::Nccl { reason })
}
