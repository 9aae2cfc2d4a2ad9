//! Arrays, textures and surfaces.

use warpfold_driver::sys::*;
use warpfold_sim::Texels;

use super::State;
use crate::failure::{Outcome, fail_with};
use crate::ffi::{ArrayId, ContextId};

/// A CUDA array: memory that kernels access by textures and surfaces, not by address.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) context: ContextId,
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR_v2,
    pub(crate) texels: Texels,
}

/// Description of a texture or surface; a surface has no sampler.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) context: ContextId,
    pub(crate) resource: CUDA_RESOURCE_DESC_v1,
    pub(crate) sampler: Option<CUDA_TEXTURE_DESC_v1>,
}

impl State {
    pub(crate) fn array(&self, id: ArrayId) -> Outcome<&Array> {
        let Some(array) = self.arrays.get(&id) else {
            return fail_with(CUDA_ERROR_INVALID_HANDLE, "the handle is not the handle of an array");
        };
        self.check(array.context)?;
        Ok(array)
    }
}
