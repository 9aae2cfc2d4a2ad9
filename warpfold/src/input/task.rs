//! The interface between the kinds of input and the code that launches their kernels.

use std::{array, fmt, ops::Deref};

use super::{
    axis::AxisTask,
    buffer::{CountedTask, MOST_TOGETHER, TogetherTask},
    buffers::BuffersTask,
    filtered::WithinTask,
    pairs::PairsTask,
    rows::RowsTask,
    segments::SegmentsTask,
    top::TopTask,
    view::ViewTask,
};
use crate::{
    Error, Result,
    reducer::{Code, Codes, ElementRange, Kernels, LaunchContext, Layout},
};

/// The launches of one call; usually a single one.
pub(crate) trait Task: fmt::Debug {
    fn is_empty(&self) -> bool;

    /// Returns the operation, if the task has exactly one that is described by a [`Code`].
    fn code(&self) -> Option<&Code> {
        None
    }

    fn codes(&self) -> [Option<&Code>; MOST_TOGETHER] {
        let mut codes = [None; MOST_TOGETHER];
        codes[0] = self.code();
        codes
    }

    /// Clones the operations, to keep a program's own kernels loaded while they run.
    fn kept_codes(&self) -> Codes {
        let codes = self.codes();
        array::from_fn(|i| codes[i].cloned())
    }

    fn require_zero_of_none(&self) -> Result<()> {
        match self.codes().into_iter().flatten().find(|code| !code.is_zero_when_empty()) {
            Some(code) => Err(Error::NoElements { what: code.name() }),
            None => Ok(()),
        }
    }

    /// Returns the layout of the results that kernels write to host memory.
    fn layout(&self) -> Layout {
        Layout::of_one(self.code().map_or(0, Code::result_bytes))
    }

    /// Returns the number of bytes that the task reads, which limits the time of polling for its result,
    /// or `None` if the host must not poll. Polling needs built-in kernels, and launches whose last
    /// accesses to memory are those that write single results.
    fn pollable_bytes(&self) -> Option<u64> {
        None
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()>;

    /// Returns the number of bytes, from the start of the slots, that the launches may access; `None`
    /// for all. A captured launch clears only these: if it accessed more, it could wait forever, or
    /// return a wrong result.
    fn used_slot_bytes(&self, _kernels: &Kernels) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Enqueues the launches. The task must not be empty, except for a
    /// [`ContinuedTask`](super::buffer::ContinuedTask) without elements. `context.found` must be set if
    /// the task has a count.
    ///
    /// # Safety
    /// - The elements, the count and the offsets must be readable on the kernels' device and not be
    ///   written until the work has ended; work that the stream waits for may write the count. A running
    ///   state must have been left by a launch that the stream waits for, and not be used otherwise. The
    ///   offsets of segments must be unchanged since they were checked, and keys since their runs were
    ///   counted, with room for that number of runs. A launch that counts runs needs room for one count
    ///   per block.
    /// - `slots` must belong to a [`Workspace`](crate::reducer::Workspace) of this device, be all zero
    ///   and not be used otherwise.
    /// - `output` must be 8-aligned and have room for the result, at least
    ///   [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES); or for the words of each result of
    ///   several operations; or for the results of all rows, columns or segments; or for all results of
    ///   top-k; or for the report on offsets. `found` must have 8 bytes, 8-aligned. Neither may be used
    ///   otherwise.
    /// - The stream must be of this device.
    /// - All of these, and the kernels, must live until the work has ended.
    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()>;
}

macro_rules! tasks {
    ($($Name:ident($Task:ty),)*) => {
        /// Any task of a plan, stored without an allocation.
        #[derive(Clone)]
        pub(crate) enum AnyTask {
            $($Name($Task),)*
        }

        impl Deref for AnyTask {
            type Target = dyn Task;

            fn deref(&self) -> &(dyn Task + 'static) {
                match self {
                    $(Self::$Name(task) => task,)*
                }
            }
        }
    };
}

tasks! {
    Elements(ElementRange),
    Counted(CountedTask),
    Together(TogetherTask),
    Buffers(BuffersTask),
    Pairs(PairsTask),
    Within(WithinTask),
    Top(TopTask),
    Rows(RowsTask),
    Axis(AxisTask),
    View(ViewTask),
    Segments(SegmentsTask),
}

impl fmt::Debug for AnyTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
