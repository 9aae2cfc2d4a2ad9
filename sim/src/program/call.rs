//! Calls that are not expanded in place: by address, guarded, and recursive ones.

/// A range of bytes of the caller's or of the called function's activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The row of the address; `None` if there is one function only.
    pub(crate) target: Option<u16>,
    /// The possible functions, as indices into the table of functions.
    pub(crate) functions: Vec<u32>,
    pub(crate) arguments: Vec<Part>,
    pub(crate) results: Vec<Part>,
    /// Bytes of the caller's own activation, after which that of the function begins.
    pub(crate) advance: u32,
    /// Rows that are live in the caller after the call, and saved because the function may use them.
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

/// A call of `malloc`, which has a result, or of `free`; offsets in local memory, as those of
/// [`Print`](super::Print).
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeapCall {
    pub(crate) frame: Option<u16>,
    pub(crate) argument: u32,
    pub(crate) result: Option<u32>,
}

/// A call of `cudaGraphSetConditional`; offsets in local memory of the handle and of its value, as those
/// of [`Print`](super::Print).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionCall {
    pub(crate) frame: Option<u16>,
    pub(crate) handle: u32,
    pub(crate) value: u32,
}
