//! What NCCL passes between the ranks of a world, and how they agree on it.
//!
//! Each exchange of ranks begins with one all-gather: of what each is at, in a few words, and of the
//! cell of its device. Where all are at the same and well, that was all of it, and the values are where
//! the last launch finds them. Else each knows, and all say by their connections what they wanted, as
//! without NCCL. The connections are listened to meanwhile: through them a rank's end is noticed, at
//! which those that wait abort.

use std::{
    fs, mem,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use warpfold_abi::meeting::CELL_BYTES;

use super::Way;
use crate::{
    Device, Error, Result, Stream,
    error::in_one_line,
    memory::{HostBytes, Memory},
    nccl::{Clique, Library, Passage, UniqueId, require},
    reducer::Reducer,
    stream::Event,
    world::{Rendezvous, Wire, fnv1a},
};

/// How often connections are listened to while something is waited for.
const LISTEN: Duration = Duration::from_millis(1);
/// How long NCCL may take to find the other ranks, which all look for each other then.
const CONNECT: Duration = Duration::from_secs(60);
/// How long what a rank gave before its end may take to come.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a rank is at, as it tells all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    /// A number for what it is about.
    what: u64,
    /// 1 for one that has failed.
    has_failed: u64,
    /// A number of elements.
    pub(super) elements: u64,
    /// 1 where the cell has a value.
    pub(super) has_value: u64,
}

impl Note {
    /// A note on `what`. `given` says how many elements there are and whether they have a value, or that
    /// something went wrong.
    pub(super) fn new(what: &str, given: Result<(u64, bool), &Error>) -> Self {
        let (elements, has_value) = given.unwrap_or_default();
        let has_failed = u64::from(given.is_err());
        Self { what: fnv1a(what), has_failed, elements, has_value: has_value.into() }
    }

    /// Gives the words that it passes as.
    fn words(self) -> Words {
        [self.what, self.has_failed, self.elements, self.has_value]
    }

    fn of([what, has_failed, elements, has_value]: Words) -> Self {
        Self { what, has_failed, elements, has_value }
    }
}

type Words = [u64; 4];

/// Whether all are at the same, and well.
pub(super) fn agree(notes: &[Note]) -> bool {
    notes.iter().all(|note| note.has_failed == 0 && note.what == notes[0].what)
}

/// NCCL as it passes values between ranks.
pub(super) struct Passing {
    clique: Clique,
    /// The note of this rank, and those of all, on the device.
    own: Memory,
    all: Memory,
    /// The latter on the host.
    here: Option<HostBytes>,
    /// What is on the device as this rank's.
    told: Option<Note>,
    size: usize,
    timeout: Duration,
    /// Whether nothing passes any more.
    is_over: bool,
}

impl Passing {
    /// How the ranks pass values: by NCCL if this gives it. All ranks come to the same.
    pub(super) fn agreed(
        wire: &mut Wire,
        rendezvous: &Rendezvous,
        reducer: &Reducer,
    ) -> Result<Option<Self>> {
        let device = reducer.device();
        let wanted = rendezvous.way;
        if rendezvous.size == 1 && wanted != Some(Way::Nccl) {
            return Ok(None);
        }
        let card = Card::of(rendezvous, device);
        let card = postcard::to_allocvec(&card).expect("a card is small");
        let cards = wire.gather("the way by which values pass", Ok(card))?;
        let cards: Vec<Card> = cards
            .iter()
            .map(|card| postcard::from_bytes(card))
            .collect::<Result<_, _>>()
            .map_err(|_| super::world::other_version())?;
        match chosen(&cards) {
            Choice::Copies(why) => {
                log::info!("warpfold's {} ranks pass values by connections: {why}", rendezvous.size);
                Ok(None)
            }
            Choice::Refused(reason) => Err(Error::World { reason }),
            Choice::Nccl => match Self::connect(wire, rendezvous, device) {
                // It is so in all ranks, of which each is told.
                Err(error) if wanted.is_none() && !matches!(error, Error::Lost { .. }) => {
                    let why = crate::error::in_full(&error);
                    log::warn!("warpfold's {} ranks pass values by connections: {why}", rendezvous.size);
                    Ok(None)
                }
                connected => connected.map(Some),
            },
        }
    }

    fn connect(wire: &mut Wire, rendezvous: &Rendezvous, device: &Device) -> Result<Self> {
        let library = Library::load()?;
        let Rendezvous { rank, size, timeout, .. } = *rendezvous;
        let id = match rank {
            0 => library.unique_id().map(|id| id.bytes().to_vec()),
            _ => Ok(Vec::new()),
        };
        let ids = wire.gather("an id of NCCL's", id)?;
        let id = UniqueId::of(&ids[0]).ok_or_else(super::world::other_version)?;
        let begun = Clique::begin(library, &[(rank, device)], size, id);
        let made = begun.and_then(|mut clique| {
            let (mut ears, patience) = (Ears::new(wire, timeout), CONNECT.min(timeout / 2));
            let in_time = |waited| match waited > patience {
                true => Err(Error::Nccl { reason: format!("NCCL finds no other rank in {patience:?}") }),
                false => ears.listen(waited),
            };
            match clique.wait(Clique::is_ready, in_time) {
                Ok(()) => Ok(clique),
                Err(error) => {
                    clique.abort();
                    Err(error)
                }
            }
        });
        let made = made.and_then(|clique| Self::new(clique, size as usize, timeout, device));
        let (made, failed) = match made {
            Ok(made) => (Some(made), None),
            Err(error) => (None, Some(error)),
        };
        // One that failed has the others know.
        wire.gather("NCCL's communicators", failed.map_or(Ok(Vec::new()), Err))?;
        log::info!("warpfold's {size} ranks pass values by NCCL {}", library.version);
        Ok(made.expect("it was made here, or all have failed"))
    }

    fn new(clique: Clique, size: usize, timeout: Duration, device: &Device) -> Result<Self> {
        let bytes = size_of::<Words>();
        Ok(Self {
            clique,
            own: Memory::new(device, bytes as u64)?,
            all: Memory::new(device, (size * bytes) as u64)?,
            here: Some(HostBytes::new(device, size * bytes)?),
            told: None,
            size,
            timeout,
            is_over: false,
        })
    }

    /// Passes the notes of all ranks to all, with a cell of each, `from` here to `to`, behind what is
    /// enqueued on a stream, and waits for it.
    ///
    /// # Errors
    /// [`Error::Lost`] where a rank has ended, or does not come; what went wrong here, which the others
    /// are told. Then nothing passes any more.
    ///
    /// # Safety
    /// As of [`Clique::all_gather`], of a cell.
    pub(super) unsafe fn exchange(
        &mut self,
        wire: &mut Wire,
        stream: &Stream,
        note: Note,
        (from, to): (u64, u64),
    ) -> Result<Vec<Note>> {
        if self.is_over {
            return Err(wire.over("NCCL has failed"));
        }
        if let Some(lost) = wire.lost_meanwhile() {
            return Err(self.end(wire, stream, lost));
        }
        wire.passes();
        // SAFETY: the caller's contract.
        let passed = unsafe { self.pass(wire, stream, note, (from, to)) };
        passed.map_err(|error| self.end(wire, stream, error))
    }

    /// # Safety
    /// As of [`exchange`](Self::exchange).
    unsafe fn pass(
        &mut self,
        wire: &mut Wire,
        stream: &Stream,
        note: Note,
        (from, to): (u64, u64),
    ) -> Result<Vec<Note>> {
        let device = stream.device();
        if self.told != Some(note) {
            device.copy_in(&self.own, bytemuck::bytes_of(&note.words()))?;
            self.told = Some(note);
        }
        let bytes = size_of::<Words>();
        let (own, all) = (self.own.address(), self.all.address());
        let notes = Passage { stream, from: own, to: all, bytes };
        let cells = Passage { stream, from, to, bytes: CELL_BYTES as usize };
        // SAFETY: the notes are of this one, which waits until they have passed; of the cells the
        // caller's contract.
        unsafe { self.clique.all_gather(&[&[notes, cells]]) }?;
        let mut ears = Ears::new(wire, self.timeout);
        self.clique.wait(Clique::is_ready, |waited| ears.listen(waited))?;
        let here = self.here.as_mut().expect("nothing has failed");
        let end = Event::new(device)?;
        device.call("reading what ranks are at", |driver| {
            let to = here.elements::<u8>().as_mut_ptr().cast();
            // SAFETY: there is room for the notes of all, which are read when this has ended; where it
            // may never, the memory is kept for good.
            unsafe { driver.memcpy_dtoh_async(to, all, self.size * bytes, stream.raw()) }
        })?;
        end.record(stream)?;
        // Either is asked, since what has failed elsewhere leaves the stream where it is.
        let is_done = |clique: &Clique| Ok(clique.is_ready()? && end.is_done()?);
        self.clique.wait(is_done, |waited| ears.listen(waited))?;
        Ok(here.elements::<Words>()[..self.size].iter().copied().map(Note::of).collect())
    }

    /// Aborts, and has the others know why, unless they know better.
    pub(super) fn end(&mut self, wire: &mut Wire, stream: &Stream, error: Error) -> Error {
        self.is_over = true;
        let error = match error {
            lost @ Error::Lost { .. } => lost,
            other => wire.cannot_go_on(&crate::error::in_full(&other)).unwrap_or(other),
        };
        self.clique.abort();
        if !stream.has_ended() {
            self.own.keep_for_good();
            self.all.keep_for_good();
            mem::forget(self.here.take());
        }
        error
    }

    /// Ends without the others where one of them has ended before.
    pub(super) fn leave(&mut self, wire: &mut Wire) {
        if !self.is_over && wire.lost_meanwhile().is_some() {
            self.is_over = true;
            self.clique.abort();
        }
    }
}

/// What hears of the other ranks while something is waited for.
struct Ears<'w> {
    wire: &'w mut Wire,
    timeout: Duration,
    /// What was heard, and when.
    lost: Option<(Error, Instant)>,
}

impl<'w> Ears<'w> {
    fn new(wire: &'w mut Wire, timeout: Duration) -> Self {
        Self { wire, timeout, lost: None }
    }

    /// Whether to go on waiting.
    fn listen(&mut self, waited: Duration) -> Result<()> {
        match &self.lost {
            // A rank that has ended may have done its part of this before.
            Some((_, since)) if since.elapsed() < LAST_WORDS => Ok(()),
            Some(_) => Err(self.lost.take().expect("it was looked at").0),
            None if waited > self.timeout => Err(self.wire.waits_too_long()),
            None if waited < LISTEN => Ok(()),
            None => {
                self.lost = self.wire.lost_meanwhile().map(|lost| (lost, Instant::now()));
                Ok(())
            }
        }
    }
}

/// What a rank tells of itself before values pass.
#[derive(Clone, Serialize, Deserialize)]
struct Card {
    /// What it is to take, if anybody says so.
    wanted: Option<Wanted>,
    /// The version of its NCCL, or why it has none.
    nccl: Result<String, String>,
    /// What tells its GPU from all others.
    gpu: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Wanted {
    Nccl,
    Copies,
    Peers,
}

impl Card {
    fn of(rendezvous: &Rendezvous, device: &Device) -> Self {
        let wanted = rendezvous.way.map(|way| match way {
            Way::Nccl => Wanted::Nccl,
            Way::Copies => Wanted::Copies,
            Way::Peers => Wanted::Peers,
        });
        let nccl = match wanted {
            Some(Wanted::Copies | Wanted::Peers) => Err("it was not looked for".to_owned()),
            _ => require(device)
                .and_then(|()| Library::load())
                .map(|library| library.version.to_string())
                .map_err(|error| crate::error::in_full(&error)),
        };
        Self { wanted, nccl, gpu: gpu(device) }
    }
}

/// A device as nobody else's on any host: where it is not known, the process has one to itself.
fn gpu(device: &Device) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let host = host.unwrap_or_else(|_| format!("process {}", std::process::id()));
    let ordinal = warpfold_driver::Device::from_raw(device.info().ordinal.cast_signed());
    let place = device.call("asking where a device is", |driver| driver.device_get_pci_bus_id(ordinal));
    format!("{} {}", host.trim(), place.unwrap_or_else(|_| device.info().ordinal.to_string()))
}

/// What comes of all cards.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Nccl,
    /// By copies, and why so.
    Copies(String),
    /// Not at all, and why not.
    Refused(String),
}

fn chosen(cards: &[Card]) -> Choice {
    let mut asked = cards.iter().zip(0..).filter_map(|(card, rank)| Some((card.wanted?, rank)));
    let wanted = asked.next();
    if let Some((first, of)) = wanted
        && let Some((other, rank)) = asked.find(|(other, _)| *other != first)
    {
        return Choice::Refused(format!(
            "rank {of} is to take `Way::{first:?}`, rank {rank} `Way::{other:?}`; say the same to all"
        ));
    }
    match (wanted.map(|(wanted, _)| wanted), missing(cards)) {
        (Some(Wanted::Peers), _) => Choice::Refused(
            "`Way::Peers` is for devices of one process; take `Way::Nccl` or `Way::Copies`".to_owned(),
        ),
        (Some(Wanted::Copies), _) => Choice::Copies("these were asked for".to_owned()),
        (_, None) => Choice::Nccl,
        (None, Some(missing)) => Choice::Copies(missing),
        (Some(Wanted::Nccl), Some(missing)) => Choice::Refused(format!(
            "ranks cannot pass values by NCCL: {missing}; or take `Way::Copies`"
        )),
    }
}

/// What NCCL lacks to pass values between all ranks, if it lacks anything.
fn missing(cards: &[Card]) -> Option<String> {
    for (card, rank) in cards.iter().zip(0..) {
        let version = match &card.nccl {
            Ok(version) => version,
            Err(reason) => return Some(format!("rank {rank}: {}", in_one_line(reason))),
        };
        if let Ok(first) = &cards[0].nccl
            && first != version
        {
            let [first, version] = [first, version].map(|version| in_one_line(version));
            return Some(format!("rank 0 has NCCL {first}, rank {rank} {version}; install one version"));
        }
        if let Some(other) = cards[..rank].iter().position(|other| other.gpu == card.gpu) {
            return Some(format!(
                "ranks {other} and {rank} have the same GPU; give each one of its own"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(wanted: Option<Wanted>, nccl: Result<&str, &str>, gpu: &str) -> Card {
        Card { wanted, nccl: nccl.map(str::to_owned).map_err(str::to_owned), gpu: gpu.to_owned() }
    }

    #[test]
    fn nccl_is_taken_where_all_ranks_can() {
        let all = |wanted| [card(wanted, Ok("2.28.3"), "a"), card(wanted, Ok("2.28.3"), "b")];
        assert_eq!(chosen(&all(None)), Choice::Nccl);
        assert_eq!(chosen(&all(Some(Wanted::Nccl))), Choice::Nccl);
        assert_eq!(
            chosen(&all(Some(Wanted::Copies))),
            Choice::Copies("these were asked for".to_owned())
        );
        assert!(
            matches!(chosen(&all(Some(Wanted::Peers))), Choice::Refused(why) if why.contains("one process"))
        );
        // One that says nothing follows.
        let [first, second] = all(None);
        let second = Card { wanted: Some(Wanted::Copies), ..second };
        assert!(matches!(chosen(&[first, second]), Choice::Copies(_)));
    }

    #[test]
    fn what_nccl_lacks_is_named_and_refused_where_nccl_is_wanted() {
        let fine = || card(None, Ok("2.28.3"), "a");
        let cases = [
            (card(None, Err("no NCCL: not there"), "b"), "rank 1: no NCCL: not there"),
            (
                card(None, Ok("2.27.5"), "b"),
                "rank 0 has NCCL 2.28.3, rank 1 2.27.5; install one version",
            ),
            (card(None, Ok("2.28.3"), "a"), "ranks 0 and 1 have the same GPU; give each one of its own"),
        ];
        for (other, why) in cases {
            assert_eq!(chosen(&[fine(), other.clone()]), Choice::Copies(why.to_owned()));
            let other = Card { wanted: Some(Wanted::Nccl), ..other };
            let refused = format!("ranks cannot pass values by NCCL: {why}; or take `Way::Copies`");
            assert_eq!(chosen(&[fine(), other]), Choice::Refused(refused));
        }
        let wants = |wanted| Card { wanted: Some(wanted), ..fine() };
        let refused = "rank 0 is to take `Way::Nccl`, rank 1 `Way::Copies`; say the same to all";
        let chosen = chosen(&[wants(Wanted::Nccl), wants(Wanted::Copies)]);
        assert_eq!(chosen, Choice::Refused(refused.to_owned()));
    }

    #[test]
    fn ranks_agree_where_none_has_failed_and_all_are_at_the_same() {
        let error = Error::World { reason: String::new() };
        let note = |what: &str, given: Result<(u64, bool), &Error>| Note::new(what, given);
        let sum = note("Sum of f32", Ok((7, true)));
        assert!(agree(&[sum, note("Sum of f32", Ok((0, false)))]));
        assert!(!agree(&[sum, note("Sum of f64", Ok((7, true)))]));
        assert!(!agree(&[sum, note("Sum of f32", Err(&error))]));
    }
}
