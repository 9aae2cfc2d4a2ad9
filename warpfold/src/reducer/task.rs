//! What one launch reduces: the kinds of reductions, and what sets them apart from each other. Whoever
//! launches, waits, keeps or records knows nothing else of them.

use std::{array, fmt};

use warpfold_abi::reducer::OUTPUT_BYTES;

use super::{
    host_results::Layout,
    job::{Carried, Code, Span},
    kernels::{Kernels, Places},
    many::{Codes, MOST_TOGETHER, ManyJob},
};
use crate::{
    Error, Result,
    axis::AxisJob,
    count::CountAt,
    names::{Dtype, Op},
    pairs::PairsJob,
    ptx::{Form, PiecesForm},
    rows::RowsJob,
    runs::{ByKeyJob, RunsJob, WriteRunsJob},
    segments::{OffsetsJob, SegmentsJob},
    top::TopJob,
    view::ViewJob,
    within::WithinJob,
};

/// What one launch reduces.
#[derive(Clone)]
pub(crate) enum Task {
    /// The elements of a buffer.
    Elements(Span),
    /// As many of them as a count says.
    Counted(Span, CountAt),
    /// The elements of a buffer, behind others.
    Continued(Span, Carried),
    /// The elements of a buffer, as many as there are or as a count says, by several operations.
    Many(ManyJob),
    /// Pairs of elements of two buffers.
    Pairs(PairsJob),
    /// Those elements of a buffer that lie in an interval.
    Within(WithinJob),
    /// The first elements of a buffer in an order, or of each row of a matrix.
    Top(TopJob),
    /// The rows of a matrix, each to a result of its own.
    Rows(RowsJob),
    /// The columns of matrices, likewise.
    Axis(AxisJob),
    /// What lies along some axes of an array of any strides, likewise.
    View(ViewJob),
    /// Segments of a buffer, each to a result of its own.
    Segments(SegmentsJob),
    /// No reduction, but a look at the offsets of segments.
    Offsets(OffsetsJob),
    /// How many runs some keys have.
    CountRuns(RunsJob),
    /// No reduction, but what writes the runs.
    WriteRuns(WriteRunsJob),
    /// The same, and the values that each run has, each to a result of its own.
    ByKey(ByKeyJob),
}

impl Task {
    /// The elements of a buffer, or as many as a count says if there is one.
    pub(crate) fn of(span: Span, count: Option<CountAt>) -> Self {
        match count {
            None => Self::Elements(span),
            Some(count) => Self::Counted(span, count),
        }
    }

    /// The rows of a matrix. A single one is what a buffer is, for which launches were measured.
    pub(crate) fn of_rows(job: RowsJob) -> Self {
        if job.rows != 1 {
            return Self::Rows(job);
        }
        let RowsJob { code, len, address, .. } = job;
        Self::Elements(Span { code, n: len, address })
    }

    /// What lies along an axis, with columns side by side. Of the last one it is rows.
    pub(crate) fn of_axis(job: AxisJob) -> Self {
        if job.width != 1 {
            return Self::Axis(job);
        }
        let AxisJob { code, matrices: rows, apart: pitch, len, address, .. } = job;
        Self::of_rows(RowsJob { code, rows, len, pitch, address })
    }

    /// Segments of a buffer. Those of one length are what a matrix is, whose kernels do without offsets.
    pub(crate) fn of_segments(job: SegmentsJob) -> Self {
        match job.rows() {
            Some(rows) => Self::of_rows(rows),
            None => Self::Segments(job),
        }
    }

    /// Whether it has nothing to launch.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Elements(span) | Self::Counted(span, _) | Self::Continued(span, _) => {
                span.n == 0 && !span.code.reduces_none()
            }
            Self::Many(job) => job.tasks().next().is_none(),
            Self::Pairs(job) => job.n == 0,
            Self::Within(job) => job.n == 0,
            Self::Top(job) => job.count() == 0,
            Self::Rows(job) => job.rows == 0,
            Self::Axis(job) => job.matrices == 0 || job.width == 0,
            // One without elements is made another task.
            Self::View(_) => false,
            Self::Segments(job) => job.segments == 0,
            Self::Offsets(job) => job.segments == 0,
            Self::CountRuns(job) => job.n == 0,
            Self::WriteRuns(job) => job.runs.n == 0,
            Self::ByKey(job) => job.write.runs.n == 0,
        }
    }

    /// Whose kernels its reductions take, if it reduces anything but pairs or an interval, and finds no
    /// first elements.
    pub(crate) fn codes(&self) -> impl Iterator<Item = &Code> {
        let mut codes = [None; MOST_TOGETHER];
        match self {
            Self::Elements(span) | Self::Counted(span, _) | Self::Continued(span, _) => {
                codes[0] = Some(&span.code);
            }
            Self::Many(job) => codes = job.codes().each_ref().map(Option::as_ref),
            Self::Rows(job) => codes[0] = Some(&job.code),
            Self::Axis(job) => codes[0] = Some(&job.code),
            Self::View(job) => codes[0] = Some(&job.code),
            Self::Segments(job) => codes[0] = Some(&job.code),
            Self::ByKey(job) => codes[0] = Some(&job.segments.code),
            Self::Pairs(_) | Self::Within(_) | Self::Top(_) => {}
            Self::Offsets(_) | Self::CountRuns(_) | Self::WriteRuns(_) => {}
        }
        codes.into_iter().flatten()
    }

    /// A share of these, for whoever keeps them until the work has ended.
    pub(crate) fn kept_codes(&self) -> Codes {
        let mut codes = self.codes();
        array::from_fn(|_| codes.next().cloned())
    }

    /// The bytes that it reads, if each of its launches writes its result when nothing else is left for
    /// it to do, and it takes no kernels of a program's own, which may go as soon as they have ended.
    pub(crate) fn seen_at_end(&self) -> Option<u64> {
        match self {
            Self::Elements(span) => span.code.is_built_in().then(|| span.bytes()),
            Self::Many(job) => job.tasks().map(|task| task.seen_at_end()).sum(),
            // Of parts more bytes are taken than are written.
            Self::Pairs(job) => (!job.op.is_part()).then(|| job.bytes()),
            Self::Within(job) => (!job.op.is_part()).then(|| job.bytes()),
            // These leave more than a result, or a result of many.
            Self::Counted(..) | Self::Continued(..) | Self::Top(_) => None,
            Self::Rows(_) | Self::Axis(_) | Self::View(_) => None,
            Self::Segments(_) | Self::Offsets(_) => None,
            Self::CountRuns(_) | Self::WriteRuns(_) | Self::ByKey(_) => None,
        }
    }

    /// What it writes where it has single results, or the first elements of a buffer.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Self::Many(job) => job.layout(),
            Self::Pairs(job) => Layout::of_one(job.op.result_bytes(job.dtype)),
            Self::Within(job) => Layout::of_one(job.op.result_bytes()),
            Self::Top(job) => Layout::of_pieces(job.count(), OUTPUT_BYTES as usize),
            Self::CountRuns(_) => Layout::of_one(size_of::<u64>()),
            _ => Layout::of_one(self.codes().next().map_or(0, Code::result_bytes)),
        }
    }

    /// Refuses a task of no elements whose result is not zero.
    pub(crate) fn require_zero_of_none(&self) -> Result<()> {
        match self.codes().find(|code| !code.is_zero_of_none()) {
            Some(code) => Err(Error::NoElements { what: code.name() }),
            None => Ok(()),
        }
    }

    /// Loads the kernels that it takes, unless they are.
    pub(crate) fn prepare(&self, kernels: &Kernels) -> Result<()> {
        let built_in = |prepare: &dyn Fn(Op, Dtype) -> Result<()>| {
            self.codes().try_for_each(|code| match *code {
                Code::BuiltIn(op, dtype) => prepare(op, dtype),
                // Those of a program's own are loaded.
                Code::Custom(_) => Ok(()),
            })
        };
        let form = |form| built_in(&|op, dtype| kernels.prepare(form, op, dtype));
        let pieces = |form| built_in(&|op, dtype| kernels.prepare_pieces(form, op, dtype));
        match self {
            Self::Elements(_) => form(Form::Whole),
            Self::Counted(..) => form(Form::Counted),
            Self::Continued(..) => form(Form::Continued),
            Self::Many(job) => job.tasks().try_for_each(|task| task.prepare(kernels)),
            Self::Pairs(job) => kernels.prepare_pairs(job.op, job.dtype),
            Self::Within(job) => kernels.prepare_within(job.op, job.dtype),
            Self::Top(job) => match job.of_one() {
                Some(task) => task.prepare(kernels),
                None => kernels.prepare_top(job.op, job.dtype),
            },
            Self::Rows(_) => pieces(PiecesForm::Rows),
            Self::Axis(_) => pieces(PiecesForm::Axis),
            Self::View(_) => pieces(PiecesForm::View),
            Self::Segments(_) => pieces(PiecesForm::Segments),
            Self::Offsets(_) => kernels.prepare_offsets(),
            Self::CountRuns(job) => kernels.prepare_runs(job.key_bytes),
            Self::WriteRuns(job) => kernels.prepare_runs(job.runs.key_bytes),
            Self::ByKey(job) => {
                kernels.prepare_runs(job.write.runs.key_bytes)?;
                kernels.prepare_offsets()?;
                Self::of_segments(job.segments.clone()).prepare(kernels)
            }
        }
    }

    /// Enqueues it. It is not empty, and if it has a count there is a place for what that says.
    ///
    /// # Safety
    /// - The elements, the count and the offsets must be readable on the kernels' device, and nothing
    ///   write them meanwhile; what the stream waits for may write the count. What is carried must be
    ///   as a launch that the stream waits for has left it, and nothing else use it meanwhile. Of
    ///   segments the offsets must have been looked at, and be as that has found them. Of runs the
    ///   keys must be as they were when they were counted, and there must be room for as many runs;
    ///   before, for the counts.
    /// - `slots` must be those of a [`Workspace`](super::pool::Workspace) of this device, all zero and
    ///   used by nothing else meanwhile.
    /// - `output` must have room for a result there, and
    ///   [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES) writable bytes; or room for the words of
    ///   each launch of several operations; or for the results of all rows, columns or segments, or for
    ///   all first elements, or for the report on offsets; 8-aligned. `found` must have 8,
    ///   8-aligned. Nothing else uses either meanwhile.
    /// - The stream must be of this device.
    /// - All of them, and the kernels, must live until the work has ended.
    pub(crate) unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Self::Elements(span) => kernels.enqueue(span, places),
                Self::Counted(span, count) => kernels.enqueue_counted(span, *count, places),
                Self::Continued(span, carried) => kernels.enqueue_continued(span, carried, places),
                Self::Many(job) => {
                    let mut tasks = job.tasks().zip(ManyJob::outputs(places.output));
                    tasks.try_for_each(|(task, output)| {
                        task.enqueue(kernels, &Places { output, ..*places })
                    })
                }
                Self::Pairs(job) => kernels.enqueue_pairs(job, places),
                Self::Within(job) => kernels.enqueue_within(job, places),
                Self::Top(job) => match job.of_one() {
                    // A place takes as much room there, too.
                    Some(task) => task.enqueue(kernels, places),
                    None => kernels.enqueue_top(job, places),
                },
                Self::Rows(job) => kernels.enqueue_rows(job, places),
                Self::Axis(job) => kernels.enqueue_axis(job, places),
                Self::View(job) => kernels.enqueue_view(job, places),
                Self::Segments(job) => kernels.enqueue_segments(job, places),
                Self::Offsets(job) => kernels.enqueue_offsets(job, places),
                Self::CountRuns(job) => kernels.enqueue_count_runs(job, places),
                Self::WriteRuns(job) => kernels.enqueue_write_runs(job, places),
                Self::ByKey(job) => kernels.enqueue_by_key(job, places),
            }
        }
    }
}

/// As the elements or rows that it is.
impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elements(span) | Self::Counted(span, _) | Self::Continued(span, _) => span.fmt(f),
            Self::Many(job) => job.fmt(f),
            Self::Pairs(job) => job.fmt(f),
            Self::Within(job) => job.fmt(f),
            Self::Top(job) => job.fmt(f),
            Self::Rows(job) => job.fmt(f),
            Self::Axis(job) => job.fmt(f),
            Self::View(job) => job.fmt(f),
            Self::Segments(job) => job.fmt(f),
            Self::Offsets(job) => job.fmt(f),
            Self::CountRuns(job) => job.fmt(f),
            Self::WriteRuns(job) => job.fmt(f),
            Self::ByKey(job) => job.fmt(f),
        }
    }
}
