//! The devices and their common limits.

use std::env;
use std::sync::{Arc, LazyLock};

use warpfold_ptx::Arch;
use warpfold_sim::{AddressSpace, Budget};

use super::GraphPool;
use crate::ffi::{ContextId, PoolId};
use crate::host_memory::host_memory;
use crate::inject;
use crate::late;

/// Number of multiprocessors of a device: few, so that small grids fill a device.
pub(crate) const MULTIPROCESSORS: u32 = 8;
const DEVICES: u32 = 1;
const MOST_DEVICES: u32 = 16;
/// Maximum bytes of a device; all devices together have three quarters of the host's memory.
const MEMORY: u64 = 16 << 30;

pub(crate) const DEVICES_VARIABLE: &str = "WARPFOLD_SIM_DEVICES";

/// Environment variable with the allocation granularity in bytes. A GPU rounds sizes up, so a kernel
/// that reads a few bytes past the end works on a GPU. Here it faults, unless this variable has the
/// GPU's granularity.
const ROUND_VARIABLE: &str = "WARPFOLD_SIM_ROUND";
/// Largest granularity: the size of a GPU page.
const MOST_ROUND: u64 = 2 << 20;

/// Environment variable with the compute capability of the devices.
pub const CAPABILITY_VARIABLE: &str = "WARPFOLD_SIM_CAPABILITY";
/// The compute capabilities that devices may have. The limits below are those of 9.0 for all of them.
pub const CAPABILITIES: [&str; 11] =
    ["8.0", "8.6", "8.7", "8.8", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1"];

/// Suffix after the number of devices that makes no device a peer of another.
const APART: &str = ",apart";

/// Limits of a multiprocessor and a block of compute capability 9.0.
pub(crate) mod limits {
    pub(crate) const THREADS_PER_BLOCK: u32 = 1024;
    pub(crate) const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
    pub(crate) const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
    pub(crate) const SHARED_PER_MULTIPROCESSOR: u32 = 228 << 10;
    pub(crate) const SHARED_PER_BLOCK: u32 = 48 << 10;
    pub(crate) const SHARED_PER_BLOCK_OPTIN: u32 = 227 << 10;
    pub(crate) const RESERVED_SHARED_PER_BLOCK: u32 = 1 << 10;
    pub(crate) const SHARED_GRANULARITY: u32 = 128;
    pub(crate) const CLUSTER_BLOCKS: u32 = 8;
}

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) apart: bool,
    /// Allocation granularity in bytes.
    pub(crate) round: u64,
    pub(crate) addresses: Arc<AddressSpace>,
    pub(crate) whole: Arc<Budget>,
    /// The handle of the primary context, active or not, from when it was first asked for.
    pub(crate) primary: Option<ContextId>,
    /// Number of retains of the primary context, which a reset does not change.
    pub(crate) retains: u64,
    /// Flags of the primary context, or of the next one to be created.
    pub(crate) primary_flags: u32,
    pub(crate) default_pool: Option<PoolId>,
    pub(crate) pool: Option<PoolId>,
    pub(crate) graph_pool: GraphPool,
}

/// Returns the architecture of the devices.
pub(crate) fn arch() -> Arch {
    // `all` has returned the error for a wrong variable.
    static ARCH: LazyLock<Arch> = LazyLock::new(|| arch_of_environment().unwrap_or(Arch::SIMULATED));
    *ARCH
}

fn arch_of_environment() -> Result<Arch, String> {
    let text = env::var_os(CAPABILITY_VARIABLE).unwrap_or_default();
    let text = text.to_string_lossy();
    if text.is_empty() {
        return Ok(Arch::SIMULATED);
    }
    let known = CAPABILITIES.contains(&&*text).then(|| format!("sm_{}", text.replace('.', "")));
    known.and_then(|name| name.parse().ok()).ok_or_else(|| {
        let (text, all) = (text.escape_debug(), CAPABILITIES.join(", "));
        format!("{CAPABILITY_VARIABLE} is `{text}`; allowed are {all}")
    })
}

/// Creates the devices that the environment requests. They share the memory of the host. An error
/// describes a wrong environment variable in one line.
pub(super) fn all() -> Result<Vec<Device>, String> {
    arch_of_environment()?;
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
                    "{DEVICES_VARIABLE} is `{text}`; allowed is 1 to {MOST_DEVICES}, optionally \
                     followed by `{APART}` for devices that cannot access each other"
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
    /// Creates a device of `bytes` bytes within `whole`, the budget of all devices together.
    pub(super) fn new(number: u32, bytes: u64, whole: &Arc<Budget>) -> Self {
        let budget = Budget::within(bytes, Arc::clone(whole));
        Self {
            apart: false,
            round: 1,
            addresses: Arc::new(AddressSpace::of_device(number, budget)),
            whole: Arc::clone(whole),
            primary: None,
            retains: 0,
            primary_flags: 0,
            default_pool: None,
            pool: None,
            graph_pool: GraphPool::default(),
        }
    }
}
