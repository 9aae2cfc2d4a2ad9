//! Reductions of the elements of a group's devices to one result.

use std::{iter, mem, sync::Arc};

use super::{
    Group, GroupOutputs, Member, Sharded, Way, check_len, meeting::Meeting, outputs::ResultMemory,
};
use crate::{
    Buffer, Error, Plain, Result,
    element::RESULT_WORDS,
    input::buffer::{ContinuedTask, together},
    op::{Operation, Operations},
    reducer::{
        Code, ElementRange, Inputs, Running, RunningState, core::InFlight, host_results::Layout,
        job::Place,
    },
    stream::{Event, LastWrite},
};

/// The memory that all launches of a reduction use until the last of them has ended.
pub(crate) struct Shared {
    meeting: Arc<Meeting>,
    results: Results,
}

enum Results {
    OnDevices(Arc<ResultMemory>),
    /// The [`Meeting`] whose host memory receives the result, and the index of the result there.
    OnHost(Arc<Meeting>, usize),
}

impl Shared {
    pub(super) fn without_outputs(meeting: Arc<Meeting>) -> Self {
        Self { results: Results::OnHost(meeting.clone(), 0), meeting }
    }

    /// Returns the address to which a launch on device `rank` writes the result, if it writes one.
    pub(super) fn result_on(&self, rank: usize) -> Option<u64> {
        match &self.results {
            Results::OnDevices(memory) => Some(memory.memories[rank].address()),
            Results::OnHost(..) => (rank == 0).then_some(self.results().0),
        }
    }

    pub(super) fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// Returns the address of the first device's result, and the address and number of the byte offsets
    /// from there to the results of the other devices.
    fn results(&self) -> (u64, (u64, u32)) {
        match &self.results {
            Results::OnDevices(memory) => (memory.first(), memory.others()),
            Results::OnHost(meeting, launch) => (meeting.results.address(launch * RESULT_WORDS), (0, 0)),
        }
    }
}

/// The launches of a reduction, each with the index of its device.
pub(super) type Launches = Vec<(usize, InFlight)>;

impl Group {
    /// Reduces the elements of all devices by an operation that is loaded on each. `op` returns the
    /// operation of the device with a given index.
    ///
    /// # Errors
    /// The errors of [`reduce`](Self::reduce); [`Error::OtherDevice`] for an operation of another
    /// device.
    pub fn reduce_by<T: Plain, O: Operation<T>>(
        &self,
        op: impl Fn(usize) -> O,
        values: &Sharded<T>,
    ) -> Result<O::Output> {
        if let Some(of_none) = O::of_none().filter(|_| values.is_empty()) {
            return self.require(values).map(|()| of_none);
        }
        // `op` may panic, so it is called before the first launch.
        let codes: Vec<Code> = (0..self.members().len()).map(|rank| op(rank).code()).collect();
        let layout = Layout::of_one(codes[0].result_bytes());
        let meeting = self.run(&[codes], values, layout)?;
        Ok(meeting.take(layout).result::<T, O>(0))
    }

    pub(super) fn reduce_many<T: Plain, O: Operations<T>>(
        &self,
        ops: O,
        values: &Sharded<T>,
    ) -> Result<O::Output> {
        self.require(values)?;
        if let Some(of_none) = O::of_none().filter(|_| values.is_empty()) {
            return Ok(of_none);
        }
        let (codes, layout) = together(&ops.codes(), values.is_empty());
        let on_each = |code: &Code| vec![code.clone(); self.members().len()];
        let codes: Vec<Vec<Code>> = codes.iter().flatten().map(on_each).collect();
        let meeting = self.run(&codes, values, layout)?;
        let results = meeting.take(layout);
        Ok(O::decode(results.of_elements(values.len())))
    }

    /// Runs several reductions of the same elements and waits for them. `codes[i][rank]` is the
    /// operation of reduction `i` on device `rank`. The results are in the host memory of the returned
    /// [`Meeting`], in the given layout.
    fn run<T: Plain>(
        &self,
        codes: &[Vec<Code>],
        values: &Sharded<T>,
        layout: Layout,
    ) -> Result<Arc<Meeting>> {
        self.require_few(&codes[0][0], values)?;
        if self.way() == Way::Peers {
            return self.run_peers(codes, values, layout);
        }
        // The first meeting has room for the results of all reductions.
        let first = self.meeting()?;
        let mut under_way: Vec<(Arc<Shared>, Launches)> = Vec::new();
        let enqueued = codes.iter().enumerate().try_for_each(|(launch, codes)| {
            let meeting = if launch == 0 { first.clone() } else { self.meeting()? };
            let shared = Arc::new(Shared { meeting, results: Results::OnHost(first.clone(), launch) });
            let launches = self.enqueue(|rank| codes[rank].clone(), values, &shared)?;
            under_way.push((shared, launches));
            Ok(())
        });
        let mut failed = enqueued.err();
        for (shared, launches) in under_way {
            if let Err(error) = self.wait_for(launches) {
                let error = self.abandon(&shared, error);
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(first), Err)
    }

    /// Returns the combined result of running reductions, one on each device, in the order of the
    /// devices. More elements may be pushed afterwards. Indices in the result are those of the running
    /// reductions, so begin each [at the index](crate::Running::starting_at) of its first element among
    /// all elements.
    ///
    /// # Errors
    /// [`Error::Group`] unless there is one running reduction for each device; [`Error::OtherDevice`]
    /// for one that is not on the device of its position; [`Error::TooManyElements`] as for
    /// [`reduce`](Self::reduce); the errors of [`Running::result`].
    pub fn result<T: Plain, O: Operation<T>>(&self, running: &[Running<T, O>]) -> Result<O::Output> {
        let (given, needed) = (running.len(), self.members().len());
        if given != needed {
            let reason =
                format!("{given} running reductions are given for {needed} devices; give one for each");
            return Err(Error::Group { reason });
        }
        for (device, running) in iter::zip(self.devices(), running) {
            device.require("running reduction", running.device())?;
        }
        let (code, n) = (running[0].op().code(), running.iter().map(Running::len).sum());
        check_len(&code, n)?;
        if let Some(of_none) = O::of_none().filter(|_| n == 0) {
            return Ok(of_none);
        }
        let cells = running.iter().map(Running::cell).collect::<Result<Vec<_>>>()?;
        let empty = self.members()[0].reducer.device().upload::<T>(&[])?;
        let meeting = self.meeting()?;
        self.members()[0]
            .combine(&meeting, (&code, 0), &cells, &empty)
            .map_err(|(error, shared)| self.abandon(&shared, error))?;
        Ok(meeting.take(Layout::of_one(code.result_bytes())).result::<T, O>(0))
    }

    /// Enqueues a reduction of the elements of all devices by an [operation](crate::op), and writes the
    /// result to the memory of each device. The host does not wait here;
    /// [`Output::read`](crate::Output::read) does.
    ///
    /// # Errors
    /// The errors of [`reduce`](Self::reduce); [`Error::Group`] for outputs of another group;
    /// [`Error::NoElements`] if there are no elements, except for a program's own operation.
    pub fn reduce_into<T: Plain, O: Operation<T>>(
        &self,
        op: O,
        values: &Sharded<T>,
        outputs: &mut GroupOutputs<O::Left>,
    ) -> Result<()> {
        outputs.require(self)?;
        let code = op.code();
        if values.is_empty() && !code.launches_when_empty() {
            return Err(Error::NoElements { what: code.name() });
        }
        let ranks = participants(values).iter().fold(0, |ranks, (rank, ..)| ranks | 1 << rank);
        outputs.precede(ranks)?;
        let results = Results::OnDevices(outputs.memory().clone());
        let shared = Arc::new(Shared { meeting: self.meeting()?, results });
        let launches = self.enqueue(|_| code.clone(), values, &shared)?;
        let distributed = match self.way() {
            Way::Peers => Ok(None),
            Way::Nccl | Way::Copies => self.distribute(&launches, outputs.memory(), &shared).map(Some),
        };
        let ends = launches.iter().map(|(_, launch)| launch.end().clone()).collect();
        for (rank, launch) in launches {
            self.members()[rank].reducer.core().detach(launch);
        }
        let written = match distributed.map_err(|error| self.abandon(&shared, error))? {
            // Any of the launches may arrive last, and write the result.
            None => LastWrite::UntilAll(ends),
            Some(distributed) => {
                let written = LastWrite::Until(distributed.end().clone());
                self.members()[0].reducer.core().detach(distributed);
                written
            }
        };
        outputs.written(written, ranks);
        Ok(())
    }

    pub(super) fn require<T: Plain>(&self, values: &Sharded<T>) -> Result<()> {
        if Arc::ptr_eq(&self.0, &values.group().0) {
            return Ok(());
        }
        Err(Error::Group {
            reason: "the elements belong to another group; distribute them by this one".to_owned(),
        })
    }

    fn require_few<T: Plain>(&self, code: &Code, values: &Sharded<T>) -> Result<()> {
        self.require(values)?;
        check_len(code, values.len())
    }

    /// Enqueues a reduction, including launches that write the result, but not copies of the result to
    /// other devices.
    fn enqueue<T: Plain>(
        &self,
        code: impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
    ) -> Result<Launches> {
        self.require_few(&code(0), values)?;
        let mut launches = Launches::new();
        let enqueued = match self.way() {
            Way::Peers => self.enqueue_peers(&code, values, shared, &mut launches),
            Way::Nccl => self.enqueue_collective(&code, values, shared, &mut launches),
            Way::Copies => self.enqueue_copies(&code, values, shared, &mut launches),
        };
        match enqueued {
            Ok(()) => Ok(launches),
            Err(error) => {
                // Only the first error is returned.
                let _ = self.wait_for(launches);
                Err(self.abandon(shared, error))
            }
        }
    }

    fn enqueue_peers<T: Plain>(
        &self,
        code: &impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
        launches: &mut Launches,
    ) -> Result<()> {
        let parts = participants(values);
        let (result, others) = shared.results();
        // The launch that arrives last at the meeting reads all partial results. They are in the memory
        // of the first device, so its launch is enqueued last, to arrive last if possible.
        for (at, &(rank, before, part)) in parts.iter().enumerate().rev() {
            let place = shared.meeting.peer_place(at as u32, parts.len() as u32);
            let place = Place { result, others, ..place };
            let launch = self.members()[rank].launch(code(rank), part, before, place, shared)?;
            launches.push((rank, launch));
        }
        Ok(())
    }

    fn enqueue_copies<T: Plain>(
        &self,
        code: &impl Fn(usize) -> Code,
        values: &Sharded<T>,
        shared: &Arc<Shared>,
        launches: &mut Launches,
    ) -> Result<()> {
        let (parts, first) = (participants(values), &self.members()[0]);
        for (at, &(rank, before, part)) in parts.iter().enumerate() {
            let place = shared.meeting.local_place(rank);
            let launch = self.members()[rank].launch(code(rank), part, before, place, shared)?;
            launches.push((rank, launch));
            let (from, to) = shared.meeting.copy_addresses(rank, at as u32 + 1);
            self.copy((0, to), (rank, from), warpfold_abi::meeting::CELL_BYTES as usize, rank)?;
            let copied = Event::new(self.members()[rank].reducer.device())?;
            copied.record(&self.members()[rank].stream)?;
            copied.precede(&first.stream)?;
        }
        let (result, others) = shared.results();
        let place = shared.meeting.combine_place(parts.len() as u32);
        // `distribute` copies the result to the other devices.
        let place = Place { result, others: (others.0, 0), ..place };
        let empty = values.parts()[0].slice(..0)?;
        launches.push((0, first.launch(code(0), &empty, 0, place, shared)?));
        Ok(())
    }

    /// Enqueues the copies of the result to the other devices, if any. The returned handle keeps all
    /// memory alive until the copies have ended.
    fn distribute(
        &self,
        launches: &Launches,
        results: &ResultMemory,
        shared: &Arc<Shared>,
    ) -> Result<InFlight> {
        let first = &self.members()[0];
        for (_, launch) in launches.iter().filter(|(rank, _)| *rank != 0) {
            launch.end().precede(&first.stream)?;
        }
        if self.way() == Way::Copies {
            for (rank, memory) in results.memories.iter().enumerate().skip(1) {
                self.copy((rank, memory.address()), (0, results.first()), results.bytes, 0)?;
            }
        }
        first.reducer.core().keep_on(&first.stream, &results.memories[0], shared)
    }

    /// Copies from one device to another, on the stream of the device `by`.
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
            // SAFETY: the contexts are alive; both addresses are in memory of the reduction, which
            // keeps it until the copy has ended, and nothing else uses it meanwhile.
            unsafe { driver.memcpy_peer_async(to, from, bytes, stream.raw()) }
        })
    }

    fn wait_for(&self, launches: Launches) -> Result<()> {
        let mut failed = self.wait_unless_nccl_fails(&launches).err();
        for (rank, launch) in launches {
            let core = self.members()[rank].reducer.core();
            if let Err(error) = core.finish(launch, |_, _| ()) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Discards the meeting of a failed reduction, and waits for the launches. If they may still run
    /// after that, leaks their memory.
    fn abandon(&self, shared: &Arc<Shared>, error: Error) -> Error {
        self.discard_meeting(&shared.meeting);
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
    pub(super) fn launch<T: Plain>(
        &self,
        code: Code,
        part: &Buffer<T>,
        before: u64,
        place: Place,
        shared: &Arc<Shared>,
    ) -> Result<InFlight> {
        let (core, stream) = (self.reducer.core(), &self.stream);
        let range = ElementRange::of(code, part, self.reducer.device())?;
        let carried = RunningState { before, address: 0, meeting: Some(place) };
        let task = ContinuedTask { range, carried };
        part.precede(stream)?;
        core.reclaim_finished();
        let inputs = Inputs { group: Some(shared), ..Inputs::of(&task, part.memory()) };
        // SAFETY: the stream is of the device, and the elements of a buffer never change. Only this
        // reduction uses the meeting, and only this launch uses `place` in it. The meeting is on the
        // first device, to which the others have access, or on the launch's own device. `shared` keeps
        // the meeting and all results alive until each launch has ended.
        unsafe { core.enqueue(stream, inputs, None) }
    }

    /// Copies the partial results in the non-empty `cells` to the meeting on this device, combines them
    /// by a launch, and waits. `launch` has the operation, and the index of the result in the meeting's
    /// host memory; `empty` is an empty buffer.
    ///
    /// An error is returned with the memory of the launch, which may still run. The meeting must not be
    /// used after an error.
    pub(super) fn combine<T: Plain>(
        &self,
        meeting: &Arc<Meeting>,
        launch: (&Code, usize),
        cells: &[Vec<u8>],
        empty: &Buffer<T>,
    ) -> Result<(), (Error, Arc<Shared>)> {
        let cells: Vec<&[u8]> =
            cells.iter().map(Vec::as_slice).filter(|cell| !cell.is_empty()).collect();
        match meeting.put(&cells) {
            Ok(()) => self.combine_copied(meeting, launch, cells.len() as u32, empty),
            Err(error) => Err((error, Arc::new(Shared::without_outputs(meeting.clone())))),
        }
    }

    /// Combines `cells` partial results that are in the meeting already, as [`combine`](Self::combine).
    pub(super) fn combine_copied<T: Plain>(
        &self,
        meeting: &Arc<Meeting>,
        (code, launch): (&Code, usize),
        cells: u32,
        empty: &Buffer<T>,
    ) -> Result<(), (Error, Arc<Shared>)> {
        let results = Results::OnHost(meeting.clone(), launch);
        let shared = Arc::new(Shared { meeting: meeting.clone(), results });
        let place = Place { result: shared.results().0, ..meeting.combine_place(cells) };
        self.launch(code.clone(), empty, 0, place, &shared)
            .and_then(|launch| self.reducer.core().finish(launch, |_, _| ()))
            .map_err(|error| (error, shared))
    }
}

/// Returns each device that has elements, or the first if none has: its index, the number of elements on
/// earlier devices, and its buffer.
pub(super) fn participants<T: Plain>(values: &Sharded<T>) -> Vec<(usize, u64, &Buffer<T>)> {
    let mut before = 0;
    let parts = values.parts().iter().enumerate().map(|(rank, part)| {
        let first = before;
        before += part.len() as u64;
        (rank, first, part)
    });
    let is_empty = values.is_empty();
    parts.filter(|(rank, _, part)| !part.is_empty() || is_empty && *rank == 0).collect()
}
