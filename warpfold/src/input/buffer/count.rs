//! Numbers of elements that are stored in device memory.

use std::{any::Any, fmt, sync::Arc};

use crate::{
    Buffer, Device, Output, Plain, Result, Stream, buffer::require_aligned, memory::Memory,
    stream::Event,
};

/// The first elements of a buffer, from [`Buffer::counted`]. Their number is a [`Count`] in device
/// memory at the time when the kernel runs.
///
/// If the count exceeds the buffer's length, a result on the host is the error
/// [`CountTooLarge`](crate::Error::CountTooLarge), and a result in device memory is that of all
/// elements. For a count of 0 the result in device memory is 0 for sums, counts, L1 and L2 norms, 1 for
/// products, NaN for means and variances, −∞ for logarithms of sums, all bits set for
/// [`BitAnd`](crate::op::BitAnd) and 0 for the other bitwise operations. Minima are ∞ or the type's
/// largest integer, maxima −∞ or its smallest integer, and their indices are `u64::MAX`. A program's own
/// operation returns the result of its identity.
///
/// A sum of floats has the same bits on each call with the same count and buffer length. A shorter
/// buffer with the counted elements alone may be added in another order.
pub struct Counted<'a, T> {
    pub(crate) buffer: &'a Buffer<T>,
    pub(crate) count: &'a Count<'a>,
}

impl<T> Clone for Counted<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Counted<'_, T> {}

impl<T: Plain> fmt::Debug for Counted<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, count } = self;
        f.debug_struct("Counted").field("buffer", buffer).field("count", count).finish()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CountAt {
    pub(crate) address: u64,
    /// Number of 32-bit words of the count: 1 or 2.
    pub(crate) words: u32,
}

/// A number of elements in device memory, for example counted by an earlier kernel on the stream. The
/// device reads it when the reduction runs, so that the host need not wait for it.
///
/// It is the argument of [`Buffer::counted`].
#[derive(Clone)]
pub struct Count<'a>(Source<'a>);

#[derive(Clone)]
enum Source<'a> {
    /// Borrowed memory, and its number of 32-bit words.
    Foreign(Arc<Memory>, u32),
    /// A result, which is not replaced while it is borrowed.
    Result(&'a Output<u64>),
}

impl<'a> Count<'a> {
    /// Borrows a `u32` in memory that another library owns: 4 bytes at `address`, a `CUdeviceptr` and a
    /// multiple of 4. `owner` is dropped after the count, its clones and the reductions that read it.
    ///
    /// ```
    /// use warpfold::{Count, Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// // In a program, a kernel writes this.
    /// let kept = device.upload(&[3_u32])?;
    /// // SAFETY: the number is the element of a buffer, which is the owner, and never changes.
    /// let count = unsafe { Count::from_raw_u32(&device, kept.as_device_ptr(), kept.clone())? };
    /// let values = device.upload(&[1_i64, 2, 3, 999, 999])?;
    /// let sum = reducer.on(&stream).reduce(op::Sum, values.counted(&count))?;
    /// assert_eq!(sum.wait()?, 6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) for an address that is 0 or not a multiple of 4.
    ///
    /// # Safety
    /// - Kernels of this device must be able to read these 4 bytes until `owner` is dropped.
    /// - While a reduction may read them, nothing may write them. Earlier writes must have completed, or
    ///   the reduction's stream must [wait](Stream::wait_for_event) for them.
    pub unsafe fn from_raw_u32(
        device: &Device,
        address: u64,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        require_aligned::<u32>(address, 1)?;
        // SAFETY: the caller promises 4 readable bytes until `owner` is dropped.
        Ok(unsafe { Self::foreign(device, address, 1, owner) })
    }

    /// Borrows a `u64` in memory that another library owns: 8 bytes at `address`, a `CUdeviceptr` and a
    /// multiple of 8. `owner` is dropped after the count, its clones and the reductions that read it.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) for an address that is 0 or not a multiple of 8.
    ///
    /// # Safety
    /// The conditions of [`from_raw_u32`](Self::from_raw_u32) must hold for 8 bytes.
    pub unsafe fn from_raw_u64(
        device: &Device,
        address: u64,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        require_aligned::<u64>(address, 1)?;
        // SAFETY: the caller promises 8 readable bytes until `owner` is dropped.
        Ok(unsafe { Self::foreign(device, address, 2, owner) })
    }

    /// # Safety
    /// The conditions of [`from_raw_u32`](Self::from_raw_u32) must hold for `words` words of 32 bits.
    unsafe fn foreign(device: &Device, address: u64, words: u32, owner: impl Any + Send + Sync) -> Self {
        // SAFETY: the caller promises that the words are readable until `owner` is dropped.
        let memory = unsafe { Memory::foreign(device, address, u64::from(words) * 4, Box::new(owner)) };
        Self(Source::Foreign(Arc::new(memory), words))
    }

    pub(crate) fn of_result(result: &'a Output<u64>) -> Self {
        Self(Source::Result(result))
    }

    /// Returns the device of the memory.
    pub fn device(&self) -> &Device {
        self.memory().device()
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        match &self.0 {
            Source::Foreign(memory, _) => memory,
            Source::Result(result) => result.memory(),
        }
    }

    pub(crate) fn at(&self) -> CountAt {
        let words = match self.0 {
            Source::Foreign(_, words) => words,
            Source::Result(_) => 2,
        };
        CountAt { address: self.memory().address(), words }
    }

    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.device().require("count", stream.device())?;
        match self.0 {
            Source::Foreign(..) => Ok(()),
            Source::Result(result) => result.precede_reads(stream),
        }
    }

    pub(crate) fn read_until(&self, end: &Arc<Event>) {
        if let Source::Result(result) = self.0 {
            result.read_until(end);
        }
    }
}

impl fmt::Debug for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Count").field("device", self.device()).finish_non_exhaustive()
    }
}
