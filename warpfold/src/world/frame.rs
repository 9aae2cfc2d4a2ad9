//! Messages between the ranks and the hub: a length of four bytes, the lowest first, and a body.
//!
//! Whatever comes from another process is bounded: a message in its bytes, and each read and write of
//! one by a time, so that a peer that sends byte by byte, or takes nothing, holds up nobody for longer.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// Changes with every change of the messages, or of what passes between ranks by them.
pub(super) const VERSION: u32 = 2;

/// A rank's part of an exchange, or why it has none.
pub(super) type Given = Result<Vec<u8>, String>;

pub(super) trait Message: Serialize + for<'a> Deserialize<'a> {
    /// Most bytes of such a message.
    const MOST_BYTES: u32;
}

/// The first message of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) magic: [u8; 8],
    pub(super) version: u32,
    pub(super) job: u64,
    pub(super) size: u32,
    pub(super) rank: u32,
    /// The kind of its device.
    pub(super) device: String,
}

impl Hello {
    pub(super) const MAGIC: [u8; 8] = *b"warpfold";
}

impl Message for Hello {
    // Anybody who connects may send one.
    const MOST_BYTES: u32 = 4 << 10;
}

/// A later message of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    /// The exchange that it takes part in, and its part.
    Gather { what: String, given: Given },
    /// It waits for what passes between ranks elsewhere, for the exchange of this number; for longer
    /// than it wants to, or because it was asked.
    Waits { number: u64, too_long: bool },
    /// It cannot go on, and why.
    Broken(String),
    /// It leaves. The number is that of the exchanges elsewhere in which it has taken part.
    Bye(u64),
}

impl Message for Said {
    // Sixteen KiB of a program's own, and two texts of `MOST_TEXT` bytes.
    const MOST_BYTES: u32 = 32 << 10;
}

/// A message of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// All ranks have come.
    Welcome,
    /// The parts of all ranks, in their order.
    All(Vec<Vec<u8>>),
    /// The exchange has failed, of which all ranks know.
    Void(String),
    /// Ranks that wait for what passes elsewhere are to answer.
    WhoWaits,
    /// There are no more exchanges.
    Lost(String),
}

impl Message for Answer {
    // The parts of 31 ranks, each shorter than what the rank has said.
    const MOST_BYTES: u32 = 1 << 20;
}

/// Most bytes of a text that a rank says: the name of an exchange, or a reason.
pub(super) const MOST_TEXT: usize = 4 << 10;

/// A text of at most [`MOST_TEXT`] bytes.
pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST_TEXT));
    text
}

/// Sends a message until a time.
pub(super) fn send<M: Message>(stream: &mut TcpStream, message: &M, end: Instant) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).ok().filter(|&len| len <= M::MOST_BYTES);
    let len = len.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a message is too long"))?;
    // At once, so that nothing waits for an answer in between.
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

/// Receives a message until a time, if there is one.
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

/// The time until `end`, for a timeout of a socket, which cannot be 0.
fn time_left(end: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
