//! Several devices of one host as one.

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

use super::Reducer;
use crate::{Device, DeviceInfo, Error, Result, Selection, Stream, error::in_full};
use meeting::Meeting;
use nccl::Collectives;

/// How the devices of a group bring their values together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Each launch stores its value in the memory of one of them, which all reach, and counts itself
    /// there; the last one to arrive writes the result. A reduction is one launch a device. It needs
    /// access from each device to each other one, with atomics, as NVLink has them.
    Peers,
    /// NCCL passes the values of all to all, over whatever joins them, and one more launch where the
    /// result is wanted makes it of them. It needs NVIDIA's `libnccl.so.2`, 2.14 or newer, which is
    /// looked for when the program runs, and GPUs.
    Nccl,
    /// The driver copies the values to the first device, through the host where need be, and one more
    /// launch there makes the result of them. Between processes connections with the first one carry
    /// them.
    Copies,
}

/// Most devices of a group, or ranks of a world: a warp has a lane for each, and one for what brings
/// copies together.
const MOST: usize = warpfold_abi::meeting::MOST_MEMBERS as usize - 1;

/// Several devices of one process, whose buffers are reduced as one. Clones are the same group.
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
/// The elements are those of the first device, then those of the second, and so on: a place counts from
/// the first element of the first one. The same parts on as many devices of the same kind give the same
/// bits on each call. What has the same bits [everywhere](crate::op#the-same-bits) has those of one
/// device with all elements, however they are shared out.
#[derive(Clone)]
pub struct Group(Arc<Inner>);

struct Inner {
    members: Box<[Member]>,
    way: Way,
    /// What [`Way::Nccl`] passes values by.
    collectives: Option<Collectives>,
    /// Those that were used until now, and may still be.
    meetings: Mutex<Vec<Arc<Meeting>>>,
}

/// A device of a group.
struct Member {
    reducer: Reducer,
    /// Where the group enqueues.
    stream: Stream,
}

impl Group {
    /// Opens devices, and makes a group of a reducer of each, as [`new`](Self::new) does.
    ///
    /// # Errors
    /// Those of [`Device::open`] and of [`new`](Self::new).
    pub fn open(devices: &[Selection]) -> Result<Self> {
        let reducer = |&device| Reducer::new(&Device::open(device)?);
        Self::new(&devices.iter().map(reducer).collect::<Result<Vec<_>>>()?)
    }

    /// A group of the devices of reducers: by [`Way::Peers`] where each reaches each other one, else by
    /// [`Way::Nccl`] where that is to be had, else by [`Way::Copies`]. Which it is [`way`](Self::way)
    /// says, and the log says why.
    ///
    /// # Errors
    /// [`Error::Group`] for no devices or more than 31, for one that is there twice, and for devices of
    /// different kinds; [`Error::Driver`] when the driver refuses.
    pub fn new(reducers: &[Reducer]) -> Result<Self> {
        check(reducers)?;
        let count = reducers.len();
        let Some(missing) = missing_access(reducers)? else {
            log::info!("warpfold groups {count} devices by {:?}", Way::Peers);
            return Self::made(reducers, Way::Peers);
        };
        Self::made(reducers, Way::Nccl)
            .inspect(|_| log::info!("warpfold groups {count} devices by {:?}: {missing}", Way::Nccl))
            .or_else(|error| match error {
                Error::Nccl { .. } => {
                    let reason = in_full(&error);
                    log::info!(
                        "warpfold groups {count} devices by {:?}: {missing}; {reason}",
                        Way::Copies
                    );
                    Self::made(reducers, Way::Copies)
                }
                other => Err(other),
            })
    }

    /// The same by a way of the caller's.
    ///
    /// # Errors
    /// As [`new`](Self::new), [`Error::Group`] for [`Way::Peers`] where one of them does not reach
    /// another one, and [`Error::Nccl`] for [`Way::Nccl`] where there is none that works on these
    /// devices.
    pub fn by(way: Way, reducers: &[Reducer]) -> Result<Self> {
        check(reducers)?;
        if way == Way::Peers
            && let Some(missing) = missing_access(reducers)?
        {
            let reason = format!("{missing}; take `Way::Nccl` or `Way::Copies`");
            return Err(Error::Group { reason });
        }
        Self::made(reducers, way)
    }

    fn made(reducers: &[Reducer], way: Way) -> Result<Self> {
        if way == Way::Peers {
            for (device, peer) in pairs(reducers) {
                reach(device, peer)?;
            }
        }
        let member = |reducer: &Reducer| {
            Ok(Member { reducer: reducer.clone(), stream: reducer.device().stream()? })
        };
        let collectives = (way == Way::Nccl).then(|| Collectives::of(reducers)).transpose()?;
        let members = reducers.iter().map(member).collect::<Result<_>>()?;
        Ok(Self(Arc::new(Inner { members, way, collectives, meetings: Mutex::default() })))
    }

    /// How its devices bring their values together.
    pub fn way(&self) -> Way {
        self.0.way
    }

    /// A reducer of each device, in their order: for what is on one alone, and to load a program's own
    /// operation on each.
    pub fn reducers(&self) -> impl ExactSizeIterator<Item = &Reducer> {
        self.0.members.iter().map(|member| &member.reducer)
    }

    /// Returns the devices, in their order.
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

/// The device of each with that of each other one.
fn pairs(reducers: &[Reducer]) -> impl Iterator<Item = (&Device, &Device)> {
    let places = (0..reducers.len()).flat_map(|one| (0..reducers.len()).map(move |other| (one, other)));
    let different = places.filter(|(one, other)| one != other);
    different.map(|(one, other)| (reducers[one].device(), reducers[other].device()))
}

/// Refuses what is no group.
fn check(reducers: &[Reducer]) -> Result<()> {
    let refuse = |reason| Err(Error::Group { reason });
    let count = reducers.len();
    if !(1..=MOST).contains(&count) {
        return refuse(format!("{count} devices; a group has 1 to {MOST}"));
    }
    for (one, other) in pairs(reducers) {
        if is_same(one, other) {
            return refuse(format!("{} is there twice; name each device once", name(one)));
        }
    }
    check_kinds(reducers.iter().map(|reducer| reducer.device().info()))
}

/// Refuses devices whose launches would be others, and so the bits that they give.
fn check_kinds<'a>(mut devices: impl Iterator<Item = &'a DeviceInfo>) -> Result<()> {
    let kind = |info: &DeviceInfo| (info.capability, info.multiprocessors);
    let first = devices.next().expect("a group has a device");
    match devices.find(|info| kind(info) != kind(first)) {
        None => Ok(()),
        Some(other) => {
            let [one, other] = [first, other].map(name_of);
            let reason =
                format!("devices of different kinds, {one} and {other}; make a group of each kind");
            Err(Error::Group { reason })
        }
    }
}

/// What devices must have alike.
#[cfg(feature = "world")]
fn kind_of(device: &Device) -> String {
    let info = device.info();
    let (major, minor) = info.capability;
    let count = info.multiprocessors;
    format!("{} with compute capability {major}.{minor} and {count} multiprocessors", info.name)
}

/// What a device is called beside others.
fn name(device: &Device) -> String {
    name_of(device.info())
}

fn name_of(info: &DeviceInfo) -> String {
    format!("{} {}", info.name, info.ordinal)
}

/// Whether two are of the same GPU, be it in different contexts.
fn is_same(one: &Device, other: &Device) -> bool {
    std::ptr::eq(one.driver(), other.driver()) && one.info().ordinal == other.info().ordinal
}

/// Why [`Way::Peers`] is not to be had, if it is not.
fn missing_access(reducers: &[Reducer]) -> Result<Option<String>> {
    let ordinal = |device: &Device| Ordinal::from_raw(device.info().ordinal.cast_signed());
    for (device, peer) in pairs(reducers) {
        let reaches = device.call("asking for access to another device", |driver| {
            let atomics = sys::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
            let (from, to) = (ordinal(device), ordinal(peer));
            Ok(driver.device_can_access_peer(from, to)?
                && driver.device_get_p2p_attribute(atomics, from, to)? != 0)
        })?;
        if !reaches {
            return Ok(Some(format!(
                "{} does not reach the memory of {} with atomics",
                name(device),
                name(peer)
            )));
        }
    }
    Ok(None)
}

/// Lets a device reach all memory of another one. Nobody takes that back: others in the process may rely
/// on it, too.
fn reach(device: &Device, peer: &Device) -> Result<()> {
    device.call("reaching another device's memory", |driver| {
        // SAFETY: the context is alive as long as the device is borrowed.
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
    fn devices_of_different_kinds_are_no_group() {
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
                    "devices of different kinds, {0} 0 and {0} 2; make a group of each kind",
                    first.name
                )
            );
        }
    }
}
