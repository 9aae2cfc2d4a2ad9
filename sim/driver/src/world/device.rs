//! The devices, and the limits that all of them have.

use std::env;
use std::sync::Arc;

use warpfold_sim::{AddressSpace, Budget};

use super::GraphPool;
use crate::ffi::{ContextId, PoolId};
use crate::host_memory::host_memory;
use crate::inject;
use crate::late;

/// Multiprocessors: few, so that grids that fill the device stay small.
pub(crate) const MULTIPROCESSORS: u32 = 8;
/// How many devices a process has unless [`DEVICES_VARIABLE`] says otherwise.
const DEVICES: u32 = 1;
/// Devices that a process may have, at most.
const MOST_DEVICES: u32 = 16;
/// Bytes of a device's memory, at most; all devices together have three quarters of the host's.
const MEMORY: u64 = 16 << 30;

/// The environment variable that says how many devices there are.
pub(crate) const DEVICES_VARIABLE: &str = "WARPFOLD_SIM_DEVICES";

/// The environment variable that says to multiples of how many bytes allocations are rounded up. A GPU
/// rounds them, so that a kernel that reads a few bytes too far goes well there; here it faults, unless
/// this says as many as the GPU takes.
const ROUND_VARIABLE: &str = "WARPFOLD_SIM_ROUND";
/// The largest of them, a page of a GPU's.
const MOST_ROUND: u64 = 2 << 20;

/// Behind that number: no device is another one's peer.
const APART: &str = ",apart";

/// What a multiprocessor and a block of compute capability 9.0 have.
pub(crate) mod limits {
    pub(crate) const THREADS_PER_BLOCK: u32 = 1024;
    pub(crate) const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
    pub(crate) const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
    pub(crate) const SHARED_PER_MULTIPROCESSOR: u32 = 228 << 10;
    pub(crate) const SHARED_PER_BLOCK: u32 = 48 << 10;
    pub(crate) const SHARED_PER_BLOCK_OPTIN: u32 = 227 << 10;
    pub(crate) const RESERVED_SHARED_PER_BLOCK: u32 = 1 << 10;
    pub(crate) const CLUSTER_BLOCKS: u32 = 8;
}

/// A device of the process.
#[derive(Debug)]
pub(crate) struct Device {
    /// Whether it reaches no other device's memory.
    pub(crate) apart: bool,
    /// To multiples of how many bytes allocations are rounded up.
    pub(crate) round: u64,
    /// What its contexts allocate from.
    pub(crate) addresses: Arc<AddressSpace>,
    /// The bytes of all devices together.
    pub(crate) whole: Arc<Budget>,
    /// The primary context and how often it was retained.
    pub(crate) primary: Option<(ContextId, u64)>,
    /// Flags of the primary context, the next one if there is none.
    pub(crate) primary_flags: u32,
    /// The pool that it was made with, and the one that is current.
    pub(crate) default_pool: Option<PoolId>,
    pub(crate) pool: Option<PoolId>,
    pub(crate) graph_pool: GraphPool,
}

/// Makes as many devices as the environment asks for; they share what the host can give.
///
/// # Errors
/// What is wrong with the environment, in one line.
pub(super) fn all() -> Result<Vec<Device>, String> {
    inject::check_environment()?;
    late::check_environment()?;
    let text = env::var(DEVICES_VARIABLE).unwrap_or_default();
    let (number, apart) = match text.strip_suffix(APART) {
        Some(number) => (number, true),
        None => (&*text, false),
    };
    let count = match number {
        "" if !apart => DEVICES,
        number => {
            let given = number.parse().ok().filter(|count| (1..=MOST_DEVICES).contains(count));
            given.ok_or_else(|| {
                let text = text.escape_debug();
                format!(
                    "{DEVICES_VARIABLE} is `{text}`; allowed is 1 to {MOST_DEVICES}, with `{APART}` \
                     behind it for devices that do not reach each other"
                )
            })?
        }
    };
    let round = match env::var(ROUND_VARIABLE).unwrap_or_default().as_str() {
        "" => 1,
        text => {
            let given =
                text.parse().ok().filter(|&round: &u64| round.is_power_of_two() && round <= MOST_ROUND);
            given.ok_or_else(|| {
                let text = text.escape_debug();
                format!("{ROUND_VARIABLE} is `{text}`; allowed are powers of two from 1 to {MOST_ROUND}")
            })?
        }
    };
    let whole = Arc::new(Budget::new(host_memory() / 4 * 3));
    let memory = MEMORY.min(whole.limit());
    let device = |number| Device { apart, round, ..Device::new(number, memory, &whole) };
    Ok((0..count).map(device).collect())
}

impl Device {
    /// A device of `bytes` bytes, if those of all devices together, `whole`, have as many left.
    pub(super) fn new(number: u32, bytes: u64, whole: &Arc<Budget>) -> Self {
        let budget = Budget::within(bytes, Arc::clone(whole));
        Self {
            apart: false,
            round: 1,
            addresses: Arc::new(AddressSpace::of_device(number, budget)),
            whole: Arc::clone(whole),
            primary: None,
            primary_flags: 0,
            default_pool: None,
            pool: None,
            graph_pool: GraphPool::default(),
        }
    }
}
