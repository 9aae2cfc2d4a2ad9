//! Reductions of a group by [`Way::Nccl`](super::Way::Nccl).

use std::{
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use warpfold_abi::meeting::CELL_BYTES;

use super::{Group, Member, Sharded, Shared, launches::Launches};
use crate::{
    Error, Plain, Result,
    nccl::{AllGather, Clique, Library, pause, require},
    reducer::{Code, Reducer, job::Place},
};

/// Time limit for the devices of one host to find each other, and for NCCL to enqueue an all-gather.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The communicators of a group's devices; `None` after a failure. One reduction at a time uses them, so
/// that all devices execute the collectives in the same order.
pub(super) struct Collectives(Mutex<Option<Clique>>);

impl Collectives {
    pub(super) fn new(reducers: &[Reducer]) -> Result<Self> {
        let devices = || reducers.iter().map(Reducer::device);
        devices().try_for_each(require)?;
        let library = Library::load()?;
        let members: Vec<_> = iter::zip(0.., devices()).collect();
        let mut clique = Clique::begin(library, &members, members.len() as u32, library.unique_id()?)?;
        if let Err(error) = clique.wait(Clique::is_ready, check_time) {
            clique.abort();
            return Err(error);
        }
        log::info!("warpfold uses NCCL {}", clique.version());
        Ok(Self(Mutex::new(Some(clique))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Clique>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    pub(super) fn enqueue_collective<T: Plain>(
        &self,
        code: &impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
        launches: &mut Launches,
    ) -> Result<()> {
        let mut collectives = self.0.collectives.as_ref().expect("the group is by NCCL").lock();
        let Some(clique) = collectives.as_mut() else {
            let reason = "NCCL has failed; create the group again".to_owned();
            return Err(Error::Lost { what: "the group", reason });
        };
        let (meeting, mut before) = (shared.meeting(), 0);
        for (rank, part) in values.parts().iter().enumerate() {
            // A launch without elements writes the identity as its partial result.
            let launch = self.members()[rank].launch(
                code(rank),
                part,
                before,
                meeting.local_place(rank),
                shared,
            )?;
            launches.push((rank, launch));
            before += part.len() as u64;
        }
        if let Err(error) = all_gather(clique, self.members(), shared) {
            clique.abort();
            *collectives = None;
            return Err(error);
        }
        let count = self.members().len();
        for (rank, member) in self.members().iter().enumerate() {
            let part = &values.parts()[rank];
            let launch = match shared.result_on(rank) {
                Some(result) => {
                    let place = Place { result, ..meeting.combine_gathered_place(rank, count as u32) };
                    member.launch(code(rank), &part.slice(..0)?, 0, place, shared)
                }
                // NCCL gathers the partial results on this device as well, so the memory must live until
                // the gather has finished.
                None => member.reducer.core().keep_on(&member.stream, part.memory(), shared),
            };
            launches.push((rank, launch?));
        }
        Ok(())
    }

    /// Waits until the launches have ended, or NCCL has failed. In the latter case aborts NCCL, so that
    /// the launches end without an exchange.
    pub(super) fn wait_unless_nccl_fails(&self, launches: &Launches) -> Result<()> {
        let Some(collectives) = &self.0.collectives else { return Ok(()) };
        let start = Instant::now();
        for (_, launch) in launches {
            // An error of the launch ends this loop; the caller's wait for the launch then returns it.
            while launch.end().is_done().is_ok_and(|done| !done) {
                let mut clique = collectives.lock();
                if let Some(Err(error)) = clique.as_ref().map(Clique::is_ready) {
                    clique.take().expect("it was asked").abort();
                    return Err(error);
                }
                drop(clique);
                pause(start.elapsed());
            }
        }
        Ok(())
    }
}

fn all_gather(clique: &mut Clique, members: &[Member], shared: &Shared) -> Result<()> {
    let gathers: Vec<[AllGather<'_>; 1]> = members
        .iter()
        .enumerate()
        .map(|(rank, member)| {
            let (from, to) = shared.meeting().gather_addresses(rank);
            [AllGather { stream: &member.stream, from, to, bytes: CELL_BYTES as usize }]
        })
        .collect();
    let each: Vec<&[AllGather<'_>]> = gathers.iter().map(|gathers| &gathers[..]).collect();
    // SAFETY: each stream is of its member's device, where the meeting has the partial result that is
    // sent, and space for those of all ranks. The reduction's launches keep the meeting alive, and use
    // it on the same stream, before or after the all-gather.
    unsafe { clique.all_gather(&each) }?;
    clique.wait(Clique::is_ready, check_time)
}

fn check_time(waited: Duration) -> Result<()> {
    if waited < TIMEOUT {
        return Ok(());
    }
    let reason = format!(
        "NCCL has not finished within {} s; set NCCL_DEBUG=INFO to log its steps, or take another way",
        TIMEOUT.as_secs()
    );
    Err(Error::Nccl { reason })
}
