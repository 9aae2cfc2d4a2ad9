//! Messages between the ranks and the hub: a length of four bytes, little-endian, and a body.
//!
//! The size of a message is limited, and so is the time to read or write one. A peer that sends byte by
//! byte, or reads nothing, delays others no longer than that time.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// The version of the protocol, incremented with each change of the messages or of their contents.
pub(super) const VERSION: u32 = 2;

pub(super) type Part = Result<Vec<u8>, String>;

pub(super) trait Message: Serialize + for<'a> Deserialize<'a> {
    const MOST_BYTES: u32;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) magic: [u8; 8],
    pub(super) version: u32,
    pub(super) job: u64,
    pub(super) size: u32,
    pub(super) rank: u32,
    pub(super) device: String,
}

impl Hello {
    pub(super) const MAGIC: [u8; 8] = *b"warpfold";
}

impl Message for Hello {
    // Small, because any program that connects may send one.
    const MOST_BYTES: u32 = 4 << 10;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// The rank's part of an exchange, and the name of the exchange.
    Gather { what: String, part: Part },
    /// The rank waits for NCCL exchange `number`. Sent after a wait that is too long, or to answer
    /// [`Answer::WhoWaits`].
    Waits { number: u64, too_long: bool },
    /// The rank failed for this reason.
    Broken(String),
    /// The rank leaves, after it has taken part in this number of NCCL exchanges.
    Bye(u64),
}

impl Message for Request {
    // Room for 16 KiB of the program's data, and for two texts of `MOST_TEXT` bytes.
    const MOST_BYTES: u32 = 32 << 10;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    Welcome,
    All(Vec<Vec<u8>>),
    Void(String),
    /// Requests a [`Request::Waits`] of all ranks that wait for an NCCL exchange.
    WhoWaits,
    Lost(String),
}

impl Message for Answer {
    // Room for the parts of 31 ranks, each of them shorter than a request.
    const MOST_BYTES: u32 = 1 << 20;
}

pub(super) const MOST_TEXT: usize = 4 << 10;

pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST_TEXT));
    text
}

pub(super) fn send<M: Message>(stream: &mut TcpStream, message: &M, end: Instant) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).ok().filter(|&len| len <= M::MOST_BYTES);
    let len = len.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a message is too long"))?;
    // One write, so that the body does not wait for an acknowledgement of the length.
    let frame = [&len.to_le_bytes(), &*body].concat();
    let mut left = &frame[..];
    while !left.is_empty() {
        stream.set_write_timeout(time_left(Some(end))?)?;
        match stream.write(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn receive<M: Message>(stream: &mut TcpStream, end: Option<Instant>) -> io::Result<M> {
    let malformed = || io::Error::new(ErrorKind::InvalidData, "malformed message");
    let mut len = [0; 4];
    read(stream, &mut len, end)?;
    let len = u32::from_le_bytes(len);
    if len > M::MOST_BYTES {
        return Err(malformed());
    }
    let mut body = vec![0; len as usize];
    read(stream, &mut body, end)?;
    postcard::from_bytes(&body).map_err(|_| malformed())
}

fn read(stream: &mut TcpStream, mut bytes: &mut [u8], end: Option<Instant>) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_read_timeout(time_left(end)?)?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the time until `end` as a socket's timeout, which must not be 0.
fn time_left(end: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
