//! What the driver hands out.

use crate::sys;

/// Types around one handle each. They are as free to copy as the handles themselves; nothing is
/// destroyed with them.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name($raw);

        // SAFETY: a handle is a name; nothing is read through it here. The driver takes it on any thread
        // and locks what it stands for, for the length of a call.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// The handle that some other code got from the same driver. What uses it says what must
            /// hold.
            pub const fn from_raw(raw: $raw) -> Self {
                Self(raw)
            }

            /// The handle as the driver's functions take it.
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
    /// A point in a stream's work.
    Event(sys::CUevent);
    /// Work that was recorded, or put together, and not run.
    Graph(sys::CUgraph);
    /// A graph made ready to be launched.
    GraphExec(sys::CUgraphExec);
    /// Memory that streams allocate from.
    MemoryPool(sys::CUmemoryPool);
}

impl Stream {
    /// The default stream: the legacy one, for a driver that was called through this crate.
    pub const DEFAULT: Self = Self(std::ptr::null_mut());

    /// The legacy default stream: waits for every blocking stream of its context, and they for it.
    pub const LEGACY: Self = Self(sys::CU_STREAM_LEGACY);

    /// The default stream of the calling thread.
    pub const PER_THREAD: Self = Self(sys::CU_STREAM_PER_THREAD);
}
