//! Devices: how many, and what they are.

use std::ffi::{CStr, CString, c_char, c_int};

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::MemoryPool;
use crate::sys;

/// A device by its ordinal in this process, from [`Driver::device_get`].
///
/// The driver checks it in each call, so that a wrong one is an error.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device(sys::CUdevice);

impl Device {
    /// The device that some other code got from the same driver.
    pub const fn from_raw(raw: sys::CUdevice) -> Self {
        Self(raw)
    }

    /// The device as the driver's functions take it.
    pub const fn raw(self) -> sys::CUdevice {
        self.0
    }
}

/// Bytes that hold the longest name of a device, or PCI address, and a zero.
const TEXT_BYTES: usize = 256;

impl Driver {
    /// Starts the driver. It must come before all other calls but [`version`](Self::version); to call it
    /// again is cheap and does nothing.
    ///
    /// # Errors
    /// `CUDA_ERROR_NO_DEVICE` without a GPU, for one.
    pub fn init(&self) -> Result<(), CallError> {
        // SAFETY: it takes a number.
        unsafe { call!(self.cuInit(0)) }
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<u32, CallError> {
        let mut count = 0;
        // SAFETY: it writes one int to a local variable.
        unsafe { call!(self.cuDeviceGetCount(&mut count)) }?;
        Ok(count.cast_unsigned())
    }

    /// The device of this ordinal, from 0.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE`, if there are no more than `ordinal` devices.
    pub fn device_get(&self, ordinal: u32) -> Result<Device, CallError> {
        let mut device = 0;
        // A number too large for an int is as wrong as the largest that is none.
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: it writes one int to a local variable.
        unsafe { call!(self.cuDeviceGet(&mut device, ordinal)) }?;
        Ok(Device(device))
    }

    /// The device at a PCI address, such as `0000:3b:00.0` or `3b:00.0`.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE` or `CUDA_ERROR_INVALID_VALUE`, if none is there.
    pub fn device_get_by_pci_bus_id(&self, address: &str) -> Result<Device, CallError> {
        const CALL: &str = "cuDeviceGetByPCIBusId";
        let address = CString::new(address).map_err(|_| {
            let detail = "the address has a zero byte inside".to_owned();
            CallError::with_detail(CALL, sys::CUDA_ERROR_INVALID_VALUE, detail)
        })?;
        let mut device = 0;
        // SAFETY: the text ends in a zero and lives through the call, which writes one int to a local
        // variable.
        unsafe { call!(self.cuDeviceGetByPCIBusId(&mut device, address.as_ptr())) }?;
        Ok(Device(device))
    }

    /// Its name, such as `NVIDIA H200`.
    pub fn device_get_name(&self, device: Device) -> Result<String, CallError> {
        text(|buffer, bytes| {
            // SAFETY: it writes at most `bytes` bytes to the buffer, the zero among them.
            unsafe { call!(self.cuDeviceGetName(buffer, bytes, device.0)) }
        })
    }

    /// Its PCI address: domain, bus, device and function, such as `0000:3b:00.0`.
    pub fn device_get_pci_bus_id(&self, device: Device) -> Result<String, CallError> {
        text(|buffer, bytes| {
            // SAFETY: it writes at most `bytes` bytes to the buffer, the zero among them.
            unsafe { call!(self.cuDeviceGetPCIBusId(buffer, bytes, device.0)) }
        })
    }

    /// Its number that no other device in the world has: of the part of a GPU, where that was divided.
    pub fn device_get_uuid(&self, device: Device) -> Result<[u8; 16], CallError> {
        let mut uuid = sys::CUuuid::default();
        // SAFETY: it writes 16 bytes to a local variable.
        unsafe { call!(self.cuDeviceGetUuid_v2(&mut uuid, device.0)) }?;
        Ok(uuid.bytes)
    }

    /// Bytes of its memory, whatever of it is in use.
    pub fn device_total_mem(&self, device: Device) -> Result<u64, CallError> {
        let mut bytes = 0;
        // SAFETY: it writes one number to a local variable.
        unsafe { call!(self.cuDeviceTotalMem_v2(&mut bytes, device.0)) }?;
        Ok(bytes as u64)
    }

    /// One of its properties, by a number like [`sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`].
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for a number that the driver does not know.
    pub fn device_get_attribute(
        &self,
        device: Device,
        attribute: sys::CUdevice_attribute,
    ) -> Result<i32, CallError> {
        let mut value = 0;
        // SAFETY: it writes one int to a local variable.
        unsafe { call!(self.cuDeviceGetAttribute(&mut value, attribute, device.0)) }?;
        Ok(value)
    }

    /// Its compute capability, as (major, minor).
    pub fn device_compute_capability(&self, device: Device) -> Result<(u32, u32), CallError> {
        let part = |attribute| self.device_get_attribute(device, attribute).map(i32::cast_unsigned);
        Ok((
            part(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            part(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// The pool that `mem_alloc_async` on a stream of this device takes from, if nobody has set another.
    pub fn device_get_default_mem_pool(&self, device: Device) -> Result<MemoryPool, CallError> {
        let mut pool = std::ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuDeviceGetDefaultMemPool(&mut pool, device.0)) }?;
        Ok(MemoryPool::from_raw(pool))
    }

    /// Whether kernels of `device` may be allowed to use memory of `peer`.
    pub fn device_can_access_peer(&self, device: Device, peer: Device) -> Result<bool, CallError> {
        let mut can = 0;
        // SAFETY: it writes one int to a local variable.
        unsafe { call!(self.cuDeviceCanAccessPeer(&mut can, device.0, peer.0)) }?;
        Ok(can != 0)
    }

    /// A property of the way from one device to another, by a number like
    /// [`sys::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK`].
    pub fn device_get_p2p_attribute(
        &self,
        attribute: sys::CUdevice_P2PAttribute,
        from: Device,
        to: Device,
    ) -> Result<i32, CallError> {
        let mut value = 0;
        // SAFETY: it writes one int to a local variable.
        unsafe { call!(self.cuDeviceGetP2PAttribute(&mut value, attribute, from.0, to.0)) }?;
        Ok(value)
    }
}

/// The text that a call writes to a buffer, whose address and number of bytes it is given.
fn text(write: impl FnOnce(*mut c_char, c_int) -> Result<(), CallError>) -> Result<String, CallError> {
    let mut buffer = [0_u8; TEXT_BYTES];
    // A byte less, so that a zero is there whatever is written.
    write(buffer.as_mut_ptr().cast(), TEXT_BYTES as c_int - 1)?;
    let text = CStr::from_bytes_until_nul(&buffer).expect("the last byte is zero");
    Ok(text.to_string_lossy().into_owned())
}
