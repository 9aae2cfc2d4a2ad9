//! NCCL, NVIDIA's library of collectives between devices and hosts. It is loaded at run time, so no
//! program needs it to be built or started.
//!
//! NCCL only gathers partial results as bytes; the kernels combine them. So every operation, type and
//! level of determinism can use NCCL, and a result has the same bits as with any other transport.
//! Communicators are non-blocking: while a thread waits for one, it can poll its connections to other
//! ranks, and abort the communicator when a rank has died. Nothing here requests multicast; NCCL's own
//! environment variables control its defaults.

mod communicator;
#[cfg_attr(not(target_os = "linux"), path = "nowhere.rs")]
mod library;

use std::ffi::{c_char, c_int, c_void};

pub(crate) use communicator::{AllGather, Clique, pause, require};
pub(crate) use library::Library;

/// The environment variable that names the library to open, if set and not empty.
const PATH_VARIABLE: &str = "WARPFOLD_LIBNCCL";

/// The oldest version that has non-blocking communicators.
const OLDEST: Version = Version(21_400);

/// The identifier of a clique of ranks. Rank 0 creates it and sends it to the other ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId([u8; Self::BYTES]);

impl UniqueId {
    const BYTES: usize = 128;

    #[cfg(feature = "world")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().map(Self).ok()
    }

    #[cfg(feature = "world")]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(c_int);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Up to NCCL 2.8, the number has one digit for the minor version.
        let minor = if self.0 < 10_000 { 10 } else { 100 };
        write!(f, "{}.{}.{}", self.0 / (100 * minor), self.0 / 100 % minor, self.0 % 100)
    }
}

/// `ncclResult_t`.
type Code = c_int;

const SUCCESS: Code = 0;
const IN_PROGRESS: Code = 7;

/// `ncclComm_t`.
type RawCommunicator = *mut c_void;

/// `ncclUint8`.
const BYTES_TYPE: c_int = 1;

/// `ncclConfig_t` of NCCL 2.14. Newer versions treat their additional fields as unset.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: c_int,
    blocking: c_int,
    /// Padding in NCCL 2.14. Newer versions have a field here, which stays unset.
    unset: c_int,
}

impl Config {
    const fn non_blocking() -> Self {
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: OLDEST.0,
            blocking: 0,
            unset: c_int::MIN,
        }
    }
}

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
