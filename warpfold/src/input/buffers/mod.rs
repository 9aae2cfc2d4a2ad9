//! Several buffers, whose elements are reduced together.

mod task;

use std::{fmt, sync::Arc};

use crate::{
    Buffer, Device, Error, Output, Plain, Result,
    geometry::MAX_ELEMENTS,
    input::{self, AnyTask, Enqueue, Input, Recordable, by_plan},
    op::Operation,
    reducer::{ElementRange, Plan},
};

/// The elements of several buffers, which are reduced together in one launch.
///
/// [`Reducer::reduce`](crate::Reducer::reduce) returns the result of all elements, one buffer after the
/// other. The order in which floats are added also depends on the lengths and alignments of the buffers.
/// The index in a [`Located`](crate::Located) result counts from the first element of the first buffer.
///
/// ```
/// use warpfold::{Buffers, Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let reducer = Reducer::new(&device)?;
/// let gradients = [device.upload(&[3.0_f32, 0.0])?, device.upload(&[0.0_f32, 0.0, 4.0])?];
/// let all = Buffers::new(&device, &gradients)?;
/// assert_eq!(reducer.reduce(op::L2Norm, &all)?, 5.0);
/// assert_eq!(reducer.reduce(op::ArgMax, &all)?.map(|max| max.index), Some(4));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// The memory of the buffers is shared, and 16 bytes of device memory for each describe it. Clones are
/// the same elements.
#[derive(Clone)]
pub struct Buffers<T> {
    /// The first buffer with elements, which keeps the memory of all of them; an empty buffer if there
    /// are no elements.
    first: Buffer<T>,
    /// The address of the two words of each buffer that [`ReduceBuffers`] documents; 0 if there are
    /// fewer than two buffers.
    ///
    /// [`ReduceBuffers`]: warpfold_abi::arguments::ReduceBuffers
    table: u64,
    count: u64,
    len: u64,
}

impl<T: Plain> Buffers<T> {
    /// Creates the elements of several buffers. Empty ones are skipped. Waits for the writes of
    /// [`Outputs`](crate::Outputs) that buffers were made from, and for a copy of 16 bytes per buffer to
    /// the device.
    ///
    /// # Errors
    /// - [`Error::OtherDevice`] for a buffer of another device;
    /// - [`Error::TooManyElements`] for more than 2^35 elements;
    /// - [`Error::OutOfMemory`], or [`Error::Driver`] if a copy fails.
    pub fn new<'b>(device: &Device, buffers: impl IntoIterator<Item = &'b Buffer<T>>) -> Result<Self>
    where
        T: 'b,
    {
        let mut kept: Vec<Buffer<T>> = Vec::new();
        let (mut words, mut len) = (Vec::new(), 0_u64);
        for buffer in buffers {
            device.require("buffer", buffer.device())?;
            if buffer.is_empty() {
                continue;
            }
            buffer.wait_ready()?;
            len = len.saturating_add(buffer.len() as u64);
            if len > MAX_ELEMENTS {
                return Err(Error::TooManyElements { n: len, most: MAX_ELEMENTS });
            }
            let first = kept.first().unwrap_or(buffer).as_device_ptr();
            words.extend([buffer.as_device_ptr().wrapping_sub(first), len]);
            kept.push(buffer.clone());
        }
        let count = kept.len() as u64;
        if count < 2 {
            let first = kept.pop().map_or_else(|| device.upload(&[]), Ok)?;
            return Ok(Self { first, table: 0, count, len });
        }
        let table = device.upload(&words)?;
        let address = table.as_device_ptr();
        let (at, elements) = (kept[0].as_device_ptr(), kept[0].len());
        // SAFETY: these are the elements of the first buffer, which the owner keeps with all others and
        // their table. Writes of them have finished.
        let first = unsafe { Buffer::from_raw_parts(device, at, elements, Arc::new((kept, table))) }?;
        Ok(Self { first, table: address, count, len })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Plain> fmt::Debug for Buffers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, len, .. } = self;
        f.debug_struct("Buffers").field("count", count).field("len", len).finish_non_exhaustive()
    }
}

/// A reduction of the elements of several buffers.
#[derive(Debug, Clone)]
pub(crate) struct BuffersTask {
    /// The number of all elements, and the address of the first one.
    pub(crate) range: ElementRange,
    /// The address of the buffers' table.
    pub(crate) table: u64,
    /// The number of buffers: at least 2. Each has elements.
    pub(crate) count: u64,
}

impl<T: Plain, O: Operation<T>> Input<O> for &Buffers<T> {
    type Output = O::Output;

    by_plan!(O);
}

impl<T: Plain, O: Operation<T>> Enqueue<O> for &Buffers<T> {
    type Left = Output<O::Left>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, O::Output>>
    where
        Self: 'p,
    {
        let &Buffers { ref first, table, count, len: n } = self;
        let range = ElementRange::of(op.code(), first, device)?;
        let task = match count {
            0 | 1 => AnyTask::Elements(range),
            _ => {
                let range = ElementRange { n, ..range };
                AnyTask::Buffers(BuffersTask { range, table, count })
            }
        };
        Ok(Plan::of_one(task, first, |results| results.result::<T, O>(0), O::of_none))
    }
}

impl<T> input::sealed::Input for &Buffers<T> {}
impl<T> Recordable for &Buffers<T> {}
