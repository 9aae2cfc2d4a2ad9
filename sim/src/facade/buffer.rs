//! Arrays on the device.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Device, Element, SimError};

/// An array on the device of a [`Sim`](super::Sim), for use in several launches; freed on drop.
///
/// ```
/// use warpfold_sim::Sim;
///
/// let sim = Sim::load(
///     ".version 7.8 .target sm_80
///      .entry count(.param .u64 p)
///      { .reg .b64 %p; ld.param.u64 %p, [p]; red.global.add.u32 [%p], 1; ret; }",
/// )?;
/// let mut counter = sim.buffer(&[0_u32])?;
/// for _ in 0..3 {
///     sim.kernel("count").grid(2).block(32).arg(&mut counter).run()?;
/// }
/// assert_eq!(counter.to_vec()?, [3 * 2 * 32]);
/// # Ok::<(), warpfold_sim::SimError>(())
/// ```
#[derive(Debug)]
pub struct Buffer<T> {
    device: Arc<Device>,
    address: u64,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(super) fn new(device: &Arc<Device>, len: usize) -> Result<Self, SimError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let address = device.gpu.alloc(bytes)?;
        device.hazards.allocated(address, bytes);
        Ok(Self { device: Arc::clone(device), address, len, elements: PhantomData })
    }

    /// Names the buffer for messages.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        self.device.gpu.memory().set_name(self.address, name);
        self
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first element on the device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies elements from the host to the start of the buffer.
    ///
    /// # Errors
    /// [`SimError::Launch`] for more elements than the buffer has.
    pub fn write(&self, elements: &[T]) -> Result<(), SimError> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        self.device.gpu.write(self.address, bytes)?;
        self.device.hazards.written(self.address, bytes.len() as u64);
        Ok(())
    }

    /// Copies the elements to the host.
    ///
    /// # Errors
    /// [`SimError::Found`] for elements that were never written, if every launch is checked;
    /// [`SimError::Launch`] if the memory was freed by [`Gpu::free`](crate::Gpu::free).
    pub fn to_vec(&self) -> Result<Vec<T>, SimError> {
        let mut elements = vec![T::zeroed(); self.len];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        self.device.gpu.read(self.address, bytes)?;
        if self.device.sees_all.load(Ordering::Relaxed) {
            self.device.hazards.read(self.address, bytes.len() as u64);
            self.device.found()?;
        }
        Ok(elements)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // The memory may already have been freed by `Gpu::free`.
        let _ = self.device.gpu.free(self.address);
    }
}
