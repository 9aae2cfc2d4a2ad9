//! Libraries: modules without a context, which each context loads on first use.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_sim::Module;

use super::function::{self, function_in};
use super::module::{
    broken_entries, image_of, is_rejection, load_into, parsed, put_global, text_of, unload, write_logs,
};
use crate::failure::{Outcome, fail};
use crate::ffi::{ContextId, FunctionId, Image, KernelId, LibraryId, ModuleId, Out, Text, put_if};
use crate::world::{self, Guard, Kernel, Library};

#[expect(clippy::too_many_arguments, reason = "the interface has them")]
pub(crate) fn cuLibraryLoadData(
    library: Out<CUlibrary>,
    code: Image,
    jit_options: *mut CUjit_option,
    jit_values: *mut *mut c_void,
    num_jit: c_uint,
    _library_options: *mut CUlibraryOption,
    _library_values: *mut *mut c_void,
    _num_library: c_uint,
) -> Outcome {
    load(library, code, (jit_options, jit_values, num_jit as usize))
}

#[expect(clippy::too_many_arguments, reason = "the interface has them")]
pub(crate) fn cuLibraryLoadFromFile(
    library: Out<CUlibrary>,
    path: Text,
    jit_options: *mut CUjit_option,
    jit_values: *mut *mut c_void,
    num_jit: c_uint,
    _library_options: *mut CUlibraryOption,
    _library_values: *mut *mut c_void,
    _num_library: c_uint,
) -> Outcome {
    load(library, image_of(&path.0)?, (jit_options, jit_values, num_jit as usize))
}

/// Compiler options, their values, and their number.
type Options = (*mut CUjit_option, *mut *mut c_void, usize);

fn load(library: Out<CUlibrary>, image: Image, (options, values, count): Options) -> Outcome {
    let program = text_of(image).and_then(parsed);
    let complaint = program.as_ref().err().filter(|failure| is_rejection(failure.code));
    let complaint = complaint.and_then(|failure| failure.detail.as_deref()).unwrap_or_default();
    let broken = program.as_ref().map(broken_entries).unwrap_or_default();
    // SAFETY: the caller passes `count` options and values, and log buffers of the stated sizes.
    unsafe { write_logs(count, options, values, complaint, &broken) }?;
    library.put(add(&mut world::lock(), program?).raw())
}

fn add(state: &mut Guard, program: Module) -> LibraryId {
    let id = LibraryId(state.new_handle());
    state.libraries.insert(id, Library { program, modules: HashMap::new(), kernels: HashMap::new() });
    id
}

fn find(state: &Guard, id: LibraryId) -> Outcome<&Library> {
    state.libraries.get(&id).ok_or_else(|| CUDA_ERROR_INVALID_HANDLE.into())
}

fn kernel(state: &Guard, id: KernelId) -> Outcome<&Kernel> {
    state.kernels.get(&id).ok_or_else(|| CUDA_ERROR_INVALID_HANDLE.into())
}

pub(crate) fn cuLibraryUnload(library: LibraryId) -> Outcome {
    let mut state = world::lock();
    find(&state, library)?;
    state.check_unsafe_call("cuLibraryUnload")?;
    state.kernels.retain(|_, kernel| kernel.library != library);
    let removed = state.libraries.remove(&library);
    for (context, module) in removed.into_iter().flat_map(|library| library.modules) {
        if state.modules.contains_key(&module) {
            unload(&mut state, context, module)?;
        }
    }
    Ok(())
}

/// Returns a library's module in a context, loaded on first use.
fn module_in(state: &mut Guard, id: LibraryId, context: ContextId) -> Outcome<ModuleId> {
    let library = find(state, id)?;
    let known = library.modules.get(&context).copied();
    if let Some(known) = known.filter(|module| state.modules.contains_key(module)) {
        return Ok(known);
    }
    let program = library.program.another();
    let module = load_into(state, context, &program)?;
    if let Some(library) = state.libraries.get_mut(&id) {
        library.modules.insert(context, module);
    }
    Ok(module)
}

fn function_for(state: &mut Guard, id: KernelId, context: ContextId) -> Outcome<FunctionId> {
    let Kernel { library, name } = kernel(state, id)?.clone();
    let module = module_in(state, library, context)?;
    function_in(state, module, name.to_str().unwrap_or_default())
}

/// Returns a kernel's function in the current context; `None` if the handle is not a kernel's.
pub(crate) fn function_of(id: KernelId) -> Outcome<Option<FunctionId>> {
    let mut state = world::lock();
    if !state.kernels.contains_key(&id) {
        return Ok(None);
    }
    let here = state.here()?;
    function_for(&mut state, id, here).map(Some)
}

/// Returns a kernel's function in a context of `device`: the current context or else the primary one.
fn function_on(state: &mut Guard, id: KernelId, device: CUdevice) -> Outcome<FunctionId> {
    let device = u32::try_from(device).map_err(|_| CUDA_ERROR_INVALID_DEVICE)?;
    let here = state.here().ok().filter(|here| state.contexts[here].device == device);
    if state.devices.len() <= device as usize {
        return fail(CUDA_ERROR_INVALID_DEVICE);
    }
    let context = here.or(state.active_primary(device as usize));
    function_for(state, id, context.ok_or(CUDA_ERROR_INVALID_CONTEXT)?)
}

pub(crate) fn cuLibraryGetKernel(place: Out<CUkernel>, library: LibraryId, name: Text) -> Outcome {
    place.put(kernel_of(&mut world::lock(), library, &name.0)?.raw())
}

fn kernel_of(state: &mut Guard, id: LibraryId, name: &str) -> Outcome<KernelId> {
    let library = find(state, id)?;
    if let Some(&known) = library.kernels.get(name) {
        return Ok(known);
    }
    library.program.find(name)?;
    let made = CString::new(name).map_err(|_| CUDA_ERROR_NOT_FOUND)?.as_c_str().into();
    let kernel = KernelId(state.new_handle());
    state.kernels.insert(kernel, Kernel { library: id, name: made });
    if let Some(library) = state.libraries.get_mut(&id) {
        library.kernels.insert(name.to_owned(), kernel);
    }
    Ok(kernel)
}

pub(crate) fn cuLibraryGetKernelCount(count: Out<c_uint>, library: LibraryId) -> Outcome {
    count.put(find(&world::lock(), library)?.program.entries().len() as c_uint)
}

pub(crate) fn cuLibraryEnumerateKernels(
    kernels: *mut CUkernel,
    num_kernels: c_uint,
    library: LibraryId,
) -> Outcome {
    let mut state = world::lock();
    let program = find(&state, library)?.program.clone();
    if kernels.is_null() {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    for (index, entry) in program.entries().take(num_kernels as usize).enumerate() {
        let kernel = kernel_of(&mut state, library, entry.name())?;
        // SAFETY: the caller passes an array of `num_kernels` kernels, and the index is below that.
        unsafe { kernels.add(index).write_unaligned(kernel.raw()) };
    }
    Ok(())
}

pub(crate) fn cuLibraryGetModule(module: Out<CUmodule>, library: LibraryId) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    module.put(module_in(&mut state, library, here)?.raw())
}

pub(crate) fn cuLibraryGetGlobal(
    dptr: Option<Out<CUdeviceptr>>,
    bytes: Option<Out<usize>>,
    library: LibraryId,
    name: Text,
) -> Outcome {
    let mut state = world::lock();
    let here = state.here()?;
    let module = module_in(&mut state, library, here)?;
    put_global(&mut state, (dptr, bytes), module, &name.0)
}

pub(crate) fn cuKernelGetFunction(function: Out<CUfunction>, id: KernelId) -> Outcome {
    let mut state = world::lock();
    kernel(&state, id)?;
    let here = state.here()?;
    function.put(function_for(&mut state, id, here)?.raw())
}

pub(crate) fn cuKernelGetLibrary(library: Out<CUlibrary>, id: KernelId) -> Outcome {
    library.put(kernel(&world::lock(), id)?.library.raw())
}

pub(crate) fn cuKernelGetName(name: Out<*const c_char>, id: KernelId) -> Outcome {
    // The name lives as long as the library, as the interface promises.
    name.put(Arc::as_ptr(&kernel(&world::lock(), id)?.name).cast())
}

pub(crate) fn cuKernelGetParamInfo(
    id: KernelId,
    param_index: usize,
    param_offset: Out<usize>,
    param_size: Option<Out<usize>>,
) -> Outcome {
    let state = world::lock();
    let Kernel { library, name } = kernel(&state, id)?;
    let entry = find(&state, *library)?.program.find(name.to_str().unwrap_or_default())?;
    let parameter = entry.params().get(param_index).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    param_offset.put(parameter.offset)?;
    put_if(param_size, parameter.size)
}

pub(crate) fn cuKernelGetAttribute(
    value: Out<c_int>,
    attribute: CUfunction_attribute,
    id: KernelId,
    device: CUdevice,
) -> Outcome {
    let function = function_on(&mut world::lock(), id, device)?;
    function::cuFuncGetAttribute(value, attribute, function)
}

pub(crate) fn cuKernelSetAttribute(
    attribute: CUfunction_attribute,
    value: c_int,
    id: KernelId,
    device: CUdevice,
) -> Outcome {
    let function = function_on(&mut world::lock(), id, device)?;
    function::cuFuncSetAttribute(function, attribute, value)
}

pub(crate) fn cuKernelSetCacheConfig(id: KernelId, _config: CUfunc_cache, _device: CUdevice) -> Outcome {
    kernel(&world::lock(), id).map(|_| ())
}
