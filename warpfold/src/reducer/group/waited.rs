//! Reductions by [`Way::Peers`](super::Way::Peers) for which the host waits by polling the results.

use std::{cmp::Reverse, mem, sync::Arc};

use super::{Group, Member, Sharded, launches::participants, meeting::Meeting};
use crate::{
    Buffer, Error, Plain, Result,
    context::Failed,
    element::RESULT_WORDS,
    input::{Task, buffer::ContinuedTask},
    reducer::{
        Code, ElementRange, RunningState,
        core::Submission,
        host_results::{Awaited, Layout},
        job::Place,
    },
};

impl Group {
    /// Runs reductions as [`run`](Self::run) does, by one launch per reduction on each device that has
    /// elements.
    pub(super) fn run_peers<T: Plain>(
        &self,
        codes: &[Vec<Code>],
        values: &Sharded<T>,
        layout: Layout,
    ) -> Result<Arc<Meeting>> {
        let meetings: Vec<_> = codes.iter().map(|_| self.meeting()).collect::<Result<_>>()?;
        let (parts, results) = (participants(values), &meetings[0].results);
        let tasks = |(at, &(rank, before, part)): (usize, &(usize, u64, &Buffer<T>))| {
            let of_each = codes.iter().zip(&meetings).enumerate().map(|(number, (codes, meeting))| {
                let place = meeting.peer_place(at as u32, parts.len() as u32);
                let place = Place { result: results.address(number * RESULT_WORDS), ..place };
                self.members()[rank].task(codes[rank].clone(), part, before, place)
            });
            of_each.collect::<Result<Vec<_>>>()
        };
        let tasks: Vec<_> = parts.iter().enumerate().map(tasks).collect::<Result<_>>()?;
        let reads: Option<u64> = tasks.iter().flatten().map(|(_, bytes)| *bytes).sum();
        let core = |rank: usize| self.members()[rank].reducer.core();
        let mut cores: Vec<_> = parts.iter().map(|&(rank, ..)| (rank, core(rank))).collect();
        cores.sort_by_key(|(_, core)| core.place());
        let submissions = cores.into_iter().map(|(rank, core)| {
            core.reclaim_finished();
            Ok((rank, core.begin()?))
        });
        let mut submissions: Vec<(usize, Submission<'_>)> = submissions.collect::<Result<_>>()?;
        // The launch that arrives last at a meeting reads all partial results. They are in the memory of
        // the first device, so its launches are enqueued last, to arrive last if possible.
        submissions.sort_by_key(|(rank, _)| Reverse(*rank));
        let awaited = Awaited::new(results, 0, layout);
        let mut launches: Vec<(Submission<'_>, Result<()>)> = Vec::with_capacity(parts.len());
        for ((_, submission), (tasks, (.., part))) in
            submissions.into_iter().zip(tasks.iter().zip(&parts).rev())
        {
            let is_going_on = launches.last().is_none_or(|(_, launched)| launched.is_ok());
            let launched = tasks.iter().filter(|_| is_going_on).try_for_each(|(task, _)| {
                // SAFETY: the elements are those of the buffer, which is borrowed until this returns,
                // and leaked below if a launch may still run then. Each meeting belongs to one
                // reduction, and each place in it to one launch. The meetings are on the first device,
                // to which all devices have access. All launches are waited for below.
                unsafe { submission.launch(task, |stream| part.precede(stream)) }
            });
            launches.push((submission, launched));
        }
        // Not `all`, which would not query the devices after one that is not done.
        let are_done = || launches.iter().fold(true, |all, (submission, _)| all & submission.is_done());
        let is_launched = launches.iter().all(|(_, launched)| launched.is_ok());
        if is_launched && reads.is_some_and(|bytes| awaited.poll(are_done, bytes)) {
            launches.into_iter().for_each(|(submission, _)| submission.seen());
            return Ok(meetings[0].clone());
        }
        let mut failed: Option<Failed<Error>> = None;
        for (submission, launched) in launches {
            if let Err(Failed { error, ended }) = submission.finish(launched) {
                let first = failed.get_or_insert(Failed { error, ended });
                first.ended &= ended;
            }
        }
        let Some(failed) = failed else { return Ok(meetings[0].clone()) };
        meetings.iter().for_each(|meeting| self.discard_meeting(meeting));
        let memories: Vec<_> = parts.iter().map(|(.., part)| part.memory().clone()).collect();
        let codes = codes.to_vec();
        Err(failed.or_keep(|| mem::forget((self.clone(), meetings.clone(), memories, codes))))
    }
}

impl Member {
    /// Loads the kernels of a task for this device. Returns the task and, if the host may poll for the
    /// result, the number of bytes that the task reads. Polling is sound: the launch that arrives last
    /// at the meeting writes the result, and the other launches access no memory after their arrival.
    fn task<T: Plain>(
        &self,
        code: Code,
        part: &Buffer<T>,
        before: u64,
        place: Place,
    ) -> Result<(ContinuedTask, Option<u64>)> {
        let range = ElementRange::of(code, part, self.reducer.device())?;
        // A program's own kernels may be unloaded after the call, so the host waits for their end.
        let bytes = range.code.is_built_in().then(|| range.bytes());
        let carried = RunningState { before, address: 0, meeting: Some(place) };
        let task = ContinuedTask { range, carried };
        task.prepare(self.reducer.core().kernels())?;
        Ok((task, bytes))
    }
}
