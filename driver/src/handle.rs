//! Typed wrappers of the driver's handles.

use crate::sys;

/// Defines a type per handle. Like raw handles, the types are `Copy`, and dropping one destroys nothing.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name($raw);

        // SAFETY: a handle is an opaque identifier that is not dereferenced here. The driver accepts it
        // on any thread and locks the object for the duration of a call.
        unsafe impl Send for $name {}
        // SAFETY: the reasons given for `Send` apply.
        unsafe impl Sync for $name {}

        impl $name {
            /// Wraps a handle that other code got from the same driver. The functions that take the
            /// handle document its requirements.
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
    /// A marker of a point in a stream's work.
    Event(sys::CUevent);
    /// A graph of operations that were captured or added, which have not run yet.
    Graph(sys::CUgraph);
    /// A graph that is ready to be launched.
    GraphExec(sys::CUgraphExec);
    /// A pool of memory, from which streams allocate.
    MemoryPool(sys::CUmemoryPool);
}

impl Stream {
    /// The default stream. For calls through this crate it is the legacy default stream.
    pub const DEFAULT: Self = Self(std::ptr::null_mut());

    /// The legacy default stream, which synchronises with every blocking stream of its context.
    pub const LEGACY: Self = Self(sys::CU_STREAM_LEGACY);

    /// The default stream of the calling thread.
    pub const PER_THREAD: Self = Self(sys::CU_STREAM_PER_THREAD);
}
