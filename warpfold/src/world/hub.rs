//! What ranks meet at: a thread of rank 0's process, with which each rank is connected.
//!
//! It waits until all have come, and then hands what each brings to all of them, exchange by exchange.
//! As a connection of its own waits for each rank, one that dies is noticed at once, whatever the others
//! do.

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

use super::frame::{Answer, Given, Hello, Said, VERSION, receive, send};

/// How often a listener without a connection is asked again.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a new connection may take to send its first message, and a rank to take an answer.
const PROMPT: Duration = Duration::from_secs(10);
/// Most connections at once whose first message is awaited; others wait to be accepted.
const MOST_GREETED: usize = 64;
/// Most events of each rank that wait to be taken.
const EVENTS: usize = 4;
/// How long ranks have to say whether they wait.
const ROLL_CALL: Duration = Duration::from_secs(2);
/// How long the hub stays to see that its last answers are taken.
const LINGER: Duration = Duration::from_secs(2);

/// Ends when all ranks have gone, which dropping it waits for.
pub(super) struct Hub(Option<JoinHandle<()>>);

/// What comes from connections.
enum Event {
    Hello(Hello, TcpStream),
    Said(u32, io::Result<Said>),
}

/// What is under way.
struct Under {
    /// What each rank has brought to an exchange.
    brought: Vec<Option<(String, Given)>>,
    /// Where one waits for too long for what passes elsewhere, who does.
    waits: Option<Vec<bool>>,
    /// Until when ranks must have come, or gone, where one waits.
    end: Option<Instant>,
    /// How many events were taken after that, which may have come before.
    late: usize,
}

struct Ranks {
    /// Those of ranks that take what they are told.
    streams: Vec<Option<TcpStream>>,
    /// Those that have said that they go, and how much they have taken part in.
    gone: Vec<Option<u64>>,
    events: Receiver<Event>,
    timeout: Duration,
}

impl Hub {
    /// Listens for the ranks of such a job.
    pub(super) fn start(
        listener: TcpListener,
        (job, size): (u64, u32),
        timeout: Duration,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let thread = thread::Builder::new().name("warpfold-world".to_owned());
        let thread = thread.spawn(move || {
            let admitted = admit(&listener, (job, size), timeout);
            // Whoever comes now is refused.
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
            // Of a thread that has panicked the other ranks hear, as its connections are closed.
            let _ = thread.join();
        }
    }
}

/// Waits until all ranks have come, and says so to each; or why not to those that have.
fn admit(listener: &TcpListener, (job, size): (u64, u32), timeout: Duration) -> Option<Ranks> {
    let end = Instant::now() + timeout;
    // A rank that says more than is taken waits, and fills no memory here.
    let (sender, events) = sync_channel(EVENTS * size as usize);
    let greeted = Arc::new(());
    let mut streams: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
    let mut first: Option<Hello> = None;
    let trouble = 'coming: loop {
        let may_greet = Arc::strong_count(&greeted) <= MOST_GREETED;
        let accepted = if may_greet { listener.accept().ok() } else { None };
        match accepted {
            Some((stream, _)) => greet(stream, sender.clone(), greeted.clone()),
            None => thread::sleep(PAUSE),
        }
        for event in events.try_iter() {
            let Event::Hello(hello, mut stream) = event else { continue };
            // Whoever is none of us gets no answer.
            if hello.magic != Hello::MAGIC || hello.job != job {
                continue;
            }
            match refused(&hello, size, &streams, first.as_ref()) {
                None => {
                    streams[hello.rank as usize] = Some(stream);
                    first.get_or_insert(hello);
                }
                // It is of the job, which was started wrongly.
                Some(reason) => {
                    let _ = send(&mut stream, &Answer::Lost(reason.clone()), Instant::now() + PROMPT);
                    break 'coming Some(reason);
                }
            }
        }
        if streams.iter().all(Option::is_some) {
            break None;
        }
        if Instant::now() > end {
            let missing = names(streams.iter().map(Option::is_none));
            break Some(format!("{missing} of {size} did not come within {} s", timeout.as_secs_f32()));
        }
    };
    let mut ranks = Ranks { gone: vec![None; size as usize], streams, events, timeout };
    if let Some(reason) = trouble {
        ranks.lose(&reason);
        return None;
    }
    let mut numbered = ranks.streams.iter().flatten().zip(0..);
    let listened =
        numbered.try_for_each(|(stream, rank)| listen(rank, stream.try_clone()?, sender.clone()));
    if let Err(error) = listened {
        ranks.lose(&format!("rank 0 cannot listen to all ranks: {error}"));
        return None;
    }
    ranks.tell(&Answer::Welcome);
    Some(ranks)
}

/// Receives the first message of a new connection.
fn greet(mut stream: TcpStream, sender: SyncSender<Event>, greeted: Arc<()>) {
    let end = Instant::now() + PROMPT;
    // Where there is no thread for it the connection ends.
    let _ = thread::Builder::new().spawn(move || {
        let ready = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
        if let (Ok(()), Ok(hello)) = (ready, receive(&mut stream, Some(end))) {
            let _ = sender.send(Event::Hello(hello, stream));
        }
        drop(greeted);
    });
}

/// Why a rank does not fit to those that are there.
fn refused(
    hello: &Hello,
    size: u32,
    streams: &[Option<TcpStream>],
    first: Option<&Hello>,
) -> Option<String> {
    let Hello { version, rank, device, .. } = hello;
    if *version != VERSION {
        return Some(format!("rank {rank} is of another version of warpfold than rank 0"));
    }
    if hello.size != size {
        return Some(format!("rank {rank} is one of {}, rank 0 of {size}", hello.size));
    }
    if streams.get(*rank as usize).is_none_or(Option::is_some) {
        return Some(format!("rank {rank} is there twice"));
    }
    let other = first.filter(|first| first.device != *device)?;
    Some(format!(
        "rank {rank} has {device}, rank {} {}; take devices of one kind",
        other.rank, other.device
    ))
}

/// Hands on what a rank says, to the end of its connection.
fn listen(rank: u32, mut stream: TcpStream, sender: SyncSender<Event>) -> io::Result<()> {
    let hand_on = move || {
        loop {
            let said = receive(&mut stream, None);
            let ends = said.is_err();
            if sender.send(Event::Said(rank, said)).is_err() || ends {
                break;
            }
        }
    };
    thread::Builder::new().spawn(hand_on).map(drop)
}

impl Ranks {
    /// Serves exchanges until all have gone, or one is lost.
    fn serve(mut self) {
        let mut now = Under { brought: vec![None; self.streams.len()], waits: None, end: None, late: 0 };
        let reason = loop {
            let event = self.next(&mut now);
            if let Some(reason) = self.take(event, &mut now) {
                break reason;
            }
            if self.gone.iter().all(Option::is_some) {
                return;
            }
            let waits = now.brought.iter().position(Option::is_some);
            let left = self.gone.iter().position(Option::is_some);
            if let (Some(rank), Some(left)) = (waits, left) {
                break has_left(left, rank);
            }
            if now.brought.iter().all(Option::is_some) {
                let brought = now.brought.iter_mut().map(|brought| brought.take().expect("all have"));
                self.tell(&answer(brought));
                (now.end, now.late) = (None, 0);
            }
        };
        self.lose(&reason);
    }

    /// The next event, or that there is none in time. Of a rank that never ends to say something no
    /// more is taken after that time than may have come before.
    fn next(&self, now: &mut Under) -> Result<Event, RecvTimeoutError> {
        let Some(end) = now.end else {
            return self.events.recv().map_err(|_| RecvTimeoutError::Disconnected);
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            now.late += 1;
            // Those of the channel, and one of each thread that waits for room there.
            if now.late > (EVENTS + 1) * self.streams.len() {
                return Err(RecvTimeoutError::Timeout);
            }
        }
        self.events.recv_timeout(left)
    }

    /// Takes note of what has come, or that nothing has in time. Says why it is over, if it is.
    fn take(&mut self, event: Result<Event, RecvTimeoutError>, now: &mut Under) -> Option<String> {
        if let Ok(Event::Said(rank, Ok(said))) = &event {
            let is_twice = matches!(said, Said::Gather { .. }) && now.brought[*rank as usize].is_some();
            if is_twice || self.gone[*rank as usize].is_some() {
                return Some(malformed(*rank));
            }
        }
        match event {
            Ok(Event::Said(rank, Ok(Said::Gather { what, given }))) => {
                now.end.get_or_insert_with(|| Instant::now() + self.timeout);
                now.brought[rank as usize] = Some((what, given));
            }
            Ok(Event::Said(rank, Ok(Said::Waits { number, too_long }))) => {
                let left = self.gone.iter().position(|gone| gone.is_some_and(|done| done < number));
                if let Some(left) = left {
                    return Some(has_left(left, rank as usize));
                }
                if now.waits.is_none() && too_long {
                    now.waits = Some(vec![false; now.brought.len()]);
                    now.end = Some(Instant::now() + ROLL_CALL);
                    self.tell(&Answer::WhoWaits);
                }
                if let Some(waits) = &mut now.waits {
                    waits[rank as usize] = true;
                }
            }
            Ok(Event::Said(rank, Ok(Said::Broken(reason)))) => {
                return Some(format!("rank {rank} cannot go on: {reason}"));
            }
            Ok(Event::Said(rank, Ok(Said::Bye(done)))) => {
                self.gone[rank as usize] = Some(done);
                // The hub ends with its process' rank 0, which does not wait for others for longer.
                now.end.get_or_insert_with(|| Instant::now() + self.timeout);
                // Whoever waits for more than that waits in vain.
                self.tell(&Answer::WhoWaits);
            }
            Ok(Event::Said(rank, Err(_))) if self.gone[rank as usize].is_some() => {}
            Ok(Event::Said(rank, Err(error))) => {
                return Some(match error.kind() {
                    io::ErrorKind::InvalidData => malformed(rank),
                    _ => format!("rank {rank} is gone: its connection has ended"),
                });
            }
            // A stray rank, which is told nothing.
            Ok(Event::Hello(..)) => {}
            Err(_) => {
                let timeout = self.timeout.as_secs_f32();
                let Some(waits) = &now.waits else {
                    if let Some(left) = self.gone.iter().position(Option::is_some) {
                        let others = names(self.gone.iter().map(Option::is_none));
                        let reason =
                            format!("rank {left} has left, and {others} did not within {timeout} s");
                        return Some(reason);
                    }
                    let missing = names(now.brought.iter().map(Option::is_none));
                    return Some(format!("{missing} did not come within {timeout} s"));
                };
                let (here, all) = (now.brought.iter().map(Option::is_some), waits.iter());
                let missing: Vec<bool> =
                    std::iter::zip(here, all).map(|(here, waits)| !here && !waits).collect();
                return Some(match missing.contains(&true) {
                    true => format!("{} did not come within {timeout} s", names(missing.into_iter())),
                    false => {
                        format!("nothing passes between the ranks within {timeout} s, who all wait")
                    }
                });
            }
        }
        None
    }

    /// Tells all that are there, the first rank last: when that knows, all others do.
    fn tell(&mut self, answer: &Answer) {
        for stream in self.streams.iter_mut().rev() {
            let told = stream.as_mut().map(|to| send(to, answer, Instant::now() + PROMPT));
            if let Some(Err(_)) = told
                && let Some(stream) = stream.take()
            {
                // Nobody waits for it twice. That it is gone its connection tells.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Tells all that it is over, and stays until they have heard it.
    fn lose(&mut self, reason: &str) {
        self.tell(&Answer::Lost(reason.to_owned()));
        for stream in self.streams.iter().flatten() {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let end = Instant::now() + LINGER;
        let mut there = self.streams.iter().flatten().count();
        while there > 0 && Instant::now() < end {
            match self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Said(_, Err(_))) => there -= 1,
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

impl Drop for Ranks {
    /// Ends the threads that listen.
    fn drop(&mut self) {
        for stream in self.streams.iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// What comes of an exchange.
fn answer(brought: impl Iterator<Item = (String, Given)>) -> Answer {
    let (whats, given): (Vec<String>, Vec<Given>) = brought.unzip();
    if let Some(other) = whats.iter().position(|what| *what != whats[0]) {
        return Answer::Void(format!(
            "rank 0 is at {}, rank {other} at {}; each rank makes the same calls in the same order",
            whats[0], whats[other]
        ));
    }
    let failed = given.iter().enumerate().find_map(|(rank, given)| Some((rank, given.as_ref().err()?)));
    match failed {
        Some((rank, reason)) => Answer::Void(format!("rank {rank} failed: {reason}")),
        None => Answer::All(given.into_iter().flatten().collect()),
    }
}

fn malformed(rank: u32) -> String {
    format!("rank {rank} sent a malformed message")
}

fn has_left(left: usize, rank: usize) -> String {
    format!("rank {left} has left, and rank {rank} waits for it")
}

/// Names ranks by their numbers.
fn names(which: impl Iterator<Item = bool>) -> String {
    let ranks: Vec<String> =
        which.enumerate().filter(|(_, which)| *which).map(|(rank, _)| rank.to_string()).collect();
    match ranks.as_slice() {
        [one] => format!("rank {one}"),
        [front @ .., last] => format!("ranks {} and {last}", front.join(", ")),
        [] => "no rank".to_owned(),
    }
}
