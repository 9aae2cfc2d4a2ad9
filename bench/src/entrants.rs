//! The suite's kernels as contenders, by whatever compiler: those of the catalogue, and the reducer with
//! its own choices or with one that is tried, of a whole buffer or of the rows of a matrix.

use std::sync::Arc;

use super::{
    Contender,
    matrix::{Layout, Matrix},
};
use warpfold_abi::reducer::OUTPUT_BYTES;
use warpfold_suite::{
    Data, Device, Dtype, Op, Reducer, Reduction, Result, Stream, Workspace,
    device::Allocation,
    measure::Slot,
    memory::Movement,
    reducer::{Measured, MeasuredRows, RowsLaunch},
    reference::{Expected, POISON},
};

/// A reduction with its workspace.
pub struct Reducing {
    reduction: Reduction,
    workspace: Workspace,
    expected: Expected,
}

impl Reducing {
    /// Allocates the workspace. `expected` is what it must give.
    ///
    /// # Errors
    /// Those of [`Reduction::workspace`].
    pub fn new(reduction: Reduction, expected: Expected) -> Result<Self> {
        let workspace = reduction.workspace()?;
        Ok(Self { reduction, workspace, expected })
    }

    /// Returns the reduction that takes part.
    pub fn reduction(&self) -> &Reduction {
        &self.reduction
    }
}

// SAFETY: the plan of a reduction reads as many elements as it was asked for and writes its workspace.
unsafe impl Contender for Reducing {
    fn device(&self) -> &Device {
        self.reduction.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        let request = self.reduction.request();
        Some((request.dtype, request.n))
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the slot holds the elements; the workspace is ours, and the caller keeps us and lets
        // one run follow the other on one stream.
        unsafe { self.reduction.launch(stream, slot.input(), &mut self.workspace) }.map(drop)
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.workspace.poison(POISON)
    }

    fn check(&self, _slot: &Slot<'_>) -> Result<bool> {
        let value = self.workspace.value(self.reduction.request().dtype)?;
        Ok(self.expected.judge(value, self.reduction.plan().depth)?.ok)
    }
}

/// A kernel that moves elements.
pub struct Moving {
    movement: Movement,
    expected: Arc<Data>,
}

impl Moving {
    /// `expected` is what it must write.
    pub fn new(movement: Movement, expected: Arc<Data>) -> Self {
        Self { movement, expected }
    }

    /// Returns the movement that takes part.
    pub fn movement(&self) -> &Movement {
        &self.movement
    }
}

// SAFETY: a movement reads and writes as many elements as its pattern says, and reads a permutation of
// its own.
unsafe impl Contender for Moving {
    fn device(&self) -> &Device {
        self.movement.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        Some((self.movement.dtype(), self.movement.pattern().input_len()))
    }

    fn room(&self) -> u64 {
        self.movement.pattern().output_len() * self.movement.dtype().size() as u64
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the slot holds the input and has room for the output.
        unsafe { self.movement.launch(stream, slot.input(), slot.output()) }.map(drop)
    }

    fn poison(&mut self, slot: &Slot<'_>) -> Result<()> {
        slot.poison(POISON)
    }

    fn check(&self, slot: &Slot<'_>) -> Result<bool> {
        let mut written = vec![0; self.expected.as_bytes().len()];
        slot.read(&mut written)?;
        Ok(written == self.expected.as_bytes())
    }
}

// SAFETY: the kernels read as many elements as it was made for, and write a workspace and an output that
// are its own.
unsafe impl Contender for Measured {
    fn device(&self) -> &Device {
        self.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        Some(self.elements())
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the slot holds the elements, and an allocation is aligned; the caller keeps us and
        // lets one run follow the other on one stream. A contest ends with the first wait that fails.
        unsafe { self.launch(stream, slot.input()) }
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.poison()
    }

    fn check(&self, slot: &Slot<'_>) -> Result<bool> {
        self.check(slot.input())
    }
}

/// A reduction of every row of a matrix of f32 by the library's kernels.
pub struct ReducingRows {
    measured: MeasuredRows,
    layout: Layout,
    matrix: Arc<Matrix>,
    output: Allocation,
}

impl ReducingRows {
    /// Loads the kernels and allocates the results, for [`Op::Sum`] or [`Op::ArgMax`].
    ///
    /// # Errors
    /// [`Error::Mismatch`](warpfold_suite::Error::Mismatch) for another operation, and those of
    /// [`MeasuredRows::new`].
    pub fn new(reducer: &Reducer, op: Op, matrix: &Arc<Matrix>) -> Result<Self> {
        let layout = Layout::of(op, Layout::Places)?;
        let (rows, len) = (matrix.rows(), matrix.row_len());
        let measured = MeasuredRows::new(reducer, (op, Dtype::F32), rows, len)?;
        // A single row is reduced as a buffer is, whose result may have `OUTPUT_BYTES` bytes.
        let bytes = (rows * layout.bytes()).max(OUTPUT_BYTES);
        let output = reducer.device().allocate(bytes)?;
        Ok(Self { measured, layout, matrix: matrix.clone(), output })
    }

    /// The launch; none for a single row, which is reduced as a buffer is.
    pub fn plan(&self) -> Option<RowsLaunch> {
        self.measured.plan()
    }

    /// How its results lie in memory.
    pub fn layout(&self) -> Layout {
        self.layout
    }
}

// SAFETY: the kernels read the elements of the matrix and write a workspace and the output, both ours.
unsafe impl Contender for ReducingRows {
    fn device(&self) -> &Device {
        self.measured.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        Some(self.measured.elements())
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the slot holds the elements, and an allocation is aligned; the output has room for a
        // result of each row. The caller keeps us and lets one run follow the other on one stream. A
        // contest ends with the first wait that fails.
        unsafe { self.measured.launch(stream, slot.input(), self.output.address()) }
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.output.fill(0, POISON, self.output.bytes())
    }

    fn check(&self, _slot: &Slot<'_>) -> Result<bool> {
        self.matrix.judge(&self.output, self.layout)
    }
}
