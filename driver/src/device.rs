//! Devices: enumeration and properties.

use std::ffi::{CStr, CString, c_char, c_int};

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::MemoryPool;
use crate::sys;

/// A device, identified by its ordinal in this process. [`Driver::device_get`] returns it.
///
/// The driver checks the ordinal in each call, so an invalid one is an error.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device(sys::CUdevice);

impl Device {
    /// Wraps a device that other code got from the same driver.
    pub const fn from_raw(raw: sys::CUdevice) -> Self {
        Self(raw)
    }

    /// Returns the raw value that the driver's functions take.
    pub const fn raw(self) -> sys::CUdevice {
        self.0
    }
}

/// Enough bytes for the longest device name or PCI address and its terminator.
const TEXT_BYTES: usize = 256;

impl Driver {
    /// Initialises the driver. Must be called before all other calls except [`version`](Self::version);
    /// repeated calls are cheap and do nothing.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_NO_DEVICE` on a machine without a GPU, for example.
    pub fn init(&self) -> Result<(), CallError> {
        // SAFETY: the call takes only a number.
        unsafe { call!(self.cuInit(0)) }
    }

    /// Returns the number of devices.
    pub fn device_count(&self) -> Result<u32, CallError> {
        let mut count = 0;
        // SAFETY: the call writes one int to a local variable.
        unsafe { call!(self.cuDeviceGetCount(&mut count)) }?;
        Ok(count.cast_unsigned())
    }

    /// Returns the device with this ordinal, counted from 0.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_INVALID_DEVICE` if no device has this ordinal.
    pub fn device_get(&self, ordinal: u32) -> Result<Device, CallError> {
        let mut device = 0;
        // Ordinals above `c_int::MAX` are replaced by `c_int::MAX`, which is invalid too.
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the call writes one int to a local variable.
        unsafe { call!(self.cuDeviceGet(&mut device, ordinal)) }?;
        Ok(Device(device))
    }

    /// Returns the device at a PCI address, such as `0000:3b:00.0` or `3b:00.0`.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_INVALID_DEVICE` or `CUDA_ERROR_INVALID_VALUE` if no device has that address.
    pub fn device_get_by_pci_bus_id(&self, address: &str) -> Result<Device, CallError> {
        const CALL: &str = "cuDeviceGetByPCIBusId";
        let address = CString::new(address).map_err(|_| {
            let detail = "the address contains a zero byte".to_owned();
            CallError::with_detail(CALL, sys::CUDA_ERROR_INVALID_VALUE, detail)
        })?;
        let mut device = 0;
        // SAFETY: the text is NUL-terminated and outlives the call, which writes one int to a local
        // variable.
        unsafe { call!(self.cuDeviceGetByPCIBusId(&mut device, address.as_ptr())) }?;
        Ok(Device(device))
    }

    /// Returns the device's name, such as `NVIDIA H200`.
    pub fn device_get_name(&self, device: Device) -> Result<String, CallError> {
        text(|buffer, bytes| {
            // SAFETY: the call writes at most `bytes` bytes to the buffer, including the terminator.
            unsafe { call!(self.cuDeviceGetName(buffer, bytes, device.0)) }
        })
    }

    /// Returns the PCI address: domain, bus, device and function, such as `0000:3b:00.0`.
    pub fn device_get_pci_bus_id(&self, device: Device) -> Result<String, CallError> {
        text(|buffer, bytes| {
            // SAFETY: the call writes at most `bytes` bytes to the buffer, including the terminator.
            unsafe { call!(self.cuDeviceGetPCIBusId(buffer, bytes, device.0)) }
        })
    }

    /// Returns the device's UUID; on a GPU in MIG mode, that of the MIG instance.
    pub fn device_get_uuid(&self, device: Device) -> Result<[u8; 16], CallError> {
        let mut uuid = sys::CUuuid::default();
        // SAFETY: the call writes 16 bytes to a local variable.
        unsafe { call!(self.cuDeviceGetUuid_v2(&mut uuid, device.0)) }?;
        Ok(uuid.bytes)
    }

    /// Returns the total memory of the device in bytes.
    pub fn device_total_mem(&self, device: Device) -> Result<u64, CallError> {
        let mut bytes = 0;
        // SAFETY: the call writes one number to a local variable.
        unsafe { call!(self.cuDeviceTotalMem_v2(&mut bytes, device.0)) }?;
        Ok(bytes as u64)
    }

    /// Returns an attribute of the device. `attribute` is a number such as
    /// [`sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`].
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_INVALID_VALUE` for a number that the driver does not know.
    pub fn device_get_attribute(
        &self,
        device: Device,
        attribute: sys::CUdevice_attribute,
    ) -> Result<i32, CallError> {
        let mut value = 0;
        // SAFETY: the call writes one int to a local variable.
        unsafe { call!(self.cuDeviceGetAttribute(&mut value, attribute, device.0)) }?;
        Ok(value)
    }

    /// Returns the compute capability, as (major, minor).
    pub fn device_compute_capability(&self, device: Device) -> Result<(u32, u32), CallError> {
        let part = |attribute| self.device_get_attribute(device, attribute).map(i32::cast_unsigned);
        Ok((
            part(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            part(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// Returns the pool from which `mem_alloc_async` allocates on this device, unless another was set.
    pub fn device_get_default_mem_pool(&self, device: Device) -> Result<MemoryPool, CallError> {
        let mut pool = std::ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuDeviceGetDefaultMemPool(&mut pool, device.0)) }?;
        Ok(MemoryPool::from_raw(pool))
    }

    /// Returns whether kernels of `device` can be given access to memory of `peer`.
    pub fn device_can_access_peer(&self, device: Device, peer: Device) -> Result<bool, CallError> {
        let mut can = 0;
        // SAFETY: the call writes one int to a local variable.
        unsafe { call!(self.cuDeviceCanAccessPeer(&mut can, device.0, peer.0)) }?;
        Ok(can != 0)
    }

    /// Returns an attribute of the link between two devices. `attribute` is a number such as
    /// [`sys::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK`].
    pub fn device_get_p2p_attribute(
        &self,
        attribute: sys::CUdevice_P2PAttribute,
        from: Device,
        to: Device,
    ) -> Result<i32, CallError> {
        let mut value = 0;
        // SAFETY: the call writes one int to a local variable.
        unsafe { call!(self.cuDeviceGetP2PAttribute(&mut value, attribute, from.0, to.0)) }?;
        Ok(value)
    }
}

fn text(write: impl FnOnce(*mut c_char, c_int) -> Result<(), CallError>) -> Result<String, CallError> {
    let mut buffer = [0_u8; TEXT_BYTES];
    // The driver may write one byte less than the buffer has, so that the text is always terminated.
    write(buffer.as_mut_ptr().cast(), TEXT_BYTES as c_int - 1)?;
    let text = CStr::from_bytes_until_nul(&buffer).expect("the last byte is zero");
    Ok(text.to_string_lossy().into_owned())
}
