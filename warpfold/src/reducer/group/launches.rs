//! Reductions of what a group's devices have.

use std::{iter, mem, sync::Arc};

use super::{Group, GroupOutputs, Member, Sharded, Way, meeting::Meeting, outputs::Places};
use crate::{
    Buffer, Error, Plain, Result,
    element::RESULT_WORDS,
    input::buffer::{ContinuedTask, together},
    op::{Operation, Operations},
    reducer::{
        Carried, Code, HostResults, Inputs, Running, Span, core::Underway, host_results::Layout,
        job::Place, running::MOST,
    },
    stream::{Event, LastWrite},
};

/// What all launches of a reduction use until the last of them has ended.
pub(crate) struct Shared {
    meeting: Arc<Meeting>,
    /// Where results stay, or in whose words of the host they are waited for, as those of which launch.
    results: Results,
}

enum Results {
    Stay(Arc<Places>),
    OfHost(Arc<Meeting>, usize),
}

impl Shared {
    /// Of a reduction whose result stays nowhere.
    pub(super) fn of(meeting: Arc<Meeting>) -> Self {
        Self { results: Results::OfHost(meeting.clone(), 0), meeting }
    }

    /// Where the result goes on a device, if it goes there by itself.
    pub(super) fn result_on(&self, rank: usize) -> Option<u64> {
        match &self.results {
            Results::Stay(places) => Some(places.memories[rank].address()),
            Results::OfHost(..) => (rank == 0).then_some(self.results().0),
        }
    }

    /// Where the launches meet.
    pub(super) fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// Where the result goes, and the further places for it.
    fn results(&self) -> (u64, (u64, u32)) {
        match &self.results {
            Results::Stay(places) => (places.first(), places.others()),
            Results::OfHost(meeting, launch) => (meeting.results.address(launch * RESULT_WORDS), (0, 0)),
        }
    }

    /// Where results stay, if they do.
    fn places(&self) -> Option<&Arc<Places>> {
        match &self.results {
            Results::Stay(places) => Some(places),
            Results::OfHost(..) => None,
        }
    }
}

/// The launches of a reduction, each with its device's number.
pub(super) type Launches = Vec<(usize, Underway)>;

impl Group {
    /// Reduces the elements of all devices by an operation that is loaded on each: that of the device of
    /// a number.
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
        // Whoever says them may panic: before anything is launched.
        let codes: Vec<Code> = (0..self.members().len()).map(|rank| op(rank).code()).collect();
        let layout = Layout::of_one(codes[0].result_bytes());
        let meeting = self.run(&[codes], values, layout)?;
        Ok(HostResults::new(&meeting.results, 0, layout).take().result::<T, O>(0))
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
        let results = HostResults::new(&meeting.results, 0, layout).take();
        Ok(O::decode(results.of_none_if(values.is_empty())))
    }

    /// Makes the results of several reductions of the same elements, and waits for them: by those of
    /// `codes` of a reduction's and a device's number. The meeting that is returned has the results, as
    /// the layout says.
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
        // The first one has room for the results of all.
        let first = self.meeting()?;
        let mut under_way: Vec<(Arc<Shared>, Launches)> = Vec::new();
        let enqueued = codes.iter().enumerate().try_for_each(|(launch, codes)| {
            let meeting = if launch == 0 { first.clone() } else { self.meeting()? };
            let shared = Arc::new(Shared { meeting, results: Results::OfHost(first.clone(), launch) });
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

    /// The result of what running reductions have together, one of each device, in their order; more may
    /// be pushed behind. Places are those that the reductions have: begin each
    /// [at the index](crate::Running::starting_at) that its first element has among all.
    ///
    /// # Errors
    /// [`Error::Group`] where they are not as many as the devices, and [`Error::OtherDevice`] for one
    /// that is not on the device of its place; [`Error::TooManyElements`] as [`reduce`](Self::reduce);
    /// those of [`Running::result`].
    pub fn result<T: Plain, O: Operation<T>>(&self, running: &[Running<T, O>]) -> Result<O::Output> {
        let (given, needed) = (running.len(), self.members().len());
        if given != needed {
            let reason = format!("{given} running reductions for {needed} devices; give one for each");
            return Err(Error::Group { reason });
        }
        for (device, running) in iter::zip(self.devices(), running) {
            device.require("running reduction", running.device())?;
        }
        let (op, n) = (running[0].op(), running.iter().map(Running::len).sum());
        let most = op.code().most_running().unwrap_or(MOST);
        if n > most {
            return Err(Error::TooManyElements { n, most });
        }
        if let Some(of_none) = O::of_none().filter(|_| n == 0) {
            return Ok(of_none);
        }
        let cells = running.iter().map(Running::cell).collect::<Result<Vec<_>>>()?;
        let none = self.members()[0].reducer.device().upload::<T>(&[])?;
        let (meeting, code) = (self.meeting()?, op.code());
        self.members()[0]
            .together(&meeting, (&code, 0), &cells, &none)
            .map_err(|(error, shared)| self.abandon(&shared, error))?;
        let layout = Layout::of_one(code.result_bytes());
        Ok(HostResults::new(&meeting.results, 0, layout).take().result::<T, O>(0))
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
        let ranks = taking_part(values).iter().fold(0, |ranks, (rank, ..)| ranks | 1 << rank);
        outputs.precede(ranks)?;
        let results = Results::Stay(outputs.places().clone());
        let shared = Arc::new(Shared { meeting: self.meeting()?, results });
        let launches = self.enqueue(|_| code.clone(), values, &shared)?;
        let handed_on = match self.way() {
            Way::Peers => Ok(None),
            Way::Nccl | Way::Copies => self.hand_on(&launches, &shared).map(Some),
        };
        let ends = launches.iter().map(|(_, launch)| launch.end().clone()).collect();
        for (rank, launch) in launches {
            self.members()[rank].reducer.core().detach(launch);
        }
        let written = match handed_on.map_err(|error| self.abandon(&shared, error))? {
            // Whichever arrives last writes.
            None => LastWrite::UntilAll(ends),
            Some(end) => {
                let written = LastWrite::Until(end.end().clone());
                self.members()[0].reducer.core().detach(end);
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
        Err(Error::Group { reason: "elements of another group; share them out by this one".to_owned() })
    }

    /// Refuses elements of another group, and more of them than a reduction takes.
    fn require_few<T: Plain>(&self, code: &Code, values: &Sharded<T>) -> Result<()> {
        self.require(values)?;
        let most = code.most_running().unwrap_or(MOST);
        if values.len() > most {
            return Err(Error::TooManyElements { n: values.len(), most });
        }
        Ok(())
    }

    /// Enqueues a launch on each device that has elements, and what else it takes until the result is
    /// where it goes first.
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
                // What went wrong first is what is said.
                let _ = self.wait_for(launches);
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
        // The first device's comes last: whoever arrives last has the meeting in his own memory then.
        for (at, &(rank, before, part)) in parts.iter().enumerate().rev() {
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
        let places = shared.places().expect("the results stay somewhere");
        if self.way() == Way::Copies {
            for (rank, memory) in places.memories.iter().enumerate().skip(1) {
                self.copy((rank, memory.address()), (0, places.first()), places.bytes, 0)?;
            }
        }
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

    /// Waits until launches have ended, and says what went wrong first.
    fn wait_for(&self, launches: Launches) -> Result<()> {
        let mut failed = self.outlast(&launches).err();
        for (rank, launch) in launches {
            let core = self.members()[rank].reducer.core();
            if let Err(error) = core.finish(launch, |_, _| ()) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
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
        let carried = Carried { before, address: 0, meeting: Some(place) };
        let task = ContinuedTask { span, carried };
        part.precede(stream)?;
        core.sweep();
        let inputs = Inputs { group: Some(shared), ..Inputs::of(&task, part.memory()) };
        // SAFETY: the stream is of the device; the elements are those of the buffer, which never change.
        // The meeting is this reduction's alone, each of its places has one launch, and all reach it: it
        // is on the first device, which the others reach, or on their own. It, the result and its copies
        // are kept by each launch until that has ended.
        unsafe { core.enqueue(stream, inputs, None) }
    }

    /// Makes the result of partial results, as that of which launch of a call that waits, by a launch on
    /// this device, whose meeting it is; an empty one is left out. `none` is a buffer without elements.
    /// With an error comes what the launch shares, which may still run, and whose meeting nobody may use
    /// again.
    pub(super) fn together<T: Plain>(
        &self,
        meeting: &Arc<Meeting>,
        launch: (&Code, usize),
        cells: &[Vec<u8>],
        none: &Buffer<T>,
    ) -> Result<(), (Error, Arc<Shared>)> {
        let cells: Vec<&[u8]> =
            cells.iter().map(Vec::as_slice).filter(|cell| !cell.is_empty()).collect();
        match meeting.put(&cells) {
            Ok(()) => self.over_all(meeting, launch, cells.len() as u32, none),
            Err(error) => Err((error, Arc::new(Shared::of(meeting.clone())))),
        }
    }

    /// The same of `cells` partial results that are in the meeting.
    pub(super) fn over_all<T: Plain>(
        &self,
        meeting: &Arc<Meeting>,
        (code, launch): (&Code, usize),
        cells: u32,
        none: &Buffer<T>,
    ) -> Result<(), (Error, Arc<Shared>)> {
        let results = Results::OfHost(meeting.clone(), launch);
        let shared = Arc::new(Shared { meeting: meeting.clone(), results });
        let place = Place { result: shared.results().0, ..meeting.over_copies(cells) };
        self.launch(code.clone(), none, 0, place, &shared)
            .and_then(|launch| self.reducer.core().finish(launch, |_, _| ()))
            .map_err(|error| (error, shared))
    }
}

/// The devices that have elements, with how many come before those and the elements; the first one where
/// none has any.
pub(super) fn taking_part<T: Plain>(values: &Sharded<T>) -> Vec<(usize, u64, &Buffer<T>)> {
    let mut before = 0;
    let parts = values.parts().iter().enumerate().map(|(rank, part)| {
        let first = before;
        before += part.len() as u64;
        (rank, first, part)
    });
    let is_empty = values.is_empty();
    parts.filter(|(rank, _, part)| !part.is_empty() || is_empty && *rank == 0).collect()
}
