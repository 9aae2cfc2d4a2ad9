//! The exchange of partial results between the ranks of a world by NCCL, and its negotiation.
//!
//! Each collective call begins with an all-gather of every rank's [`Status`] and partial result. If all
//! ranks make the same call and none has failed, the exchange is complete: a launch on each rank
//! combines the gathered partial results. Otherwise the statuses show the difference or failure to every
//! rank, and all ranks repeat the exchange over their connections with rank 0 to find the reason. While
//! a rank waits for NCCL, it polls its connection, and aborts NCCL when another rank has ended.

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
/// Time limit for NCCL to find the other ranks. All ranks begin at about the same time.
const CONNECT: Duration = Duration::from_secs(60);
/// Time after a rank's end in which data that the rank has sent may still arrive.
const ARRIVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// Hash of the call's name.
    what: u64,
    has_failed: u64,
    pub(super) elements: u64,
    /// 1 if the rank has a partial result.
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

pub(super) fn agree(statuses: &[Status]) -> bool {
    statuses.iter().all(|status| status.has_failed == 0 && status.what == statuses[0].what)
}

/// The NCCL communicator of a rank, with buffers for the [`Status`] of each rank.
pub(super) struct NcclExchange {
    clique: Clique,
    own: Memory,
    all: Memory,
    host: Option<HostBytes>,
    /// The status that `own` contains.
    copied: Option<Status>,
    size: usize,
    timeout: Duration,
    is_over: bool,
}

impl NcclExchange {
    /// Negotiates with all ranks how they exchange values. Returns `None` if they use connections.
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
            .gather("the choice of NCCL or connections", Ok(own))?
            .iter()
            .map(|rank| postcard::from_bytes(rank))
            .collect::<Result<_, _>>()
            .map_err(|_| super::world::other_version())?;
        match choose(&ranks) {
            Choice::Copies(why) => {
                log::info!("warpfold's {} ranks exchange values by connections: {why}", rendezvous.size);
                Ok(None)
            }
            Choice::Refused(reason) => Err(Error::World { reason }),
            Choice::Nccl => match Self::connect(wire, rendezvous, device) {
                // All ranks fail here together, because `connect` gathers their failures.
                Err(error) if requested.is_none() && !matches!(error, Error::Lost { .. }) => {
                    let why = crate::error::in_full(&error);
                    log::warn!(
                        "warpfold's {} ranks exchange values by connections: {why}",
                        rendezvous.size
                    );
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
        let ids = wire.gather("an NCCL id", id)?;
        let id = UniqueId::from_bytes(&ids[0]).ok_or_else(super::world::other_version)?;
        let clique = Clique::begin(library, &[(rank, device)], size, id);
        let ready = clique.and_then(|mut clique| {
            let (mut watch, patience) = (PeerWatch::new(wire, timeout), CONNECT.min(timeout / 2));
            let check = |waited| match waited > patience {
                true => Err(Error::Nccl {
                    reason: format!("NCCL has not connected the ranks within {patience:?}"),
                }),
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
        // Reports a failure to the other ranks.
        wire.gather("the NCCL communicators", failed.map_or(Ok(Vec::new()), Err))?;
        log::info!("warpfold's {size} ranks exchange values by NCCL {}", library.version);
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

    /// Gathers the statuses of all ranks, and to `to` the [`CELL_BYTES`] bytes at `from` of each rank,
    /// in stream order. Waits for the exchange. Any error aborts NCCL, which ends the world.
    ///
    /// # Safety
    /// Same as for [`Clique::all_gather`] of [`CELL_BYTES`] bytes from `from` to `to`.
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
        // SAFETY: `from` and `to` meet the conditions of this function, which `all_gather` shares.
        let statuses = unsafe { self.all_gather(wire, stream, status, (from, to)) };
        statuses.map_err(|error| self.end(wire, stream, error))
    }

    /// # Safety
    /// Same as for [`exchange`](Self::exchange).
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
        // SAFETY: `self` owns the memory of the statuses, and waits for the exchange or leaks that
        // memory. `from` and `to` meet the conditions of this function.
        unsafe { self.clique.all_gather(&[&[statuses, cells]]) }?;
        let mut watch = PeerWatch::new(wire, self.timeout);
        self.clique.wait(Clique::is_ready, |waited| watch.check(waited))?;
        let host = self.host.as_mut().expect("nothing has failed");
        let end = Event::new(device)?;
        device.call("reading the ranks' states", |driver| {
            let to = host.elements::<u8>().as_mut_ptr().cast();
            // SAFETY: `host` has space for the statuses of all ranks. The host reads it after the copy
            // has ended. If the copy may still run after an error, `Self::end` leaks the memory.
            unsafe { driver.memcpy_dtoh_async(to, all, self.size * bytes, stream.raw()) }
        })?;
        end.record(stream)?;
        // Both are polled, because the stream does not advance after a failure on another rank.
        let is_done = |clique: &Clique| Ok(clique.is_ready()? && end.is_done()?);
        self.clique.wait(is_done, |waited| watch.check(waited))?;
        Ok(host.elements::<Words>()[..self.size].iter().copied().map(Status::from_words).collect())
    }

    /// Aborts NCCL, and reports the error to the other ranks unless the world has ended before.
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

    /// Aborts NCCL, without a report to the other ranks, if the world has ended.
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

    fn check(&mut self, waited: Duration) -> Result<()> {
        match &self.lost {
            // A rank that has ended may have sent its part of this exchange before.
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
    /// The version, or the reason why NCCL is unavailable.
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
            Some(Requested::Copies | Requested::Peers) => Err("it was not loaded".to_owned()),
            _ => require(device)
                .and_then(|()| Library::load())
                .map(|library| library.version.to_string())
                .map_err(|error| crate::error::in_full(&error)),
        };
        Self { requested, nccl, gpu: gpu_name(device) }
    }
}

/// Returns a name of the GPU that is unique among all hosts. If the host is unknown, the name contains
/// the process number, as if each process had a GPU to itself.
fn gpu_name(device: &Device) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let host = host.unwrap_or_else(|_| format!("process {}", std::process::id()));
    let ordinal = warpfold_driver::Device::from_raw(device.info().ordinal.cast_signed());
    let place =
        device.call("querying a device's PCI address", |driver| driver.device_get_pci_bus_id(ordinal));
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
            "rank {of} requests `Way::{way:?}`, but rank {rank} requests `Way::{other:?}`; request the \
             same for all"
        ));
    }
    match (first.map(|(way, _)| way), missing(ranks)) {
        (Some(Requested::Peers), _) => Choice::Refused(
            "`Way::Peers` is for devices of one process; take `Way::Nccl` or `Way::Copies`".to_owned(),
        ),
        (Some(Requested::Copies), _) => Choice::Copies("they were requested".to_owned()),
        (_, None) => Choice::Nccl,
        (None, Some(missing)) => Choice::Copies(missing),
        (Some(Requested::Nccl), Some(missing)) => Choice::Refused(format!(
            "ranks cannot exchange values by NCCL: {missing}; or take `Way::Copies`"
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
            return Some(format!("ranks {other} and {rank} have the same GPU; give each rank its own"));
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
    fn nccl_is_chosen_if_all_ranks_support_it() {
        let all = |requested| [of(requested, Ok("2.28.3"), "a"), of(requested, Ok("2.28.3"), "b")];
        assert_eq!(choose(&all(None)), Choice::Nccl);
        assert_eq!(choose(&all(Some(Requested::Nccl))), Choice::Nccl);
        assert_eq!(
            choose(&all(Some(Requested::Copies))),
            Choice::Copies("they were requested".to_owned())
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
    fn missing_nccl_support_is_reported_or_rejected_if_requested() {
        let fine = || of(None, Ok("2.28.3"), "a");
        let cases = [
            (of(None, Err("no NCCL: not there"), "b"), "rank 1: no NCCL: not there"),
            (of(None, Ok("2.27.5"), "b"), "rank 0 has NCCL 2.28.3, rank 1 2.27.5; install one version"),
            (of(None, Ok("2.28.3"), "a"), "ranks 0 and 1 have the same GPU; give each rank its own"),
        ];
        for (other, why) in cases {
            assert_eq!(choose(&[fine(), other.clone()]), Choice::Copies(why.to_owned()));
            let other = Capabilities { requested: Some(Requested::Nccl), ..other };
            let refused = format!("ranks cannot exchange values by NCCL: {why}; or take `Way::Copies`");
            assert_eq!(choose(&[fine(), other]), Choice::Refused(refused));
        }
        let requests = |way| Capabilities { requested: Some(way), ..fine() };
        let refused = "rank 0 requests `Way::Nccl`, but rank 1 requests `Way::Copies`; request the same \
                       for all";
        let choice = choose(&[requests(Requested::Nccl), requests(Requested::Copies)]);
        assert_eq!(choice, Choice::Refused(refused.to_owned()));
    }

    #[test]
    fn ranks_agree_on_equal_calls_without_failures() {
        let error = Error::World { reason: String::new() };
        let status = |what: &str, local: Result<(u64, bool), &Error>| Status::new(what, local);
        let sum = status("Sum of f32", Ok((7, true)));
        assert!(agree(&[sum, status("Sum of f32", Ok((0, false)))]));
        assert!(!agree(&[sum, status("Sum of f64", Ok((7, true)))]));
        assert!(!agree(&[sum, status("Sum of f32", Err(&error))]));
    }
}
