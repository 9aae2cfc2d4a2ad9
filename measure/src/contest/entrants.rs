//! The suite's kernels as contenders, from any compiler: those of the catalogue, and the reducer with
//! its default or a given launch configuration, on a whole buffer or on the rows of a matrix.

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

pub struct Reducing {
    reduction: Reduction,
    workspace: Workspace,
    expected: Expected,
}

impl Reducing {
    pub fn new(reduction: Reduction, expected: Expected) -> Result<Self> {
        let workspace = reduction.workspace()?;
        Ok(Self { reduction, workspace, expected })
    }

    pub fn reduction(&self) -> &Reduction {
        &self.reduction
    }
}

// SAFETY: a reduction reads the elements that it was planned for and writes the workspace of `self`.
unsafe impl Contender for Reducing {
    fn device(&self) -> &Device {
        self.reduction.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        let request = self.reduction.request();
        Some((request.dtype, request.n))
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the slot holds the elements and `self` owns the workspace. By this function's
        // contract, `self` lives until all runs are complete, and these are on one stream.
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

pub struct Moving {
    movement: Movement,
    expected: Arc<Data>,
}

impl Moving {
    pub fn new(movement: Movement, expected: Arc<Data>) -> Self {
        Self { movement, expected }
    }

    pub fn movement(&self) -> &Movement {
        &self.movement
    }
}

// SAFETY: a movement reads and writes as many elements as its pattern has, and reads its own
// permutation.
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

// SAFETY: the kernels read as many elements as `self` was made for, and write memory that it owns.
unsafe impl Contender for Measured {
    fn device(&self) -> &Device {
        self.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        Some(self.elements())
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the slot holds the elements, aligned like an allocation. By this function's contract,
        // `self` outlives all runs, which are on one stream. A contest ends at the first wait that
        // fails.
        unsafe { self.launch(stream, slot.input()) }
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.poison()
    }

    fn check(&self, slot: &Slot<'_>) -> Result<bool> {
        self.check(slot.input())
    }
}

/// A reduction of every row of an f32 matrix by the library's kernels.
pub struct ReducingRows {
    measured: MeasuredRows,
    layout: Layout,
    matrix: Arc<Matrix>,
    output: Allocation,
}

impl ReducingRows {
    /// Loads the kernels and allocates the results, for [`Op::Sum`] or [`Op::ArgMax`]. Any other
    /// operation is an error.
    pub fn new(reducer: &Reducer, op: Op, matrix: &Arc<Matrix>) -> Result<Self> {
        let layout = Layout::of(op, Layout::Places)?;
        let (rows, len) = (matrix.rows(), matrix.row_len());
        let measured = MeasuredRows::new(reducer, (op, Dtype::F32), rows, len)?;
        // A single row is reduced like a buffer, with a result of up to `OUTPUT_BYTES` bytes.
        let bytes = (rows * layout.bytes()).max(OUTPUT_BYTES);
        let output = reducer.device().allocate(bytes)?;
        Ok(Self { measured, layout, matrix: matrix.clone(), output })
    }

    /// Returns the launch; `None` for a single row, which is reduced like a buffer.
    pub fn plan(&self) -> Option<RowsLaunch> {
        self.measured.plan()
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }
}

// SAFETY: the kernels read the elements of the matrix, and write memory that `self` owns.
unsafe impl Contender for ReducingRows {
    fn device(&self) -> &Device {
        self.measured.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        Some(self.measured.elements())
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        // SAFETY: the slot holds the elements, aligned like an allocation, and the output has room for
        // the results. By this function's contract, `self` outlives all runs, which are on one stream. A
        // contest ends at the first wait that fails.
        unsafe { self.measured.launch(stream, slot.input(), self.output.address()) }
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.output.fill(0, POISON, self.output.bytes())
    }

    fn check(&self, _slot: &Slot<'_>) -> Result<bool> {
        self.matrix.judge(&self.output, self.layout)
    }
}
