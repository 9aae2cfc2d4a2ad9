//! Arrays, textures and surfaces.

use warpfold_driver::sys::*;
use warpfold_sim::Texels;

use super::State;
use crate::failure::{Outcome, fail_with};
use crate::ffi::{ArrayId, ContextId};

/// An array: memory of a context, which no kernel reaches by an address.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) context: ContextId,
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR_v2,
    pub(crate) texels: Texels,
}

/// What a texture or a surface was made of; a surface has no way to be read.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) context: ContextId,
    pub(crate) resource: CUDA_RESOURCE_DESC_v1,
    pub(crate) sampler: Option<CUDA_TEXTURE_DESC_v1>,
}

impl State {
    /// An array by its handle, whose context is not lost.
    pub(crate) fn array(&self, id: ArrayId) -> Outcome<&Array> {
        let Some(array) = self.arrays.get(&id) else {
            return fail_with(CUDA_ERROR_INVALID_HANDLE, "no array has this handle");
        };
        self.check(array.context)?;
        Ok(array)
    }
}
