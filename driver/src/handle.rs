//! Typed wrappers of the driver's handles.

use crate::sys;

/// Defines a type per handle. Like the handles themselves the types are `Copy`, and dropping them
/// destroys nothing.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name($raw);

        // SAFETY: a handle is an opaque identifier that is not dereferenced here. The driver accepts it
        // on any thread and locks the object for the duration of a call.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// Wraps a handle that other code got from the same driver. The functions that take it state
            /// its requirements.
            pub const fn from_raw(raw: $raw) -> Self {
                Self(raw)
            }

            /// Returns the raw handle that the driver's functions take.
            pub const fn raw(self) -> $raw {
                self.0
            }
        }
    )*};
}

handles! {
    /// A context: the memory, modules, streams and events of one device in one process.
    Context(sys::CUcontext);
    /// Compiled code that is loaded in a context.
    Module(sys::CUmodule);
    /// A kernel of a module.
    Function(sys::CUfunction);
    /// A queue of work on a device.
    Stream(sys::CUstream);
    /// A point in a stream's order of work.
    Event(sys::CUevent);
    /// Work that was captured or assembled, and not yet run.
    Graph(sys::CUgraph);
    /// A graph that is ready to be launched.
    GraphExec(sys::CUgraphExec);
    /// Memory that streams allocate from.
    MemoryPool(sys::CUmemoryPool);
}

impl Stream {
    /// The default stream: the legacy one, for a driver that was called through this crate.
    pub const DEFAULT: Self = Self(std::ptr::null_mut());

    /// The legacy default stream: synchronises with every blocking stream of its context.
    pub const LEGACY: Self = Self(sys::CU_STREAM_LEGACY);

    /// The default stream of the calling thread.
    pub const PER_THREAD: Self = Self(sys::CU_STREAM_PER_THREAD);
}
