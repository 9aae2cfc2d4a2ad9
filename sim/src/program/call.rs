//! Calls that are not expanded in place: by address, guarded, recursive, and of functions with `alloca`.

use super::Slot;

/// A range of bytes in the caller's or the callee's stack frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Register that holds the callee's address; `None` if only one function is possible.
    pub(crate) target: Option<u16>,
    /// Possible callees, as indices into `Program::functions`.
    pub(crate) functions: Vec<u32>,
    pub(crate) arguments: Vec<Part>,
    pub(crate) results: Vec<Part>,
    /// Registers that are live in the caller after the call, and saved because the callee may use them.
    pub(crate) words: Vec<u16>,
    pub(crate) doubles: Vec<u16>,
    pub(crate) predicates: Vec<u16>,
}

#[derive(Debug, Clone)]
pub(crate) struct Activated {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) start: u32,
    pub(crate) params: Vec<Part>,
    pub(crate) returns: Vec<Part>,
    pub(crate) bytes: u32,
}

/// An instruction on the stack of the thread; pointers and sizes have 32 or 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StackOp {
    /// `alloca`.
    Allocate { pointer: Slot, bytes: Slot, align: u32 },
    /// `stacksave`.
    Save(Slot),
    /// `stackrestore`.
    Restore(Slot),
}

/// A call of `malloc`, which has a result, or of `free`. The offsets are in local memory, like those of
/// [`Print`](super::Print).
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeapCall {
    pub(crate) frame: Option<u16>,
    pub(crate) argument: u32,
    pub(crate) result: Option<u32>,
}

/// A call of `cudaGraphSetConditional`. The offsets of the handle and of its value are in local memory,
/// like those of [`Print`](super::Print).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionCall {
    pub(crate) frame: Option<u16>,
    pub(crate) handle: u32,
    pub(crate) value: u32,
}
