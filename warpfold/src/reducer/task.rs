//! What one launch reduces: the kinds of reductions, and what sets them apart from each other. Whoever
//! launches, waits, keeps or records knows nothing else of them.

use std::fmt;

use super::{
    job::Job,
    kernels::{Kernels, Places},
};
use crate::{
    Count, Result,
    axis::AxisJob,
    names::{Dtype, Op},
    ptx::Counted,
    rows::RowsJob,
};

/// What one launch reduces.
#[derive(Clone, Copy)]
pub(crate) enum Task<'a> {
    /// The elements of a buffer.
    Elements(Job),
    /// As many of them as a count says.
    Counted(Job, &'a Count<'a>),
    /// The rows of a matrix, each to a result of its own.
    Rows(RowsJob),
    /// The columns of matrices, likewise.
    Axis(AxisJob),
}

impl<'a> Task<'a> {
    /// The elements of a buffer, or as many as a count says if there is one.
    pub(crate) fn of(job: Job, count: Option<&'a Count<'a>>) -> Self {
        count.map_or(Self::Elements(job), |count| Self::Counted(job, count))
    }

    /// The rows of a matrix. A single one is what a buffer is, for which launches were measured.
    pub(crate) fn of_rows(job: RowsJob) -> Self {
        let RowsJob { op, dtype, rows, len, address } = job;
        if rows == 1 { Self::Elements(Job { op, dtype, n: len, address }) } else { Self::Rows(job) }
    }

    /// What lies along an axis. Of the last one it is rows.
    pub(crate) fn of_axis(job: AxisJob) -> Self {
        let AxisJob { op, dtype, matrices, len, width, address } = job;
        if width == 1 {
            Self::of_rows(RowsJob { op, dtype, rows: matrices, len, address })
        } else {
            Self::Axis(job)
        }
    }

    /// Whether it has nothing to launch.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Elements(job) | Self::Counted(job, _) => job.n == 0,
            Self::Rows(job) => job.rows == 0,
            Self::Axis(job) => job.matrices == 0 || job.width == 0,
        }
    }

    /// What says how many elements to take, if not the host.
    pub(crate) fn count(&self) -> Option<&'a Count<'a>> {
        match *self {
            Self::Counted(_, count) => Some(count),
            Self::Elements(_) | Self::Rows(_) | Self::Axis(_) => None,
        }
    }

    /// Bytes of a result, without those that fill up its place.
    pub(crate) fn result_bytes(&self) -> usize {
        let (op, dtype) = self.pair();
        op.result_bytes(dtype)
    }

    fn pair(&self) -> (Op, Dtype) {
        match self {
            Self::Elements(job) | Self::Counted(job, _) => (job.op, job.dtype),
            Self::Rows(job) => (job.op, job.dtype),
            Self::Axis(job) => (job.op, job.dtype),
        }
    }

    /// Loads the kernels that it takes, unless they are.
    pub(crate) fn prepare(&self, kernels: &Kernels) -> Result<()> {
        let (op, dtype) = self.pair();
        match self {
            Self::Elements(_) => kernels.prepare(Counted::ByHost, op, dtype),
            Self::Counted(..) => kernels.prepare(Counted::OnDevice, op, dtype),
            Self::Rows(_) => kernels.prepare_rows(op, dtype),
            Self::Axis(_) => kernels.prepare_axis(op, dtype),
        }
    }

    /// Enqueues it. It is not empty, and if it has a count there is a place for what that says.
    ///
    /// # Safety
    /// - The elements and the count must be readable on the kernels' device, and nothing write them
    ///   meanwhile; what the stream waits for may write the count.
    /// - `slots` must be those of a [`Workspace`](super::pool::Workspace) of this device, all zero and
    ///   used by nothing else meanwhile.
    /// - `output` must have [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES) writable bytes there,
    ///   and room for the results of all rows or columns, 8-aligned; `found` must have 8, 8-aligned. Nothing else
    ///   uses either meanwhile.
    /// - The stream must be of this device.
    /// - All of them, and the kernels, must live until the work has ended.
    pub(crate) unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Self::Elements(job) => kernels.enqueue(job, places),
                Self::Counted(job, count) => kernels.enqueue_counted(job, count, places),
                Self::Rows(job) => kernels.enqueue_rows(job, places),
                Self::Axis(job) => kernels.enqueue_axis(job, places),
            }
        }
    }
}

/// As the job that it is.
impl fmt::Debug for Task<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elements(job) | Self::Counted(job, _) => job.fmt(f),
            Self::Rows(job) => job.fmt(f),
            Self::Axis(job) => job.fmt(f),
        }
    }
}
