//! Processes that work together, on one host or several: how they find each other, and what passes
//! between them.

mod frame;
mod hub;
mod rendezvous;
#[cfg(test)]
mod tests;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};

use frame::{Answer, Given, Hello, Said, VERSION, cut, receive, send};
use hub::Hub;

pub use rendezvous::Rendezvous;
pub(crate) use rendezvous::fnv1a;

use crate::{Error, Result, error::in_one_line};

/// How often somebody who is not there yet is called again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a rank waits to hear what has happened before it says that it cannot go on.
const HEARSAY: Duration = Duration::from_secs(1);
/// How much longer than the hub a rank waits for the hub itself.
const GRACE: Duration = Duration::from_secs(5);
/// How long the hub may take to take a message.
const PROMPT: Duration = Duration::from_secs(10);
/// Most messages that are taken of the hub by a rank that does not wait for one.
const MOST_AT_ONCE: usize = 16;

/// The connection of a rank with all others. One by itself has none.
pub(crate) struct Wire(Option<Connection>);

struct Connection {
    stream: TcpStream,
    /// How many ranks there are.
    size: usize,
    /// How long the hub waits for ranks.
    timeout: Duration,
    /// Why there are no more exchanges, if so.
    lost: Option<String>,
    /// How many things have passed elsewhere, with the one that passes now.
    passed: u64,
    /// Whether rank 0 has asked which ranks wait.
    was_asked: bool,
    /// Of rank 0, which waits for it at its end.
    _hub: Option<Hub>,
}

impl Wire {
    /// Waits until all ranks have come, with devices of one kind.
    pub(crate) fn join(meeting: &Rendezvous, device: String) -> Result<Self> {
        let Rendezvous { rank, size, address, job, timeout, .. } = meeting;
        if *size == 1 {
            return Ok(Self(None));
        }
        let refuse = |reason: String| Err(Error::World { reason: in_one_line(&reason) });
        let hub = match rank {
            0 => {
                match listen(address).and_then(|listener| Hub::start(listener, (*job, *size), *timeout))
                {
                    Ok(hub) => Some(hub),
                    Err(error) => {
                        return refuse(format!(
                            "rank 0 cannot listen at {address} ({error}); set WARPFOLD_ADDRESS=host:port in \
                         all ranks, a free port of its host"
                        ));
                    }
                }
            }
            _ => None,
        };
        let mut stream = match connect(address, *timeout) {
            Ok(stream) => stream,
            Err(error) => {
                return refuse(format!(
                    "rank {rank} finds no rank 0 at {address} within {} s ({error})",
                    timeout.as_secs_f32()
                ));
            }
        };
        let hello =
            Hello { magic: Hello::MAGIC, version: VERSION, job: *job, size: *size, rank: *rank, device };
        let said = stream
            .set_nodelay(true)
            .and_then(|()| send(&mut stream, &hello, Instant::now() + PROMPT))
            .and_then(|()| receive(&mut stream, Some(Instant::now() + *timeout + GRACE)));
        match said {
            Ok(Answer::Welcome) => Ok(Self(Some(Connection {
                stream,
                size: *size as usize,
                timeout: *timeout,
                lost: None,
                passed: 0,
                was_asked: false,
                _hub: hub,
            }))),
            Ok(Answer::Lost(reason)) => refuse(reason),
            Ok(_) => refuse(format!("{address} does not answer as warpfold's rank 0")),
            Err(error) => refuse(format!(
                "{address} does not admit rank {rank} ({}); is it of another job?",
                said_of(&error)
            )),
        }
    }

    #[cfg(test)]
    fn was_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|connection| connection.was_asked)
    }

    /// Counts a thing that is about to pass between all ranks elsewhere.
    pub(crate) fn passes(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.passed += 1;
            if connection.was_asked {
                connection.say_that_it_waits(false);
            }
        }
    }

    /// Why there are no more exchanges, as far as is known by now: for who waits for the ranks
    /// elsewhere.
    pub(crate) fn lost_meanwhile(&mut self) -> Option<Error> {
        self.0.as_mut()?.lost_meanwhile(true)
    }

    /// The same for who does not wait.
    pub(crate) fn lost_by_now(&mut self) -> Option<Error> {
        self.0.as_mut()?.lost_meanwhile(false)
    }

    /// Says that this rank waits for the others elsewhere for too long, and comes to know which are
    /// missing.
    pub(crate) fn waits_too_long(&mut self) -> Error {
        match &mut self.0 {
            Some(connection) => {
                connection.say_that_it_waits(true);
                connection.wait_for_the_end()
            }
            None => over("nothing comes of what this rank waits for"),
        }
    }

    /// The end of a world of which there are no more exchanges; it has a reason of its own if it is of
    /// one rank.
    pub(crate) fn over(&self, alone: &str) -> Error {
        let lost = self.0.as_ref().and_then(|connection| connection.lost.as_deref());
        over(lost.unwrap_or(alone))
    }

    /// Says that this rank cannot go on, without asking what the others know.
    pub(crate) fn fails(&mut self, reason: &str) {
        if let Some(connection) = self.0.as_mut().filter(|connection| connection.lost.is_none()) {
            connection.say(&Said::Broken(cut(reason.to_owned())));
            connection.wait_for_the_end();
        }
    }

    /// Says that this rank cannot go on; unless the others know better what has happened.
    pub(crate) fn cannot_go_on(&mut self, reason: &str) -> Option<Error> {
        let connection = self.0.as_mut()?;
        let end = Instant::now() + HEARSAY;
        while Instant::now() < end {
            if let Some(lost) = connection.lost_meanwhile(false) {
                return Some(lost);
            }
            thread::sleep(PAUSE);
        }
        self.fails(reason);
        None
    }

    /// What each rank brings, in their order. All name what they are about, alike.
    pub(crate) fn gather(&mut self, what: &str, given: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let Some(connection) = &mut self.0 else { return Ok(vec![given?]) };
        let (given, failed) = match given {
            Ok(given) => (Ok(given), None),
            Err(error) => (Err(cut(crate::error::in_full(&error))), Some(error)),
        };
        let answer = connection.exchange(cut(what.to_owned()), given);
        match failed {
            // What went wrong here is what is said here.
            Some(error) => Err(error),
            None => answer,
        }
    }
}

impl Connection {
    fn exchange(&mut self, what: String, given: Given) -> Result<Vec<Vec<u8>>> {
        if self.lost.is_none() {
            self.say(&Said::Gather { what, given });
        }
        let end = self.patience();
        while self.lost.is_none() {
            match self.hear(true, end) {
                Some(Answer::All(parts)) if parts.len() == self.size => return Ok(parts),
                Some(Answer::All(parts)) => {
                    let (found, size) = (parts.len(), self.size);
                    self.lost = Some(format!("rank 0 sent the parts of {found} ranks, not of {size}"));
                }
                Some(Answer::Void(reason)) => {
                    return Err(Error::World { reason: in_one_line(&reason) });
                }
                // What it waits for is here.
                Some(_) | None => {}
            }
        }
        Err(self.lost_error())
    }

    /// Until when the hub must have answered.
    fn patience(&self) -> Instant {
        Instant::now() + self.timeout + GRACE
    }

    /// Says something. What becomes of it the answer tells.
    fn say(&mut self, said: &Said) {
        if let Err(error) = send(&mut self.stream, said, Instant::now() + PROMPT) {
            match error.kind() {
                // It may have said why before.
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {}
                _ => self.lost = Some(format!("rank 0 is gone: {}", said_of(&error))),
            }
        }
    }

    /// Waits until a time for the next message of the hub, and returns it if it is for the caller.
    fn hear(&mut self, waits: bool, end: Instant) -> Option<Answer> {
        match receive(&mut self.stream, Some(end)) {
            Ok(Answer::Lost(reason)) => self.lost = Some(in_one_line(&reason)),
            Ok(Answer::WhoWaits) => {
                // Asked once, it also says so of each later wait: the rank that has left may have taken
                // part in what this one waits for now, and not in what follows.
                self.was_asked = true;
                if waits {
                    self.say_that_it_waits(false);
                }
            }
            Ok(Answer::Welcome) => self.lost = Some("rank 0 sent a malformed message".to_owned()),
            Ok(answer) => return Some(answer),
            Err(error) => self.lost = Some(format!("rank 0 is gone: {}", said_of(&error))),
        }
        None
    }

    fn lost_meanwhile(&mut self, waits: bool) -> Option<Error> {
        for _ in 0..MOST_AT_ONCE {
            if self.lost.is_some() || !self.has_come() {
                break;
            }
            // Nothing else is said to a rank that has not asked.
            if self.hear(waits, self.patience()).is_some() {
                self.lost = Some("rank 0 answers, and was not asked".to_owned());
            }
        }
        self.lost.is_some().then(|| self.lost_error())
    }

    /// Whether the hub has said something, or is gone.
    fn has_come(&self) -> bool {
        let looked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let restored = self.stream.set_nonblocking(false);
        let waits = looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        !waits || restored.is_err()
    }

    fn say_that_it_waits(&mut self, too_long: bool) {
        let number = self.passed;
        self.say(&Said::Waits { number, too_long });
    }

    /// Waits for the end of the world.
    fn wait_for_the_end(&mut self) -> Error {
        let end = self.patience();
        while self.lost.is_none() {
            self.hear(true, end);
        }
        self.lost_error()
    }

    fn lost_error(&self) -> Error {
        over(self.lost.as_deref().unwrap_or_default())
    }
}

/// The end of a world.
fn over(reason: &str) -> Error {
    Error::Lost { what: "the world", reason: format!("{reason}; start all ranks again") }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.lost.is_none() {
            // Whoever does not hear it notices the end of the connection.
            let _ = send(&mut self.stream, &Said::Bye(self.passed), Instant::now() + PROMPT);
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// What became of a connection, in words.
fn said_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "its connection has ended".to_owned(),
        _ => error.to_string(),
    }
}

/// Listens at a port: for this host alone where the host's name says so, else for all.
fn listen(address: &str) -> io::Result<TcpListener> {
    let (host, port) = address.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let port: u16 = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    match host {
        "127.0.0.1" | "localhost" => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
        _ => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
    }
}

/// Connects as soon as somebody listens.
fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let end = Instant::now() + timeout;
    loop {
        let tried = address.to_socket_addrs().and_then(|found| {
            let mut last = io::ErrorKind::AddrNotAvailable.into();
            for found in found {
                let left = end.saturating_duration_since(Instant::now()).max(PAUSE);
                match TcpStream::connect_timeout(&found, left) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        });
        match tried {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() + PAUSE > end => return Err(error),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}
