//! Global memory under the PTX memory model: a load may read other values than the last one stored.
//!
//! A location keeps all values that were ever written to it as *messages*, in coherence order. A thread
//! has a *view*: for each location, the oldest message that it may still read. A release attaches the
//! writer's view to the message, and an acquire that reads the message joins that view; a barrier joins
//! the views of its threads. Without these, a thread may keep reading older messages. A store may
//! precede stores of other threads in coherence order if the writer has not seen them.
//!
//! Not modelled: a load never reads from a store that is executed after it (load buffering).

use std::collections::HashMap;

/// Ordering that an access gives to accesses of other locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Order {
    /// Relaxed or stronger, at a scope that includes other blocks.
    pub(crate) strong: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
}

/// Stamp (coherence position) of each location's oldest readable message; 0 for locations past the end.
type View = Vec<u64>;

/// Distance between the stamps of two successive messages; leaves room for messages in between.
const GAP: u64 = 1 << 32;

#[derive(Debug)]
struct Message {
    stamp: u64,
    value: u64,
    /// View that an acquire of the message joins.
    view: View,
    strong: bool,
    /// Set for the write of an atomic. No message may be inserted between it and the message that the
    /// atomic read.
    follows: bool,
    /// Index in the order of execution.
    number: u64,
}

#[derive(Debug)]
struct Location {
    address: u64,
    width: u32,
    /// Messages in coherence order; the first is the initial value.
    messages: Vec<Message>,
}

#[derive(Debug, Default, Clone, Hash)]
struct Thread {
    current: View,
    /// View that an acquire fence makes current.
    acquired: View,
    /// View that a release fence has attached to all later strong stores.
    released: View,
}

pub(crate) type Place = usize;

/// Address, width in bytes, and value.
pub(crate) type Held = (u64, u32, u64);

#[derive(Debug, Default)]
pub(crate) struct WeakMemory {
    locations: Vec<Location>,
    cells: HashMap<u64, Vec<Place>>,
    threads: Vec<Thread>,
    /// Joined view of all `fence.sc` so far.
    fences: View,
    written: u64,
}

fn seen(view: &[u64], place: Place) -> u64 {
    view.get(place).copied().unwrap_or(0)
}

fn see(view: &mut View, place: Place, stamp: u64) {
    if view.len() <= place {
        view.resize(place + 1, 0);
    }
    view[place] = view[place].max(stamp);
}

fn join(view: &mut View, other: &[u64]) {
    for (place, &stamp) in other.iter().enumerate() {
        see(view, place, stamp);
    }
}

impl WeakMemory {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: vec![Thread::default(); threads], ..Self::default() }
    }

    /// Returns the location of an access; `None` if nothing has been written there. Fails if some bytes
    /// are part of a location with another address or size.
    pub(crate) fn find(&self, address: u64, width: u32) -> Result<Option<Place>, String> {
        let within = self.cells.get(&(address / 8)).map_or(&[][..], Vec::as_slice);
        for &place in within {
            let Location { address: start, width: bytes, .. } = self.locations[place];
            if (start, bytes) == (address, width) {
                return Ok(Some(place));
            }
            if start < address + u64::from(width) && address < start + u64::from(bytes) {
                return Err(format!(
                    "an access to {width} bytes at {address:#x} overlaps a location of {bytes} bytes at \
                     {start:#x}; explorations support accesses of one size to a written location"
                ));
            }
        }
        Ok(None)
    }

    pub(crate) fn add(&mut self, address: u64, width: u32, initial: u64) -> Place {
        let strong = true;
        let first =
            Message { stamp: 0, value: initial, view: View::new(), strong, follows: false, number: 0 };
        self.locations.push(Location { address, width, messages: vec![first] });
        let place = self.locations.len() - 1;
        self.cells.entry(address / 8).or_default().push(place);
        place
    }

    /// Returns the messages that a thread may read, newest first.
    pub(crate) fn readable(&self, thread: usize, place: Place) -> Vec<usize> {
        let oldest = seen(&self.threads[thread].current, place);
        let messages = &self.locations[place].messages;
        (0..messages.len()).rev().filter(|&index| messages[index].stamp >= oldest).collect()
    }

    pub(crate) fn read(&mut self, thread: usize, place: Place, index: usize, order: Order) -> u64 {
        let message = &self.locations[place].messages[index];
        let reader = &mut self.threads[thread];
        // Two accesses to a location are ordered by coherence only if both are strong.
        if order.strong && message.strong {
            see(&mut reader.current, place, message.stamp);
            join(&mut reader.acquired, &message.view);
            if order.acquire {
                join(&mut reader.current, &message.view);
            }
        }
        message.value
    }

    /// Returns the messages directly after which a thread may write a new one, newest first.
    pub(crate) fn gaps(&self, thread: usize, place: Place) -> Vec<usize> {
        let messages = &self.locations[place].messages;
        let free = |&index: &usize| messages.get(index + 1).is_none_or(|next| !next.follows);
        self.readable(thread, place).into_iter().filter(free).collect()
    }

    pub(crate) fn write(
        &mut self,
        thread: usize,
        place: Place,
        behind: usize,
        value: u64,
        order: Order,
    ) {
        let view = View::new();
        self.insert(thread, (place, behind), value, order, view);
    }

    /// Reads a message, and writes the changed value directly after it; returns the value read.
    pub(crate) fn change(
        &mut self,
        thread: usize,
        place: Place,
        index: usize,
        order: Order,
        change: impl Fn(u64) -> u64,
    ) -> u64 {
        let old = self.read(thread, place, index, order);
        // An acquire of the result also acquires the view attached to the value read.
        let view = self.locations[place].messages[index].view.clone();
        self.insert(thread, (place, index), change(old), order, view);
        self.locations[place].messages[index + 1].follows = true;
        old
    }

    fn insert(
        &mut self,
        thread: usize,
        (place, behind): (Place, usize),
        value: u64,
        order: Order,
        mut view: View,
    ) {
        self.written += 1;
        let messages = &self.locations[place].messages;
        let before = messages[behind].stamp;
        let stamp = match messages.get(behind + 1) {
            Some(next) => before + (next.stamp - before) / 2,
            None => before + GAP,
        };
        let writer = &mut self.threads[thread];
        see(&mut writer.current, place, stamp);
        if order.strong {
            join(&mut view, if order.release { &writer.current } else { &writer.released });
            see(&mut view, place, stamp);
        }
        let message =
            Message { stamp, value, view, strong: order.strong, follows: false, number: self.written };
        self.locations[place].messages.insert(behind + 1, message);
    }

    /// Executes a fence; `sc` is set for `fence.sc`. All `fence.sc` have one total order.
    pub(crate) fn fence(&mut self, thread: usize, order: Order, sc: bool) {
        let Thread { current, acquired, released } = &mut self.threads[thread];
        if order.acquire {
            join(current, acquired);
        }
        if sc {
            join(current, &self.fences);
            self.fences.clone_from(current);
        }
        if order.release {
            released.clone_from(current);
        }
    }

    fn union(&self, threads: impl Iterator<Item = usize>) -> View {
        threads.fold(View::new(), |mut view, thread| {
            join(&mut view, &self.threads[thread].current);
            view
        })
    }

    /// Joins the views of some threads into those of others, at a barrier or the end of a launch.
    pub(crate) fn pass(&mut self, from: impl Iterator<Item = usize>, to: impl Iterator<Item = usize>) {
        let view = self.union(from);
        for thread in to {
            join(&mut self.threads[thread].current, &view);
        }
    }

    pub(crate) fn hash_views(&self, threads: std::ops::Range<usize>, into: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        self.threads[threads].hash(into);
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns whether any of these 8-byte cells was written after the first `number` writes.
    pub(crate) fn written_since(&self, cells: impl Iterator<Item = u64>, number: u64) -> bool {
        let mut places = cells.flat_map(|cell| self.cells.get(&cell).into_iter().flatten());
        places.any(|&place| self.locations[place].messages.iter().any(|one| one.number > number))
    }

    /// Returns whether a cell's last message is strong, and one of these threads has not seen it.
    pub(crate) fn lags(&self, cell: u64, threads: std::ops::Range<usize>) -> bool {
        let places = self.cells.get(&cell).map_or(&[][..], Vec::as_slice);
        places.iter().any(|&place| {
            let last = self.locations[place].messages.last();
            let behind =
                |stamp| threads.clone().any(|one| seen(&self.threads[one].current, place) < stamp);
            last.filter(|message| message.strong).is_some_and(|message| behind(message.stamp))
        })
    }

    /// Returns the initial and the final values of every location.
    pub(crate) fn values(&self) -> (Vec<Held>, Vec<Held>) {
        let value = |location: &Location, index: usize| {
            (location.address, location.width, location.messages[index].value)
        };
        let first = self.locations.iter().map(|one| value(one, 0)).collect();
        (first, self.locations.iter().map(|one| value(one, one.messages.len() - 1)).collect())
    }
}
