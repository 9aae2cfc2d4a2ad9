//! Linking of several images into one.

use std::ptr;
use std::slice;

use warpfold_driver::sys::*;

use super::module::{image_in, image_of, text_of};
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{Image, LinkId, Out, Text};
use crate::world;

pub(crate) fn cuLinkCreate_v2(
    _num_options: c_uint,
    _options: *mut CUjit_option,
    _option_values: *mut *mut c_void,
    state: Out<CUlinkState>,
) -> Outcome {
    let mut world = world::lock();
    world.here()?;
    let id = LinkId(world.new_handle());
    world.links.insert(id, Vec::new());
    state.put(id.raw())
}

#[expect(clippy::too_many_arguments, reason = "the interface has them")]
pub(crate) fn cuLinkAddData_v2(
    state: LinkId,
    kind: CUjitInputType,
    data: *mut c_void,
    bytes: usize,
    _name: *const c_char,
    _num_options: c_uint,
    _options: *mut CUjit_option,
    _option_values: *mut *mut c_void,
) -> Outcome {
    if data.is_null() {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller passes `bytes` bytes.
    let bytes = unsafe { slice::from_raw_parts(data.cast::<u8>(), bytes) };
    if kind == CU_JIT_INPUT_LIBRARY && is_device_runtime(bytes) {
        return add(state, CU_JIT_INPUT_PTX, Image::Ptx(COOPERATIVE.to_owned()));
    }
    add(state, kind, image_in(bytes.to_vec()))
}

pub(crate) fn cuLinkAddFile_v2(
    state: LinkId,
    kind: CUjitInputType,
    path: Text,
    _num_options: c_uint,
    _options: *mut CUjit_option,
    _option_values: *mut *mut c_void,
) -> Outcome {
    add(state, kind, image_of(&path.0)?)
}

/// PTX that replaces CUDA's device runtime.
const COOPERATIVE: &str = include_str!("cooperative.ptx");

/// Returns whether bytes are CUDA's device runtime, a library of machine code.
fn is_device_runtime(bytes: &[u8]) -> bool {
    const NAME: &[u8] = b"cudaCGSynchronize";
    bytes.starts_with(b"!<arch>\n") && bytes.windows(NAME.len()).any(|window| window == NAME)
}

fn add(state: LinkId, kind: CUjitInputType, image: Image) -> Outcome {
    let what = match kind {
        CU_JIT_INPUT_PTX | CU_JIT_INPUT_FATBINARY => None,
        // The simulator's linker returns PTX, which the program may link again as a cubin.
        CU_JIT_INPUT_CUBIN if matches!(image, Image::Ptx(_)) => None,
        CU_JIT_INPUT_CUBIN | CU_JIT_INPUT_OBJECT | CU_JIT_INPUT_LIBRARY => Some("machine code"),
        _ => Some("not PTX"),
    };
    if let Some(what) = what {
        let detail = format!("the input of a link is {what}; the simulator takes PTX text only");
        return fail_with(CUDA_ERROR_NO_BINARY_FOR_GPU, detail);
    }
    let text = text_of(image)?;
    let mut world = world::lock();
    let link = world.links.get_mut(&state).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    link.push(text.into_bytes());
    Ok(())
}

/// Concatenates PTX texts under the header of the first one (version, target and address size).
fn linked(texts: &[Vec<u8>]) -> Vec<u8> {
    const HEAD: [&str; 3] = [".version", ".target", ".address_size"];
    let mut all = String::new();
    for (index, text) in texts.iter().enumerate() {
        for line in String::from_utf8_lossy(text).lines() {
            let is_head = HEAD.iter().any(|word| line.trim_start().starts_with(word));
            if index == 0 || !is_head {
                all.push_str(line);
                all.push('\n');
            }
        }
    }
    all.push('\0');
    all.into_bytes()
}

pub(crate) fn cuLinkComplete(
    state: LinkId,
    image: Out<*mut c_void>,
    bytes: Option<Out<usize>>,
) -> Outcome {
    let mut world = world::lock();
    let link = world.links.get_mut(&state).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    if link.is_empty() {
        return fail_with(CUDA_ERROR_INVALID_VALUE, "nothing was added to the link");
    }
    // The image lives as long as the link, as the interface promises.
    let whole = linked(link);
    link.clear();
    link.push(whole);
    let whole = &link[0];
    image.put(ptr::from_ref(whole.as_slice()).cast::<c_void>().cast_mut())?;
    crate::ffi::put_if(bytes, whole.len())
}

pub(crate) fn cuLinkDestroy(state: LinkId) -> Outcome {
    let removed = world::lock().links.remove(&state);
    removed.map_or(fail(CUDA_ERROR_INVALID_HANDLE), |_| Ok(()))
}
