//! The reducer: what a program calls to reduce what is in device memory.

mod axis;
mod axis_kernels;
mod core;
pub mod custom;
mod group;
mod host_results;
mod job;
mod kernels;
mod loaded;
mod many;
mod module;
mod on_stream;
mod pairs;
mod pairs_kernels;
mod pending;
mod pieces;
mod pool;
mod recording;
mod rows;
mod rows_kernels;
mod running;
mod runs;
mod runs_kernels;
mod segments;
mod segments_kernels;
mod streamed;
mod task;
mod top;
mod top_kernels;
mod view;
mod view_kernels;
mod within;
mod within_kernels;

use std::{fmt, sync::Arc};

use crate::{
    Buffer, Device, Element, Ends, Integer, Located, Plain, Result, Spread, Stream,
    element::sealed::Element as _,
    names::Op,
    op::{self, Operation},
    ptx::{Form, PtxSource},
    tuning::Tuning,
};

pub(crate) use self::core::{Core, Inputs};

#[cfg(feature = "world")]
pub use group::{Distributed, World};
pub use group::{Group, GroupOutputs, GroupRecording, GroupStreamed, Sharded, Way};
pub(crate) use host_results::HostResults;
pub use job::Job;
pub(crate) use job::{Carried, Code, Span};
pub(crate) use kernels::{Kernels, Places};
pub(crate) use many::{Codes, MOST_TOGETHER};
pub use on_stream::OnStream;
pub use pending::Pending;
pub(crate) use pool::slots;
pub use recording::{PendingRecording, Recorded, RecordedOutputs, Recorder, Recording, Results};
pub use running::{Push, Running};
pub use streamed::{Progress, Streamed};
pub(crate) use task::Task;

/// Workspaces that a reducer makes at most. Each serves one reduction at a time, and further reductions
/// wait for one of them. More would not help: a few fill any GPU.
const WORKSPACES: usize = 16;

/// Reduces buffers of one device. Clones are the same reducer.
///
/// # Calls
/// Every reduction but those by key is one launch, and several operations [together](op::Operations) are
/// as many as they need; the kernels write the results into host memory: nothing is allocated, copied or
/// waited for but these. The calls of this type wait for them; those of [`on`](Self::on) a stream do
/// not, and those of a [`record`](Self::record)ing run several reductions at the cost of one launch. The
/// first reduction of an operation and type loads its kernels, which takes a GPU's driver a moment;
/// [`prepare`](Self::prepare) does it ahead.
///
/// # Threads
/// Any number of threads may use a reducer at once. It has a pool of workspaces, which grows as they
/// do; a call that finds all of them in use takes the first that comes free.
///
/// # Results
/// Sums of integers are made in 64 bits, whatever the elements have, and wrap around there, which takes
/// at least 2^32 elements of 32 bits. Extremes of floats are NaN if any element is NaN, and sums follow
/// the rules of their type. The same call gives the same bits on the same device at the same alignment
/// of the first element: the order of additions is that of the launch's geometry, not that in which
/// blocks end. What has the same bits on other devices too is said at [`op`](op#the-same-bits).
#[derive(Clone)]
pub struct Reducer(Arc<Core>);

impl Reducer {
    /// A reducer for a device.
    ///
    /// # Errors
    /// None today; the first reduction says what the device lacks.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self::of_ptx(device, PtxSource::from_environment()))
    }

    /// The same, with kernels from elsewhere.
    pub(crate) fn of_ptx(device: &Device, source: PtxSource) -> Self {
        let tuning = if device.info().simulated {
            // Its tables would be of a GPU that has far more multiprocessors.
            Tuning::generic()
        } else {
            Tuning::built_in(device.info().arch())
        };
        Self::with(device, source, tuning, WORKSPACES)
    }

    pub(crate) fn with(device: &Device, source: PtxSource, tuning: Tuning, workspaces: usize) -> Self {
        Self(Arc::new(Core::new(Kernels::new(device, source, tuning), workspaces)))
    }

    /// The device whose buffers it takes.
    pub fn device(&self) -> &Device {
        self.0.device()
    }

    /// Loads the kernels of a type, for all operations, as the first reduction of each otherwise does.
    ///
    /// # Errors
    /// [`Error::PtxMissing`](crate::Error::PtxMissing),
    /// [`Error::PtxRejected`](crate::Error::PtxRejected) or
    /// [`Error::WrongParameters`](crate::Error::WrongParameters) when `WARPFOLD_PTX_DIR` names a folder
    /// without kernels that the device takes.
    pub fn prepare<T: Element>(&self) -> Result<()> {
        let prepare = |&op| self.0.kernels().prepare(Form::Whole, op, T::DTYPE);
        Op::ALL.iter().filter(|op| op.takes(T::DTYPE)).try_for_each(prepare)
    }

    /// The sum of the elements, 0 of none, in the type [`Element::Sum`].
    ///
    /// # Errors
    /// - [`Error::OtherDevice`](crate::Error::OtherDevice) for a buffer of another device, and
    ///   [`Error::TooManyElements`](crate::Error::TooManyElements) for more than 2^35;
    /// - those of [`prepare`](Self::prepare), at the first use of an operation and type;
    /// - [`Error::OutOfMemory`](crate::Error::OutOfMemory) while the pool of workspaces grows;
    /// - [`Error::Driver`](crate::Error::Driver) when the launch or the wait fails.
    pub fn sum<T: Element>(&self, values: &Buffer<T>) -> Result<T::Sum> {
        self.reduce(op::Sum, values)
    }

    /// How far [`sum`](Self::sum) of these elements may be from the sum of their exact values, over the
    /// sum of their magnitudes: 0 for integers. It follows from how many additions one element goes
    /// through here, each of which rounds once: about n over the number of threads, at least some 30. A
    /// sum of halves is made in `f32`, and so bounded as one.
    ///
    /// An element that is infinite or NaN has no such bound, nor has a sum that overflows on its way.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// let (reducer, values) = (Reducer::new(&device)?, device.upload(&[1e8_f32, 1.0, -1e8])?);
    /// let bound = reducer.sum_error_bound(&values)? * (1e8 + 1.0 + 1e8);
    /// assert!(f64::from(reducer.sum(&values)? - 1.0).abs() <= bound);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn sum_error_bound<T: Element>(&self, values: &Buffer<T>) -> Result<f64> {
        self.error_bound(Op::Sum, values)
    }

    /// The same for [`sum_of_squares`](Self::sum_of_squares), over the sum itself. Squares of `f32` and
    /// `f64` that underflow are off by the smallest number of their type each, and come on top.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn sum_of_squares_error_bound<T: Element>(&self, values: &Buffer<T>) -> Result<f64> {
        self.error_bound(Op::SumSq, values)
    }

    fn error_bound<T: Element>(&self, op: Op, values: &Buffer<T>) -> Result<f64> {
        let span = Span::of(Code::BuiltIn(op, T::DTYPE), values, self.device())?;
        let Some(roundoff) = T::DTYPE.sum_roundoff().filter(|_| span.n > 0) else { return Ok(0.0) };
        let launch = self.0.kernels().plan(&span, None)?;
        let relative = launch.depth(span.extent()) as f64 * roundoff;
        Ok(relative / (1.0 - relative))
    }

    /// The sum of the elements in their own type, which wraps around; 0 of none.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// let (reducer, values) = (Reducer::new(&device)?, device.upload(&[i32::MAX, 1])?);
    /// assert_eq!(reducer.sum(&values)?, 1 << 31);
    /// assert_eq!(reducer.wrapping_sum(&values)?, i32::MIN);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn wrapping_sum<T: Integer>(&self, values: &Buffer<T>) -> Result<T> {
        self.reduce(op::WrappingSum, values)
    }

    /// The sum of the elements' squares, 0 of none, in the type [`Element::Sum`]. Squares of 32 bits and
    /// more can wrap around there from the second element on.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn sum_of_squares<T: Element>(&self, values: &Buffer<T>) -> Result<T::Sum> {
        self.reduce(op::SumOfSquares, values)
    }

    /// The smallest element, or NaN if any element is NaN; `None` of no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn min<T: Element>(&self, values: &Buffer<T>) -> Result<Option<T>> {
        self.reduce(op::Min, values)
    }

    /// The largest element, or NaN if any element is NaN; `None` of no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn max<T: Element>(&self, values: &Buffer<T>) -> Result<Option<T>> {
        self.reduce(op::Max, values)
    }

    /// The first of the smallest elements, or the first NaN if there is one; `None` of no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn arg_min<T: Element>(&self, values: &Buffer<T>) -> Result<Option<Located<T>>> {
        self.reduce(op::ArgMin, values)
    }

    /// The first of the largest elements, or the first NaN if there is one; `None` of no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn arg_max<T: Element>(&self, values: &Buffer<T>) -> Result<Option<Located<T>>> {
        self.reduce(op::ArgMax, values)
    }

    /// The product of the elements, 1 of none, in the type [`Element::Sum`]; of integers it wraps
    /// around.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn product<T: Element>(&self, values: &Buffer<T>) -> Result<T::Sum> {
        self.reduce(op::Product, values)
    }

    /// The smallest element and the largest one, in one pass; NaN both if any element is NaN, and `None`
    /// of no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn min_max<T: Element>(&self, values: &Buffer<T>) -> Result<Option<Ends<T>>> {
        self.reduce(op::MinMax, values)
    }

    /// How many elements are not zero. NaN is not zero, −0 is.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn count_non_zero<T: Element>(&self, values: &Buffer<T>) -> Result<u64> {
        self.reduce(op::CountNonZero, values)
    }

    /// Whether any element is not zero; of none it is not so.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn any<T: Element>(&self, values: &Buffer<T>) -> Result<bool> {
        Ok(self.count_non_zero(values)? > 0)
    }

    /// Whether all elements are not zero; of none it is so.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn all<T: Element>(&self, values: &Buffer<T>) -> Result<bool> {
        Ok(self.count_non_zero(values)? == values.len() as u64)
    }

    /// The arithmetic mean, `None` of no elements: [`op::Mean`], which neither overflows nor wraps
    /// around.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn mean<T: Element>(&self, values: &Buffer<T>) -> Result<Option<f64>> {
        self.reduce(op::Mean, values)
    }

    /// The mean and the variance in one pass, `None` of no elements. What they are computed in, and how,
    /// is said at [`op::MeanAndVariance`].
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// let (reducer, values) = (Reducer::new(&device)?, device.upload(&[1e9, 1e9 + 1.0, 1e9 + 2.0])?);
    /// let spread = reducer.mean_and_variance(&values)?.expect("there are elements");
    /// assert_eq!((spread.mean, spread.sample_variance(3)), (1e9 + 1.0, 1.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn mean_and_variance<T: Element>(&self, values: &Buffer<T>) -> Result<Option<Spread>> {
        self.reduce(op::MeanAndVariance, values)
    }

    /// The L1 norm: the sum of the magnitudes, as `f64`; 0 of none. Of integers it is exact but for that
    /// rounding, and of floats the sum is made in the type [`Element::Sum`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn l1_norm<T: Element>(&self, values: &Buffer<T>) -> Result<f64> {
        if Op::L1.takes(T::DTYPE) {
            return self.reduce(op::LongL1Norm, values);
        }
        Ok(T::Sum::TO_F64(self.reduce(op::SumOfMagnitudes, values)?))
    }

    /// The L2 norm: the root of the sum of the squares; 0 of none. It is [`op::L2Norm`], of which no
    /// square overflows or vanishes on the way.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn l2_norm<T: Element>(&self, values: &Buffer<T>) -> Result<f64> {
        self.reduce(op::L2Norm, values)
    }

    /// The maximum norm: the largest magnitude, as `f64`; 0 of none, and NaN if any element is NaN.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn max_norm<T: Element>(&self, values: &Buffer<T>) -> Result<f64> {
        let ends = self.min_max(values)?;
        Ok(ends.map_or(0.0, |Ends { min, max }| {
            let (min, max) = (T::TO_F64(min).abs(), T::TO_F64(max).abs());
            // Both are NaN or neither is.
            if min > max { min } else { max }
        }))
    }

    /// Any [operation](op), of which there are more than have a method here; a program's
    /// [own](crate::custom) among them.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn reduce<T: Plain, O: Operation<T>>(&self, op: O, values: &Buffer<T>) -> Result<O::Output> {
        let task = Task::Elements(Span::of(op.code(), values, self.device())?);
        if let Some(of_none) = O::of_none().filter(|_| task.is_empty()) {
            return Ok(of_none);
        }
        self.run(&task, values, |results| results.result::<T, O>(0))
    }

    /// Runs a task on a buffer's elements, which is not empty and has single results.
    fn run<T: Plain, R>(
        &self,
        task: &Task<'_>,
        values: &Buffer<T>,
        decode: fn(HostResults<'_>) -> R,
    ) -> Result<R> {
        values.settle()?;
        self.0.sweep();
        let decode = |results: HostResults<'_>| decode(results.of_none_if(values.is_empty()));
        // SAFETY: the elements are those of the buffer, which is borrowed until this returns, and kept
        // below where that is not enough.
        let reduced = unsafe { self.0.reduce(task, decode) };
        let keep = || std::mem::forget((self.0.clone(), task.kept_codes(), values.memory().clone()));
        reduced.map_err(|failed| failed.or_keep(keep))
    }

    /// The same reductions on a stream, without waiting.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a> {
        OnStream::new(self, stream)
    }

    /// Records reductions, to be run one after the other by a single launch as often as wanted.
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
    fn all_may_be_used_from_any_thread() {
        fn check<T: Send + Sync>() {}
        check::<Reducer>();
        check::<Pending<f32>>();
        check::<Recording>();
        check::<PendingRecording<'_>>();
        check::<Results<'_>>();
        check::<Recorded<Option<Located<f32>>>>();
        check::<Device>();
        check::<Stream>();
        check::<Buffer<half::f16>>();
        check::<crate::Output<Located<u8>>>();
        check::<crate::Error>();
    }
}
