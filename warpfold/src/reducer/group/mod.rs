//! Groups of devices, whose buffers are reduced as one.

mod input;
mod launches;
mod meeting;
mod nccl;
mod outputs;
#[cfg(feature = "world")]
mod passing;
mod recording;
mod shapes;
mod sharded;
mod streamed;
mod waited;
#[cfg(feature = "world")]
mod world;
#[cfg(feature = "world")]
mod world_shapes;

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use warpfold_driver::{Device as Ordinal, sys};

pub use input::{GroupInput, ShardedAxis, ShardedKeys, ShardedRows};
pub(super) use launches::Shared;
pub use outputs::GroupOutputs;
pub use recording::GroupRecording;
pub use sharded::Sharded;
pub use streamed::GroupStreamed;
#[cfg(feature = "world")]
pub use world::{Distributed, World};

use super::{Code, Reducer, running::MOST};
use crate::{Device, DeviceInfo, Error, Result, Selection, Stream, error::in_full};
use meeting::Meeting;
use nccl::Collectives;

/// The transport of partial results between the devices of a group, or the ranks of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Peer access: each launch stores its partial result in the memory of one of the devices and
    /// increments a counter there; the last launch to arrive writes the result. A reduction is one
    /// launch per device. It needs peer access with atomics between all devices, as over NVLink.
    Peers,
    /// NCCL: it gathers the partial results on all devices, over any interconnect, and one more launch
    /// on each device that gets the result combines them. It needs GPUs and NVIDIA's `libnccl.so.2`,
    /// 2.14 or newer, which is loaded at run time.
    Nccl,
    /// Copies: the driver copies the partial results to the first device, through the host if necessary,
    /// and one more launch there combines them. The ranks of a world send them over TCP connections with
    /// rank 0.
    Copies,
}

/// Maximum number of devices of a group or ranks of a world: a warp has a lane for each, and one for the
/// launch that combines copies.
const MAX_MEMBERS: usize = warpfold_abi::meeting::MOST_MEMBERS as usize - 1;

/// Several devices of one process, whose buffers are reduced as one. Clones refer to the same group.
///
/// ```no_run
/// use warpfold::{Group, Selection, op};
///
/// let group = Group::open(&[Selection::CudaOrdinal(0), Selection::CudaOrdinal(1)])?;
/// let values = group.upload(&vec![1.5_f32; 1 << 20])?;
/// assert_eq!(group.reduce(op::Sum, &values)?, 1.5 * (1 << 20) as f32);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Results
/// The elements are those of the first device, then those of the second, and so on: indices count from
/// the first element of the first device. The same parts on the same number of devices of the same kind
/// give the same bits on each call. Results that have the same bits
/// [everywhere](crate::op#the-same-bits) are those of one device with all elements.
#[derive(Clone)]
pub struct Group(Arc<Inner>);

struct Inner {
    members: Box<[Member]>,
    way: Way,
    collectives: Option<Collectives>,
    /// All meetings that were created and have not failed, in use or not.
    meetings: Mutex<Vec<Arc<Meeting>>>,
}

struct Member {
    reducer: Reducer,
    stream: Stream,
}

impl Group {
    /// Opens devices and creates a group with a new reducer on each, as [`new`](Self::new) does.
    ///
    /// # Errors
    /// The errors of [`Device::open`] and of [`new`](Self::new).
    pub fn open(devices: &[Selection]) -> Result<Self> {
        let reducer = |&device| Reducer::new(&Device::open(device)?);
        Self::new(&devices.iter().map(reducer).collect::<Result<Vec<_>>>()?)
    }

    /// Creates a group of the reducers' devices. They exchange partial results by [`Way::Peers`] if each
    /// can access the others' memory, else by [`Way::Nccl`] if that is available, else by
    /// [`Way::Copies`]. [`way`](Self::way) returns the choice, and the log has its reason.
    ///
    /// # Errors
    /// [`Error::Group`] for no devices or more than 31, for a device given twice, and for devices of
    /// different kinds; [`Error::Driver`] if a driver call fails.
    pub fn new(reducers: &[Reducer]) -> Result<Self> {
        check(reducers)?;
        let count = reducers.len();
        let Some(missing) = missing_access(reducers)? else {
            log::info!("warpfold groups {count} devices by {:?}", Way::Peers);
            return Self::with_way(reducers, Way::Peers);
        };
        Self::with_way(reducers, Way::Nccl)
            .inspect(|_| log::info!("warpfold groups {count} devices by {:?}: {missing}", Way::Nccl))
            .or_else(|error| match error {
                Error::Nccl { .. } => {
                    let reason = in_full(&error);
                    log::info!(
                        "warpfold groups {count} devices by {:?}: {missing}; {reason}",
                        Way::Copies
                    );
                    Self::with_way(reducers, Way::Copies)
                }
                other => Err(other),
            })
    }

    /// Creates a group that exchanges partial results in the given way.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new); [`Error::Group`] for [`Way::Peers`] if a device cannot access
    /// another one; [`Error::Nccl`] for [`Way::Nccl`] if NCCL is missing or fails on these devices.
    pub fn by(way: Way, reducers: &[Reducer]) -> Result<Self> {
        check(reducers)?;
        if way == Way::Peers
            && let Some(missing) = missing_access(reducers)?
        {
            let reason = format!("{missing}; take `Way::Nccl` or `Way::Copies`");
            return Err(Error::Group { reason });
        }
        Self::with_way(reducers, way)
    }

    fn with_way(reducers: &[Reducer], way: Way) -> Result<Self> {
        if way == Way::Peers {
            for (device, peer) in pairs(reducers) {
                enable_peer_access(device, peer)?;
            }
        }
        let member = |reducer: &Reducer| {
            Ok(Member { reducer: reducer.clone(), stream: reducer.device().stream()? })
        };
        let collectives = (way == Way::Nccl).then(|| Collectives::new(reducers)).transpose()?;
        let members = reducers.iter().map(member).collect::<Result<_>>()?;
        Ok(Self(Arc::new(Inner { members, way, collectives, meetings: Mutex::default() })))
    }

    /// Returns how the devices exchange their partial results.
    pub fn way(&self) -> Way {
        self.0.way
    }

    /// Returns the devices' reducers, in the order of the devices. Use them to reduce the elements
    /// of one device alone, or to load a program's own operation on each.
    pub fn reducers(&self) -> impl ExactSizeIterator<Item = &Reducer> {
        self.0.members.iter().map(|member| &member.reducer)
    }

    fn devices(&self) -> impl ExactSizeIterator<Item = &Device> {
        self.reducers().map(Reducer::device)
    }

    fn members(&self) -> &[Member] {
        &self.0.members
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<&Device> = self.devices().collect();
        f.debug_struct("Group").field("devices", &devices).field("way", &self.way()).finish()
    }
}

fn pairs(reducers: &[Reducer]) -> impl Iterator<Item = (&Device, &Device)> {
    let indices = (0..reducers.len()).flat_map(|one| (0..reducers.len()).map(move |other| (one, other)));
    let different = indices.filter(|(one, other)| one != other);
    different.map(|(one, other)| (reducers[one].device(), reducers[other].device()))
}

fn check(reducers: &[Reducer]) -> Result<()> {
    let refuse = |reason| Err(Error::Group { reason });
    let count = reducers.len();
    if !(1..=MAX_MEMBERS).contains(&count) {
        return refuse(format!("{count} devices are given; a group has 1 to {MAX_MEMBERS}"));
    }
    for (one, other) in pairs(reducers) {
        if is_same(one, other) {
            return refuse(format!("{} is given twice; name each device once", name(one)));
        }
    }
    check_kinds(reducers.iter().map(|reducer| reducer.device().info()))
}

fn check_len(code: &Code, n: u64) -> Result<()> {
    let most = code.most_running().unwrap_or(MOST);
    if n > most { Err(Error::TooManyElements { n, most }) } else { Ok(()) }
}

/// Returns an error for devices of different kinds: their launches, and so the bits of the results,
/// would differ.
fn check_kinds<'a>(mut devices: impl Iterator<Item = &'a DeviceInfo>) -> Result<()> {
    let kind = |info: &DeviceInfo| (info.capability, info.multiprocessors);
    let first = devices.next().expect("a group has a device");
    match devices.find(|info| kind(info) != kind(first)) {
        None => Ok(()),
        Some(other) => {
            let [one, other] = [first, other].map(name_of);
            let reason = format!(
                "the devices {one} and {other} are of different kinds; make a group of each kind"
            );
            Err(Error::Group { reason })
        }
    }
}

/// Describes the properties that the devices of all ranks must share.
#[cfg(feature = "world")]
fn kind_of(device: &Device) -> String {
    let info = device.info();
    let (major, minor) = info.capability;
    let count = info.multiprocessors;
    format!("{} with compute capability {major}.{minor} and {count} multiprocessors", info.name)
}

fn name(device: &Device) -> String {
    name_of(device.info())
}

fn name_of(info: &DeviceInfo) -> String {
    format!("{} {}", info.name, info.ordinal)
}

/// Returns whether both are the same GPU, possibly in different contexts.
fn is_same(one: &Device, other: &Device) -> bool {
    std::ptr::eq(one.driver(), other.driver()) && one.info().ordinal == other.info().ordinal
}

fn missing_access(reducers: &[Reducer]) -> Result<Option<String>> {
    let ordinal = |device: &Device| Ordinal::from_raw(device.info().ordinal.cast_signed());
    for (device, peer) in pairs(reducers) {
        let reaches = device.call("querying access to another device", |driver| {
            let atomics = sys::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
            let (from, to) = (ordinal(device), ordinal(peer));
            Ok(driver.device_can_access_peer(from, to)?
                && driver.device_get_p2p_attribute(atomics, from, to)? != 0)
        })?;
        if !reaches {
            return Ok(Some(format!(
                "{} cannot access the memory of {} with atomics",
                name(device),
                name(peer)
            )));
        }
    }
    Ok(None)
}

/// Enables access to another device's memory, and never disables it, since other code in the process may
/// rely on it.
fn enable_peer_access(device: &Device, peer: &Device) -> Result<()> {
    device.call("enabling access to another device's memory", |driver| {
        // SAFETY: the peer's context is alive while the peer is borrowed.
        let enabled = unsafe { driver.ctx_enable_peer_access(peer.context()) };
        enabled.or_else(|error| match error.code {
            sys::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            _ => Err(error),
        })
    })
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use super::*;

    #[test]
    fn devices_of_different_kinds_are_rejected() {
        let first = Device::open(Selection::Sim).unwrap().info().clone();
        let like = DeviceInfo { ordinal: 1, name: "another name".to_owned(), ..first.clone() };
        assert!(check_kinds([&first, &like].into_iter()).is_ok());
        let newer = DeviceInfo { capability: (10, 0), ordinal: 2, ..first.clone() };
        let smaller = DeviceInfo { multiprocessors: 7, ordinal: 2, ..first.clone() };
        for other in [newer, smaller] {
            let error = check_kinds([&first, &like, &other].into_iter()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the devices {0} 0 and {0} 2 are of different kinds; make a group of each kind",
                    first.name
                )
            );
        }
    }
}
