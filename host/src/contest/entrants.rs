//! The suite's kernels as contenders, by whatever compiler, and its reducer.

use std::sync::Arc;

use super::{Contender, Slot};
use crate::{
    Data, Device, Dtype, Op, Reducer, Reduction, Result, Stream, Workspace,
    device::{Allocation, read_value},
    memory::Movement,
    record::POISON,
    reducer::{Choice, Launch, Measured},
    reference::Expected,
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

    /// The reduction.
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
        let outcome = self.workspace.collect(self.reduction.request().dtype, None)?;
        Ok(self.expected.check(outcome.value, self.reduction.plan().depth).ok)
    }
}

/// A reduction as the [`Reducer`] launches it, but for its result: that stays in device memory, where CUB
/// leaves its own. What a program waits for, a result in host memory, is [`Measured`].
pub struct ByReducer {
    measured: Measured,
    op: Op,
    dtype: Dtype,
    output: Allocation,
}

/// A value, or an index and its element.
const OUTPUT_BYTES: u64 = 16;

impl ByReducer {
    /// Loads the kernels, which it shares with the reducer, and allocates a workspace: a launch finds it
    /// clear, and leaves it so. `expected` is what must come out. With a `choice` of the caller's no other
    /// runs.
    ///
    /// # Errors
    /// Those of [`Measured::new`].
    pub fn new(
        reducer: &Reducer,
        (op, dtype, n): (Op, Dtype, u64),
        choice: Option<Choice>,
        expected: Expected,
    ) -> Result<Self> {
        let measured = Measured::new(reducer, op, dtype, n, choice, expected)?;
        let output = reducer.device().allocate(OUTPUT_BYTES)?;
        Ok(Self { measured, op, dtype, output })
    }

    /// The launch on elements that start at a 16-byte boundary, as those of a contest do.
    ///
    /// # Errors
    /// None but those of [`new`](Self::new).
    pub fn plan(&self) -> Result<Launch> {
        self.measured.plan()
    }
}

// SAFETY: the kernels read as many elements as the reduction has and write the workspace and the output,
// which are the contender's.
unsafe impl Contender for ByReducer {
    fn device(&self) -> &Device {
        self.output.device()
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        self.measured.input()
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        let output = self.output.address();
        // SAFETY: the slot holds the elements, and an allocation is aligned; output and workspace are ours,
        // and the caller keeps us and lets one run follow the other on one stream. A contest ends with the
        // first wait that fails.
        unsafe { self.measured.launch_into(stream, slot.input(), output) }.map(drop)
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.output.fill(0, POISON, OUTPUT_BYTES)
    }

    fn check(&self, slot: &Slot<'_>) -> Result<bool> {
        // An index comes before its element.
        let value = read_value(&self.output, 0, self.op.result(self.dtype))?;
        self.measured.is_right(slot.input(), value)
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

    /// The movement.
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
