//! The reducer, which programs call to reduce device memory.

mod core;
pub mod custom;
mod group;
mod host_results;
mod job;
mod kernels;
mod loaded;
mod module;
mod on_stream;
mod pending;
mod plan;
mod pool;
mod recording;
mod running;
mod streamed;

use std::{fmt, sync::Arc};

use crate::{
    Buffer, Device, Element, Input, Result, Stream,
    input::{AnyTask, buffer::plan},
    op::{self, BoundedSum},
    ptx::PtxSource,
    tuning::Tuning,
};

pub(crate) use self::core::{Core, Inputs};

#[cfg(feature = "world")]
pub use group::{Distributed, World};
pub use group::{
    Group, GroupInput, GroupOutputs, GroupRecording, GroupStreamed, Sharded, ShardedAxis, ShardedKeys,
    ShardedRows, Way,
};
pub(crate) use host_results::{HostResults, Layout, RowResults};
pub use job::Job;
pub(crate) use job::{Code, Codes, ElementRange, Place, RunningState, require_few};
pub(crate) use kernels::{Entry, Kernels, LaunchContext, launch_with};
pub use on_stream::OnStream;
pub use pending::Pending;
pub use plan::DeviceOutput;
pub(crate) use plan::{Elements, Plan};
pub(crate) use pool::{Workspace, scratch_of, slots};
pub use recording::{PendingRecording, Recorded, RecordedOutputs, Recorder, Recording, Results};
pub use running::{Push, Running};
pub use streamed::{Progress, Streamed};

/// The maximum number of workspaces of a reducer. Each serves one reduction at a time, and further
/// reductions wait for one. More would not help: a few concurrent reductions fill any GPU.
const WORKSPACES: usize = 16;

/// The kernels and working memory for reductions on one device. Clones are the same reducer.
///
/// # Calls
/// A reduction is one launch. Tuples of operations, keys, and views that have to be copied first may
/// take several. The kernel writes a single result, a tuple and the elements of a top-k search to host
/// memory, without an allocation or a copy; several results go to new device memory and are copied from
/// there. The methods of this type wait for the result, those of [`on`](Self::on) do not, and a
/// [recording](Self::record) runs several reductions as one launch. The first launch of a kernel loads
/// it, which [`prepare`](Self::prepare) does ahead of time.
///
/// # Threads
/// Any number of threads may use a reducer at once. It has a pool of *workspaces*: each is a stream, and
/// the memory in which the blocks of one launch exchange their partial results. The pool grows with the
/// number of concurrent reductions, up to 16 workspaces. If all are in use, a call waits for the first
/// that becomes free.
///
/// # Results
/// Integers of any size are summed in 64 bits. The sum wraps around on overflow, which takes at least
/// 2^32 elements of 32 bits. Minima and maxima of floats are NaN if any element is NaN, and sums follow
/// the rules of their type. The same call gives the same bits on the same device at the same alignment
/// of the first element, of [`Buffers`](crate::Buffers) of each of them: the launch geometry determines
/// the order of additions, not the order in which blocks finish. [`op`](op#the-same-bits) lists the
/// results that have the same bits on other devices too.
#[derive(Clone)]
pub struct Reducer(Arc<Core>);

impl Reducer {
    /// Creates a reducer for a device.
    ///
    /// # Errors
    /// None today; the first reduction reports what the device lacks.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self::of_ptx(device, PtxSource::from_environment()))
    }

    pub(crate) fn of_ptx(device: &Device, source: PtxSource) -> Self {
        let tuning = if device.info().simulated {
            // The built-in tables are of GPUs with far more multiprocessors.
            Tuning::generic()
        } else {
            Tuning::built_in(device.info().arch())
        };
        Self::with(device, source, tuning, WORKSPACES)
    }

    pub(crate) fn with(device: &Device, source: PtxSource, tuning: Tuning, workspaces: usize) -> Self {
        Self(Arc::new(Core::new(Kernels::new(device, source, tuning), workspaces)))
    }

    /// Returns the device, to which all inputs must belong.
    pub fn device(&self) -> &Device {
        self.0.device()
    }

    /// Loads the kernels that [`reduce`](Self::reduce) launches for this operation and input, so that
    /// the first call does not have to. Another length, alignment or shape may need another kernel:
    /// prepare an input of each kind. A view that `reduce` copies first is refused.
    ///
    /// # Errors
    /// - [`Error::OtherDevice`](crate::Error::OtherDevice),
    ///   [`Error::TooManyElements`](crate::Error::TooManyElements),
    ///   [`Error::TopK`](crate::Error::TopK), [`Error::Pairs`](crate::Error::Pairs),
    ///   [`Error::Runs`](crate::Error::Runs) and [`Error::Interval`](crate::Error::Interval) as
    ///   [`reduce`](Self::reduce);
    /// - [`Error::View`](crate::Error::View) for axes that the kernels of views do not take, see
    ///   [`Along`](crate::Along);
    /// - [`Error::PtxMissing`](crate::Error::PtxMissing),
    ///   [`Error::PtxRejected`](crate::Error::PtxRejected) or
    ///   [`Error::WrongParameters`](crate::Error::WrongParameters) if `WARPFOLD_PTX_DIR` names a folder
    ///   without PTX that the device accepts;
    /// - [`Error::Driver`](crate::Error::Driver) if the driver fails to load a kernel.
    pub fn prepare<O, I: Input<O>>(&self, op: O, input: I) -> Result<()> {
        input.prepare(op, self)
    }

    pub(crate) fn prepare_task(&self, task: &AnyTask) -> Result<()> {
        if task.is_empty() { Ok(()) } else { task.prepare(self.core().kernels()) }
    }

    /// Returns the sum of the elements in the type [`Element::Sum`], 0 if there are none.
    ///
    /// # Errors
    /// Same as [`reduce`](Self::reduce).
    pub fn sum<T: Element>(&self, values: &Buffer<T>) -> Result<T::Sum> {
        self.reduce(op::Sum, values)
    }

    /// Returns a bound of the rounding error of a [`BoundedSum`] of these elements, relative to the sum
    /// of the terms' magnitudes; 0 for integers. It is that of the operation alone, not in a tuple. If t
    /// threads add n elements, each element takes part in about n / t additions, and in at least
    /// some 30. Each addition rounds once. Sums of `f16` and `bf16` are computed and bounded in `f32`.
    /// Each square of an `f32` or `f64` that underflows adds an error of the smallest positive number of
    /// its type.
    ///
    /// There is no bound if an element is infinite or NaN, or if a partial sum overflows.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// let (reducer, values) = (Reducer::new(&device)?, device.upload(&[1e8_f32, 1.0, -1e8])?);
    /// let bound = reducer.error_bound(op::Sum, &values)? * (1e8 + 1.0 + 1e8);
    /// assert!(f64::from(reducer.sum(&values)? - 1.0).abs() <= bound);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherDevice`](crate::Error::OtherDevice), and
    /// [`Error::TooManyElements`](crate::Error::TooManyElements) for more than 2^35 elements; the errors
    /// of loading the kernels, as [`prepare`](Self::prepare).
    pub fn error_bound<T: Element, O: BoundedSum<T>>(&self, op: O, values: &Buffer<T>) -> Result<f64> {
        let range = ElementRange::of(op.code(), values, self.device())?;
        let Some(roundoff) = T::DTYPE.sum_roundoff().filter(|_| range.n > 0) else { return Ok(0.0) };
        let launch = plan(self.0.kernels(), &range, None)?;
        let relative = launch.depth(range.extent()) as f64 * roundoff;
        Ok(relative / (1.0 - relative))
    }

    /// Returns the smallest element, or NaN if any element is NaN; `None` if there are none.
    ///
    /// # Errors
    /// Same as [`sum`](Self::sum).
    pub fn min<T: Element>(&self, values: &Buffer<T>) -> Result<Option<T>> {
        self.reduce(op::Min, values)
    }

    /// Returns the largest element, or NaN if any element is NaN; `None` if there are none.
    ///
    /// # Errors
    /// Same as [`sum`](Self::sum).
    pub fn max<T: Element>(&self, values: &Buffer<T>) -> Result<Option<T>> {
        self.reduce(op::Max, values)
    }

    /// Returns the arithmetic mean, `None` if there are no elements: [`op::Mean`], which neither
    /// overflows nor wraps around.
    ///
    /// # Errors
    /// Same as [`sum`](Self::sum).
    pub fn mean<T: Element>(&self, values: &Buffer<T>) -> Result<Option<f64>> {
        self.reduce(op::Mean, values)
    }

    /// Returns the dot product: the sum of the products of elements with the same index, 0 if there are
    /// none; see [`op::Dot`].
    ///
    /// # Errors
    /// Same as [`sum`](Self::sum), and [`Error::Pairs`](crate::Error::Pairs) for buffers of different
    /// lengths.
    pub fn dot<T: Element>(&self, a: &Buffer<T>, b: &Buffer<T>) -> Result<T::Sum> {
        self.reduce(op::Dot, (a, b))
    }

    /// Reduces an [input](Input) by an [operation](op), or by a tuple of operations, and waits for the
    /// result.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[3.0_f32, -1.5, 2.0, 8.0])?;
    /// assert_eq!(reducer.reduce(op::SumOfSquares, &values)?, 79.25);
    /// // One launch, which reads the elements once.
    /// let all = reducer.reduce((op::Sum, op::Min, op::Max), &values)?;
    /// assert_eq!(all, (11.5, Some(-1.5), Some(8.0)));
    /// // A result for every row, and for every column.
    /// assert_eq!(reducer.reduce(op::Sum, values.rows(2)?)?, [1.5, 10.0]);
    /// assert_eq!(reducer.reduce(op::Max, values.columns(2)?)?, [3.0, 8.0]);
    /// // The elements of an interval, and the first ones in an order.
    /// assert_eq!(reducer.reduce(op::Sum, values.filter(0.0..5.0))?.count, 2);
    /// assert_eq!(reducer.reduce(op::Largest(2), &values)?[1].value, 3.0);
    /// assert_eq!(reducer.reduce(op::Dot, (&values, &values))?, 79.25);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// An operation and an input that do not go together do not compile:
    ///
    /// ```compile_fail,E0277
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// // A dot product takes a pair.
    /// reducer.reduce(op::Dot, &device.upload(&[1.0_f32])?)?;
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::OtherDevice`](crate::Error::OtherDevice) for a buffer, a count, outputs or a program's
    ///   own operation on another device;
    /// - [`Error::TooManyElements`](crate::Error::TooManyElements) for more than 2^35 elements;
    /// - [`Error::TopK`](crate::Error::TopK) for a k of 0 or above the length of a row,
    ///   and for more than 2^32 rows;
    /// - [`Error::Pairs`](crate::Error::Pairs) for buffers of different lengths;
    /// - [`Error::Runs`](crate::Error::Runs) for different numbers of keys and elements, and for more
    ///   runs than the outputs have room for;
    /// - [`Error::Interval`](crate::Error::Interval) for a bound that is NaN;
    /// - [`Error::CountTooLarge`](crate::Error::CountTooLarge) for a count above the buffer's length;
    /// - [`Error::View`](crate::Error::View) for axes that neither the kernels nor a copy can reduce,
    ///   see [`Along`](crate::Along);
    /// - [`Error::PtxMissing`](crate::Error::PtxMissing),
    ///   [`Error::PtxRejected`](crate::Error::PtxRejected) or
    ///   [`Error::WrongParameters`](crate::Error::WrongParameters) when kernels are loaded, as
    ///   [`prepare`](Self::prepare) describes;
    /// - [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is no memory for a workspace, for
    ///   several results or for the copy of a view;
    /// - [`Error::Driver`](crate::Error::Driver) if the launch, the wait or a copy fails.
    pub fn reduce<O, I: Input<O>>(&self, op: O, input: I) -> Result<I::Output> {
        input.reduce(op, self)
    }

    /// Returns a handle for reductions on a stream, which do not wait for results.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a> {
        OnStream { reducer: self, stream }
    }

    /// Returns the size of the device memory that [`OnStream::launch_into`] needs.
    pub fn workspace_bytes(&self) -> u64 {
        pool::workspace_bytes(self.device())
    }

    /// Returns a recorder of reductions, which a single launch then runs one after the other, any number
    /// of times.
    pub fn record(&self) -> Recorder {
        Recorder::new(&self.0)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reducer").field("device", self.device()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_types_are_send_and_sync() {
        fn check<T: Send + Sync>() {}
        check::<Reducer>();
        check::<Pending<f32>>();
        check::<Recording>();
        check::<PendingRecording<'_>>();
        check::<Results<'_>>();
        check::<Recorded<Option<crate::Located<f32>>>>();
        check::<Device>();
        check::<Stream>();
        check::<Buffer<half::f16>>();
        check::<crate::Output<crate::Located<u8>>>();
        check::<crate::Error>();
    }
}
