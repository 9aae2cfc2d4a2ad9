//! Reductions of what a group's devices have.

use std::{iter, mem, sync::Arc};

use super::{Group, GroupOutputs, Member, Sharded, Way, meeting::Meeting, outputs::Places};
use crate::{
    Buffer, Error, Plain, Result,
    op::{Operation, RowsOperation},
    reducer::{
        Carried, Code, HostResults, Inputs, Span, Task, core::Underway, host_results::Layout,
        job::Place, running::MOST,
    },
    stream::Event,
};

/// What all launches of a reduction use until the last of them has ended.
pub(crate) struct Shared {
    meeting: Arc<Meeting>,
    /// Where results stay, if they do.
    outputs: Option<Arc<Places>>,
}

impl Shared {
    /// Of a reduction whose result stays nowhere.
    #[cfg(feature = "world")]
    pub(super) fn of(meeting: Arc<Meeting>) -> Self {
        Self { meeting, outputs: None }
    }

    /// Where the result goes, and the further places for it.
    fn results(&self) -> (u64, (u64, u32)) {
        match &self.outputs {
            Some(places) => (places.first(), places.others()),
            None => (self.meeting.results.address(0), (0, 0)),
        }
    }
}

/// The launches of a reduction, each with its device's number.
type Launches = Vec<(usize, Underway)>;

impl Group {
    /// The result of any [operation](crate::op) on the elements of all devices. Each device reads its
    /// own; what passes between them is one partial result of each.
    ///
    /// # Errors
    /// - [`Error::Group`] for elements of another group;
    /// - [`Error::TooManyElements`] for more than 2^35 on a device, or more than 2^48 together, or of
    ///   sums that have the same bits [everywhere](crate::op::Everywhere) 2^35;
    /// - those of [`Reducer::sum`](crate::Reducer::sum): then nothing of the result is there, and the
    ///   group goes on working; [`Error::OtherDevice`] for a program's own operation, which
    ///   [`reduce_by`](Self::reduce_by) takes.
    pub fn reduce<T: Plain, O: Operation<T>>(&self, op: O, values: &Sharded<T>) -> Result<O::Output> {
        self.reduce_by(|_| op, values)
    }

    /// The same, by an operation that is loaded on each device: that of the device of a number.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and [`Error::OtherDevice`] for an operation of another device.
    pub fn reduce_by<T: Plain, O: Operation<T>>(
        &self,
        op: impl Fn(usize) -> O,
        values: &Sharded<T>,
    ) -> Result<O::Output> {
        if let Some(of_none) = O::of_none().filter(|_| values.is_empty()) {
            return self.require(values).map(|()| of_none);
        }
        let shared = Arc::new(Shared { meeting: self.meeting()?, outputs: None });
        let launches = self.enqueue(|rank| op(rank).code(), values, &shared)?;
        let mut failed = None;
        for (rank, launch) in launches {
            let core = self.members()[rank].reducer.core();
            if let Err(error) = core.finish(launch, |_, _| ()) {
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = failed {
            return Err(self.abandon(&shared, error));
        }
        let layout = Layout::of_one(op(0).code().result_bytes());
        Ok(HostResults::new(&shared.meeting.results, 0, layout).take().result::<T, O>(0))
    }

    /// Leaves the result of any [operation](crate::op) on the elements of all devices in the memory of
    /// each device, without waiting: whoever reads it there waits.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); [`Error::Group`] for outputs of another group; and
    /// [`Error::NoElements`] of none, for what has no result of none.
    pub fn reduce_into<T: Plain, O: Operation<T>>(
        &self,
        op: O,
        values: &Sharded<T>,
        outputs: &mut GroupOutputs<O::Left>,
    ) -> Result<()> {
        outputs.require(self)?;
        let code = op.code();
        if values.is_empty() && !code.reduces_none() {
            return Err(Error::NoElements { what: code.name() });
        }
        for member in self.members() {
            outputs.precede(&member.stream)?;
        }
        let places = Some(outputs.places().clone());
        let shared = Arc::new(Shared { meeting: self.meeting()?, outputs: places });
        let launches = self.enqueue(|_| code.clone(), values, &shared)?;
        let end = self.hand_on(&launches, &shared);
        for (rank, launch) in launches {
            self.members()[rank].reducer.core().detach(launch);
        }
        let end = end.map_err(|error| self.abandon(&shared, error))?;
        outputs.written_until(end.end());
        self.members()[0].reducer.core().detach(end);
        Ok(())
    }

    /// The result of any [operation](crate::op) of every row of `len` elements, of which each device has
    /// whole ones.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and [`Error::Rows`] for rows of 0 elements, and for a length that
    /// does not divide the number of a device's elements.
    pub fn reduce_rows<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        values: &Sharded<T>,
        len: usize,
    ) -> Result<Vec<O::Left>> {
        self.require(values)?;
        // All are checked before the first launch.
        let rows: Vec<_> = values.parts().iter().map(|part| part.rows(len)).collect::<Result<_>>()?;
        let mut under_way = Vec::new();
        for (member, rows) in iter::zip(self.members(), &rows) {
            let device = member.reducer.device();
            let mut results = device.outputs::<O::Left>(rows.count())?;
            member.reducer.on(&member.stream).reduce_rows_into(op, rows, &mut results)?;
            under_way.push(results);
        }
        let results: Vec<Vec<O::Left>> =
            under_way.iter().map(|results| results.read()).collect::<Result<_>>()?;
        Ok(results.concat())
    }

    fn require<T: Plain>(&self, values: &Sharded<T>) -> Result<()> {
        if Arc::ptr_eq(&self.0, &values.group().0) {
            return Ok(());
        }
        Err(Error::Group { reason: "elements of another group; share them out by this one".to_owned() })
    }

    /// Enqueues a launch on each device that has elements, and what else it takes until the result is
    /// where it goes first.
    fn enqueue<T: Plain>(
        &self,
        code: impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
    ) -> Result<Launches> {
        self.require(values)?;
        let most = code(0).most_running().unwrap_or(MOST);
        if values.len() > most {
            return Err(Error::TooManyElements { n: values.len(), most });
        }
        let mut launches = Launches::new();
        let enqueued = match self.way() {
            Way::Peers => self.enqueue_peers(&code, values, shared, &mut launches),
            Way::Copies => self.enqueue_copies(&code, values, shared, &mut launches),
        };
        match enqueued {
            Ok(()) => Ok(launches),
            Err(error) => {
                for (rank, launch) in launches {
                    // What went wrong first is what is said.
                    let _ = self.members()[rank].reducer.core().finish(launch, |_, _| ());
                }
                Err(self.abandon(shared, error))
            }
        }
    }

    /// One launch each, the last of which to arrive leaves the result.
    fn enqueue_peers<T: Plain>(
        &self,
        code: &impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
        launches: &mut Launches,
    ) -> Result<()> {
        let parts = taking_part(values);
        let (result, others) = shared.results();
        for (at, &(rank, before, part)) in parts.iter().enumerate() {
            let place = shared.meeting.among(at as u32, parts.len() as u32);
            let place = Place { result, others, ..place };
            let launch = self.members()[rank].launch(code(rank), part, before, place, shared)?;
            launches.push((rank, launch));
        }
        Ok(())
    }

    /// One launch each, a copy of what it leaves, and one more launch on the first device.
    fn enqueue_copies<T: Plain>(
        &self,
        code: &impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
        launches: &mut Launches,
    ) -> Result<()> {
        let (parts, first) = (taking_part(values), &self.members()[0]);
        for (at, &(rank, before, part)) in parts.iter().enumerate() {
            let place = shared.meeting.alone(rank);
            let launch = self.members()[rank].launch(code(rank), part, before, place, shared)?;
            launches.push((rank, launch));
            let (from, to) = shared.meeting.copy(rank, at as u32 + 1);
            self.copy((0, to), (rank, from), warpfold_abi::meeting::CELL_BYTES as usize, rank)?;
            let copied = Event::new(self.members()[rank].reducer.device())?;
            copied.record(&self.members()[rank].stream)?;
            copied.precede(&first.stream)?;
        }
        let (result, others) = shared.results();
        let place = shared.meeting.over_copies(parts.len() as u32);
        // The others are copied to, by whoever asks for them.
        let place = Place { result, others: (others.0, 0), ..place };
        let none = values.parts()[0].slice(..0)?;
        launches.push((0, first.launch(code(0), &none, 0, place, shared)?));
        Ok(())
    }

    /// Enqueues what brings the result to where it stays besides, and what keeps all of it until then.
    fn hand_on(&self, launches: &Launches, shared: &Arc<Shared>) -> Result<Underway> {
        let first = &self.members()[0];
        for (_, launch) in launches.iter().filter(|(rank, _)| *rank != 0) {
            launch.end().precede(&first.stream)?;
        }
        if let (Way::Copies, Some(places)) = (self.way(), &shared.outputs) {
            for (rank, memory) in places.memories.iter().enumerate().skip(1) {
                self.copy((rank, memory.address()), (0, places.first()), places.bytes, 0)?;
            }
        }
        let places = shared.outputs.as_ref().expect("the results stay somewhere");
        first.reducer.core().keep_on(&first.stream, &places.memories[0], shared)
    }

    /// Copies from one device to another, in the order of the stream of a third one.
    fn copy(
        &self,
        (to, to_address): (usize, u64),
        (from, from_address): (usize, u64),
        bytes: usize,
        by: usize,
    ) -> Result<()> {
        let context = |rank: usize| self.members()[rank].reducer.device().context();
        let (to, from) = ((to_address, context(to)), (from_address, context(from)));
        let Member { reducer, stream } = &self.members()[by];
        reducer.device().call("copying between devices", |driver| {
            // SAFETY: the contexts are alive; both places are of the reduction, which keeps them until
            // the copy has ended, and nothing else uses them meanwhile.
            unsafe { driver.memcpy_peer_async(to, from, bytes, stream.raw()) }
        })
    }

    /// Waits for whatever is left of a reduction that failed, and has nobody use its meeting again.
    fn abandon(&self, shared: &Arc<Shared>, error: Error) -> Error {
        self.spoil(&shared.meeting);
        for member in self.members() {
            if !member.stream.has_ended() {
                mem::forget((self.clone(), shared.clone()));
                break;
            }
        }
        error
    }
}

impl Member {
    /// Enqueues a launch on this device.
    pub(super) fn launch<T: Plain>(
        &self,
        code: Code,
        part: &Buffer<T>,
        before: u64,
        place: Place,
        shared: &Arc<Shared>,
    ) -> Result<Underway> {
        let (core, stream) = (self.reducer.core(), &self.stream);
        let span = Span::of(code, part, self.reducer.device())?;
        let task = Task::Continued(span, Carried { before, address: 0, meeting: Some(place) });
        part.precede(stream)?;
        core.sweep();
        let inputs = Inputs { group: Some(shared), ..Inputs::of(&task, part.memory()) };
        // SAFETY: the stream is of the device; the elements are those of the buffer, which never change.
        // The meeting is this reduction's alone, each of its places has one launch, and all reach it: it
        // is on the first device, which the others reach, or on their own. It, the result and its copies
        // are kept by each launch until that has ended.
        unsafe { core.enqueue(stream, inputs, None) }
    }
}

/// The devices that have elements, with how many come before those and the elements; the first one where
/// none has any.
fn taking_part<T: Plain>(values: &Sharded<T>) -> Vec<(usize, u64, &Buffer<T>)> {
    let mut before = 0;
    let parts = values.parts().iter().enumerate().map(|(rank, part)| {
        let first = before;
        before += part.len() as u64;
        (rank, first, part)
    });
    let is_empty = values.is_empty();
    parts.filter(|(rank, _, part)| !part.is_empty() || is_empty && *rank == 0).collect()
}
