//! The exchange of partial results between the ranks of a world by NCCL, and its negotiation.
//!
//! Each collective call begins with one all-gather of every rank's status, a few words, and of the cell
//! of its device. If all ranks make the same call and none has failed, that is all: the cells are where
//! the combining launch reads them. Otherwise every rank knows it, and all ranks exchange over their
//! connections what they wanted to do, as without NCCL. The connections are polled meanwhile, since
//! they show when a rank has ended; the waiting ranks then abort NCCL.

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
    nccl::{AllGather, Clique, Library, UniqueId, require},
    reducer::Reducer,
    stream::Event,
    world::{Rendezvous, Wire, fnv1a},
};

/// Time after which a wait begins to poll the connections.
const POLL_AFTER: Duration = Duration::from_millis(1);
/// Time limit for NCCL to find the other ranks, which all search at the same time.
const CONNECT: Duration = Duration::from_secs(60);
/// Time in which data that a rank sent before its end may still arrive.
const ARRIVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// Hash of the call's name.
    what: u64,
    /// 1 if this rank has failed.
    has_failed: u64,
    pub(super) elements: u64,
    /// 1 if the cell has a partial result.
    pub(super) has_value: u64,
}

impl Status {
    pub(super) fn new(what: &str, local: Result<(u64, bool), &Error>) -> Self {
        let (elements, has_value) = local.unwrap_or_default();
        let has_failed = u64::from(local.is_err());
        Self { what: fnv1a(what), has_failed, elements, has_value: has_value.into() }
    }

    fn words(self) -> Words {
        [self.what, self.has_failed, self.elements, self.has_value]
    }

    fn from_words([what, has_failed, elements, has_value]: Words) -> Self {
        Self { what, has_failed, elements, has_value }
    }
}

type Words = [u64; 4];

/// Returns whether all ranks make the same call, and none has failed.
pub(super) fn agree(statuses: &[Status]) -> bool {
    statuses.iter().all(|status| status.has_failed == 0 && status.what == statuses[0].what)
}

/// The NCCL communicator of a rank, with what it needs to exchange statuses.
pub(super) struct NcclExchange {
    clique: Clique,
    /// The status of this rank, on the device.
    own: Memory,
    /// The statuses of all ranks, on the device.
    all: Memory,
    host: Option<HostBytes>,
    /// The status in `own`.
    copied: Option<Status>,
    size: usize,
    timeout: Duration,
    is_over: bool,
}

impl NcclExchange {
    /// Negotiates how all ranks exchange values: by NCCL if this returns it.
    pub(super) fn negotiate(
        wire: &mut Wire,
        rendezvous: &Rendezvous,
        reducer: &Reducer,
    ) -> Result<Option<Self>> {
        let device = reducer.device();
        let requested = rendezvous.way;
        if rendezvous.size == 1 && requested != Some(Way::Nccl) {
            return Ok(None);
        }
        let own = Capabilities::new(rendezvous, device);
        let own = postcard::to_allocvec(&own).expect("a card is small");
        let ranks: Vec<Capabilities> = wire
            .gather("the way by which values pass", Ok(own))?
            .iter()
            .map(|rank| postcard::from_bytes(rank))
            .collect::<Result<_, _>>()
            .map_err(|_| super::world::other_version())?;
        match choose(&ranks) {
            Choice::Copies(why) => {
                log::info!("warpfold's {} ranks pass values by connections: {why}", rendezvous.size);
                Ok(None)
            }
            Choice::Refused(reason) => Err(Error::World { reason }),
            Choice::Nccl => match Self::connect(wire, rendezvous, device) {
                // All ranks fail here together: each is told of the others' failures.
                Err(error) if requested.is_none() && !matches!(error, Error::Lost { .. }) => {
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
        let id = UniqueId::from_bytes(&ids[0]).ok_or_else(super::world::other_version)?;
        let clique = Clique::begin(library, &[(rank, device)], size, id);
        let ready = clique.and_then(|mut clique| {
            let (mut watch, patience) = (PeerWatch::new(wire, timeout), CONNECT.min(timeout / 2));
            let check = |waited| match waited > patience {
                true => Err(Error::Nccl { reason: format!("NCCL finds no other rank in {patience:?}") }),
                false => watch.check(waited),
            };
            match clique.wait(Clique::is_ready, check) {
                Ok(()) => Ok(clique),
                Err(error) => {
                    clique.abort();
                    Err(error)
                }
            }
        });
        let made = ready.and_then(|clique| Self::new(clique, size as usize, timeout, device));
        let (made, failed) = match made {
            Ok(made) => (Some(made), None),
            Err(error) => (None, Some(error)),
        };
        // A failure here reaches the other ranks.
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
            host: Some(HostBytes::new(device, size * bytes)?),
            copied: None,
            size,
            timeout,
            is_over: false,
        })
    }

    /// Gathers the statuses of all ranks, and a cell of each, from the address `from` to `to`, after
    /// earlier work on the stream, and waits.
    ///
    /// # Errors
    /// [`Error::Lost`] if a rank has ended or does not come; an error of this rank, which the others
    /// receive. NCCL is aborted then.
    ///
    /// # Safety
    /// As for [`Clique::all_gather`], of a cell.
    pub(super) unsafe fn exchange(
        &mut self,
        wire: &mut Wire,
        stream: &Stream,
        status: Status,
        (from, to): (u64, u64),
    ) -> Result<Vec<Status>> {
        if self.is_over {
            return Err(wire.ended("NCCL has failed"));
        }
        if let Some(lost) = wire.lost_while_waiting() {
            return Err(self.end(wire, stream, lost));
        }
        wire.begin_exchange();
        // SAFETY: the caller's contract.
        let statuses = unsafe { self.all_gather(wire, stream, status, (from, to)) };
        statuses.map_err(|error| self.end(wire, stream, error))
    }

    /// # Safety
    /// As for [`exchange`](Self::exchange).
    unsafe fn all_gather(
        &mut self,
        wire: &mut Wire,
        stream: &Stream,
        status: Status,
        (from, to): (u64, u64),
    ) -> Result<Vec<Status>> {
        let device = stream.device();
        if self.copied != Some(status) {
            device.copy_in(&self.own, bytemuck::bytes_of(&status.words()))?;
            self.copied = Some(status);
        }
        let bytes = size_of::<Words>();
        let (own, all) = (self.own.address(), self.all.address());
        let statuses = AllGather { stream, from: own, to: all, bytes };
        let cells = AllGather { stream, from, to, bytes: CELL_BYTES as usize };
        // SAFETY: the memory of the statuses is this value's, which waits for the exchange; for the
        // cells the caller's contract.
        unsafe { self.clique.all_gather(&[&[statuses, cells]]) }?;
        let mut watch = PeerWatch::new(wire, self.timeout);
        self.clique.wait(Clique::is_ready, |waited| watch.check(waited))?;
        let host = self.host.as_mut().expect("nothing has failed");
        let end = Event::new(device)?;
        device.call("reading what ranks are at", |driver| {
            let to = host.elements::<u8>().as_mut_ptr().cast();
            // SAFETY: there is space for the statuses of all ranks. They are read after the copy has
            // ended; if it may never end, the memory is leaked.
            unsafe { driver.memcpy_dtoh_async(to, all, self.size * bytes, stream.raw()) }
        })?;
        end.record(stream)?;
        // Both are polled, since after a failure on another rank the stream does not advance.
        let is_done = |clique: &Clique| Ok(clique.is_ready()? && end.is_done()?);
        self.clique.wait(is_done, |waited| watch.check(waited))?;
        Ok(host.elements::<Words>()[..self.size].iter().copied().map(Status::from_words).collect())
    }

    /// Aborts NCCL and reports the error to the other ranks, unless the world has ended before.
    pub(super) fn end(&mut self, wire: &mut Wire, stream: &Stream, error: Error) -> Error {
        self.is_over = true;
        let error = match error {
            lost @ Error::Lost { .. } => lost,
            other => wire.fail_unless_lost(&crate::error::in_full(&other)).unwrap_or(other),
        };
        self.clique.abort();
        if !stream.has_ended() {
            self.own.keep_for_good();
            self.all.keep_for_good();
            mem::forget(self.host.take());
        }
        error
    }

    /// Aborts NCCL, without the other ranks, if one of them has ended.
    pub(super) fn leave(&mut self, wire: &mut Wire) {
        if !self.is_over && wire.lost_while_waiting().is_some() {
            self.is_over = true;
            self.clique.abort();
        }
    }
}

/// Polls the connections while this rank waits for an exchange by NCCL.
struct PeerWatch<'w> {
    wire: &'w mut Wire,
    timeout: Duration,
    lost: Option<(Error, Instant)>,
}

impl<'w> PeerWatch<'w> {
    fn new(wire: &'w mut Wire, timeout: Duration) -> Self {
        Self { wire, timeout, lost: None }
    }

    /// Returns an error when there is nothing more to wait for.
    fn check(&mut self, waited: Duration) -> Result<()> {
        match &self.lost {
            // A rank that has ended may have done its part of this exchange before.
            Some((_, since)) if since.elapsed() < ARRIVAL => Ok(()),
            Some(_) => Err(self.lost.take().expect("it was looked at").0),
            None if waited > self.timeout => Err(self.wire.waited_too_long()),
            None if waited < POLL_AFTER => Ok(()),
            None => {
                self.lost = self.wire.lost_while_waiting().map(|lost| (lost, Instant::now()));
                Ok(())
            }
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Capabilities {
    requested: Option<Requested>,
    /// The version, or why there is none.
    nccl: Result<String, String>,
    /// Identifies the GPU among those of all hosts.
    gpu: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Requested {
    Nccl,
    Copies,
    Peers,
}

impl Capabilities {
    fn new(rendezvous: &Rendezvous, device: &Device) -> Self {
        let requested = rendezvous.way.map(|way| match way {
            Way::Nccl => Requested::Nccl,
            Way::Copies => Requested::Copies,
            Way::Peers => Requested::Peers,
        });
        let nccl = match requested {
            Some(Requested::Copies | Requested::Peers) => Err("it was not looked for".to_owned()),
            _ => require(device)
                .and_then(|()| Library::load())
                .map(|library| library.version.to_string())
                .map_err(|error| crate::error::in_full(&error)),
        };
        Self { requested, nccl, gpu: gpu_name(device) }
    }
}

/// Returns a name of the GPU that is unique among all hosts. An unknown host is named after the
/// process, as if each process had a GPU to itself.
fn gpu_name(device: &Device) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let host = host.unwrap_or_else(|_| format!("process {}", std::process::id()));
    let ordinal = warpfold_driver::Device::from_raw(device.info().ordinal.cast_signed());
    let place = device.call("asking where a device is", |driver| driver.device_get_pci_bus_id(ordinal));
    format!("{} {}", host.trim(), place.unwrap_or_else(|_| device.info().ordinal.to_string()))
}

#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Nccl,
    Copies(String),
    Refused(String),
}

fn choose(ranks: &[Capabilities]) -> Choice {
    let mut requests = ranks.iter().zip(0..).filter_map(|(own, rank)| Some((own.requested?, rank)));
    let first = requests.next();
    if let Some((way, of)) = first
        && let Some((other, rank)) = requests.find(|(other, _)| *other != way)
    {
        return Choice::Refused(format!(
            "rank {of} is to take `Way::{way:?}`, rank {rank} `Way::{other:?}`; say the same to all"
        ));
    }
    match (first.map(|(way, _)| way), missing(ranks)) {
        (Some(Requested::Peers), _) => Choice::Refused(
            "`Way::Peers` is for devices of one process; take `Way::Nccl` or `Way::Copies`".to_owned(),
        ),
        (Some(Requested::Copies), _) => Choice::Copies("these were asked for".to_owned()),
        (_, None) => Choice::Nccl,
        (None, Some(missing)) => Choice::Copies(missing),
        (Some(Requested::Nccl), Some(missing)) => Choice::Refused(format!(
            "ranks cannot pass values by NCCL: {missing}; or take `Way::Copies`"
        )),
    }
}

fn missing(ranks: &[Capabilities]) -> Option<String> {
    for (own, rank) in ranks.iter().zip(0..) {
        let version = match &own.nccl {
            Ok(version) => version,
            Err(reason) => return Some(format!("rank {rank}: {}", in_one_line(reason))),
        };
        if let Ok(first) = &ranks[0].nccl
            && first != version
        {
            let [first, version] = [first, version].map(|version| in_one_line(version));
            return Some(format!("rank 0 has NCCL {first}, rank {rank} {version}; install one version"));
        }
        if let Some(other) = ranks[..rank].iter().position(|other| other.gpu == own.gpu) {
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

    fn of(requested: Option<Requested>, nccl: Result<&str, &str>, gpu: &str) -> Capabilities {
        let nccl = nccl.map(str::to_owned).map_err(str::to_owned);
        Capabilities { requested, nccl, gpu: gpu.to_owned() }
    }

    #[test]
    fn nccl_is_taken_where_all_ranks_can() {
        let all = |requested| [of(requested, Ok("2.28.3"), "a"), of(requested, Ok("2.28.3"), "b")];
        assert_eq!(choose(&all(None)), Choice::Nccl);
        assert_eq!(choose(&all(Some(Requested::Nccl))), Choice::Nccl);
        assert_eq!(
            choose(&all(Some(Requested::Copies))),
            Choice::Copies("these were asked for".to_owned())
        );
        assert!(matches!(
            choose(&all(Some(Requested::Peers))),
            Choice::Refused(why) if why.contains("one process")
        ));
        let [first, second] = all(None);
        let second = Capabilities { requested: Some(Requested::Copies), ..second };
        assert!(matches!(choose(&[first, second]), Choice::Copies(_)));
    }

    #[test]
    fn what_nccl_lacks_is_named_and_refused_where_nccl_is_wanted() {
        let fine = || of(None, Ok("2.28.3"), "a");
        let cases = [
            (of(None, Err("no NCCL: not there"), "b"), "rank 1: no NCCL: not there"),
            (of(None, Ok("2.27.5"), "b"), "rank 0 has NCCL 2.28.3, rank 1 2.27.5; install one version"),
            (of(None, Ok("2.28.3"), "a"), "ranks 0 and 1 have the same GPU; give each one of its own"),
        ];
        for (other, why) in cases {
            assert_eq!(choose(&[fine(), other.clone()]), Choice::Copies(why.to_owned()));
            let other = Capabilities { requested: Some(Requested::Nccl), ..other };
            let refused = format!("ranks cannot pass values by NCCL: {why}; or take `Way::Copies`");
            assert_eq!(choose(&[fine(), other]), Choice::Refused(refused));
        }
        let requests = |way| Capabilities { requested: Some(way), ..fine() };
        let refused = "rank 0 is to take `Way::Nccl`, rank 1 `Way::Copies`; say the same to all";
        let choice = choose(&[requests(Requested::Nccl), requests(Requested::Copies)]);
        assert_eq!(choice, Choice::Refused(refused.to_owned()));
    }

    #[test]
    fn ranks_agree_where_none_has_failed_and_all_are_at_the_same() {
        let error = Error::World { reason: String::new() };
        let status = |what: &str, local: Result<(u64, bool), &Error>| Status::new(what, local);
        let sum = status("Sum of f32", Ok((7, true)));
        assert!(agree(&[sum, status("Sum of f32", Ok((0, false)))]));
        assert!(!agree(&[sum, status("Sum of f64", Ok((7, true)))]));
        assert!(!agree(&[sum, status("Sum of f32", Err(&error))]));
    }
}
