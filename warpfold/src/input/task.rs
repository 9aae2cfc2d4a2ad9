//! The launches of a call.

use std::{array, fmt, ops::Deref};

use super::{
    axis::AxisTask,
    buffer::{CountedTask, MOST_TOGETHER, TogetherTask},
    filtered::WithinTask,
    pairs::PairsTask,
    rows::RowsTask,
    segments::SegmentsTask,
    top::TopTask,
    view::ViewTask,
};
use crate::{
    Error, Result,
    reducer::{Code, Codes, Kernels, Layout, Places, Span},
};

/// The launches of a call, mostly one.
pub(crate) trait Task: fmt::Debug {
    /// Returns whether there is nothing to launch.
    fn is_empty(&self) -> bool;

    /// Returns the operation, if it is one of a [`Code`].
    fn code(&self) -> Option<&Code> {
        None
    }

    /// Returns all such operations.
    fn codes(&self) -> [Option<&Code>; MOST_TOGETHER] {
        let mut codes = [None; MOST_TOGETHER];
        codes[0] = self.code();
        codes
    }

    /// Returns clones of the operations, which keep a program's own kernels loaded.
    fn kept_codes(&self) -> Codes {
        let codes = self.codes();
        array::from_fn(|i| codes[i].cloned())
    }

    /// Refuses a task of no elements whose result is not zero.
    fn require_zero_of_none(&self) -> Result<()> {
        match self.codes().into_iter().flatten().find(|code| !code.is_zero_of_none()) {
            Some(code) => Err(Error::NoElements { what: code.name() }),
            None => Ok(()),
        }
    }

    /// Returns the layout of results in host memory, for tasks whose results kernels write there.
    fn layout(&self) -> Layout {
        Layout::of_one(self.code().map_or(0, Code::result_bytes))
    }

    /// Returns the number of bytes that it reads, if the host may poll for the result: each launch
    /// writes its single result as its last access to memory, and its kernels stay loaded, unlike those
    /// of a program's own operations.
    fn seen_at_end(&self) -> Option<u64> {
        None
    }

    /// Loads the kernels, unless they are loaded.
    fn prepare(&self, kernels: &Kernels) -> Result<()>;

    /// Enqueues the launches. The task is not empty, or a
    /// [`ContinuedTask`](super::buffer::ContinuedTask) without elements; `places.found` is set if it has
    /// a count.
    ///
    /// # Safety
    /// - The elements, the count and the offsets must be readable on the kernels' device, and nothing
    ///   write them meanwhile; what the stream waits for may write the count. A running state must be as
    ///   a launch that the stream waits for has left it, and nothing else use it meanwhile. The offsets
    ///   of segments must have been checked and be unchanged since. Keys must be unchanged since their
    ///   runs were counted, with room for that number of runs; a launch that counts needs room for a
    ///   count per block.
    /// - `slots` must be those of a [`Workspace`](crate::reducer::Workspace) of this device, all zero
    ///   and used by nothing else meanwhile.
    /// - `output` must have room for a result there, and
    ///   [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES) writable bytes; or room for the words of
    ///   each launch of several operations; or for the results of all rows, columns or segments, or for
    ///   all first elements, or for the report on offsets; 8-aligned. `found` must have 8,
    ///   8-aligned. Nothing else uses either meanwhile.
    /// - The stream must be of this device.
    /// - All of them, and the kernels, must live until the work has ended.
    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()>;
}

macro_rules! tasks {
    ($($Name:ident($Task:ty),)*) => {
        /// The task of a plan, without an allocation.
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
    Elements(Span),
    Counted(CountedTask),
    Together(TogetherTask),
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
