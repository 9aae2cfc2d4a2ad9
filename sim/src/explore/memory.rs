//! Global memory as the PTX memory model has it: what a load may see, not what was stored last.
//!
//! A location keeps all values that were ever written to it, in coherence order. A thread has a *view*:
//! of each location, the oldest message that it may still see. A release attaches the writer's view to
//! the message, and an acquire that reads the message takes the view over; so does a barrier among its
//! threads. Without them a thread goes on seeing what is older. Stores may take their place in
//! coherence order before those of others that the writer has not seen.
//!
//! What this leaves out: a load never reads from a store that is executed after it (load buffering).

use std::collections::HashMap;

/// Ordering of an access beyond its own location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Order {
    /// Relaxed or more, at a scope that reaches other blocks.
    pub(crate) strong: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
}

/// Per location, the stamp of the oldest message that may be seen; missing ones are 0.
type View = Vec<u64>;

/// Room between two stamps, for messages in between.
const GAP: u64 = 1 << 32;

/// A value that was written.
#[derive(Debug)]
struct Message {
    /// Place in coherence order.
    stamp: u64,
    value: u64,
    /// What whoever acquires it sees from then on.
    view: View,
    strong: bool,
    /// Whether it is an atomic's, which read the message before it: nothing comes between.
    follows: bool,
    /// Place in the order of execution.
    number: u64,
}

/// Aligned bytes that are accessed as one value.
#[derive(Debug)]
struct Location {
    address: u64,
    width: u32,
    /// In coherence order; the first is what the memory held before.
    messages: Vec<Message>,
}

/// What a thread may see and passes on.
#[derive(Debug, Default, Clone, Hash)]
struct Thread {
    current: View,
    /// What a fence will make current.
    acquired: View,
    /// What a fence has attached to all later strong stores.
    released: View,
}

/// The index of a location.
pub(crate) type Place = usize;

/// A value in memory with its address and bytes.
pub(crate) type Held = (u64, u32, u64);

#[derive(Debug, Default)]
pub(crate) struct WeakMemory {
    locations: Vec<Location>,
    /// The locations in each 8 bytes.
    cells: HashMap<u64, Vec<Place>>,
    threads: Vec<Thread>,
    /// What the `fence.sc` so far have seen.
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
    /// Memory of `threads` threads, none of which has touched it yet.
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: vec![Thread::default(); threads], ..Self::default() }
    }

    /// The location that an access means; `None` where nothing has been written.
    ///
    /// # Errors
    /// Bytes of it are part of a location of another size.
    pub(crate) fn find(&self, address: u64, width: u32) -> Result<Option<Place>, String> {
        let within = self.cells.get(&(address / 8)).map_or(&[][..], Vec::as_slice);
        for &place in within {
            let Location { address: start, width: bytes, .. } = self.locations[place];
            if (start, bytes) == (address, width) {
                return Ok(Some(place));
            }
            if start < address + u64::from(width) && address < start + u64::from(bytes) {
                return Err(format!(
                    "{width} bytes at {address:#x} overlap {bytes} at {start:#x}: an exploration takes \
                     accesses of one size to what is written"
                ));
            }
        }
        Ok(None)
    }

    /// Adds a location that holds a value so far.
    pub(crate) fn add(&mut self, address: u64, width: u32, initial: u64) -> Place {
        let strong = true;
        let first =
            Message { stamp: 0, value: initial, view: View::new(), strong, follows: false, number: 0 };
        self.locations.push(Location { address, width, messages: vec![first] });
        let place = self.locations.len() - 1;
        self.cells.entry(address / 8).or_default().push(place);
        place
    }

    /// The messages that a thread may read, newest first.
    pub(crate) fn readable(&self, thread: usize, place: Place) -> Vec<usize> {
        let oldest = seen(&self.threads[thread].current, place);
        let messages = &self.locations[place].messages;
        (0..messages.len()).rev().filter(|&index| messages[index].stamp >= oldest).collect()
    }

    /// Reads a value that was written.
    pub(crate) fn read(&mut self, thread: usize, place: Place, index: usize, order: Order) -> u64 {
        let message = &self.locations[place].messages[index];
        let reader = &mut self.threads[thread];
        // Operations that are not both strong are not kept in order by their location alone.
        if order.strong && message.strong {
            see(&mut reader.current, place, message.stamp);
            join(&mut reader.acquired, &message.view);
            if order.acquire {
                join(&mut reader.current, &message.view);
            }
        }
        message.value
    }

    /// The messages that a new one of a thread may come right behind, last first.
    pub(crate) fn gaps(&self, thread: usize, place: Place) -> Vec<usize> {
        let messages = &self.locations[place].messages;
        let free = |&index: &usize| messages.get(index + 1).is_none_or(|next| !next.follows);
        self.readable(thread, place).into_iter().filter(free).collect()
    }

    /// Writes a message behind another.
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

    /// Reads a message and writes one right behind it; returns what was read.
    pub(crate) fn change(
        &mut self,
        thread: usize,
        place: Place,
        index: usize,
        order: Order,
        change: impl Fn(u64) -> u64,
    ) -> u64 {
        let old = self.read(thread, place, index, order);
        // Whoever acquires the result acquires what is behind the value that was read.
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

    /// A fence; `sc` for one that all such fences are ordered with.
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

    /// What threads see together.
    fn union(&self, threads: impl Iterator<Item = usize>) -> View {
        threads.fold(View::new(), |mut view, thread| {
            join(&mut view, &self.threads[thread].current);
            view
        })
    }

    /// Lets threads see what other ones see, and have written: a barrier, or the end of a launch.
    pub(crate) fn pass(&mut self, from: impl Iterator<Item = usize>, to: impl Iterator<Item = usize>) {
        let view = self.union(from);
        for thread in to {
            join(&mut self.threads[thread].current, &view);
        }
    }

    /// A value that tells apart what threads may see.
    pub(crate) fn hash_views(&self, threads: std::ops::Range<usize>, into: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        self.threads[threads].hash(into);
    }

    /// Messages written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether 8-byte cells have got messages after the first `number` ones.
    pub(crate) fn written_since(&self, cells: impl Iterator<Item = u64>, number: u64) -> bool {
        let mut places = cells.flat_map(|cell| self.cells.get(&cell).into_iter().flatten());
        places.any(|&place| self.locations[place].messages.iter().any(|one| one.number > number))
    }

    /// Whether one of these threads has not read the last strong message of a cell.
    pub(crate) fn lags(&self, cell: u64, threads: std::ops::Range<usize>) -> bool {
        let places = self.cells.get(&cell).map_or(&[][..], Vec::as_slice);
        places.iter().any(|&place| {
            let last = self.locations[place].messages.last();
            let behind =
                |stamp| threads.clone().any(|one| seen(&self.threads[one].current, place) < stamp);
            last.filter(|message| message.strong).is_some_and(|message| behind(message.stamp))
        })
    }

    /// The first and the last values of every location, for the memory behind.
    pub(crate) fn values(&self) -> (Vec<Held>, Vec<Held>) {
        let value = |location: &Location, index: usize| {
            (location.address, location.width, location.messages[index].value)
        };
        let first = self.locations.iter().map(|one| value(one, 0)).collect();
        (first, self.locations.iter().map(|one| value(one, one.messages.len() - 1)).collect())
    }
}
