//! Internals for this workspace's programs, tools and tests: operations and types as values, explicit
//! launches, and kernels from other sources. They are exempt from semantic versioning.

#[cfg(feature = "cpu")]
use std::ops::Range;
use std::{
    ffi::c_void,
    marker::PhantomData,
    mem,
    sync::{Arc, OnceLock},
};

use warpfold_driver::{Context, Driver, Stream as RawStream};

use crate::{
    Axis, Device, Element, Enqueue, Error, OnStream, Outcome, Outputs, Plain, Reducer, Result, Rows,
    View,
    dlpack::DataType,
    element::{Words, sealed::Outcome as _},
    input::{AnyTask, Task, buffer, rows::RowsTask},
    memory::Memory,
    op::{Operation, RowsOperation, expression::Expression, kind, sealed},
    reducer::{Code, ElementRange, LaunchContext, slots},
};
pub use crate::{
    geometry::{Launch, MAX_ELEMENTS, depth_on},
    input::{axis::AxisLaunch, rows::RowsLaunch, view::ViewLaunch},
    kernel_file::{Family, Kernel, KernelFile},
    names::{
        AxisKernel, Dtype, Form, KernelKind, MapOp, Nan, Op, OpKind, Order, PairKernel, PairOp,
        RowsKernel, TopOp, UnknownName, ViewKernel, Written,
    },
    op::describe::described,
    ptx::{Find, Ptx, PtxSource},
    reducer::Job,
    signature::{Mismatch, compare},
    tuning::{Blocks, Bracket, Choice, Shape, Tuning, check},
};
pub use warpfold_ptx::{Arch, BadArch};

pub mod archive {
    pub use crate::{
        archive::{Archive, Damaged, FRAME, HEAD, MAX_TEXT, SKIPPABLE, class, decoded},
        ptx::{ARCH, ARCHIVES, archive_of, for_oldest},
    };
}

/// An operation chosen at run time. Elements may have any type of the right size. A result is the bytes
/// that the kernel writes, as an `R`, or `None` for no elements.
#[derive(Debug, Clone, Copy)]
pub struct DynamicOp<R> {
    code: StaticCode,
    result: PhantomData<R>,
}

#[derive(Debug, Clone, Copy)]
enum StaticCode {
    BuiltIn(Op, Dtype),
    Expression(StaticExpression),
}

/// The reduction of the values of an expression, for elements of a type chosen at run time. It is never
/// dropped, because a [`DynamicOp`] is `Copy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticExpression(&'static Arc<Expression>);

/// An expression and a condition of elements, compiled for each combination and type at its first use.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpressionText {
    map: String,
    filter: Option<String>,
    /// Indexed by [`MapOp`] and [`Dtype`].
    compiled: [[OnceLock<StaticExpression>; Dtype::ALL.len()]; MapOp::ALL.len()],
}

impl ExpressionText {
    /// The text is not checked.
    pub fn new(map: String, filter: Option<String>) -> Self {
        Self { map, filter, compiled: Default::default() }
    }

    /// Returns the reduction of elements of a type.
    pub fn compiled(&self, op: MapOp, dtype: Dtype) -> Result<StaticExpression> {
        let compiled = &self.compiled[op as usize][dtype as usize];
        if let Some(expression) = compiled.get() {
            return Ok(*expression);
        }
        let new = StaticExpression::new(&self.map, self.filter.as_deref(), op, dtype)?;
        Ok(*compiled.get_or_init(|| new))
    }
}

impl StaticExpression {
    /// Checks that an expression and a condition are valid for elements of some type, and otherwise
    /// returns the error that is found last in the text.
    pub fn check(map: &str, filter: Option<&str>) -> Result<()> {
        let of_type = |dtype| Expression::new(map, filter, MapOp::Sum, dtype).map(drop);
        let position = |error: &Error| match error {
            Error::Expression { at, .. } => *at,
            _ => 0,
        };
        let results = [Dtype::F32, Dtype::F64, Dtype::I64, Dtype::U64].map(of_type);
        if results.iter().any(Result::is_ok) {
            return Ok(());
        }
        results.into_iter().filter_map(Result::err).max_by_key(position).map_or(Ok(()), Err)
    }

    /// Compiles an expression and a condition of the elements, as [`expr`](fn@crate::op::expr) does.
    fn new(map: &str, filter: Option<&str>, op: MapOp, dtype: Dtype) -> Result<Self> {
        Ok(Self(Box::leak(Box::new(Arc::new(Expression::new(map, filter, op, dtype)?)))))
    }
}

impl<R: Plain> DynamicOp<R> {
    /// # Panics
    /// If the type does not have the operation, or `R` does not have the size of [its
    /// results](result_bytes).
    pub fn new(op: Op, dtype: Dtype) -> Self {
        assert!(op.takes(dtype), "{dtype} has no {op}");
        assert_eq!(size_of::<R>(), result_bytes(op, dtype), "bytes of {op} of {dtype}");
        Self { code: StaticCode::BuiltIn(op, dtype), result: PhantomData }
    }

    /// # Panics
    /// If `R` does not have the size of [`Dtype::sum`].
    pub fn expression(expression: StaticExpression) -> Self {
        let dtype = expression.0.dtype;
        assert_eq!(size_of::<R>(), dtype.sum().size(), "bytes of an expression of {dtype}");
        Self { code: StaticCode::Expression(expression), result: PhantomData }
    }
}

/// Returns the distance between consecutive results of an operation, in bytes.
pub const fn result_bytes(op: Op, dtype: Dtype) -> usize {
    op.result_bytes(dtype).next_power_of_two()
}

impl<R> sealed::Sealed for DynamicOp<R> {
    type Kind = kind::Single;
}

impl<T: Plain, R: Plain> Operation<T> for DynamicOp<R> {
    type Output = Option<R>;
    type Left = R;

    fn code(self) -> Code {
        let code = match self.code {
            StaticCode::BuiltIn(op, dtype) => Code::BuiltIn(op, dtype),
            StaticCode::Expression(StaticExpression(expression)) => Code::Expression(expression.clone()),
        };
        assert_eq!(size_of::<T>() as u64, code.element_bytes(), "bytes of an element");
        code
    }

    fn of_none() -> Option<Option<R>> {
        Some(None)
    }

    fn decode(words: Words) -> Option<R> {
        Some(R::from_words(words))
    }
}

impl<T: Plain, R: Plain> RowsOperation<T> for DynamicOp<R> {}

/// Reduces pieces of elements on the CPU, like [`reduce_rows`](crate::cpu::reduce_rows). `elements` are
/// their bytes, and `piece` returns the range of elements of each of `count` pieces. Returns the bytes
/// of the results, [`result_bytes`] for each piece: zeros for a piece without elements.
///
/// # Panics
/// If the type does not have the operation, if the elements are not at a multiple of their size, or if a
/// range is not within them.
#[cfg(feature = "cpu")]
pub fn reduce_pieces_on_cpu(
    op: Op,
    dtype: Dtype,
    elements: &[u8],
    count: usize,
    piece: impl Fn(usize) -> Range<usize> + Sync,
) -> Result<Vec<u8>> {
    assert!(op.takes(dtype), "{dtype} has no {op}");
    crate::cpu::check_len(elements.len() / dtype.size())?;
    let bytes = result_bytes(op, dtype);
    let mut results = Vec::with_capacity(count * bytes);
    let mut take = |words: Words| results.extend_from_slice(&bytemuck::bytes_of(&words)[..bytes]);
    crate::cpu::each_piece(op, dtype, elements, count, piece, &mut take);
    Ok(results)
}

pub fn data_type(dtype: Dtype) -> DataType {
    DataType::of_dtype(dtype)
}

/// Returns the device of a context of any driver, NVIDIA's or the simulator's.
///
/// # Safety
/// `context` must be of `driver`, and meet the conditions of [`Device::from_context`].
pub unsafe fn device(driver: &'static Driver, context: *mut c_void) -> Result<Device> {
    // SAFETY: the context is of `driver`, and the caller keeps it alive as long as the device.
    unsafe { Device::in_context(driver, Context::from_raw(context.cast())) }
}

pub fn shape(device: &Device) -> Shape {
    device.info().shape()
}

/// Returns the launch of a sum of rows. A single row is launched as a buffer instead.
pub fn rows_launch<T: Element>(rows: &Rows<'_, T>) -> Result<RowsLaunch> {
    let device = rows.buffer().device();
    Ok(RowsLaunch::new(&rows.task(Code::BuiltIn(OpKind::Sum.plain(), T::DTYPE), device)?, shape(device)))
}

/// Enqueues [`OnStream::reduce_into`] for one or more operations on rows, whose results are written one
/// operation after the other, as by `warpfold_abi::fused::results_bytes`.
///
/// # Safety
/// The outputs must have room for the results of all operations.
pub unsafe fn reduce_rows_into<'r, T: Plain, O, R: Outcome>(
    on: OnStream<'_>,
    op: O,
    rows: Rows<'r, T>,
    outputs: &mut Outputs<R>,
) -> Result<()>
where
    Rows<'r, T>: Enqueue<O>,
{
    on.leave(&rows.plan(op, outputs.device())?, outputs)
}

/// Returns the launch of a sum along an axis that is not the last.
pub fn axis_launch<T: Element>(axis: &Axis<'_, T>) -> Result<AxisLaunch> {
    let device = axis.buffer().device();
    Ok(AxisLaunch::new(&axis.task(Code::BuiltIn(OpKind::Sum.plain(), T::DTYPE), device)?, shape(device)))
}

/// Returns the launch of a sum along some axes of a view, if a view kernel reduces it.
pub fn view_launch<T: Element>(view: &View<'_, T>, axes: &[usize]) -> Result<Option<ViewLaunch>> {
    let device = view.buffer().device();
    Ok(match view.along(axes)?.task(Code::BuiltIn(OpKind::Sum.plain(), T::DTYPE), device)? {
        AnyTask::View(job) => Some(ViewLaunch::new(&job, shape(device))),
        _ => None,
    })
}

/// Returns the launch of a job whose elements are two or more rows of `len` elements; `len` is not 0.
pub fn rows_plan(device: &Device, job: &Job, len: u64) -> RowsLaunch {
    RowsLaunch::new(&rows_task(job, len), shape(device))
}

fn rows_task(job: &Job, len: u64) -> RowsTask {
    RowsTask::contiguous(job.into(), len)
}

/// Returns a reducer with the given kernels and choices, and at most `workspaces` > 0 workspaces.
pub fn reducer(device: &Device, source: PtxSource, tuning: Tuning, workspaces: usize) -> Reducer {
    Reducer::with(device, source, tuning, workspaces)
}

pub fn reducer_of_ptx(device: &Device, source: PtxSource) -> Reducer {
    Reducer::of_ptx(device, source)
}

pub fn ptx(source: &PtxSource, name: &str, device: Arch) -> Result<Ptx> {
    source.find(name, device)
}

pub fn tuning(reducer: &Reducer) -> &Tuning {
    reducer.core().kernels().tuning()
}

pub fn prepare(reducer: &Reducer, op: Op, dtype: Dtype) -> Result<()> {
    let (kernels, code) = (reducer.core().kernels(), Code::BuiltIn(op, dtype));
    let mut all = 0..Family::Buffer.kernels().len();
    all.try_for_each(|kernel| kernels.find_of(Family::Buffer, &code, kernel).map(drop))
}

/// Loads the kernels for a job whose elements are rows of `len` elements; `len` is not 0.
pub fn prepare_rows(reducer: &Reducer, job: &Job, len: u64) -> Result<()> {
    rows_task(job, len).task().prepare(reducer.core().kernels())
}

/// Returns the launch of a job that is not empty: the tuning's choice, or exactly the given one.
pub fn plan(reducer: &Reducer, job: &Job, choice: Option<Choice>) -> Result<Launch> {
    buffer::plan(reducer.core().kernels(), &job.into(), choice)
}

pub fn depth(launch: Launch, job: &Job) -> u64 {
    launch.depth(ElementRange::from(job).extent())
}

/// Reduces and waits. Returns the 16 bytes of an [`Output`](crate::Output) as words. `keep` is called if
/// the reduction fails and the elements may still be read at any time.
///
/// # Safety
/// The job must not be empty. Its elements must be readable on the reducer's device, at an address that
/// is a multiple of their size. They must stay allocated and unchanged until this returns, or forever if
/// `keep` is called.
pub unsafe fn reduce(reducer: &Reducer, job: &Job, keep: impl FnOnce()) -> Result<[u64; 2]> {
    let keep = || {
        mem::forget(reducer.clone());
        keep();
    };
    // SAFETY: the caller keeps the elements readable until this returns, or forever after `keep`.
    let reduced = unsafe { reducer.core().reduce(&ElementRange::from(job), |results| results.get(0)) };
    reduced.map(|[first, second, ..]| [first, second]).map_err(|failed| failed.or_keep(keep))
}

/// Launches reductions one after the other with a workspace of its own, for measurements.
pub struct Launcher {
    reducer: Reducer,
    slots: Memory,
}

impl Launcher {
    pub fn new(reducer: &Reducer) -> Result<Self> {
        Ok(Self { reducer: reducer.clone(), slots: slots(reducer.device())? })
    }

    /// Enqueues a job that is not empty on a stream, a `CUstream`. `recording` states whether the stream
    /// is being captured into a graph.
    ///
    /// # Safety
    /// - The job's elements must be readable at its address, a multiple of their size, and `output` must
    ///   be the address of 16 writable bytes, a multiple of 8, both on the reducer's device.
    /// - These, the stream, which must be of that device, and `self` must live until the work has ended.
    /// - If earlier work of this launcher was enqueued on another stream, it must have been waited for.
    ///   If a wait for this launcher's work fails, `self` must neither be used again nor dropped.
    pub unsafe fn launch(
        &mut self,
        job: &Job,
        choice: Option<Choice>,
        stream: *mut c_void,
        output: u64,
        recording: bool,
    ) -> Result<()> {
        let context =
            LaunchContext::new(self.slots.address(), output, RawStream::from_raw(stream.cast()));
        let context = LaunchContext { choice, recording, ..context };
        // SAFETY: only this launcher uses the slots, one launch after the other, and each launch leaves
        // them at zero. The caller keeps elements, output and stream valid until the work has ended.
        unsafe { ElementRange::from(job).enqueue(self.reducer.core().kernels(), &context) }
    }

    /// Enqueues a job whose elements are one or more rows of `len` elements.
    ///
    /// # Safety
    /// The conditions of [`launch`](Self::launch) must hold. `output` must have room for one result per
    /// row, and at least 16 bytes.
    pub unsafe fn launch_rows(
        &mut self,
        job: &Job,
        len: u64,
        stream: *mut c_void,
        output: u64,
        recording: bool,
    ) -> Result<()> {
        ElementRange::from(job).check()?;
        let context =
            LaunchContext::new(self.slots.address(), output, RawStream::from_raw(stream.cast()));
        let context = LaunchContext { recording, ..context };
        // SAFETY: only this launcher uses the slots, which are zero; there is room for all results.
        unsafe { rows_task(job, len).task().enqueue(self.reducer.core().kernels(), &context) }
    }
}
