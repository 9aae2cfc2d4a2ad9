//! Devices of this process that pass bytes to each other, and to those of other processes.

use std::{
    ffi::c_int,
    ptr, thread,
    time::{Duration, Instant},
};

use super::{BYTES_TYPE, Config, IN_PROGRESS, Library, RawCommunicator, SUCCESS, UniqueId, Version};
use crate::{Device, Error, Result, Stream};

/// The ranks of a clique that this process has, each on a device of its own.
pub(crate) struct Clique {
    library: &'static Library,
    members: Vec<Member>,
}

struct Member {
    raw: RawCommunicator,
    device: Device,
}

// SAFETY: NCCL takes calls of a communicator from any thread, of one at a time.
unsafe impl Send for Clique {}

/// What a rank gives to all and takes from all, in the order of its stream.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'a> {
    pub(crate) stream: &'a Stream,
    /// Where the bytes are that this rank gives.
    pub(crate) from: u64,
    /// Where those of all ranks go, one behind the other in the order of their numbers.
    pub(crate) to: u64,
    /// How many each gives.
    pub(crate) bytes: usize,
}

impl Clique {
    /// Begins to make communicators for `members`, which are some of a clique's `size` ranks, each with
    /// its device. They are there when [`is_ready`](Self::is_ready) says so.
    ///
    /// # Errors
    /// [`Error::Nccl`], and [`Error::Driver`] where a device's context is lost.
    pub(crate) fn begin(
        library: &'static Library,
        members: &[(u32, &Device)],
        size: u32,
        id: UniqueId,
    ) -> Result<Self> {
        let mut clique = Self { library, members: Vec::new() };
        let begun = clique.grouped("making communicators", |clique| {
            members.iter().try_for_each(|&(rank, device)| clique.push(rank, device, size, id))
        });
        match begun {
            Ok(()) => Ok(clique),
            Err(error) => {
                clique.abort();
                Err(error)
            }
        }
    }

    fn push(&mut self, rank: u32, device: &Device, size: u32, id: UniqueId) -> Result<()> {
        let mut raw: RawCommunicator = ptr::null_mut();
        let mut config = Config::that_does_not_block();
        let code = device.call("making a communicator", |_| {
            // SAFETY: the device's context is current, which says which device it is; the communicator
            // and the settings are those of this call, which keeps none of them.
            Ok(unsafe {
                let (size, rank) = (size as c_int, rank as c_int);
                let make = self.library.functions.ncclCommInitRankConfig;
                make(&raw mut raw, size, id, rank, &raw mut config)
            })
        })?;
        if !raw.is_null() {
            self.members.push(Member { raw, device: device.clone() });
        }
        self.library.check(begun(code), "making a communicator", None)
    }

    pub(crate) fn version(&self) -> Version {
        self.library.version
    }

    /// Begins to pass bytes, for each rank of this process, in their order, as many passages. All ranks
    /// of the clique do so alike. They are enqueued when [`is_ready`](Self::is_ready) says so.
    ///
    /// # Errors
    /// [`Error::Nccl`]: then the clique is of no use any more.
    ///
    /// # Safety
    /// The streams are of the ranks' devices. At `from` of a passage its `bytes` bytes are readable, and
    /// at `to` there is room for `bytes` bytes of every rank of the clique. Nothing but what is enqueued
    /// on the stream uses them until what is passed has ended, or the clique was aborted and the stream
    /// has ended.
    pub(crate) unsafe fn all_gather(&mut self, passages: &[&[Passage<'_>]]) -> Result<()> {
        assert_eq!(passages.len(), self.members.len(), "each rank passes something");
        self.grouped("passing values", |clique| {
            for (member, passages) in clique.members.iter().zip(passages) {
                for passage in *passages {
                    clique.pass(member, *passage)?;
                }
            }
            Ok(())
        })
    }

    fn pass(&self, member: &Member, passage: Passage<'_>) -> Result<()> {
        let Passage { stream, from, to, bytes } = passage;
        let code = member.device.call("passing values", |_| {
            let (from, to) = (from as usize as *const _, to as usize as *mut _);
            let pass = self.library.functions.ncclAllGather;
            // SAFETY: the contract of the caller's caller.
            Ok(unsafe { pass(from, to, bytes, BYTES_TYPE, member.raw, stream.as_raw()) })
        })?;
        self.library.check(begun(code), "passing values", Some(member.raw))
    }

    /// Makes calls as one, so that those of several devices do not wait for each other.
    fn grouped(&mut self, doing: &str, calls: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        // SAFETY: a group of this thread, which is ended below whatever comes.
        let started = unsafe { (self.library.functions.ncclGroupStart)() };
        self.library.check(started, doing, None)?;
        let made = calls(self);
        // SAFETY: it was started above.
        let ended = unsafe { (self.library.functions.ncclGroupEnd)() };
        made?;
        self.library.check(begun(ended), doing, None)
    }

    /// Whether everything that was begun is done, or enqueued on its stream.
    ///
    /// # Errors
    /// [`Error::Nccl`] where it never will be, also of what has been enqueued since.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        let mut ready = true;
        for Member { raw, .. } in &self.members {
            let mut state = SUCCESS;
            // SAFETY: the communicator is alive; the function writes a number.
            let asked = unsafe { (self.library.functions.ncclCommGetAsyncError)(*raw, &raw mut state) };
            self.library.check(asked, "asking for a communicator's state", Some(*raw))?;
            ready &= state != IN_PROGRESS;
            self.library.check(begun(state), "a communicator", Some(*raw))?;
        }
        Ok(ready)
    }

    /// Waits until something is so, and asks for it more and more rarely. `check` is asked as often
    /// whether to go on.
    ///
    /// # Errors
    /// Those of either.
    pub(crate) fn wait(
        &self,
        is_so: impl Fn(&Self) -> Result<bool>,
        mut check: impl FnMut(Duration) -> Result<()>,
    ) -> Result<()> {
        let start = Instant::now();
        while !is_so(self)? {
            let waited = start.elapsed();
            check(waited)?;
            pause(waited);
        }
        Ok(())
    }

    /// Ends whatever is under way here, without the other ranks. Their part of it never comes.
    pub(crate) fn abort(&mut self) {
        self.end(self.library.functions.ncclCommAbort);
    }

    fn end(&mut self, end: unsafe extern "C" fn(RawCommunicator) -> i32) {
        for Member { raw, device } in self.members.drain(..) {
            // SAFETY: the communicator is alive, and gone for everybody here from now on.
            let ended = device.call("ending a communicator", |_| Ok(unsafe { end(raw) }));
            let ended = ended.and_then(|code| self.library.check(begun(code), "ending it", None));
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

/// How long something is asked for all the time, and how rarely at most afterwards.
const SOON: Duration = Duration::from_micros(500);
const RARELY: Duration = Duration::from_millis(20);

/// Lets some time pass before something is asked for again: what passes a few bytes is done at once; a
/// rank that computes may take hours.
pub(crate) fn pause(waited: Duration) {
    if waited < SOON {
        thread::yield_now();
    } else {
        thread::sleep((waited / 16).min(RARELY));
    }
}

/// A code that says that something was begun, as success.
fn begun(code: c_int) -> c_int {
    if code == IN_PROGRESS { SUCCESS } else { code }
}

/// Refuses devices that NCCL cannot work on.
///
/// # Errors
/// [`Error::Nccl`] for a simulated one, and for a context that is none of the CUDA runtime's.
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
