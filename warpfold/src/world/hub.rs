//! The hub of a world: a thread of rank 0's process, to which each rank is connected.
//!
//! The hub waits until all ranks have joined. In each exchange, it then receives one part from each
//! rank, and sends the parts of all ranks to every rank. One thread reads from each connection, so the
//! end of a rank is noticed at once, whatever the other ranks do.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::frame::{Answer, Hello, Part, Request, VERSION, receive, send};

/// Interval between two polls of the listener if no connection is pending.
const PAUSE: Duration = Duration::from_millis(5);
/// Time limit for a new connection to send its first message, and for a rank to accept an answer.
const PROMPT: Duration = Duration::from_secs(10);
/// Maximum number of connections whose first message is pending; others wait to be accepted.
const MOST_GREETED: usize = 64;
const EVENTS: usize = 4;
/// Time limit for ranks to answer [`Answer::WhoWaits`].
const ROLL_CALL: Duration = Duration::from_secs(2);
/// Time limit for ranks to read [`Answer::Lost`] and close their connections.
const LINGER: Duration = Duration::from_secs(2);

/// The hub's thread, which ends when all ranks have left. Dropping the hub waits for that.
pub(super) struct Hub(Option<JoinHandle<()>>);

enum Event {
    Hello(Hello, TcpStream),
    /// A rank's request, or the end of its connection.
    Request(u32, io::Result<Request>),
}

struct Pending {
    parts: Vec<Option<(String, Part)>>,
    /// The ranks that wait for an NCCL exchange. Set once a rank has waited too long for one.
    waits: Option<Vec<bool>>,
    /// The time by which all ranks must have sent their parts or left. Set once one of them has, or has
    /// waited too long for an NCCL exchange.
    deadline: Option<Instant>,
    /// The number of events handled after the deadline, which may have arrived before it.
    late: usize,
}

struct Ranks {
    streams: Vec<Option<TcpStream>>,
    /// For ranks that have left, the number of NCCL exchanges in which they took part.
    departed: Vec<Option<u64>>,
    events: Receiver<Event>,
    timeout: Duration,
}

impl Hub {
    pub(super) fn start(
        listener: TcpListener,
        (job, size): (u64, u32),
        timeout: Duration,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let thread = thread::Builder::new().name("warpfold-world".to_owned());
        let thread = thread.spawn(move || {
            let admitted = admit(&listener, (job, size), timeout);
            // Later connections are refused.
            drop(listener);
            if let Some(ranks) = admitted {
                ranks.serve();
            }
        })?;
        Ok(Self(Some(thread)))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // If the thread has panicked, its connections are closed, and the ranks notice that.
            let _ = thread.join();
        }
    }
}

/// Waits until all ranks have joined, then welcomes them, or sends the reason of the failure.
fn admit(listener: &TcpListener, (job, size): (u64, u32), timeout: Duration) -> Option<Ranks> {
    let end = Instant::now() + timeout;
    // Bounded, so that a rank that sends too much blocks instead of filling the memory.
    let (sender, events) = sync_channel(EVENTS * size as usize);
    let greeted = Arc::new(());
    let mut streams: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
    let mut joining: Vec<(Hello, TcpStream)> = Vec::new();
    let mut first: Option<Hello> = None;
    let failure = 'joining: loop {
        let may_greet = Arc::strong_count(&greeted) <= MOST_GREETED;
        let accepted = if may_greet { listener.accept().ok() } else { None };
        match accepted {
            Some((stream, _)) => greet(stream, sender.clone(), greeted.clone()),
            None => thread::sleep(PAUSE),
        }
        for event in events.try_iter() {
            match event {
                // Other programs and jobs get no answer.
                Event::Hello(hello, stream) if hello.magic == Hello::MAGIC && hello.job == job => {
                    joining.push((hello, stream));
                }
                _ => {}
            }
        }
        // Rank 0, which this process is, comes first: a failure before that could not be reported to it.
        joining.sort_by_key(|(hello, _)| hello.rank);
        joining.truncate(MOST_GREETED + size as usize);
        while let Some((Hello { rank, .. }, _)) = joining.first()
            && (*rank == 0 || streams[0].is_some())
        {
            let (hello, stream) = joining.remove(0);
            if let Some(reason) = mismatch(&hello, size, &streams, first.as_ref()) {
                joining.push((hello, stream));
                break 'joining Some(reason);
            }
            streams[hello.rank as usize] = Some(stream);
            first.get_or_insert(hello);
        }
        if streams.iter().all(Option::is_some) {
            break None;
        }
        if Instant::now() > end {
            let missing = list(streams.iter().map(Option::is_none));
            break Some(format!("{missing} of {size} did not join within {} s", timeout.as_secs_f32()));
        }
    };
    let mut ranks = Ranks { departed: vec![None; size as usize], streams, events, timeout };
    if let Some(reason) = failure {
        for (_, stream) in &mut joining {
            let _ = send(stream, &Answer::Lost(reason.clone()), Instant::now() + PROMPT);
        }
        ranks.end(&reason);
        return None;
    }
    let mut numbered = ranks.streams.iter().flatten().zip(0..);
    let spawned =
        numbered.try_for_each(|(stream, rank)| spawn_reader(rank, stream.try_clone()?, sender.clone()));
    if let Err(error) = spawned {
        ranks.end(&format!("rank 0 cannot listen to all ranks: {error}"));
        return None;
    }
    ranks.broadcast(&Answer::Welcome);
    Some(ranks)
}

fn greet(mut stream: TcpStream, sender: SyncSender<Event>, greeted: Arc<()>) {
    let end = Instant::now() + PROMPT;
    // If no thread can be started, the connection is closed.
    let _ = thread::Builder::new().spawn(move || {
        let ready = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
        if let (Ok(()), Ok(hello)) = (ready, receive(&mut stream, Some(end))) {
            let _ = sender.send(Event::Hello(hello, stream));
        }
        drop(greeted);
    });
}

fn mismatch(
    hello: &Hello,
    size: u32,
    streams: &[Option<TcpStream>],
    first: Option<&Hello>,
) -> Option<String> {
    let Hello { version, rank, device, .. } = hello;
    if *version != VERSION {
        return Some(format!(
            "rank {rank} has another version of warpfold than rank 0; build all ranks with one version"
        ));
    }
    if hello.size != size {
        return Some(format!(
            "rank {rank} expects {} ranks, but rank 0 expects {size}; set the same number in all ranks",
            hello.size
        ));
    }
    if streams.get(*rank as usize).is_none_or(Option::is_some) {
        return Some(format!("rank {rank} has joined twice; give each process its own rank"));
    }
    let first = first.filter(|first| first.device != *device)?;
    Some(format!("rank {rank} has {device}, rank 0 {}; take devices of one kind", first.device))
}

fn spawn_reader(rank: u32, mut stream: TcpStream, sender: SyncSender<Event>) -> io::Result<()> {
    let forward = move || {
        loop {
            let request = receive(&mut stream, None);
            let ends = request.is_err();
            if sender.send(Event::Request(rank, request)).is_err() || ends {
                break;
            }
        }
    };
    thread::Builder::new().spawn(forward).map(drop)
}

impl Ranks {
    fn serve(mut self) {
        let parts = vec![None; self.streams.len()];
        let mut pending = Pending { parts, waits: None, deadline: None, late: 0 };
        let reason = loop {
            let event = self.next_event(&mut pending);
            if let Some(reason) = self.handle(event, &mut pending) {
                break reason;
            }
            if self.departed.iter().all(Option::is_some) {
                return;
            }
            let waits = pending.parts.iter().position(Option::is_some);
            let left = self.departed.iter().position(Option::is_some);
            if let (Some(rank), Some(left)) = (waits, left) {
                break has_left(left, rank);
            }
            if pending.parts.iter().all(Option::is_some) {
                let parts = pending.parts.iter_mut().map(|part| part.take().expect("all have"));
                self.broadcast(&answer(parts));
                (pending.deadline, pending.late) = (None, 0);
            }
        };
        self.end(&reason);
    }

    /// Returns the next event, or an error after the deadline. A rank that never stops sending cannot
    /// postpone the deadline: after it, only as many events are handled as may have arrived earlier.
    fn next_event(&self, pending: &mut Pending) -> Result<Event, RecvTimeoutError> {
        let Some(deadline) = pending.deadline else {
            return self.events.recv().map_err(|_| RecvTimeoutError::Disconnected);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            pending.late += 1;
            // The channel holds `EVENTS` per rank, and each reader thread may be blocked on one more.
            if pending.late > (EVENTS + 1) * self.streams.len() {
                return Err(RecvTimeoutError::Timeout);
            }
        }
        self.events.recv_timeout(left)
    }

    /// Handles an event or a timeout. Returns the reason if the world ends.
    fn handle(
        &mut self,
        event: Result<Event, RecvTimeoutError>,
        pending: &mut Pending,
    ) -> Option<String> {
        let (rank, request) = match event {
            Ok(Event::Request(rank, request)) => (rank as usize, request),
            // Late connections get no answer.
            Ok(Event::Hello(..)) => return None,
            Err(_) => return Some(self.missing(pending)),
        };
        let has_departed = self.departed[rank].is_some();
        let request = match request {
            Ok(request) => request,
            Err(_) if has_departed => return None,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Some(malformed(rank)),
            Err(_) => return Some(format!("rank {rank} is gone: its connection has ended")),
        };
        let is_second = matches!(request, Request::Gather { .. }) && pending.parts[rank].is_some();
        if is_second || has_departed {
            return Some(malformed(rank));
        }
        match request {
            Request::Gather { what, part } => {
                pending.deadline.get_or_insert_with(|| Instant::now() + self.timeout);
                pending.parts[rank] = Some((what, part));
            }
            Request::Waits { number, too_long } => {
                let has_missed = |done: &Option<u64>| done.is_some_and(|done| done < number);
                if let Some(left) = self.departed.iter().position(has_missed) {
                    return Some(has_left(left, rank));
                }
                if pending.waits.is_none() && too_long {
                    pending.waits = Some(vec![false; pending.parts.len()]);
                    pending.deadline = Some(Instant::now() + ROLL_CALL);
                    self.broadcast(&Answer::WhoWaits);
                }
                if let Some(waits) = &mut pending.waits {
                    waits[rank] = true;
                }
            }
            Request::Broken(reason) => return Some(format!("rank {rank} cannot continue: {reason}")),
            Request::Bye(done) => {
                self.departed[rank] = Some(done);
                // Rank 0's process waits for the hub, and must not wait for other ranks for ever.
                pending.deadline.get_or_insert_with(|| Instant::now() + self.timeout);
                // Finds ranks that wait for an NCCL exchange in which this rank does not take part.
                self.broadcast(&Answer::WhoWaits);
            }
        }
        None
    }

    fn missing(&self, pending: &Pending) -> String {
        let timeout = self.timeout.as_secs_f32();
        let Some(waits) = &pending.waits else {
            if let Some(left) = self.departed.iter().position(Option::is_some) {
                let others = list(self.departed.iter().map(Option::is_none));
                return format!("rank {left} has left, and {others} did not within {timeout} s");
            }
            let missing = list(pending.parts.iter().map(Option::is_none));
            return format!("{missing} did not arrive within {timeout} s");
        };
        let missing =
            std::iter::zip(&pending.parts, waits).map(|(part, waits)| part.is_none() && !waits);
        let missing: Vec<bool> = missing.collect();
        match missing.contains(&true) {
            true => format!("{} did not arrive within {timeout} s", list(missing.into_iter())),
            false => format!("all ranks wait, but nothing passed between them within {timeout} s"),
        }
    }

    /// Sends an answer to all ranks. Rank 0 gets it last, when all others have it.
    fn broadcast(&mut self, answer: &Answer) {
        for stream in self.streams.iter_mut().rev() {
            let sent = stream.as_mut().map(|stream| send(stream, answer, Instant::now() + PROMPT));
            if let Some(Err(_)) = sent
                && let Some(stream) = stream.take()
            {
                // No more answers are sent to this rank. Its reader reports the end of the connection.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Reports the end of the world to all ranks, and waits until they have closed their connections.
    fn end(&mut self, reason: &str) {
        self.broadcast(&Answer::Lost(reason.to_owned()));
        for stream in self.streams.iter().flatten() {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let end = Instant::now() + LINGER;
        let mut open = self.streams.iter().flatten().count();
        while open > 0 && Instant::now() < end {
            match self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Request(_, Err(_))) => open -= 1,
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for stream in self.streams.iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn answer(parts: impl Iterator<Item = (String, Part)>) -> Answer {
    let (whats, parts): (Vec<String>, Vec<Part>) = parts.unzip();
    if let Some(other) = whats.iter().position(|what| *what != whats[0]) {
        return Answer::Void(format!(
            "rank 0 is at {}, but rank {other} is at {}; make the same calls in the same order on all \
             ranks",
            whats[0], whats[other]
        ));
    }
    let failed = parts.iter().enumerate().find_map(|(rank, part)| Some((rank, part.as_ref().err()?)));
    match failed {
        Some((rank, reason)) => Answer::Void(format!("rank {rank} failed: {reason}")),
        None => Answer::All(parts.into_iter().flatten().collect()),
    }
}

fn malformed(rank: usize) -> String {
    format!("rank {rank} sent a malformed message")
}

fn has_left(left: usize, rank: usize) -> String {
    format!("rank {left} has left, and rank {rank} waits for it")
}

fn list(which: impl Iterator<Item = bool>) -> String {
    let ranks: Vec<String> =
        which.enumerate().filter(|(_, which)| *which).map(|(rank, _)| rank.to_string()).collect();
    match ranks.as_slice() {
        [one] => format!("rank {one}"),
        [front @ .., last] => format!("ranks {} and {last}", front.join(", ")),
        [] => "no rank".to_owned(),
    }
}
