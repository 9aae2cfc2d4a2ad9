//! Connections between the processes of a world, on one host or several.

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

use frame::{Answer, Hello, Part, Request, VERSION, cut, receive, send};
use hub::Hub;

pub use rendezvous::Rendezvous;
pub(crate) use rendezvous::fnv1a;

use crate::{Error, Result, error::in_one_line};

const PAUSE: Duration = Duration::from_millis(20);
/// Time that a failed rank waits for another rank's failure before it reports its own.
const REASON: Duration = Duration::from_secs(1);
/// Time that a rank waits for the hub beyond the hub's own timeout.
const GRACE: Duration = Duration::from_secs(5);
/// Time limit for the hub to accept a message.
const PROMPT: Duration = Duration::from_secs(10);
const MOST_AT_ONCE: usize = 16;

/// The connection of a rank with all others, through the hub; `None` in a world of one rank.
pub(crate) struct Wire(Option<Connection>);

struct Connection {
    stream: TcpStream,
    size: usize,
    timeout: Duration,
    lost: Option<String>,
    /// The number of NCCL exchanges, including the current one.
    exchanges: u64,
    /// Set once the hub has asked which ranks wait.
    was_asked: bool,
    /// The hub, only on rank 0. Its drop waits until its thread has ended.
    _hub: Option<Hub>,
}

impl Wire {
    pub(crate) fn join(meeting: &Rendezvous, device: String) -> Result<Self> {
        let Rendezvous { rank, size, address, job, timeout, .. } = meeting;
        if *size == 1 {
            return Ok(Self(None));
        }
        let refuse = |reason: String| Error::World { reason: in_one_line(&reason) };
        let hub = match rank {
            0 => listen(address)
                .and_then(|listener| Hub::start(listener, (*job, *size), *timeout))
                .map(Some)
                .map_err(|error| {
                    refuse(format!(
                        "rank 0 cannot listen at {address} ({error}); set WARPFOLD_ADDRESS=host:port in \
                         all ranks, a free port of its host"
                    ))
                })?,
            _ => None,
        };
        let mut stream = connect(address, *timeout).map_err(|error| {
            refuse(format!(
                "rank {rank} cannot reach rank 0 at {address} within {} s ({error})",
                timeout.as_secs_f32()
            ))
        })?;
        let hello =
            Hello { magic: Hello::MAGIC, version: VERSION, job: *job, size: *size, rank: *rank, device };
        let answer = stream
            .set_nodelay(true)
            .and_then(|()| send(&mut stream, &hello, Instant::now() + PROMPT))
            .and_then(|()| receive(&mut stream, Some(Instant::now() + *timeout + GRACE)));
        match answer {
            Ok(Answer::Welcome) => Ok(Self(Some(Connection {
                stream,
                size: *size as usize,
                timeout: *timeout,
                lost: None,
                exchanges: 0,
                was_asked: false,
                _hub: hub,
            }))),
            Ok(Answer::Lost(reason)) => Err(refuse(reason)),
            Ok(_) => Err(refuse(format!("{address} does not answer as warpfold's rank 0"))),
            Err(error) => Err(refuse(format!(
                "{address} does not admit rank {rank} ({}); check that it belongs to the same job",
                describe(&error)
            ))),
        }
    }

    #[cfg(test)]
    fn was_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|connection| connection.was_asked)
    }

    pub(crate) fn begin_exchange(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.exchanges += 1;
            if connection.was_asked {
                connection.report_waiting(false);
            }
        }
    }

    /// Polls for the end of the world while this rank waits for an NCCL exchange.
    pub(crate) fn lost_while_waiting(&mut self) -> Option<Error> {
        self.0.as_mut()?.poll_lost(true)
    }

    /// Polls for the end of the world while this rank does not wait for an exchange.
    pub(crate) fn lost_so_far(&mut self) -> Option<Error> {
        self.0.as_mut()?.poll_lost(false)
    }

    /// Reports that this rank has waited too long for an NCCL exchange, which ends the world. Returns
    /// the error, which names the missing ranks.
    pub(crate) fn waited_too_long(&mut self) -> Error {
        match &mut self.0 {
            Some(connection) => {
                connection.report_waiting(true);
                connection.wait_until_lost()
            }
            None => lost_error("this rank has waited too long for an exchange"),
        }
    }

    /// Returns the error of a world that has ended, with `reason` if the connection has none.
    pub(crate) fn ended(&self, reason: &str) -> Error {
        let lost = self.0.as_ref().and_then(|connection| connection.lost.as_deref());
        lost_error(lost.unwrap_or(reason))
    }

    pub(crate) fn fail(&mut self, reason: &str) {
        if let Some(connection) = self.0.as_mut().filter(|connection| connection.lost.is_none()) {
            connection.send(&Request::Broken(cut(reason.to_owned())));
            connection.wait_until_lost();
        }
    }

    /// Returns the error of the world if that ends within [`REASON`], else calls [`fail`](Self::fail).
    pub(crate) fn fail_unless_lost(&mut self, reason: &str) -> Option<Error> {
        let connection = self.0.as_mut()?;
        let end = Instant::now() + REASON;
        while Instant::now() < end {
            if let Some(lost) = connection.poll_lost(false) {
                return Some(lost);
            }
            thread::sleep(PAUSE);
        }
        self.fail(reason);
        None
    }

    /// Gathers one part from each rank, in rank order. `what` must be the same on all ranks.
    pub(crate) fn gather(&mut self, what: &str, part: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let Some(connection) = &mut self.0 else { return Ok(vec![part?]) };
        let (part, failed) = match part {
            Ok(part) => (Ok(part), None),
            Err(error) => (Err(cut(crate::error::in_full(&error))), Some(error)),
        };
        let answer = connection.exchange(cut(what.to_owned()), part);
        // A rank that failed returns its own error.
        failed.map_or(answer, Err)
    }
}

impl Connection {
    fn exchange(&mut self, what: String, part: Part) -> Result<Vec<Vec<u8>>> {
        if self.lost.is_none() {
            self.send(&Request::Gather { what, part });
        }
        let deadline = self.deadline();
        while self.lost.is_none() {
            match self.receive(true, deadline) {
                Some(Answer::All(parts)) if parts.len() == self.size => return Ok(parts),
                Some(Answer::All(parts)) => {
                    let (found, size) = (parts.len(), self.size);
                    self.lost = Some(format!("rank 0 sent the parts of {found} ranks, not of {size}"));
                }
                Some(Answer::Void(reason)) => {
                    return Err(Error::World { reason: in_one_line(&reason) });
                }
                // `receive` has handled the message.
                Some(_) | None => {}
            }
        }
        Err(self.lost_error())
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout + GRACE
    }

    /// Sends a request; errors surface with the reply.
    fn send(&mut self, request: &Request) {
        if let Err(error) = send(&mut self.stream, request, Instant::now() + PROMPT) {
            match error.kind() {
                // The next receive may return the reason for which the hub has closed the connection.
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {}
                _ => self.lost = Some(format!("rank 0 is gone: {}", describe(&error))),
            }
        }
    }

    /// Receives the hub's next message, and returns it if it answers an exchange. `waits` states whether
    /// this rank waits for others.
    fn receive(&mut self, waits: bool, deadline: Instant) -> Option<Answer> {
        match receive(&mut self.stream, Some(deadline)) {
            Ok(Answer::Lost(reason)) => self.lost = Some(in_one_line(&reason)),
            Ok(Answer::WhoWaits) => {
                // Each later wait is reported too: a rank that has left may have taken part in the
                // current exchange, but not in the next one.
                self.was_asked = true;
                if waits {
                    self.report_waiting(false);
                }
            }
            Ok(Answer::Welcome) => self.lost = Some("rank 0 sent a malformed message".to_owned()),
            Ok(answer) => return Some(answer),
            Err(error) => self.lost = Some(format!("rank 0 is gone: {}", describe(&error))),
        }
        None
    }

    fn poll_lost(&mut self, waits: bool) -> Option<Error> {
        for _ in 0..MOST_AT_ONCE {
            if self.lost.is_some() || !self.has_input() {
                break;
            }
            // Nothing was requested, so the hub has nothing to answer.
            if self.receive(waits, self.deadline()).is_some() {
                self.lost = Some("rank 0 sent an answer without a request".to_owned());
            }
        }
        self.lost.is_some().then(|| self.lost_error())
    }

    fn has_input(&self) -> bool {
        let looked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let restored = self.stream.set_nonblocking(false);
        let waits = looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        !waits || restored.is_err()
    }

    fn report_waiting(&mut self, too_long: bool) {
        let number = self.exchanges;
        self.send(&Request::Waits { number, too_long });
    }

    fn wait_until_lost(&mut self) -> Error {
        let deadline = self.deadline();
        while self.lost.is_none() {
            self.receive(true, deadline);
        }
        self.lost_error()
    }

    fn lost_error(&self) -> Error {
        lost_error(self.lost.as_deref().unwrap_or_default())
    }
}

fn lost_error(reason: &str) -> Error {
    Error::Lost { what: "the world", reason: format!("{reason}; start all ranks again") }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.lost.is_none() {
            // If this fails, the hub notices the end of the connection.
            let bye = Request::Bye(self.exchanges);
            let _ = send(&mut self.stream, &bye, Instant::now() + PROMPT);
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "its connection has ended".to_owned(),
        _ => error.to_string(),
    }
}

/// Listens at an address: on the loopback interface if the host is `localhost` or `127.0.0.1`, else on
/// all interfaces.
fn listen(address: &str) -> io::Result<TcpListener> {
    let (host, port) = address.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let port: u16 = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    match host {
        "127.0.0.1" | "localhost" => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
        _ => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
    }
}

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
