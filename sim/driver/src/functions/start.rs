//! Initialisation, version, texts of codes, and lookup of functions by name.

use std::ptr;

use warpfold_driver::sys::*;

use crate::api;
use crate::export_table;
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{In, Out, Text, put_if};
use crate::world;

/// Version of the implemented interface: CUDA 13.0.
pub(crate) const VERSION: c_int = 13_000;

pub(crate) fn cuInit(flags: c_uint) -> Outcome {
    if flags != 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    world::initialise()
}

pub(crate) fn cuDriverGetVersion(version: Out<c_int>) -> Outcome {
    version.put(VERSION)
}

pub(crate) fn cuGetErrorName(error: c_int, text: Out<*const c_char>) -> Outcome {
    describe(text, Code::of(error).map(|code| code.c_name().as_ptr()))
}

pub(crate) fn cuGetErrorString(error: c_int, text: Out<*const c_char>) -> Outcome {
    describe(text, Code::of(error).map(|code| code.c_text().as_ptr()))
}

fn describe(text: Out<*const c_char>, found: Option<*const c_char>) -> Outcome {
    text.put(found.unwrap_or(ptr::null()))?;
    if found.is_some() { Ok(()) } else { fail(CUDA_ERROR_INVALID_VALUE) }
}

/// Versioned names with the CUDA version that introduced them; a program that asks for an older version
/// gets the previous form.
const SINCE: &[(&str, c_int)] = &[
    ("cuCtxCreate_v3", 11_040),
    ("cuCtxCreate_v4", 12_050),
    ("cuCtxGetDevice_v2", 13_000),
    ("cuCtxSynchronize_v2", 13_000),
    ("cuDeviceGetUuid_v2", 11_040),
    ("cuEventElapsedTime_v2", 12_080),
    ("cuGetProcAddress_v2", 12_000),
    ("cuGraphAddKernelNode_v2", 12_000),
    ("cuGraphAddNode_v2", 12_030),
    ("cuGraphExecKernelNodeSetParams_v2", 12_000),
    ("cuGraphExecUpdate_v2", 12_000),
    ("cuGraphKernelNodeGetParams_v2", 12_000),
    ("cuGraphKernelNodeSetParams_v2", 12_000),
    ("cuMemAdvise_v2", 12_020),
    ("cuMemPrefetchAsync_v2", 12_020),
    ("cuStreamGetCaptureInfo_v2", 11_030),
    ("cuStreamGetCaptureInfo_v3", 12_030),
    ("cuStreamGetCtx_v2", 12_050),
    ("cuStreamUpdateCaptureDependencies_v2", 12_030),
];

/// Functions whose parameters changed in the given CUDA version; the newer form is not implemented.
/// `cudaTypedefs.h` gives both forms the same name, and the implementation here would misread the
/// arguments of the newer one.
const UNTIL: &[(&str, c_int)] = &[("cuGraphGetEdges", 12_030)];

/// Flags of `cuGetProcAddress`: functions whose stream 0 is the legacy default stream (0 and 1), or the
/// per-thread one (2).
const GET_DEFAULT: u64 = 0;
const GET_LEGACY_STREAM: u64 = 1;
const GET_PER_THREAD_STREAM: u64 = 2;

pub(crate) fn cuGetProcAddress(
    symbol: Text,
    function: Out<*mut c_void>,
    cuda_version: c_int,
    flags: u64,
) -> Outcome {
    cuGetProcAddress_v2(symbol, function, cuda_version, flags, None)
}

pub(crate) fn cuGetExportTable(table: Out<*const c_void>, id: In<CUuuid>) -> Outcome {
    export_table::get(table, &id.0)
}

pub(crate) fn cuGetProcAddress_v2(
    symbol: Text,
    function: Out<*mut c_void>,
    cuda_version: c_int,
    flags: u64,
    symbol_status: Option<Out<CUdriverProcAddressQueryResult>>,
) -> Outcome {
    let per_thread = match flags {
        GET_DEFAULT | GET_LEGACY_STREAM => false,
        GET_PER_THREAD_STREAM => true,
        _ => {
            let detail = format!("the flags are {flags}; allowed are 0, 1 and 2");
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
    };
    let found = exported_name(&symbol.0, cuda_version).and_then(|name| api::find(&name, per_thread));
    let found = found.or_else(|| api::absent(&symbol.0));
    let status = match found {
        Some(_) => CU_GET_PROC_ADDRESS_SUCCESS,
        None => CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
    };
    function.put(found.map_or(ptr::null_mut(), |function| function.as_ptr()))?;
    put_if(symbol_status, status)?;
    if found.is_some() { Ok(()) } else { fail(CUDA_ERROR_NOT_FOUND) }
}

/// Returns the exported name of the function that the `cuda.h` of a CUDA version calls `symbol`.
pub(crate) fn exported_name(symbol: &str, version: c_int) -> Option<String> {
    if symbol == "cuGraphInstantiate" && version >= 12_000 {
        return Some("cuGraphInstantiateWithFlags".to_owned());
    }
    let limit = |list: &[(&str, c_int)], name: &str| {
        list.iter().find(|(other, _)| *other == name).map(|&(_, version)| version)
    };
    if limit(UNTIL, symbol).is_some_and(|until| version >= until) {
        return None;
    }
    let is_known = |name: &str| api::NAMES.contains(&name);
    for form in ["_v4", "_v3", "_v2"] {
        let name = format!("{symbol}{form}");
        if is_known(&name) && limit(SINCE, &name).is_none_or(|since| version >= since) {
            return Some(name);
        }
    }
    is_known(symbol).then(|| symbol.to_owned())
}

pub(crate) fn cuProfilerStart() -> Outcome {
    Ok(())
}

pub(crate) fn cuProfilerStop() -> Outcome {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::exported_name;

    #[test]
    fn exported_name_depends_on_the_version() {
        let name = |symbol, version| exported_name(symbol, version);
        assert_eq!(name("cuMemAlloc", 13_000).as_deref(), Some("cuMemAlloc_v2"));
        assert_eq!(name("cuMemAllocAsync", 13_000).as_deref(), Some("cuMemAllocAsync"));
        assert_eq!(name("cuEventElapsedTime", 12_000).as_deref(), Some("cuEventElapsedTime"));
        assert_eq!(name("cuEventElapsedTime", 12_080).as_deref(), Some("cuEventElapsedTime_v2"));
        assert_eq!(name("cuGraphInstantiate", 12_000).as_deref(), Some("cuGraphInstantiateWithFlags"));
        assert_eq!(name("cuCtxCreate", 11_000).as_deref(), Some("cuCtxCreate_v2"));
        assert_eq!(name("cuCtxCreate", 11_040).as_deref(), Some("cuCtxCreate_v3"));
        assert_eq!(name("cuCtxCreate", 13_000).as_deref(), Some("cuCtxCreate_v4"));
        assert_eq!(name("cuGraphAddNode", 12_020).as_deref(), Some("cuGraphAddNode"));
        assert_eq!(name("cuGraphAddNode", 12_030).as_deref(), Some("cuGraphAddNode_v2"));
        assert_eq!(name("cuMemAdvise", 12_010).as_deref(), Some("cuMemAdvise"));
        assert_eq!(name("cuMemPrefetchAsync", 12_010).as_deref(), Some("cuMemPrefetchAsync"));
        assert_eq!(name("cuGraphGetEdges", 12_020).as_deref(), Some("cuGraphGetEdges"));
        assert_eq!(name("cuMemAdvise", 12_020).as_deref(), Some("cuMemAdvise_v2"));
        assert_eq!(name("cuMemPrefetchAsync", 12_020).as_deref(), Some("cuMemPrefetchAsync_v2"));
        assert_eq!(name("cuGraphGetEdges", 12_030), None);
        assert_eq!(name("cuNothing", 13_000), None);
        assert_eq!(name("cuGetProcAddress", 11_030).as_deref(), Some("cuGetProcAddress"));
        assert_eq!(name("cuGetProcAddress", 12_000).as_deref(), Some("cuGetProcAddress_v2"));
    }
}
