//! Elements in device memory.

use std::{
    any::{Any, type_name},
    fmt,
    marker::PhantomData,
    ops::{Bound, Range, RangeBounds},
    sync::Arc,
};

use warpfold_abi::custom::in_groups;

use crate::{
    Axis, Count, Counted, Device, Error, Filtered, Plain, Result, Stream, View, error::in_full,
    input::rows::Rows, memory::Memory, reducer::Elements, stream::LastWrite,
};

/// Immutable elements in device memory, or a slice of them.
///
/// Elements of 1, 2, 4, 8 and 16 bytes are aligned to their size, others to the alignment of their type.
///
/// Clones and [slices](Self::slice) share the memory. It is freed, or returned to its owner, when the
/// last of them has been dropped and no reduction reads it any more.
pub struct Buffer<T> {
    memory: Arc<Memory>,
    /// Offset from the start of the memory, in bytes.
    offset: u64,
    len: usize,
    written: LastWrite,
    element: PhantomData<fn() -> T>,
}

impl<T: Plain> Buffer<T> {
    pub(crate) fn upload(device: &Device, values: &[T]) -> Result<Self> {
        require_alignment::<T>()?;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let memory = Memory::new(device, bytes.len() as u64)?;
        if !bytes.is_empty() {
            device.copy_in(&memory, bytes)?;
        }
        Ok(Self::whole(memory, values.len()))
    }

    fn whole(memory: Memory, len: usize) -> Self {
        Self::written(Arc::new(memory), len, LastWrite::default())
    }

    /// Returns a buffer of the first `len` elements of `memory`, which the write `written` completes.
    pub(crate) fn written(memory: Arc<Memory>, len: usize, written: LastWrite) -> Self {
        const { assert!(size_of::<T>() > 0, "elements of size 0 have no address") };
        Self { memory, offset: 0, len, written, element: PhantomData }
    }

    /// Returns a buffer of `len` elements that other code has stored in device memory at `address`, a
    /// `CUdeviceptr`. `owner` is dropped after the buffer, its clones and the reductions that read it;
    /// pass `()` if the memory outlives them anyway.
    ///
    /// ```
    /// use warpfold::{Buffer, Device, Reducer, Selection};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let theirs = device.upload(&[1_u32, 2, 3, 4])?;
    /// // SAFETY: the elements are those of another buffer, which is the owner, and never change.
    /// let ours = unsafe {
    ///     Buffer::<u32>::from_raw_parts(&device, theirs.as_device_ptr(), theirs.len(), theirs.clone())?
    /// };
    /// assert_eq!(Reducer::new(&device)?.sum(&ours)?, 10);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Foreign`] for an address that is not aligned for the elements, for a null address with
    /// elements, and for more bytes than the address space has.
    ///
    /// # Safety
    /// - `len` elements at the address must be readable by kernels of this device until `owner` is
    ///   dropped.
    /// - While a reduction may read them, nothing may write them. Earlier writes must be complete when a
    ///   reduction that waits is called; for one that is enqueued on a [`Stream`](crate::Stream) it is
    ///   enough that the stream [waits](crate::Stream::wait_for_event) for them.
    pub unsafe fn from_raw_parts(
        device: &Device,
        address: u64,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        require_aligned::<T>(address, len)?;
        let Some(bytes) = len.checked_mul(size_of::<T>()) else {
            let size = size_of::<T>();
            let reason = format!("{len} elements of {size} bytes exceed the address space");
            return Err(Error::Foreign { what: "memory", reason });
        };
        // SAFETY: the caller promises elements that are readable until `owner` is dropped.
        let memory = unsafe { Memory::foreign(device, address, bytes as u64, Box::new(owner)) };
        Ok(Self::whole(memory, len))
    }

    /// Returns the address of the first element, a `CUdeviceptr`, for calls of the driver and other
    /// libraries. The address is valid as long as the buffer; the elements must not be written. If the
    /// buffer was made from [`Outputs`](crate::Outputs), other code must read it in later work on the
    /// stream that writes it; this crate's reductions and copies wait for the elements on any stream.
    pub fn as_device_ptr(&self) -> u64 {
        self.memory.address() + self.offset
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device that holds the elements.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// Returns a range of the elements, in the same memory, without a copy. It may begin at any element.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] for a range outside the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(Error::OutOfBounds { start, end, len: self.len });
        }
        let offset = self.offset + (start * size_of::<T>()) as u64;
        Ok(Self { offset, len: end - start, ..self.clone() })
    }

    /// Returns the elements as a matrix whose rows have `len` elements each. `len` must divide the
    /// buffer's length. The buffer may be a slice that begins at any element.
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let reducer = Reducer::new(&device)?;
    /// let matrix = device.upload(&[1.0_f32, 2.0, 4.0, 8.0, 16.0, 32.0])?;
    /// assert_eq!(reducer.reduce(op::Sum, &matrix.rows(3)?)?, [7.0, 56.0]);
    /// assert_eq!(reducer.reduce(op::Max, &matrix.rows(2)?)?, [2.0, 8.0, 32.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rows`] for rows of no elements, and for a length that does not divide the buffer's.
    pub fn rows(&self, len: usize) -> Result<Rows<'_, T>> {
        Rows::new(self, len)
    }

    /// Interprets the elements as an array of this shape, whose last index varies fastest, and returns
    /// one of its axes.
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let reducer = Reducer::new(&device)?;
    /// let matrix = device.upload(&[1.0_f32, 2.0, 4.0, 8.0, 16.0, 32.0])?;
    /// // The sums of the three columns of two rows.
    /// assert_eq!(reducer.reduce(op::Sum, &matrix.axis(&[2, 3], 0)?)?, [9.0, 18.0, 36.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Axis`] for a shape whose number of elements is not the buffer's, for an axis that the
    /// shape does not have, and for an axis of length 0 if there are results.
    pub fn axis(&self, shape: &[usize], axis: usize) -> Result<Axis<'_, T>> {
        Axis::new(self, shape, axis..axis.saturating_add(1))
    }

    /// Returns several neighbouring axes, which are reduced together as if they were one
    /// [`axis`](Self::axis). The index in a result counts the elements on these axes in memory order.
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let reducer = Reducer::new(&device)?;
    /// // Two images of two rows of two pixels of three colours: the brightest of each colour.
    /// let images = device.upload(&(0..24).map(|i| i * 7 % 24).collect::<Vec<u8>>())?;
    /// let brightest = reducer.reduce(op::Max, &images.axes(&[2, 2, 2, 3], 1..3)?)?;
    /// assert_eq!(brightest, [21, 22, 14, 12, 19, 23]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`axis`](Self::axis), and [`Error::Axis`] for an empty range of axes.
    pub fn axes(&self, shape: &[usize], axes: Range<usize>) -> Result<Axis<'_, T>> {
        Axis::new(self, shape, axes)
    }

    /// Returns the elements as an array of this shape, whose last index varies fastest. Any set of its
    /// axes can be reduced [`along`](View::along); for one axis, or neighbouring ones,
    /// [`axis`](Self::axis) and [`axes`](Self::axes) are equivalent.
    ///
    /// # Errors
    /// [`Error::View`] for a shape whose number of elements is not the buffer's, and for a shape of no
    /// axes or more than 8.
    pub fn view(&self, shape: &[usize]) -> Result<View<'_, T>> {
        View::contiguous(self, shape)
    }

    /// Returns some of the elements as an array of this shape. Its first element has the index `offset`,
    /// and each axis has a stride in elements. Positions may share elements. The stride of an axis with
    /// fewer than two positions is ignored.
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let reducer = Reducer::new(&device)?;
    /// let buffer = device.upload(&(0..12).collect::<Vec<i32>>())?;
    /// // Two rows of three, from the second column on, of a matrix of rows of four.
    /// let part = buffer.view_strided(1, &[2, 3], &[4, 1])?;
    /// assert_eq!(reducer.reduce(op::Sum, part.along(&[1])?)?, [6, 18]);
    /// assert_eq!(reducer.reduce(op::Sum, part.along(&[0])?)?, [6, 8, 10]);
    /// // The sums of every three neighbours.
    /// let windows = buffer.view_strided(0, &[10, 3], &[1, 1])?;
    /// assert_eq!(reducer.reduce(op::Sum, windows.along(&[1])?)?[..3], [3, 6, 9]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::View`] for a shape of no axes or more than 8; for a number of strides that differs from
    /// the number of axes; for a stride of 0 or below on an axis of two or more positions; and for
    /// positions outside the buffer.
    pub fn view_strided(
        &self,
        offset: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<View<'_, T>> {
        View::strided(self, offset, shape, strides)
    }

    /// Reinterprets the bytes as elements of another type.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// let bytes = device.upload(&[1_u8, 0, 0, 0, 255, 255, 255, 255])?;
    /// assert_eq!(Reducer::new(&device)?.sum(&bytes.cast::<i32>()?)?, 0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Foreign`] if the bytes are not a whole number of the new elements, or the address is not
    /// aligned for them.
    pub fn cast<U: Plain>(&self) -> Result<Buffer<U>> {
        const { assert!(size_of::<U>() > 0, "elements of size 0 have no address") };
        let (bytes, size) = (self.len * size_of::<T>(), size_of::<U>());
        if !bytes.is_multiple_of(size) {
            let reason = format!(
                "its {bytes} bytes are not a whole number of elements of {size} bytes; give a slice"
            );
            return Err(Error::Foreign { what: "memory", reason });
        }
        let len = bytes / size;
        require_aligned::<U>(self.as_device_ptr(), len)?;
        let (memory, written, offset) = (self.memory.clone(), self.written.clone(), self.offset);
        Ok(Buffer { memory, offset, len, written, element: PhantomData })
    }

    /// Returns the columns of a matrix whose rows have `count` elements each.
    ///
    /// # Errors
    /// [`Error::Axis`] for rows of no elements, and for a count that does not divide the buffer's
    /// length.
    pub fn columns(&self, count: usize) -> Result<Axis<'_, T>> {
        let rows = self.len.checked_div(count).unwrap_or(0);
        Axis::new(self, &[rows, count], 0..1)
    }

    /// Returns the elements within an interval, such as `0.0..1.0`, which
    /// [`reduce`](crate::Reducer::reduce) with a [`Sum`](crate::op::Sum) counts and adds up.
    ///
    /// [`reduce`](crate::Reducer::reduce) fails with [`Error::Interval`] for a bound that is NaN.
    pub fn filter(&self, range: impl RangeBounds<T>) -> Filtered<'_, T> {
        Filtered::new(self, range)
    }

    /// Returns the first elements of the buffer. The reduction reads their number, `count`, from device
    /// memory when it runs. For a count above the buffer's length, see [`Counted`].
    pub fn counted<'a>(&'a self, count: &'a Count<'a>) -> Counted<'a, T> {
        Counted { buffer: self, count }
    }

    /// Waits until the elements are written, and copies them to the host.
    ///
    /// # Errors
    /// [`Error::Driver`] if the copy or the reduction that writes the elements fails.
    pub fn download(&self) -> Result<Vec<T>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        self.wait_ready()?;
        // SAFETY: the elements live as long as the buffer, and their writes are complete.
        unsafe { self.device().copy_out(self.as_device_ptr(), self.len) }
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(crate) fn elements(&self) -> Elements<'_> {
        Elements { memory: &self.memory, written: &self.written }
    }

    pub(crate) fn wait_ready(&self) -> Result<()> {
        self.written.wait_ready()
    }

    /// Waits until the elements are written. A failure is only logged, because every reader returns it.
    pub(crate) fn settle_or_log(&self) {
        if let Err(error) = self.wait_ready() {
            log::debug!("{}", in_full(&error));
        }
    }

    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.written.precede(stream)
    }
}

pub(crate) fn require_alignment<T>() -> Result<()> {
    let (alignment, most) = (align_of::<T>(), Memory::ALIGNMENT);
    if alignment <= most {
        return Ok(());
    }
    let reason =
        format!("it is aligned to {alignment} bytes; device memory is aligned to {most} at most");
    Err(Error::Foreign { what: "element type", reason })
}

/// Returns an error for an address that is null or not aligned for elements of this type.
pub(crate) fn require_aligned<T>(address: u64, len: usize) -> Result<()> {
    let size = size_of::<T>();
    // Kernels load elements of 1, 2, 4, 8 and 16 bytes in vectors of 16 bytes.
    let step = if in_groups(size as u64) { size } else { align_of::<T>() };
    let reason = if address == 0 && len > 0 {
        format!("its address is 0, but it has {len} elements; give their address")
    } else if !address.is_multiple_of(step as u64) {
        format!("its address is {address:#x}; elements of {size} bytes are at multiples of {step}")
    } else {
        return Ok(());
    };
    Err(Error::Foreign { what: "memory", reason })
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        let Self { offset, len, .. } = *self;
        let (memory, written) = (self.memory.clone(), self.written.clone());
        Self { memory, offset, len, written, element: PhantomData }
    }
}

impl<T: Plain> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("type", &format_args!("{}", type_name::<T>()))
            .field("len", &self.len)
            .field("device", self.device())
            .finish()
    }
}
