//! What ranks and the hub between them say to each other: a length of four bytes, the lowest first, and
//! a message.

use std::io::{self, ErrorKind, Read, Write};

use serde::{Deserialize, Serialize};

/// Changes with every change of what is said here, or of what passes between ranks by it.
pub(super) const VERSION: u32 = 2;

/// Most bytes of a message: cells and lengths are small.
const MOST_BYTES: u32 = 1 << 20;

/// What a rank brings to an exchange, or why it has nothing to bring.
pub(super) type Given = Result<Vec<u8>, String>;

/// The first thing that a rank says.
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

/// What a rank says afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    /// What it does with the others next, and its part of that.
    Gather { what: String, given: Given },
    /// It waits for what passes between ranks elsewhere, for the thing of this number; for longer than
    /// it wants to, or because it was asked.
    Waits { number: u64, too_long: bool },
    /// It cannot go on, and why.
    Broken(String),
    /// It goes. The number says in how many of the things that passed elsewhere it has taken part.
    Bye(u64),
}

/// What the hub says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// All ranks have come.
    Welcome,
    /// What each rank has brought, in their order.
    All(Vec<Vec<u8>>),
    /// Nothing came of the exchange, of which all ranks know.
    Void(String),
    /// Who waits for what passes elsewhere is to say so.
    WhoWaits,
    /// There are no more exchanges.
    Lost(String),
}

pub(super) fn send<M: Serialize>(stream: &mut impl Write, message: &M) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).ok().filter(|&len| len <= MOST_BYTES);
    let len = len.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a message is too long"))?;
    // At once, so that nothing waits for an answer in between.
    stream.write_all(&[&len.to_le_bytes(), &*body].concat())
}

pub(super) fn receive<M: for<'a> Deserialize<'a>>(stream: &mut impl Read) -> io::Result<M> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len);
    if len > MOST_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidData, "what came is no message"));
    }
    let mut body = vec![0; len as usize];
    stream.read_exact(&mut body)?;
    postcard::from_bytes(&body)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "what came is no message"))
}
