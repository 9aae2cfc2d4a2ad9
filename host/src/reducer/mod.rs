//! The library's reducer with operation and type as values, for use from tables.
//!
//! Programs use the library itself (`warpfold`), which is statically typed. Here, kernels are loaded
//! from a [`PtxStore`], launches follow a [`Tuning`] that may be read from a file, and results are
//! [`Value`]s for comparison with a reference.

mod kept;
mod library;
mod measured;
mod measured_rows;
pub mod tuning;

use std::fmt;

use warpfold::internal::{self, Job};

use crate::{Buffer, Device, Dtype, Error, Op, PtxStore, Result, Value};

pub use measured::Measured;
pub use measured_rows::MeasuredRows;
pub use tuning::{Choice, Tuning};
pub use warpfold::internal::{Launch, MAX_ELEMENTS, RowsKernel, RowsLaunch};

pub struct Reducer {
    // Dropped first, because it belongs to the device's context.
    library: warpfold::Reducer,
    device: Device,
    tuning: Tuning,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The result in the type of [`Op::result`]; for an index operation the element at the index.
    pub value: Value,
    /// The index of the first extreme element, for [`Op::ArgMin`] and [`Op::ArgMax`].
    pub index: Option<u64>,
}

/// Calls are blocking, so the few threads that make calls need few workspaces.
const WORKSPACES: usize = 4;

impl Reducer {
    pub fn with(device: &Device, store: &PtxStore, tuning: Tuning) -> Result<Self> {
        let source = library::source(store, device.info());
        let launches = tuning.launches().clone();
        let library = internal::reducer(&device.library()?, source, launches, WORKSPACES);
        Ok(Self { library, device: device.clone(), tuning })
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Loads the kernels of an operation and type, which the first reduction does otherwise. On a GPU
    /// the driver compiles them.
    pub fn prepare(&self, op: Op, dtype: Dtype) -> Result<()> {
        Ok(internal::prepare(&self.library, op.library(), dtype)?)
    }

    /// Reduces a buffer and waits for the result; `None` if it is empty and the operation needs an
    /// element.
    pub fn reduce(&self, op: Op, buffer: &Buffer) -> Result<Option<Answer>> {
        let job = self.job(op, buffer)?;
        if job.n == 0 {
            let zero = || Value::identity(Op::Sum, op.result(buffer.dtype()));
            return Ok(op.has_empty_value().then(|| Answer { value: zero(), index: None }));
        }
        // SAFETY: the job describes the buffer, which is borrowed until this returns, and nothing writes
        // its elements. If work may still be running then, the closure leaks the buffer.
        let words = unsafe {
            internal::reduce(&self.library, &job, || {
                std::mem::forget((self.device.clone(), buffer.clone()))
            })
        };
        Ok(Some(Answer::from_words(op, buffer.dtype(), words?)))
    }

    /// Returns the launch that reduces a buffer; `None` for an empty one.
    pub fn plan(&self, op: Op, buffer: &Buffer) -> Result<Option<Launch>> {
        let job = self.job(op, buffer)?;
        let plan = (job.n > 0).then(|| internal::plan(&self.library, &job, None));
        Ok(plan.transpose()?)
    }

    /// Returns the largest number of additions on an element's path, for
    /// [`Expected::check`](crate::reference::Expected::check).
    pub fn depth(&self, op: Op, buffer: &Buffer) -> Result<u64> {
        let job = self.job(op, buffer)?;
        Ok(self.plan(op, buffer)?.map_or(0, |launch| internal::depth(launch, &job)))
    }

    fn job(&self, op: Op, buffer: &Buffer) -> Result<Job> {
        if !buffer.device().same(&self.device) {
            let (has, needs) = (&buffer.device().info().name, &self.device.info().name);
            let reason = format!(
                "it is on another device ({has}) than the reducer ({needs}); upload it to the reducer's \
                 device"
            );
            return Err(Error::Mismatch { what: "buffer", reason });
        }
        let (n, address) = (buffer.len(), buffer.address());
        Ok(Job { op: op.library(), dtype: buffer.dtype(), n, address })
    }
}

impl Answer {
    /// Returns the number of bytes of a kernel's result: a value, or an index followed by its element.
    pub(crate) fn bytes(op: Op, dtype: Dtype) -> usize {
        op.library().result_bytes(dtype)
    }

    pub(crate) fn from_words(op: Op, dtype: Dtype, [first, second]: [u64; 2]) -> Self {
        let value = |dtype, word: u64| Value::from_bytes(dtype, &word.to_ne_bytes());
        match op {
            Op::ArgMin | Op::ArgMax => Self { value: value(dtype, second), index: Some(first) },
            Op::Sum | Op::SumOfSquares | Op::Min | Op::Max => {
                Self { value: value(op.result(dtype), first), index: None }
            }
        }
    }
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reducer").field("device", self.device()).finish_non_exhaustive()
    }
}

/// Returns the largest number of additions on the path of one of `n` elements that start at a 16-byte
/// boundary. Assumes that only the number of threads limits the device's occupancy.
pub fn depth_on(choice: Choice, n: u64, dtype: Dtype, info: &crate::DeviceInfo) -> u64 {
    internal::depth_on(choice, n, dtype, library::shape(info))
}
