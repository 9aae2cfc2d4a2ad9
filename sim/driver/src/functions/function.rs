//! Kernels of modules (`CUfunction`) and their attributes.

use std::ffi::CString;
use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_ptx::Arch;
use warpfold_sim::Entry;

use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{FunctionId, ModuleId, Out, Text, put_if};
use crate::world::{self, Function, Guard, limits};

pub(crate) fn cuModuleGetFunction(function: Out<CUfunction>, module: ModuleId, name: Text) -> Outcome {
    function.put(function_in(&mut world::lock(), module, &name.0)?.raw())
}

pub(super) fn function_in(state: &mut Guard, module: ModuleId, name: &str) -> Outcome<FunctionId> {
    let loaded = state.modules.get(&module).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    let (context, program) = (loaded.context, loaded.program.clone());
    state.check(context)?;
    if let Some(&known) = state.modules[&module].functions.get(name) {
        return Ok(known);
    }
    // A broken entry fails here and not at its launch, because its attributes are unknown.
    let entry = program.find(name)?;
    let most_dynamic_shared = limits::SHARED_PER_BLOCK.saturating_sub(entry.static_shared_bytes());
    let id = FunctionId(state.new_handle());
    let made = Function {
        module,
        context,
        name: CString::new(name).map_err(|_| CUDA_ERROR_NOT_FOUND)?.as_c_str().into(),
        program,
        most_dynamic_shared,
        carveout: CU_SHAREDMEM_CARVEOUT_DEFAULT,
        non_portable_cluster: false,
    };
    state.functions.insert(id, made);
    if let Some(loaded) = state.modules.get_mut(&module) {
        loaded.functions.insert(name.to_owned(), id);
    }
    Ok(id)
}

/// Returns a function; fails if its context is lost.
pub(crate) fn find(state: &Guard, id: FunctionId) -> Outcome<&Function> {
    let function = state.functions.get(&id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    state.check(function.context)?;
    Ok(function)
}

impl Function {
    pub(crate) fn entry_name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// Returns the entry, which the module always has.
    pub(crate) fn entry(&self) -> Outcome<&Entry> {
        self.program.entry(self.entry_name()).ok_or_else(|| CUDA_ERROR_NOT_FOUND.into())
    }

    pub(crate) fn most_threads(&self) -> Outcome<u32> {
        let stated = self.entry()?.max_threads().or(self.entry()?.required_threads());
        let stated = stated.map(|extent| extent.into_iter().fold(1, u32::saturating_mul));
        Ok(stated.unwrap_or(limits::THREADS_PER_BLOCK).min(limits::THREADS_PER_BLOCK))
    }
}

pub(crate) fn cuFuncGetAttribute(
    value: Out<c_int>,
    attribute: CUfunction_attribute,
    function: FunctionId,
) -> Outcome {
    let state = world::lock();
    let function = find(&state, function)?;
    let entry = function.entry()?;
    let cluster = entry.required_cluster();
    let target = function.program.target().parse().ok();
    value.put(match attribute {
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => function.most_threads()? as c_int,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => entry.static_shared_bytes() as c_int,
        CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => function.program.constant_bytes() as c_int,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => entry.local_bytes() as c_int,
        // PTX registers are virtual; a GPU's compiler decides how many are used.
        CU_FUNC_ATTRIBUTE_NUM_REGS => 0,
        // The virtual architecture, not the version of the PTX language.
        CU_FUNC_ATTRIBUTE_PTX_VERSION => target.map_or(0, Arch::number) as c_int,
        CU_FUNC_ATTRIBUTE_BINARY_VERSION => world::arch().number() as c_int,
        CU_FUNC_ATTRIBUTE_CACHE_MODE_CA => 0,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => function.most_dynamic_shared as c_int,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => function.carveout,
        CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET => c_int::from(cluster.is_some()),
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => cluster.map_or(0, |[x, _, _]| x) as c_int,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => cluster.map_or(0, |[_, y, _]| y) as c_int,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => cluster.map_or(0, |[_, _, z]| z) as c_int,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
            c_int::from(function.non_portable_cluster)
        }
        CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => 0,
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    })
}

pub(crate) fn cuFuncSetAttribute(
    function: FunctionId,
    attribute: CUfunction_attribute,
    value: c_int,
) -> Outcome {
    let mut state = world::lock();
    let static_bytes = find(&state, function)?.entry()?.static_shared_bytes();
    let Some(function) = state.functions.get_mut(&function) else {
        return fail(CUDA_ERROR_INVALID_HANDLE);
    };
    match attribute {
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            let most = limits::SHARED_PER_BLOCK_OPTIN.saturating_sub(static_bytes);
            let asked = u32::try_from(value).ok().filter(|&bytes| bytes <= most);
            let Some(asked) = asked else {
                let detail = format!(
                    "{value} bytes of dynamic shared memory are requested; allowed is 0 to {most}"
                );
                return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
            };
            function.most_dynamic_shared = asked;
        }
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
            function.carveout = value;
        }
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
            function.non_portable_cluster = value != 0;
        }
        CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE if (0..=2).contains(&value) => {}
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn cuFuncSetCacheConfig(function: FunctionId, _config: CUfunc_cache) -> Outcome {
    find(&world::lock(), function).map(|_| ())
}

pub(crate) fn cuFuncSetSharedMemConfig(function: FunctionId, _config: CUsharedconfig) -> Outcome {
    find(&world::lock(), function).map(|_| ())
}

pub(crate) fn cuFuncGetModule(module: Out<CUmodule>, function: FunctionId) -> Outcome {
    module.put(find(&world::lock(), function)?.module.raw())
}

pub(crate) fn cuFuncGetName(name: Out<*const c_char>, function: FunctionId) -> Outcome {
    let state = world::lock();
    let function = find(&state, function)?;
    // The name lives as long as the function, as the interface promises.
    name.put(Arc::as_ptr(&function.name).cast())
}

pub(crate) fn cuFuncGetParamInfo(
    function: FunctionId,
    param_index: usize,
    param_offset: Out<usize>,
    param_size: Option<Out<usize>>,
) -> Outcome {
    let state = world::lock();
    let parameters = find(&state, function)?.entry()?.params();
    let parameter = parameters.get(param_index).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    param_offset.put(parameter.offset)?;
    put_if(param_size, parameter.size)
}

pub(crate) fn cuFuncLoad(function: FunctionId) -> Outcome {
    find(&world::lock(), function).map(|_| ())
}

pub(crate) fn cuFuncIsLoaded(state: Out<CUfunctionLoadingState>, function: FunctionId) -> Outcome {
    find(&world::lock(), function)?;
    state.put(CU_FUNCTION_LOADING_STATE_LOADED)
}
