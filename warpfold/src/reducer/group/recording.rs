//! Recorded reductions of a group: a CUDA graph of one launch per reduction and device.

use std::{fmt, iter, sync::Arc};

use warpfold_abi::meeting;

use super::{Group, Sharded, Way, check_len, launches::participants};
use crate::{
    Buffer, Error, Plain, Result, Stream,
    element::RESULT_WORDS,
    input::{Task, buffer::ContinuedTask},
    memory::{HostWords, Memory},
    op::Operation,
    reducer::{
        Core, ElementRange, HostResults, RunningState, host_results::Layout, job::Place,
        kernels::LaunchContext, pool, recording::Graph,
    },
    stream::Event,
};

/// Reductions of a [`Group`], recorded by [`Group::record`] and run as one launch of the host. Each
/// device does its part of one reduction after the other, and the devices combine their partial results
/// without the host.
///
/// A recording holds the elements, and has its own memory for everything else that the launches use.
pub struct GroupRecording<T: Plain, O: Operation<T>> {
    // Dropped first, because it refers to memory in other fields.
    graph: Graph,
    resources: Arc<Resources>,
    op: O,
    inputs: Vec<Sharded<T>>,
    /// The stream of the replays, on the first device.
    stream: Stream,
    /// True after a replay has failed: it may still run, and leave any values in `meetings`.
    is_lost: bool,
}

struct Resources {
    group: Group,
    slots: Vec<Memory>,
    /// For each device, room for the result of its own elements in each reduction.
    outputs: Vec<Memory>,
    /// One [meeting] for each reduction, on the first device.
    meetings: Memory,
    results: HostWords,
}

const OUTPUT_BYTES: u64 = (RESULT_WORDS * size_of::<u64>()) as u64;

impl Group {
    /// Records reductions by an [operation](crate::op), one of each of the given inputs, to run them as
    /// one launch. On each device they run one after the other; one device may begin the next while
    /// another still runs the previous one.
    ///
    /// ```
    /// use warpfold::{Group, Selection, op};
    ///
    /// let group = Group::open(&[Selection::Sim])?;
    /// let [a, b] = [group.upload(&[1_u8, 2, 3])?, group.upload(&[40_u8, 50])?];
    /// let mut sums = group.record(op::Sum, &[&a, &b])?;
    /// assert_eq!(sums.run()?, [6, 90]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Group`] for elements of another group, and for a group that does not use [`Way::Peers`];
    /// the errors of [`reduce`](Self::reduce); [`Error::Driver`] if the driver cannot record.
    pub fn record<T: Plain, O: Operation<T>>(
        &self,
        op: O,
        inputs: &[&Sharded<T>],
    ) -> Result<GroupRecording<T, O>> {
        if self.way() != Way::Peers {
            let reason =
                format!("a group by {:?} cannot be recorded; make one by Way::Peers", self.way());
            return Err(Error::Group { reason });
        }
        let code = op.code();
        for values in inputs {
            self.require(values)?;
            check_len(&code, values.len())?;
            values.parts().iter().try_for_each(Buffer::wait_ready)?;
        }
        let resources = Arc::new(Resources::new(self, inputs.len())?);
        let streams: Vec<Stream> =
            self.devices().map(|device| device.stream()).collect::<Result<_>>()?;
        let launches = resources.launches(op, inputs)?;
        let begin = Event::new(streams[0].device())?;
        let ends: Vec<Event> = self.devices().skip(1).map(Event::new).collect::<Result<_>>()?;
        let graph = Graph::record(&streams[0], || {
            begin.record(&streams[0])?;
            streams[1..].iter().try_for_each(|stream| begin.precede(stream))?;
            for launch in &launches {
                // SAFETY: the launch is only recorded. `run` meets the conditions when the graph runs.
                unsafe { launch.enqueue(&streams[launch.rank]) }?;
            }
            for (stream, end) in iter::zip(&streams[1..], &ends) {
                end.record(stream)?;
                end.precede(&streams[0])?;
            }
            Ok(())
        })?;
        let inputs = inputs.iter().map(|values| (*values).clone()).collect();
        let stream = streams.into_iter().next().expect("a group has a device");
        Ok(GroupRecording { graph, resources, op, inputs, stream, is_lost: false })
    }
}

impl Resources {
    fn new(group: &Group, count: usize) -> Result<Self> {
        let outputs = |device| Memory::new(device, count as u64 * OUTPUT_BYTES);
        let members = group.members().len() as u32;
        let first = group.members()[0].reducer.device();
        let meetings = Memory::new(first, count as u64 * meeting::bytes(members))?;
        first.clear(&meetings)?;
        Ok(Self {
            group: group.clone(),
            slots: group.devices().map(pool::slots).collect::<Result<_>>()?,
            outputs: group.devices().map(outputs).collect::<Result<_>>()?,
            meetings,
            results: HostWords::new(first, count * RESULT_WORDS)?,
        })
    }

    fn launches<T: Plain, O: Operation<T>>(
        &self,
        op: O,
        inputs: &[&Sharded<T>],
    ) -> Result<Vec<Launch<'_>>> {
        let mut launches = Vec::new();
        let members = self.group.members();
        for (input, values) in inputs.iter().enumerate() {
            let parts = participants(values);
            for (at, &(rank, before, part)) in parts.iter().enumerate() {
                let core = members[rank].reducer.core();
                let place = Place {
                    meeting: self.meetings.address()
                        + input as u64 * meeting::bytes(members.len() as u32),
                    rank: at as u32,
                    members: parts.len() as u32,
                    arrivals: parts.len() as u64,
                    result: self.results.address(input * RESULT_WORDS),
                    ..Place::NONE
                };
                let range = ElementRange::of(op.code(), part, core.device())?;
                let carried = RunningState { before, address: 0, meeting: Some(place) };
                let task = ContinuedTask { range, carried };
                // A graph can record launches, but not the loading of kernels.
                task.prepare(core.kernels())?;
                let output = self.outputs[rank].address() + input as u64 * OUTPUT_BYTES;
                launches.push(Launch { rank, core, task, slots: self.slots[rank].address(), output });
            }
        }
        launches.sort_by_key(|launch| launch.rank);
        Ok(launches)
    }
}

struct Launch<'k> {
    rank: usize,
    core: &'k Core,
    task: ContinuedTask,
    slots: u64,
    output: u64,
}

impl Launch<'_> {
    /// # Safety
    /// Same as for [`Task::enqueue`], each time the recorded launch runs.
    unsafe fn enqueue(&self, stream: &Stream) -> Result<()> {
        let context = LaunchContext {
            recording: true,
            ..LaunchContext::new(self.slots, self.output, stream.raw())
        };
        // SAFETY: the stream is of the device. The caller meets the other conditions at each run.
        unsafe { self.task.enqueue(self.core.kernels(), &context) }
    }
}

impl<T: Plain, O: Operation<T>> GroupRecording<T, O> {
    /// Returns the number of reductions.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Returns whether there are no reductions.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Runs all reductions and returns their results in the order of the inputs.
    ///
    /// # Errors
    /// [`Error::Driver`] if the launch or a reduction fails: then there are no results, and later calls
    /// return [`Error::Lost`].
    pub fn run(&mut self) -> Result<Vec<O::Output>> {
        if self.is_lost {
            let reason = "a replay has failed and may still run; record again".to_owned();
            return Err(Error::Lost { what: "recording", reason });
        }
        // SAFETY: `self` holds all memory that was recorded, and leaks it below if a replay may still
        // run. `self` is borrowed mutably until the replay has ended, so one replay at a time uses the
        // memory. Elements never change. The counters of the meetings are zero again after a successful
        // replay.
        let launched = unsafe { self.graph.launch(&self.stream) };
        let waited = self.stream.wait_out();
        if let Err(failed) = &waited
            && !failed.ended
        {
            let inputs: Vec<Sharded<T>> = self.inputs.clone();
            std::mem::forget((self.resources.clone(), inputs));
        }
        let done = launched.and(waited.map_err(|failed| failed.error));
        done.inspect_err(|_| self.is_lost = true)?;
        let layout = Layout::of_one(self.op.code().result_bytes());
        let results = self.inputs.iter().enumerate().map(|(input, values)| {
            let results = HostResults::new(&self.resources.results, input * RESULT_WORDS, layout);
            match O::of_none().filter(|_| values.is_empty()) {
                Some(of_none) => of_none,
                None => results.take().result::<T, O>(0),
            }
        });
        Ok(results.collect())
    }
}

impl<T: Plain, O: Operation<T>> fmt::Debug for GroupRecording<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut recording = f.debug_struct("GroupRecording");
        recording.field("group", &self.resources.group).field("operation", &self.op.code());
        recording.field("len", &self.len()).finish_non_exhaustive()
    }
}
