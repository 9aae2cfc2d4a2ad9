//! Reductions by stores to peers' memory that a call waits for: it sees the results come.

use std::{iter, mem, sync::Arc};

use super::{Group, Member, Sharded, launches::taking_part, meeting::Meeting};
use crate::{
    Buffer, Error, Plain, Result,
    context::Failed,
    element::RESULT_WORDS,
    reducer::{
        Carried, Code, Span, Task,
        core::Begun,
        host_results::{Awaited, Layout},
        job::Place,
    },
};

impl Group {
    /// Makes the results of several reductions of the same elements, each by a launch on each device
    /// that has elements. `code` says whose kernels the launch of a reduction's and a device's number
    /// takes, and the first meeting that is returned has the results, as the layout says.
    pub(super) fn run_peers<T: Plain>(
        &self,
        count: usize,
        code: impl Fn(usize, usize) -> Code,
        values: &Sharded<T>,
        layout: Layout,
    ) -> Result<Arc<Meeting>> {
        let meetings: Vec<_> =
            iter::repeat_with(|| self.meeting()).take(count).collect::<Result<_>>()?;
        let (parts, results) = (taking_part(values), &meetings[0].results);
        let awaited = Awaited::new(results, 0, layout);
        let (mut launches, mut reads) = (Vec::with_capacity(count * parts.len()), Some(0));
        let mut enqueue = |number: usize| {
            // The first device's comes last: whoever arrives last has the meeting in his own memory
            // then.
            for (at, &(rank, before, part)) in parts.iter().enumerate().rev() {
                let place = meetings[number].among(at as u32, parts.len() as u32);
                let place = Place { result: results.address(number * RESULT_WORDS), ..place };
                let (launch, bytes) =
                    self.members()[rank].begin(code(number, rank), part, before, place)?;
                launches.push(launch);
                reads = reads.zip(bytes).map(|(all, bytes)| all + bytes);
            }
            Ok(())
        };
        let mut failed: Option<Failed<Error>> = (0..count).try_for_each(&mut enqueue).err();
        // Each of them is asked.
        let are_done = || launches.iter().fold(true, |all, launch: &Begun<'_>| all & launch.is_done());
        if failed.is_none() && reads.is_some_and(|bytes| awaited.come(are_done, bytes)) {
            launches.into_iter().for_each(Begun::seen);
            return Ok(meetings[0].clone());
        }
        for launch in launches {
            if let Err(Failed { error, ended }) = launch.finish() {
                let first = failed.get_or_insert(Failed { error, ended });
                first.ended &= ended;
            }
        }
        let Some(failed) = failed else { return Ok(meetings[0].clone()) };
        meetings.iter().for_each(|meeting| self.spoil(meeting));
        let memories = parts.iter().map(|(.., part)| part.memory().clone());
        let codes = (0..count).flat_map(|number| parts.iter().map(move |&(rank, ..)| (number, rank)));
        let keep = || {
            let codes = codes.map(|(number, rank)| code(number, rank));
            mem::forget((
                self.clone(),
                meetings.clone(),
                memories.collect::<Vec<_>>(),
                codes.collect::<Vec<_>>(),
            ));
        };
        Err(failed.or_keep(keep))
    }
}

impl Member {
    /// Enqueues a launch on this device that has to be waited for, and says how many bytes it reads if
    /// it can be seen to be over: it meets the others when nothing else is left for it to do, and the
    /// last of them writes the result then.
    fn begin<T: Plain>(
        &self,
        code: Code,
        part: &Buffer<T>,
        before: u64,
        place: Place,
    ) -> Result<(Begun<'_>, Option<u64>), Failed<Error>> {
        let span = Span::of(code, part, self.reducer.device()).map_err(Failed::not_begun)?;
        // Kernels of a program's own may go as soon as they have ended.
        let bytes = span.code.is_built_in().then(|| span.bytes());
        let task = Task::Continued(span, Carried { before, address: 0, meeting: Some(place) });
        let core = self.reducer.core();
        core.sweep();
        // SAFETY: the elements are those of the buffer, which the caller borrows until he has waited,
        // and keeps where that is not enough. The meeting is this reduction's alone, each of its places
        // has one launch, and all reach it: it is on the first device, which the others reach.
        let begun = unsafe { core.begin(&task, |stream| part.precede(stream)) }?;
        Ok((begun, bytes))
    }
}
