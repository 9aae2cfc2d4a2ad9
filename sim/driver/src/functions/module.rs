//! Modules: PTX loaded into a context.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use warpfold_driver::sys::*;
use warpfold_sim::{Module, ptx};

use crate::failure::{Failure, Outcome, fail, fail_with};
use crate::fatbin::{self, FatError};
use crate::ffi::{ContextId, Image, ModuleId, Out, Text, list, put_if, write_text};
use crate::world::{self, CAPABILITY_VARIABLE, Guard, LoadedModule};

/// Maximum bytes read of a file: more than the simulator parses.
const MAX_FILE: u64 = 65 << 20;
/// Maximum number of broken entries that the log of a module lists.
const MOST_TOLD: usize = 20;
/// Maximum number of parsed modules in the cache.
const KEPT: usize = 256;

pub(crate) fn cuModuleLoad(module: Out<CUmodule>, path: Text) -> Outcome {
    load(module, image_of(&path.0)?).map(drop)
}

pub(super) fn image_of(path: &str) -> Outcome<Image> {
    let failed = |error: io::Error| Failure::new(CUDA_ERROR_FILE_NOT_FOUND, format!("{path}: {error}"));
    // A pipe or a device may be endless, or block until it is written to.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)).map_err(failed)?;
    Ok(image_in(bytes))
}

pub(super) fn image_in(bytes: Vec<u8>) -> Image {
    match String::from_utf8(bytes) {
        Err(error) if error.as_bytes().starts_with(&fatbin::MAGIC) => Image::Fat(error.into_bytes()),
        Ok(text) => Image::Ptx(text.trim_end_matches('\0').to_owned()),
        Err(_) => Image::Unknown,
    }
}

pub(crate) fn cuModuleLoadData(module: Out<CUmodule>, image: Image) -> Outcome {
    load(module, image).map(drop)
}

pub(crate) fn cuModuleLoadFatBinary(module: Out<CUmodule>, fat_cubin: Image) -> Outcome {
    load(module, fat_cubin).map(drop)
}

pub(crate) fn cuModuleLoadDataEx(
    module: Out<CUmodule>,
    image: Image,
    num_options: c_uint,
    options: *mut CUjit_option,
    option_values: *mut *mut c_void,
) -> Outcome {
    let loaded = load(module, image);
    let complaint = loaded.as_ref().err().filter(|failure| is_rejection(failure.code));
    let complaint = complaint.and_then(|failure| failure.detail.as_deref()).unwrap_or_default();
    let broken = loaded.as_ref().map(broken_entries).unwrap_or_default();
    // SAFETY: the caller passes `num_options` options and values, and log buffers of the stated sizes.
    unsafe { write_logs(num_options as usize, options, option_values, complaint, &broken) }?;
    loaded.map(drop)
}

pub(super) fn broken_entries(program: &Module) -> String {
    let broken = program.broken().filter(|broken| broken.is_entry()).take(MOST_TOLD);
    let lines = broken.filter_map(|broken| program.find(broken.name()).err());
    lines.map(|error| format!("{error}\n")).collect()
}

/// Returns whether a code means that the image is at fault.
pub(crate) fn is_rejection(code: c_int) -> bool {
    [CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_NO_BINARY_FOR_GPU]
        .contains(&code)
}

/// Fills the log buffers that the options name, and writes back their used sizes.
///
/// # Safety
/// There are `count` options and values; a log buffer has the size that its option gives.
pub(super) unsafe fn write_logs(
    count: usize,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    complaint: &str,
    information: &str,
) -> Outcome {
    // SAFETY: by this function's contract, there are `count` options and values.
    let (names, given) = unsafe { (list(options, count), list(values, count)) };
    let (names, given) = (names?, given?);
    let find = |name: CUjit_option| names.iter().position(|&other| other == name);
    let logs = [
        (CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, complaint),
        (CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, information),
    ];
    for (buffer, size, text) in logs {
        let (Some(buffer), Some(size)) = (find(buffer), find(size)) else { continue };
        // The option's value is the size itself, stored as a pointer.
        let room = given[size].addr() as c_uint as usize;
        if room == 0 || given[buffer].is_null() {
            continue;
        }
        // SAFETY: the buffer has `room` bytes by this function's contract; `size` is below `count`.
        unsafe {
            let written = write_text(given[buffer].cast(), room, text);
            let written = if text.is_empty() { 0 } else { written };
            values.add(size).write_unaligned(ptr::without_provenance_mut(written));
        }
    }
    Ok(())
}

fn load(module: Out<CUmodule>, image: Image) -> Outcome<Module> {
    let here = world::lock().here()?;
    // The lock is not held here, because parsing a large text takes long.
    let program = parsed(text_of(image)?)?;
    let mut state = world::lock();
    state.check(here)?;
    module.put(load_into(&mut state, here, &program)?.raw())?;
    Ok(program)
}

pub(super) fn load_into(state: &mut Guard, context: ContextId, program: &Module) -> Outcome<ModuleId> {
    state.context(context)?.gpu.load(program)?;
    let id = ModuleId(state.new_handle());
    let loaded = LoadedModule { context, program: program.clone(), functions: HashMap::new() };
    state.modules.insert(id, loaded);
    Ok(id)
}

pub(super) fn text_of(image: Image) -> Outcome<String> {
    Ok(match image {
        Image::Ptx(text) => text,
        Image::Fat(bytes) => fatbin::ptx(&bytes, world::arch().number()).map_err(unreadable)?,
        Image::Compiled(what) => {
            let detail = format!("the image is {what}; the simulator takes PTX text only");
            return fail_with(CUDA_ERROR_NO_BINARY_FOR_GPU, detail);
        }
        Image::Unknown => return fail_with(CUDA_ERROR_INVALID_IMAGE, "the image is not PTX text"),
    })
}

fn unreadable(error: FatError) -> Failure {
    match error {
        FatError::Corrupt => Failure::new(CUDA_ERROR_INVALID_IMAGE, error.to_string()),
        FatError::NoPtx { .. } => {
            let detail = format!("{error}, or choose a newer device by {CAPABILITY_VARIABLE}");
            Failure::new(CUDA_ERROR_NO_BINARY_FOR_GPU, detail)
        }
    }
}

/// Returns the module of a text, parsed or from the cache. Each returned module has its own variables.
pub(super) fn parsed(text: String) -> Outcome<Module> {
    static PARSED: Mutex<Option<HashMap<String, Module>>> = Mutex::new(None);
    let lock = || PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = lock().as_ref().and_then(|kept| kept.get(&text)) {
        return Ok(found.another());
    }
    let module = parse(&text)?;
    let mut kept = lock();
    let kept = kept.get_or_insert_default();
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(text, module.clone());
    Ok(module.another())
}

fn parse(text: &str) -> Outcome<Module> {
    if let Some(newer) = ptx::Newer::of(text) {
        return fail_with(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, format!("the text is {newer}"));
    }
    let module = Module::parse_each(text)
        .map_err(|error| Failure::new(CUDA_ERROR_INVALID_PTX, error.to_string()))?;
    let (target, device) = (module.target(), world::arch());
    if target.parse().is_ok_and(|target| !device.runs(target)) {
        let detail = format!(
            "the text is for {target}; the device is {device}, which {CAPABILITY_VARIABLE} chooses"
        );
        return fail_with(CUDA_ERROR_INVALID_PTX, detail);
    }
    Ok(module)
}

pub(crate) fn cuModuleUnload(module: ModuleId) -> Outcome {
    let mut state = world::lock();
    let Some(context) = state.modules.get(&module).map(|module| module.context) else {
        return fail(CUDA_ERROR_INVALID_HANDLE);
    };
    state.check(context)?;
    state.check_unsafe_call("cuModuleUnload")?;
    unload(&mut state, context, module)
}

pub(super) fn unload(state: &mut Guard, context: ContextId, module: ModuleId) -> Outcome {
    state.note_unloaded(context, module);
    state.functions.retain(|_, function| function.module != module);
    if let Some(removed) = state.modules.remove(&module) {
        state.context(context)?.gpu.unload(&removed.program);
    }
    Ok(())
}

pub(crate) fn cuModuleGetGlobal_v2(
    dptr: Option<Out<CUdeviceptr>>,
    bytes: Option<Out<usize>>,
    module: ModuleId,
    name: Text,
) -> Outcome {
    put_global(&mut world::lock(), (dptr, bytes), module, &name.0)
}

pub(super) fn put_global(
    state: &mut Guard,
    (dptr, bytes): (Option<Out<CUdeviceptr>>, Option<Out<usize>>),
    module: ModuleId,
    name: &str,
) -> Outcome {
    let loaded = state.modules.get(&module).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    let (context, program) = (loaded.context, loaded.program.clone());
    state.check(context)?;
    let found = state.context(context)?.gpu.symbol(&program, name)?;
    let Some((address, size)) = found else {
        return fail_with(CUDA_ERROR_NOT_FOUND, format!("the module has no variable `{name}`"));
    };
    put_if(dptr, address)?;
    put_if(bytes, size as usize)
}

pub(crate) fn cuModuleGetLoadingMode(mode: Out<CUmoduleLoadingMode>) -> Outcome {
    mode.put(CU_MODULE_EAGER_LOADING)
}
