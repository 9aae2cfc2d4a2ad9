//! Top-k: the elements that come first in an order, with their places.

use super::{
    OnStream, Pending, Recorded, RecordedOutputs, Recorder, Reducer, Task,
    pieces::{Many, require_outputs},
};
use crate::{
    Buffer, Device, Element, Error, Located, Outputs, Result, Rows,
    names::TopOp,
    op::{self, TopK},
    top::TopJob,
};

/// # Top-k
/// The largest or smallest elements of a buffer, or of every row of a matrix, with their indices there,
/// from the most extreme one on, by one launch. At most 32 of them are found at once.
///
/// What is said of their order at [`op::TopK`] holds, so that the results are the same wherever they are
/// found; the first one is that of [`arg_max`](Self::arg_max) or [`arg_min`](Self::arg_min).
///
/// How long it takes depends on the order of the elements. Many elements in no order take little longer
/// than their extreme does; it takes longest where each of them comes before those that lie before it.
impl Reducer {
    /// Loads the kernels for top-k of a type, as the first use of each otherwise does.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_top_k<T: Element>(&self) -> Result<()> {
        TopOp::ALL.iter().try_for_each(|&op| self.core().kernels().prepare_top(op, T::DTYPE))
    }

    /// The `k` largest elements, 1 to 32, from the largest one on; all of them, where there are fewer.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[2.5_f32, -1.0, 7.0, 2.5])?;
    /// let largest = reducer.largest(3, &values)?;
    /// assert_eq!(largest.iter().map(|one| one.value).collect::<Vec<_>>(), [7.0, 2.5, 2.5]);
    /// assert_eq!(largest.iter().map(|one| one.index).collect::<Vec<_>>(), [2, 0, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`top_k`](Self::top_k).
    pub fn largest<T: Element>(&self, k: usize, values: &Buffer<T>) -> Result<Vec<Located<T>>> {
        self.top_k(op::Largest(k), values)
    }

    /// The `k` smallest elements, 1 to 32, from the smallest one on; all of them, where there are fewer.
    ///
    /// # Errors
    /// As [`top_k`](Self::top_k).
    pub fn smallest<T: Element>(&self, k: usize, values: &Buffer<T>) -> Result<Vec<Located<T>>> {
        self.top_k(op::Smallest(k), values)
    }

    /// The elements that come first: `op` is [`op::Largest`] or [`op::Smallest`], and says how many to
    /// find. If the buffer has fewer, all are found.
    ///
    /// # Errors
    /// - [`Error::TopK`] for none, and for more than 32;
    /// - [`Error::OtherDevice`] for a buffer of another device, and [`Error::TooManyElements`] for more
    ///   than 2^35;
    /// - those of [`prepare_top_k`](Self::prepare_top_k), at the first use of an order and type;
    /// - [`Error::OutOfMemory`] while the pool of workspaces grows;
    /// - [`Error::Driver`] when the launch or the wait fails.
    pub fn top_k<T: Element, O: TopK>(&self, op: O, values: &Buffer<T>) -> Result<Vec<Located<T>>> {
        let task = Task::Top(TopJob::of_buffer(op, values, self.device())?);
        if task.is_empty() {
            return Ok(Vec::new());
        }
        self.run(&task, values, |results| results.each())
    }

    /// The elements that come first of every row, with their indices in the row: as many of each as
    /// `op` says, row after row.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let matrix = device.upload(&[3_i32, 9, 1, 4, 0, 2, 8, 7])?;
    /// let smallest = reducer.top_k_rows(op::Smallest(2), &matrix.rows(4)?)?;
    /// let of_rows: Vec<_> = smallest.chunks(2).map(|row| [row[0].index, row[1].index]).collect();
    /// assert_eq!(of_rows, [[2, 0], [0, 1]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`top_k`](Self::top_k), and [`Error::TopK`] for more than a row has, and for more than 2^32
    /// rows; [`Error::OutOfMemory`] where there is no room for the results.
    pub fn top_k_rows<T: Element, O: TopK>(&self, op: O, rows: &Rows<'_, T>) -> Result<Vec<Located<T>>> {
        self.reduce_to_many(&of_rows(op, rows, self.device())?)
    }
}

/// # Top-k
impl OnStream<'_> {
    /// As [`Reducer::top_k`].
    ///
    /// # Errors
    /// As [`Reducer::top_k`]; [`Error::OtherDevice`] for the stream of another device, and
    /// [`Error::TopK`] with a [count](Self::counted).
    pub fn top_k<T: Element, O: TopK>(
        self,
        op: O,
        values: &Buffer<T>,
    ) -> Result<Pending<Vec<Located<T>>>> {
        let task = Task::Top(TopJob::of_buffer(op, values, self.device_of_top()?)?);
        if task.is_empty() {
            return Ok(Pending::ready(Vec::new()));
        }
        self.enqueue(&task, values, |results| results.each())
    }

    /// Leaves the elements that come first in device memory: outputs for as many as there are.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let mut largest = device.outputs(2)?;
    /// reducer.on(&stream).top_k_into(op::Largest(2), &device.upload(&[3_u8, 1, 5])?, &mut largest)?;
    /// assert_eq!(largest.read()?.iter().map(|one| one.index).collect::<Vec<_>>(), [2, 0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`top_k`](Self::top_k); [`Error::OtherDevice`] for outputs of another device, and
    /// [`Error::TopK`] for outputs that are more or fewer.
    pub fn top_k_into<T: Element, O: TopK>(
        self,
        op: O,
        values: &Buffer<T>,
        outputs: &mut Outputs<Located<T>>,
    ) -> Result<()> {
        self.leave_top(of_buffer(op, values, self.device_of_top()?)?, outputs)
    }

    /// Leaves the elements that come first of every row in device memory, as many of each row as `op`
    /// says, row after row.
    ///
    /// # Errors
    /// As [`top_k_into`](Self::top_k_into), and as [`Reducer::top_k_rows`].
    pub fn top_k_rows_into<T: Element, O: TopK>(
        self,
        op: O,
        rows: &Rows<'_, T>,
        outputs: &mut Outputs<Located<T>>,
    ) -> Result<()> {
        self.leave_top(of_rows(op, rows, self.device_of_top()?)?, outputs)
    }

    fn leave_top<T: Element>(self, many: Many<'_, T>, outputs: &mut Outputs<Located<T>>) -> Result<()> {
        require_room(&many, outputs)?;
        self.leave_many(&many, outputs)
    }

    /// The device, to which the stream must belong. A count is refused.
    fn device_of_top(&self) -> Result<&Device> {
        let device = self.reducer.device();
        device.require("stream", self.stream.device())?;
        if self.count.is_some() {
            let reason = "a count is of elements that become one result; find the first ones without it";
            return Err(Error::TopK { reason: reason.to_owned() });
        }
        Ok(device)
    }
}

/// # Top-k
impl Recorder {
    /// Adds [`Reducer::top_k`].
    ///
    /// # Errors
    /// As [`Reducer::top_k`].
    pub fn top_k<T: Element, O: TopK>(
        &mut self,
        op: O,
        values: &Buffer<T>,
    ) -> Result<Recorded<Vec<Located<T>>>> {
        self.record_many(of_buffer(op, values, self.device())?)
    }

    /// Adds [`Reducer::top_k_rows`].
    ///
    /// # Errors
    /// As [`Reducer::top_k_rows`].
    pub fn top_k_rows<T: Element, O: TopK>(
        &mut self,
        op: O,
        rows: &Rows<'_, T>,
    ) -> Result<Recorded<Vec<Located<T>>>> {
        self.record_many(of_rows(op, rows, self.device())?)
    }

    /// Adds [`OnStream::top_k_into`], to outputs that are the recording's from now on.
    ///
    /// # Errors
    /// As [`Reducer::top_k`]; [`Error::OtherDevice`] for outputs of another device, and [`Error::TopK`]
    /// for outputs that are more or fewer.
    pub fn top_k_into<T: Element, O: TopK>(
        &mut self,
        op: O,
        values: &Buffer<T>,
        outputs: Outputs<Located<T>>,
    ) -> Result<RecordedOutputs<Located<T>>> {
        let many = of_buffer(op, values, self.device())?;
        require_room(&many, &outputs)?;
        self.record_many_into(many, outputs)
    }

    /// Adds [`OnStream::top_k_rows_into`], likewise.
    ///
    /// # Errors
    /// As [`top_k_into`](Self::top_k_into), and as [`Reducer::top_k_rows`].
    pub fn top_k_rows_into<T: Element, O: TopK>(
        &mut self,
        op: O,
        rows: &Rows<'_, T>,
        outputs: Outputs<Located<T>>,
    ) -> Result<RecordedOutputs<Located<T>>> {
        let many = of_rows(op, rows, self.device())?;
        require_room(&many, &outputs)?;
        self.record_many_into(many, outputs)
    }
}

/// The first elements of a buffer.
fn of_buffer<'a, T: Element, O: TopK>(
    op: O,
    values: &'a Buffer<T>,
    device: &Device,
) -> Result<Many<'a, T>> {
    Ok(many(TopJob::of_buffer(op, values, device)?, values))
}

/// The first elements of every row.
fn of_rows<'a, T: Element, O: TopK>(op: O, rows: &Rows<'a, T>, device: &Device) -> Result<Many<'a, T>> {
    Ok(many(TopJob::of_rows(op, rows, device)?, rows.buffer()))
}

fn many<T>(job: TopJob, values: &Buffer<T>) -> Many<'_, T> {
    Many { count: job.count(), task: Task::Top(job), values, offsets: None }
}

/// Refuses outputs that are more or fewer than what is found.
fn require_room<T: Element>(many: &Many<'_, T>, outputs: &Outputs<Located<T>>) -> Result<()> {
    let refused = |reason| Error::TopK { reason };
    require_outputs(outputs, many.count, "elements to find").map_err(refused)
}
