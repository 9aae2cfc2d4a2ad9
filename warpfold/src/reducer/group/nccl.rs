//! A group whose values NCCL passes.

use std::{
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use warpfold_abi::meeting::CELL_BYTES;

use super::{Group, Member, Sharded, Shared, launches::Launches};
use crate::{
    Error, Plain, Result,
    nccl::{Clique, Library, Passage, pause, require},
    reducer::{Code, Reducer, job::Place},
};

/// How long the devices of one host may take to find each other, and NCCL to enqueue what passes between
/// them.
const PATIENCE: Duration = Duration::from_secs(60);

/// What passes the values of a group's devices: for one reduction at a time, so that all devices see the
/// same order; none any more when that has failed.
pub(super) struct Collectives(Mutex<Option<Clique>>);

impl Collectives {
    /// Of all devices of a group.
    pub(super) fn of(reducers: &[Reducer]) -> Result<Self> {
        let devices = || reducers.iter().map(Reducer::device);
        devices().try_for_each(require)?;
        let library = Library::load()?;
        let members: Vec<_> = iter::zip(0.., devices()).collect();
        let mut clique = Clique::begin(library, &members, members.len() as u32, library.unique_id()?)?;
        if let Err(error) = clique.wait(Clique::is_ready, in_time) {
            clique.abort();
            return Err(error);
        }
        log::info!("warpfold takes NCCL {}", clique.version());
        Ok(Self(Mutex::new(Some(clique))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Clique>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    /// One launch each, what passes the values of all to all, and one more launch on each device that
    /// gets the result.
    pub(super) fn enqueue_collective<T: Plain>(
        &self,
        code: &impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
        launches: &mut Launches,
    ) -> Result<()> {
        let mut collectives = self.0.collectives.as_ref().expect("the group is by NCCL").lock();
        let Some(clique) = collectives.as_mut() else {
            let reason = "NCCL has failed; make the group anew".to_owned();
            return Err(Error::Lost { what: "the group", reason });
        };
        let (meeting, mut before) = (shared.meeting(), 0);
        for (rank, part) in values.parts().iter().enumerate() {
            // One without elements gives the value of none.
            let launch =
                self.members()[rank].launch(code(rank), part, before, meeting.alone(rank), shared)?;
            launches.push((rank, launch));
            before += part.len() as u64;
        }
        if let Err(error) = pass(clique, self.members(), shared) {
            clique.abort();
            *collectives = None;
            return Err(error);
        }
        let count = self.members().len();
        for (rank, member) in self.members().iter().enumerate() {
            let part = &values.parts()[rank];
            let launch = match shared.result_on(rank) {
                Some(result) => {
                    let place = Place { result, ..meeting.over_passed(rank, count as u32) };
                    member.launch(code(rank), &part.slice(..0)?, 0, place, shared)
                }
                // What passes is put here, too, for nobody: its memory stays until it has come.
                None => member.reducer.core().keep_on(&member.stream, part.memory(), shared),
            };
            launches.push((rank, launch?));
        }
        Ok(())
    }
}

impl Group {
    /// Waits until launches have ended, or NCCL has failed, behind which they end without having passed
    /// anything.
    pub(super) fn outlast(&self, launches: &Launches) -> Result<()> {
        let Some(collectives) = &self.0.collectives else { return Ok(()) };
        let start = Instant::now();
        for (_, launch) in launches {
            // What is wrong with a launch itself is said by whoever waits for it next.
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

/// Enqueues what passes the values of all devices to all.
fn pass(clique: &mut Clique, members: &[Member], shared: &Shared) -> Result<()> {
    let passages: Vec<[Passage<'_>; 1]> = members
        .iter()
        .enumerate()
        .map(|(rank, member)| {
            let (from, to) = shared.meeting().passage(rank);
            [Passage { stream: &member.stream, from, to, bytes: CELL_BYTES as usize }]
        })
        .collect();
    let each: Vec<&[Passage<'_>]> = passages.iter().map(|passages| &passages[..]).collect();
    // SAFETY: the streams are those of the devices; the meeting's memory has the bytes that are passed
    // on each device, and a cell for each rank. It is the reduction's, whose launches keep it: those
    // before write it, those behind read it.
    unsafe { clique.all_gather(&each) }?;
    clique.wait(Clique::is_ready, in_time)
}

fn in_time(waited: Duration) -> Result<()> {
    if waited < PATIENCE {
        return Ok(());
    }
    let reason = format!(
        "NCCL takes more than {} s; say NCCL_DEBUG=INFO to see what it does, or take another way",
        PATIENCE.as_secs()
    );
    Err(Error::Nccl { reason })
}
