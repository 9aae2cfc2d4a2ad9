use warpfold_driver::sys::*;
use warpfold_ptx::Arch;

use crate::export_table::Identity;
use crate::failure::{Outcome, fail};
use crate::ffi::{Buffer, Out, PoolId, Text};
use crate::world::{self, MULTIPROCESSORS, State, limits};

const NAME: &str = "PTX simulator";
/// PCI bus number of the first device. Each device has a bus of its own.
const FIRST_BUS: c_int = 0xf0;

pub(crate) fn checked(state: &State, device: CUdevice) -> Outcome<u32> {
    match u32::try_from(device) {
        Ok(number) if (number as usize) < state.devices.len() => Ok(number),
        _ => fail(CUDA_ERROR_INVALID_DEVICE),
    }
}

pub(crate) fn cuDeviceGet(device: Out<CUdevice>, ordinal: c_int) -> Outcome {
    checked(&world::lock(), ordinal)?;
    device.put(ordinal)
}

pub(crate) fn cuDeviceGetCount(count: Out<c_int>) -> Outcome {
    count.put(world::lock().devices.len() as c_int)
}

pub(crate) fn cuDeviceGetName(name: Buffer, len: c_int, device: CUdevice) -> Outcome {
    checked(&world::lock(), device)?;
    name.put(len, NAME)
}

pub(crate) fn cuDeviceGetUuid(uuid: Out<CUuuid>, device: CUdevice) -> Outcome {
    let number = checked(&world::lock(), device)?;
    uuid.put(CUuuid { bytes: uuid_of(number as u8) })
}

fn uuid_of(number: u8) -> [u8; 16] {
    let mut bytes = *b"warpfold-sim-gpu";
    bytes[15] = number;
    bytes
}

/// Returns the identities of all devices, as their attributes give them.
pub(crate) fn identities(state: &State) -> Vec<Identity> {
    let numbers = 0..state.devices.len() as u8;
    let of = |number| Identity { uuid: uuid_of(number), pci: [0, FIRST_BUS + i32::from(number), 0] };
    numbers.map(of).collect()
}

pub(crate) fn cuDeviceGetUuid_v2(uuid: Out<CUuuid>, device: CUdevice) -> Outcome {
    cuDeviceGetUuid(uuid, device)
}

pub(crate) fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: CUdevice) -> Outcome {
    let state = world::lock();
    let number = checked(&state, device)?;
    bytes.put(state.devices[number as usize].addresses.budget().limit() as usize)
}

pub(crate) fn cuDeviceComputeCapability(
    major: Out<c_int>,
    minor: Out<c_int>,
    device: CUdevice,
) -> Outcome {
    checked(&world::lock(), device)?;
    let capability = world::arch().capability();
    major.put(as_c_int(capability.0))?;
    minor.put(as_c_int(capability.1))
}

pub(crate) fn cuDeviceGetPCIBusId(pci_bus_id: Buffer, len: c_int, device: CUdevice) -> Outcome {
    checked(&world::lock(), device)?;
    if len < 13 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    pci_bus_id.put(len, &pci_name(device))
}

fn pci_name(device: CUdevice) -> String {
    format!("0000:{:02X}:00.0", FIRST_BUS + device)
}

pub(crate) fn cuDeviceGetByPCIBusId(device: Out<CUdevice>, pci_bus_id: Text) -> Outcome {
    let count = world::lock().devices.len() as c_int;
    let asked = pci_bus_id.0.to_ascii_uppercase();
    // The domain and the function of a PCI address are optional.
    let is_asked = |device: &CUdevice| {
        let name = pci_name(*device);
        [&name[..], &name[5..], &name[..10], &name[5..10]].contains(&&*asked)
    };
    match (0..count).find(is_asked) {
        Some(found) => device.put(found),
        None => fail(CUDA_ERROR_INVALID_DEVICE),
    }
}

pub(crate) fn cuDeviceGetDefaultMemPool(pool: Out<CUmemoryPool>, device: CUdevice) -> Outcome {
    let state = world::lock();
    let number = checked(&state, device)?;
    put_pool(pool, state.devices[number as usize].default_pool)
}

pub(crate) fn cuDeviceGetMemPool(pool: Out<CUmemoryPool>, device: CUdevice) -> Outcome {
    let state = world::lock();
    let number = checked(&state, device)?;
    put_pool(pool, state.devices[number as usize].pool)
}

fn put_pool(place: Out<CUmemoryPool>, pool: Option<PoolId>) -> Outcome {
    place.put(pool.ok_or(CUDA_ERROR_INVALID_VALUE)?.raw())
}

pub(crate) fn cuDeviceSetMemPool(device: CUdevice, pool: PoolId) -> Outcome {
    let mut state = world::lock();
    let number = checked(&state, device)?;
    match state.pools.get(&pool) {
        Some(found) if found.device == number => {
            state.devices[number as usize].pool = Some(pool);
            Ok(())
        }
        _ => fail(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuDeviceGetAttribute(
    value: Out<c_int>,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> Outcome {
    checked(&world::lock(), device)?;
    value.put(attribute_of(attribute, device).ok_or(CUDA_ERROR_INVALID_VALUE)?)
}

/// Returns an attribute of a device. Attributes not listed here are 0 (texture and surface sizes,
/// clocks, links); `None` for numbers that CUDA 13 does not know.
fn attribute_of(attribute: CUdevice_attribute, device: CUdevice) -> Option<c_int> {
    Some(match attribute {
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        | CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
        | CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => as_c_int(limits::THREADS_PER_BLOCK),
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => c_int::MAX,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y | CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65_535,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => as_c_int(limits::SHARED_PER_BLOCK),
        CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY => 65_536,
        CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
        CU_DEVICE_ATTRIBUTE_MAX_PITCH => c_int::MAX,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
        | CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR => 65_536,
        CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT | CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT => 512,
        CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT => 32,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => as_c_int(MULTIPROCESSORS),
        CU_DEVICE_ATTRIBUTE_COMPUTE_MODE => CU_COMPUTEMODE_DEFAULT,
        CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => FIRST_BUS + device,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => {
            as_c_int(limits::THREADS_PER_MULTIPROCESSOR)
        }
        CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => as_c_int(limits::BLOCKS_PER_MULTIPROCESSOR),
        CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 2,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => as_c_int(world::arch().capability().0),
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => as_c_int(world::arch().capability().1),
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => {
            as_c_int(limits::SHARED_PER_MULTIPROCESSOR)
        }
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => {
            as_c_int(limits::SHARED_PER_BLOCK_OPTIN)
        }
        CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK => {
            as_c_int(limits::RESERVED_SHARED_PER_BLOCK)
        }
        CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT => 4,
        CU_DEVICE_ATTRIBUTE_NUMA_ID | CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID => -1,
        CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH => c_int::from(world::arch().has(Arch::HOPPER)),
        _ if is_there(attribute) => 1,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK..CU_DEVICE_ATTRIBUTE_MAX => 0,
        _ => return None,
    })
}

fn as_c_int(number: u32) -> c_int {
    number as c_int
}

/// Returns whether an attribute names a feature that the simulator has.
fn is_there(attribute: CUdevice_attribute) -> bool {
    matches!(
        attribute,
        CU_DEVICE_ATTRIBUTE_GPU_OVERLAP
            | CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY
            | CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS
            | CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
            | CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED
            | CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED
            | CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED
            | CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY
            | CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
            | CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED
            | CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED
            | CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
            | CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
            | CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
            | CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED
            | CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED
            | CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
    )
}

/// One past the last attribute of CUDA 13.
const CU_DEVICE_ATTRIBUTE_MAX: CUdevice_attribute =
    CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED + 1;
