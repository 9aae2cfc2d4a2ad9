//! NCCL, NVIDIA's library of collectives between devices and hosts: found and opened while the program
//! runs, so that no program needs it to be built or started.
//!
//! It carries partial results as bytes, from each device to all; what is made of them is the kernels'
//! business, as without it. So a result has the same bits by NCCL as by any other way, and every
//! operation, type and level goes by it. Communicators do not block: whoever waits for one can look
//! after what else there is, and abort it when another rank has died. Nothing here asks for multicast;
//! what NCCL does by itself its own environment variables say.

mod communicator;
#[cfg_attr(not(target_os = "linux"), path = "nowhere.rs")]
mod library;

use std::ffi::{c_char, c_int, c_void};

pub(crate) use communicator::{Clique, Passage, pause, require};
pub(crate) use library::Library;

/// The environment variable that, when set and not empty, names the library to open.
const PATH_VARIABLE: &str = "WARPFOLD_LIBNCCL";

/// The oldest version that has communicators that do not block.
const OLDEST: Version = Version(21_400);

/// What tells a clique of ranks from all others: rank 0 makes it, and all others are told.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId([u8; Self::BYTES]);

impl UniqueId {
    const BYTES: usize = 128;

    /// The id that has such bytes, if they are as many.
    #[cfg(feature = "world")]
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().map(Self).ok()
    }

    #[cfg(feature = "world")]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A version of NCCL, as it writes it in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(c_int);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Until 2.8 a minor version had one place.
        let minor = if self.0 < 10_000 { 10 } else { 100 };
        write!(f, "{}.{}.{}", self.0 / (100 * minor), self.0 / 100 % minor, self.0 % 100)
    }
}

/// What a call returns.
type Code = c_int;

const SUCCESS: Code = 0;
const IN_PROGRESS: Code = 7;

/// A communicator, as NCCL has it.
type RawCommunicator = *mut c_void;

/// A type of elements: bytes.
const BYTES_TYPE: c_int = 1;

/// How a communicator is made, as NCCL 2.14 has it; newer ones take the rest for unset.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: c_int,
    blocking: c_int,
    /// What fills up the struct of that version, and is a field since: unset.
    unset: c_int,
}

impl Config {
    const fn that_does_not_block() -> Self {
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: OLDEST.0,
            blocking: 0,
            unset: c_int::MIN,
        }
    }
}

/// Calls a macro with the functions that are used, by their names and types.
macro_rules! for_each_function {
    ($make:ident) => {
        $make! {
            fn ncclGetErrorString(code: Code) -> *const c_char;
            fn ncclGetLastError(communicator: RawCommunicator) -> *const c_char;
            fn ncclGetUniqueId(id: *mut UniqueId) -> Code;
            fn ncclCommInitRankConfig(
                communicator: *mut RawCommunicator,
                ranks: c_int,
                id: UniqueId,
                rank: c_int,
                config: *mut Config,
            ) -> Code;
            fn ncclCommGetAsyncError(communicator: RawCommunicator, code: *mut Code) -> Code;
            fn ncclCommDestroy(communicator: RawCommunicator) -> Code;
            fn ncclCommAbort(communicator: RawCommunicator) -> Code;
            fn ncclGroupStart() -> Code;
            fn ncclGroupEnd() -> Code;
            fn ncclAllGather(
                from: *const c_void,
                to: *mut c_void,
                count: usize,
                element: c_int,
                communicator: RawCommunicator,
                stream: *mut c_void,
            ) -> Code;
        }
    };
}

use for_each_function;

macro_rules! table {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $returned:ty;)*) => {
        /// The functions of NCCL's library.
        #[expect(non_snake_case, reason = "they are called as NCCL calls them")]
        struct Functions {
            $($name: unsafe extern "C" fn($($kind),*) -> $returned,)*
        }
    };
}

for_each_function!(table);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_nccl_writes_them() {
        for (number, version) in [(2804, "2.8.4"), (21_400, "2.14.0"), (22_803, "2.28.3")] {
            assert_eq!(Version(number).to_string(), version);
        }
        assert!(Version(2804) < OLDEST && OLDEST <= Version(22_803));
    }
}
