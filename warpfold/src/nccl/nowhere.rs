//! Stub of NCCL for systems other than Linux.

use super::{Code, Functions, RawCommunicator, UniqueId, Version};
use crate::{Error, Result};

/// NCCL, which cannot be loaded here: no value of this type exists.
pub(crate) struct Library {
    pub(super) functions: Functions,
    pub(crate) version: Version,
}

impl Library {
    pub(crate) fn load() -> Result<&'static Self> {
        Err(Error::Nccl { reason: "no NCCL: it is for Linux only; take another way".to_owned() })
    }

    pub(crate) fn unique_id(&self) -> Result<UniqueId> {
        unreachable!("there is no NCCL")
    }

    pub(super) fn check(&self, _: Code, _: &str, _: Option<RawCommunicator>) -> Result<()> {
        unreachable!("there is no NCCL")
    }
}
