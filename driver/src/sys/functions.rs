//! The table of the driver's functions, from which the crate generates all other lists of them.

/// Calls the given macro with a declaration of each driver function under its exported name:
///
/// ```text
/// fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytes: usize);
/// ```
///
/// A declaration may end with `per thread` and the exported name of the form for which stream 0 is the
/// calling thread's default stream; programs that define `CUDA_API_PER_THREAD_DEFAULT_STREAM` call it.
///
/// Every function is `unsafe extern "C"` and returns a `c_int`, the `CUresult`. The caller must have the
/// types in scope, by `use warpfold_driver::sys::*`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_function {
    ($callback:ident) => { $callback! {
        // Initialisation and errors.
        fn cuInit(flags: c_uint);
        fn cuDriverGetVersion(driver_version: *mut c_int);
        fn cuGetErrorName(error: c_int, text: *mut *const c_char);
        fn cuGetErrorString(error: c_int, text: *mut *const c_char);
        fn cuGetProcAddress_v2(
            symbol: *const c_char,
            function: *mut *mut c_void,
            cuda_version: c_int,
            flags: u64,
            symbol_status: *mut CUdriverProcAddressQueryResult,
        );
        fn cuGetProcAddress(
            symbol: *const c_char,
            function: *mut *mut c_void,
            cuda_version: c_int,
            flags: u64,
        );
        fn cuGetExportTable(table: *mut *const c_void, id: *const CUuuid);
        // Devices.
        fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
        fn cuDeviceGetCount(count: *mut c_int);
        fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
        fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
        fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
        fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
        fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
        fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice);
        fn cuDeviceGetByPCIBusId(device: *mut CUdevice, pci_bus_id: *const c_char);
        fn cuDeviceGetPCIBusId(pci_bus_id: *mut c_char, len: c_int, device: CUdevice);
        fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice);
        fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice);
        fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool);
        fn cuDeviceGetGraphMemAttribute(
            device: CUdevice,
            attribute: CUgraphMem_attribute,
            value: *mut c_void,
        );
        fn cuDeviceSetGraphMemAttribute(
            device: CUdevice,
            attribute: CUgraphMem_attribute,
            value: *mut c_void,
        );
        fn cuDeviceGraphMemTrim(device: CUdevice);
        // Primary contexts.
        fn cuDevicePrimaryCtxRetain(ctx: *mut CUcontext, device: CUdevice);
        fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint);
        fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
        fn cuDevicePrimaryCtxReset_v2(device: CUdevice);
        // Contexts.
        fn cuCtxCreate_v2(ctx: *mut CUcontext, flags: c_uint, device: CUdevice);
        fn cuCtxCreate_v3(
            ctx: *mut CUcontext,
            affinities: *mut c_void,
            num_affinities: c_int,
            flags: c_uint,
            device: CUdevice,
        );
        fn cuCtxCreate_v4(ctx: *mut CUcontext, params: *mut c_void, flags: c_uint, device: CUdevice);
        fn cuCtxDestroy_v2(ctx: CUcontext);
        fn cuCtxPushCurrent_v2(ctx: CUcontext);
        fn cuCtxPopCurrent_v2(ctx: *mut CUcontext);
        fn cuCtxSetCurrent(ctx: CUcontext);
        fn cuCtxGetCurrent(ctx: *mut CUcontext);
        fn cuCtxGetDevice(device: *mut CUdevice);
        fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext);
        fn cuCtxGetFlags(flags: *mut c_uint);
        fn cuCtxGetId(ctx: CUcontext, id: *mut c_ulonglong);
        fn cuCtxSynchronize();
        fn cuCtxSynchronize_v2(ctx: CUcontext);
        fn cuCtxSetLimit(limit: CUlimit, value: usize);
        fn cuCtxGetLimit(value: *mut usize, limit: CUlimit);
        fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint);
        fn cuCtxGetStreamPriorityRange(least_priority: *mut c_int, greatest_priority: *mut c_int);
        fn cuCtxGetCacheConfig(config: *mut CUfunc_cache);
        fn cuCtxSetCacheConfig(config: CUfunc_cache);
        fn cuCtxGetSharedMemConfig(config: *mut CUsharedconfig);
        fn cuCtxSetSharedMemConfig(config: CUsharedconfig);
        // Modules.
        fn cuModuleLoad(module: *mut CUmodule, path: *const c_char);
        fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
        fn cuModuleLoadDataEx(
            module: *mut CUmodule,
            image: *const c_void,
            num_options: c_uint,
            options: *mut CUjit_option,
            option_values: *mut *mut c_void,
        );
        fn cuModuleLoadFatBinary(module: *mut CUmodule, fat_cubin: *const c_void);
        fn cuModuleUnload(module: CUmodule);
        fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        fn cuModuleGetGlobal_v2(
            dptr: *mut CUdeviceptr,
            bytes: *mut usize,
            module: CUmodule,
            name: *const c_char,
        );
        fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode);
        // Libraries: modules that are loaded into each context on demand.
        fn cuLibraryLoadData(
            library: *mut CUlibrary,
            code: *const c_void,
            jit_options: *mut CUjit_option,
            jit_values: *mut *mut c_void,
            num_jit: c_uint,
            library_options: *mut CUlibraryOption,
            library_values: *mut *mut c_void,
            num_library: c_uint,
        );
        fn cuLibraryLoadFromFile(
            library: *mut CUlibrary,
            path: *const c_char,
            jit_options: *mut CUjit_option,
            jit_values: *mut *mut c_void,
            num_jit: c_uint,
            library_options: *mut CUlibraryOption,
            library_values: *mut *mut c_void,
            num_library: c_uint,
        );
        fn cuLibraryUnload(library: CUlibrary);
        fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
        fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary);
        fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, num_kernels: c_uint, library: CUlibrary);
        fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary);
        fn cuLibraryGetGlobal(
            dptr: *mut CUdeviceptr,
            bytes: *mut usize,
            library: CUlibrary,
            name: *const c_char,
        );
        fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel);
        fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel);
        fn cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
        fn cuKernelGetParamInfo(
            kernel: CUkernel,
            param_index: usize,
            param_offset: *mut usize,
            param_size: *mut usize,
        );
        fn cuKernelGetAttribute(
            value: *mut c_int,
            attribute: CUfunction_attribute,
            kernel: CUkernel,
            device: CUdevice,
        );
        fn cuKernelSetAttribute(
            attribute: CUfunction_attribute,
            value: c_int,
            kernel: CUkernel,
            device: CUdevice,
        );
        fn cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, device: CUdevice);
        // Linking of several images into one.
        fn cuLinkCreate_v2(
            num_options: c_uint,
            options: *mut CUjit_option,
            option_values: *mut *mut c_void,
            state: *mut CUlinkState,
        );
        fn cuLinkAddData_v2(
            state: CUlinkState,
            kind: CUjitInputType,
            data: *mut c_void,
            bytes: usize,
            name: *const c_char,
            num_options: c_uint,
            options: *mut CUjit_option,
            option_values: *mut *mut c_void,
        );
        fn cuLinkAddFile_v2(
            state: CUlinkState,
            kind: CUjitInputType,
            path: *const c_char,
            num_options: c_uint,
            options: *mut CUjit_option,
            option_values: *mut *mut c_void,
        );
        fn cuLinkComplete(state: CUlinkState, image: *mut *mut c_void, bytes: *mut usize);
        fn cuLinkDestroy(state: CUlinkState);
        // Functions.
        fn cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
        fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
        fn cuFuncSetCacheConfig(function: CUfunction, config: CUfunc_cache);
        fn cuFuncSetSharedMemConfig(function: CUfunction, config: CUsharedconfig);
        fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction);
        fn cuFuncGetName(name: *mut *const c_char, function: CUfunction);
        fn cuFuncGetParamInfo(
            function: CUfunction,
            param_index: usize,
            param_offset: *mut usize,
            param_size: *mut usize,
        );
        fn cuFuncLoad(function: CUfunction);
        fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction);
        // Memory.
        fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytes: usize);
        fn cuMemAllocPitch_v2(
            dptr: *mut CUdeviceptr,
            pitch: *mut usize,
            width_in_bytes: usize,
            height: usize,
            element_size_bytes: c_uint,
        );
        fn cuMemFree_v2(dptr: CUdeviceptr);
        fn cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, dptr: CUdeviceptr);
        fn cuMemAllocHost_v2(address: *mut *mut c_void, bytes: usize);
        fn cuMemFreeHost(address: *mut c_void);
        fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
        fn cuMemHostGetDevicePointer_v2(dptr: *mut CUdeviceptr, address: *mut c_void, flags: c_uint);
        fn cuMemHostGetFlags(flags: *mut c_uint, address: *mut c_void);
        fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint);
        fn cuMemHostUnregister(address: *mut c_void);
        fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytes: usize, flags: c_uint);
        fn cuMemAdvise(dptr: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice);
        fn cuMemPrefetchAsync(dptr: CUdeviceptr, count: usize, dst_device: CUdevice, stream: CUstream)
            per thread cuMemPrefetchAsync_ptsz;
        fn cuMemAdvise_v2(
            dptr: CUdeviceptr,
            count: usize,
            advice: CUmem_advise,
            location: CUmemLocation,
        );
        fn cuMemPrefetchAsync_v2(
            dptr: CUdeviceptr,
            count: usize,
            location: CUmemLocation,
            flags: c_uint,
            stream: CUstream,
        ) per thread cuMemPrefetchAsync_v2_ptsz;
        fn cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr);
        fn cuPointerGetAttributes(
            num_attributes: c_uint,
            attributes: *mut CUpointer_attribute,
            data: *mut *mut c_void,
            ptr: CUdeviceptr,
        );
        // Copies.
        fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) per thread cuMemcpy_ptds;
        fn cuMemcpyPeer(
            dst: CUdeviceptr,
            dst_ctx: CUcontext,
            src: CUdeviceptr,
            src_ctx: CUcontext,
            bytes: usize,
        ) per thread cuMemcpyPeer_ptds;
        fn cuMemcpyHtoD_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize)
            per thread cuMemcpyHtoD_v2_ptds;
        fn cuMemcpyDtoH_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize)
            per thread cuMemcpyDtoH_v2_ptds;
        fn cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize)
            per thread cuMemcpyDtoD_v2_ptds;
        fn cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream)
            per thread cuMemcpyAsync_ptsz;
        fn cuMemcpyPeerAsync(
            dst: CUdeviceptr,
            dst_ctx: CUcontext,
            src: CUdeviceptr,
            src_ctx: CUcontext,
            bytes: usize,
            stream: CUstream,
        ) per thread cuMemcpyPeerAsync_ptsz;
        fn cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream)
            per thread cuMemcpyHtoDAsync_v2_ptsz;
        fn cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream)
            per thread cuMemcpyDtoHAsync_v2_ptsz;
        fn cuMemcpyDtoDAsync_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream)
            per thread cuMemcpyDtoDAsync_v2_ptsz;
        // Row-wise copies, and copies of arrays.
        fn cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D_v2) per thread cuMemcpy2D_v2_ptds;
        fn cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D_v2) per thread cuMemcpy2DUnaligned_v2_ptds;
        fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D_v2, stream: CUstream)
            per thread cuMemcpy2DAsync_v2_ptsz;
        fn cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D_v2) per thread cuMemcpy3D_v2_ptds;
        fn cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D_v2, stream: CUstream)
            per thread cuMemcpy3DAsync_v2_ptsz;
        fn cuMemcpyHtoA_v2(dst: CUarray, offset: usize, src: *const c_void, bytes: usize)
            per thread cuMemcpyHtoA_v2_ptds;
        fn cuMemcpyAtoH_v2(dst: *mut c_void, src: CUarray, offset: usize, bytes: usize)
            per thread cuMemcpyAtoH_v2_ptds;
        fn cuMemcpyDtoA_v2(dst: CUarray, offset: usize, src: CUdeviceptr, bytes: usize)
            per thread cuMemcpyDtoA_v2_ptds;
        fn cuMemcpyAtoD_v2(dst: CUdeviceptr, src: CUarray, offset: usize, bytes: usize)
            per thread cuMemcpyAtoD_v2_ptds;
        fn cuMemcpyAtoA_v2(dst: CUarray, offset: usize, src: CUarray, from: usize, bytes: usize)
            per thread cuMemcpyAtoA_v2_ptds;
        fn cuMemcpyHtoAAsync_v2(
            dst: CUarray,
            offset: usize,
            src: *const c_void,
            bytes: usize,
            stream: CUstream,
        ) per thread cuMemcpyHtoAAsync_v2_ptsz;
        fn cuMemcpyAtoHAsync_v2(
            dst: *mut c_void,
            src: CUarray,
            offset: usize,
            bytes: usize,
            stream: CUstream,
        ) per thread cuMemcpyAtoHAsync_v2_ptsz;
        // Arrays, textures, surfaces and tensor maps.
        fn cuArrayCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY_DESCRIPTOR_v2);
        fn cuArrayGetDescriptor_v2(descriptor: *mut CUDA_ARRAY_DESCRIPTOR_v2, array: CUarray);
        fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR_v2);
        fn cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR_v2, array: CUarray);
        fn cuArrayDestroy(array: CUarray);
        fn cuTexObjectCreate(
            texture: *mut CUtexObject,
            resource: *const CUDA_RESOURCE_DESC_v1,
            sampler: *const CUDA_TEXTURE_DESC_v1,
            view: *const CUDA_RESOURCE_VIEW_DESC_v1,
        );
        fn cuTexObjectDestroy(texture: CUtexObject);
        fn cuTexObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC_v1, texture: CUtexObject);
        fn cuTexObjectGetTextureDesc(sampler: *mut CUDA_TEXTURE_DESC_v1, texture: CUtexObject);
        fn cuSurfObjectCreate(surface: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC_v1);
        fn cuSurfObjectDestroy(surface: CUsurfObject);
        fn cuSurfObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC_v1, surface: CUsurfObject);
        fn cuDeviceGetTexture1DLinearMaxWidth(
            texels: *mut usize,
            format: CUarray_format,
            channels: c_uint,
            device: CUdevice,
        );
        fn cuTensorMapEncodeTiled(
            map: *mut CUtensorMap,
            element: CUtensorMapDataType,
            rank: c_uint,
            address: *mut c_void,
            extent: *const u64,
            strides: *const u64,
            box_extent: *const c_uint,
            element_strides: *const c_uint,
            interleave: CUtensorMapInterleave,
            swizzle: CUtensorMapSwizzle,
            promotion: CUtensorMapL2promotion,
            fill: CUtensorMapFloatOOBfill,
        );
        fn cuTensorMapReplaceAddress(map: *mut CUtensorMap, address: *mut c_void);
        // Fills.
        fn cuMemsetD8_v2(dst: CUdeviceptr, value: u8, count: usize) per thread cuMemsetD8_v2_ptds;
        fn cuMemsetD16_v2(dst: CUdeviceptr, value: c_ushort, count: usize)
            per thread cuMemsetD16_v2_ptds;
        fn cuMemsetD32_v2(dst: CUdeviceptr, value: c_uint, count: usize) per thread cuMemsetD32_v2_ptds;
        fn cuMemsetD8Async(dst: CUdeviceptr, value: u8, count: usize, stream: CUstream)
            per thread cuMemsetD8Async_ptsz;
        fn cuMemsetD16Async(dst: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream)
            per thread cuMemsetD16Async_ptsz;
        fn cuMemsetD32Async(dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream)
            per thread cuMemsetD32Async_ptsz;
        fn cuMemsetD2D8_v2(
            dst: CUdeviceptr,
            pitch: usize,
            value: u8,
            width: usize,
            height: usize,
        ) per thread cuMemsetD2D8_v2_ptds;
        fn cuMemsetD2D8Async(
            dst: CUdeviceptr,
            pitch: usize,
            value: u8,
            width: usize,
            height: usize,
            stream: CUstream,
        ) per thread cuMemsetD2D8Async_ptsz;
        fn cuMemsetD2D16_v2(
            dst: CUdeviceptr,
            pitch: usize,
            value: c_ushort,
            width: usize,
            height: usize,
        ) per thread cuMemsetD2D16_v2_ptds;
        fn cuMemsetD2D16Async(
            dst: CUdeviceptr,
            pitch: usize,
            value: c_ushort,
            width: usize,
            height: usize,
            stream: CUstream,
        ) per thread cuMemsetD2D16Async_ptsz;
        fn cuMemsetD2D32_v2(
            dst: CUdeviceptr,
            pitch: usize,
            value: c_uint,
            width: usize,
            height: usize,
        ) per thread cuMemsetD2D32_v2_ptds;
        fn cuMemsetD2D32Async(
            dst: CUdeviceptr,
            pitch: usize,
            value: c_uint,
            width: usize,
            height: usize,
            stream: CUstream,
        ) per thread cuMemsetD2D32Async_ptsz;
        fn cuStreamAttachMemAsync(stream: CUstream, dptr: CUdeviceptr, length: usize, flags: c_uint)
            per thread cuStreamAttachMemAsync_ptsz;
        // Stream-ordered memory.
        fn cuMemAllocAsync(dptr: *mut CUdeviceptr, bytes: usize, stream: CUstream)
            per thread cuMemAllocAsync_ptsz;
        fn cuMemFreeAsync(dptr: CUdeviceptr, stream: CUstream) per thread cuMemFreeAsync_ptsz;
        fn cuMemAllocFromPoolAsync(
            dptr: *mut CUdeviceptr,
            bytes: usize,
            pool: CUmemoryPool,
            stream: CUstream,
        ) per thread cuMemAllocFromPoolAsync_ptsz;
        fn cuMemPoolCreate(pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps);
        fn cuMemPoolDestroy(pool: CUmemoryPool);
        fn cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize);
        fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void);
        fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void);
        fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize);
        fn cuMemPoolGetAccess(
            flags: *mut CUmemAccess_flags,
            mem_pool: CUmemoryPool,
            location: *mut CUmemLocation,
        );
        // Streams.
        fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
        fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
        fn cuStreamDestroy_v2(stream: CUstream);
        fn cuStreamSynchronize(stream: CUstream) per thread cuStreamSynchronize_ptsz;
        fn cuStreamQuery(stream: CUstream) per thread cuStreamQuery_ptsz;
        fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint)
            per thread cuStreamWaitEvent_ptsz;
        fn cuStreamAddCallback(
            stream: CUstream,
            callback: CUstreamCallback,
            user_data: *mut c_void,
            flags: c_uint,
        ) per thread cuStreamAddCallback_ptsz;
        fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, user_data: *mut c_void)
            per thread cuLaunchHostFunc_ptsz;
        fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) per thread cuStreamGetFlags_ptsz;
        fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int)
            per thread cuStreamGetPriority_ptsz;
        fn cuStreamGetCtx(stream: CUstream, ctx: *mut CUcontext) per thread cuStreamGetCtx_ptsz;
        fn cuStreamGetCtx_v2(stream: CUstream, ctx: *mut CUcontext, green: *mut *mut c_void)
            per thread cuStreamGetCtx_v2_ptsz;
        fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong) per thread cuStreamGetId_ptsz;
        fn cuStreamGetDevice(stream: CUstream, device: *mut CUdevice) per thread cuStreamGetDevice_ptsz;
        // Stream capture.
        fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode)
            per thread cuStreamBeginCapture_v2_ptsz;
        fn cuStreamBeginCaptureToGraph(
            stream: CUstream,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            dependency_data: *const c_void,
            num_dependencies: usize,
            mode: CUstreamCaptureMode,
        ) per thread cuStreamBeginCaptureToGraph_ptsz;
        fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) per thread cuStreamEndCapture_ptsz;
        fn cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus)
            per thread cuStreamIsCapturing_ptsz;
        fn cuStreamGetCaptureInfo(stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64)
            per thread cuStreamGetCaptureInfo_ptsz;
        fn cuStreamGetCaptureInfo_v2(
            stream: CUstream,
            status: *mut CUstreamCaptureStatus,
            id: *mut u64,
            graph: *mut CUgraph,
            dependencies: *mut *const CUgraphNode,
            num_dependencies: *mut usize,
        ) per thread cuStreamGetCaptureInfo_v2_ptsz;
        fn cuStreamGetCaptureInfo_v3(
            stream: CUstream,
            status: *mut CUstreamCaptureStatus,
            id: *mut u64,
            graph: *mut CUgraph,
            dependencies: *mut *const CUgraphNode,
            edge_data: *mut *const c_void,
            num_dependencies: *mut usize,
        ) per thread cuStreamGetCaptureInfo_v3_ptsz;
        fn cuStreamUpdateCaptureDependencies(
            stream: CUstream,
            dependencies: *mut CUgraphNode,
            num_dependencies: usize,
            flags: c_uint,
        ) per thread cuStreamUpdateCaptureDependencies_ptsz;
        fn cuStreamUpdateCaptureDependencies_v2(
            stream: CUstream,
            dependencies: *mut CUgraphNode,
            dependency_data: *const c_void,
            num_dependencies: usize,
            flags: c_uint,
        ) per thread cuStreamUpdateCaptureDependencies_v2_ptsz;
        fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
        // Events.
        fn cuEventCreate(event: *mut CUevent, flags: c_uint);
        fn cuEventRecord(event: CUevent, stream: CUstream) per thread cuEventRecord_ptsz;
        fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint)
            per thread cuEventRecordWithFlags_ptsz;
        fn cuEventQuery(event: CUevent);
        fn cuEventSynchronize(event: CUevent);
        fn cuEventDestroy_v2(event: CUevent);
        fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
        fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent);
        // Launches.
        fn cuLaunchKernel(
            function: CUfunction,
            grid_dim_x: c_uint,
            grid_dim_y: c_uint,
            grid_dim_z: c_uint,
            block_dim_x: c_uint,
            block_dim_y: c_uint,
            block_dim_z: c_uint,
            shared_bytes: c_uint,
            stream: CUstream,
            kernel_params: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) per thread cuLaunchKernel_ptsz;
        fn cuLaunchCooperativeKernel(
            function: CUfunction,
            grid_dim_x: c_uint,
            grid_dim_y: c_uint,
            grid_dim_z: c_uint,
            block_dim_x: c_uint,
            block_dim_y: c_uint,
            block_dim_z: c_uint,
            shared_bytes: c_uint,
            stream: CUstream,
            kernel_params: *mut *mut c_void,
        ) per thread cuLaunchCooperativeKernel_ptsz;
        fn cuLaunchKernelEx(
            config: *const LaunchConfig,
            function: CUfunction,
            kernel_params: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) per thread cuLaunchKernelEx_ptsz;
        // Occupancy.
        fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
            num_blocks: *mut c_int,
            function: CUfunction,
            block_size: c_int,
            shared_bytes: usize,
        );
        fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            num_blocks: *mut c_int,
            function: CUfunction,
            block_size: c_int,
            shared_bytes: usize,
            flags: c_uint,
        );
        fn cuOccupancyMaxPotentialBlockSize(
            min_grid_size: *mut c_int,
            block_size: *mut c_int,
            function: CUfunction,
            shared_bytes_of: CUoccupancyB2DSize,
            shared_bytes: usize,
            block_size_limit: c_int,
        );
        fn cuOccupancyMaxPotentialBlockSizeWithFlags(
            min_grid_size: *mut c_int,
            block_size: *mut c_int,
            function: CUfunction,
            shared_bytes_of: CUoccupancyB2DSize,
            shared_bytes: usize,
            block_size_limit: c_int,
            flags: c_uint,
        );
        fn cuOccupancyAvailableDynamicSMemPerBlock(
            shared_bytes: *mut usize,
            function: CUfunction,
            num_blocks: c_int,
            block_size: c_int,
        );
        fn cuOccupancyMaxActiveClusters(
            num_clusters: *mut c_int,
            function: CUfunction,
            config: *const LaunchConfig,
        );
        fn cuOccupancyMaxPotentialClusterSize(
            cluster_size: *mut c_int,
            function: CUfunction,
            config: *const LaunchConfig,
        );
        // Graphs.
        fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
        fn cuGraphDestroy(graph: CUgraph);
        fn cuGraphClone(clone: *mut CUgraph, original_graph: CUgraph);
        fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
        fn cuGraphInstantiateWithParams(
            exec: *mut CUgraphExec,
            graph: CUgraph,
            params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
        ) per thread cuGraphInstantiateWithParams_ptsz;
        fn cuGraphInstantiate_v2(
            exec: *mut CUgraphExec,
            graph: CUgraph,
            error_node: *mut CUgraphNode,
            log: *mut c_char,
            log_bytes: usize,
        );
        fn cuGraphUpload(graph: CUgraphExec, stream: CUstream) per thread cuGraphUpload_ptsz;
        fn cuGraphLaunch(graph: CUgraphExec, stream: CUstream) per thread cuGraphLaunch_ptsz;
        fn cuGraphExecDestroy(exec: CUgraphExec);
        fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize);
        fn cuGraphGetEdges(
            graph: CUgraph,
            from: *mut CUgraphNode,
            to: *mut CUgraphNode,
            num_edges: *mut usize,
        );
        fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType);
        fn cuGraphAddKernelNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            node_params: *const CUDA_KERNEL_NODE_PARAMS_v1,
        );
        fn cuGraphAddKernelNode_v2(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            node_params: *const CUDA_KERNEL_NODE_PARAMS_v2,
        );
        fn cuGraphKernelNodeGetParams(node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS_v1);
        fn cuGraphKernelNodeGetParams_v2(
            node: CUgraphNode,
            node_params: *mut CUDA_KERNEL_NODE_PARAMS_v2,
        );
        fn cuGraphKernelNodeSetParams(node: CUgraphNode, node_params: *const CUDA_KERNEL_NODE_PARAMS_v1);
        fn cuGraphKernelNodeSetParams_v2(
            node: CUgraphNode,
            node_params: *const CUDA_KERNEL_NODE_PARAMS_v2,
        );
        fn cuGraphAddMemcpyNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            copy_params: *const CUDA_MEMCPY3D_v2,
            ctx: CUcontext,
        );
        fn cuGraphAddMemsetNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            memset_params: *const CUDA_MEMSET_NODE_PARAMS_v1,
            ctx: CUcontext,
        );
        fn cuGraphAddHostNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            node_params: *const CUDA_HOST_NODE_PARAMS_v1,
        );
        fn cuGraphAddEmptyNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
        );
        fn cuGraphAddMemAllocNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            node_params: *mut CUDA_MEM_ALLOC_NODE_PARAMS_v1,
        );
        fn cuGraphMemAllocNodeGetParams(
            node: CUgraphNode,
            params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS_v1,
        );
        fn cuGraphAddMemFreeNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            dptr: CUdeviceptr,
        );
        fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, dptr_out: *mut CUdeviceptr);
        fn cuGraphAddNode(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            num_dependencies: usize,
            node_params: *mut CUgraphNodeParams,
        );
        fn cuGraphAddNode_v2(
            node: *mut CUgraphNode,
            graph: CUgraph,
            dependencies: *const CUgraphNode,
            dependency_data: *const c_void,
            num_dependencies: usize,
            node_params: *mut CUgraphNodeParams,
        );
        fn cuGraphConditionalHandleCreate(
            handle: *mut CUgraphConditionalHandle,
            graph: CUgraph,
            ctx: CUcontext,
            default_launch_value: c_uint,
            flags: c_uint,
        );
        fn cuGraphExecKernelNodeSetParams(
            exec: CUgraphExec,
            node: CUgraphNode,
            node_params: *const CUDA_KERNEL_NODE_PARAMS_v1,
        );
        fn cuGraphExecKernelNodeSetParams_v2(
            exec: CUgraphExec,
            node: CUgraphNode,
            node_params: *const CUDA_KERNEL_NODE_PARAMS_v2,
        );
        fn cuGraphExecMemcpyNodeSetParams(
            exec: CUgraphExec,
            node: CUgraphNode,
            copy_params: *const CUDA_MEMCPY3D_v2,
            ctx: CUcontext,
        );
        fn cuGraphExecMemsetNodeSetParams(
            exec: CUgraphExec,
            node: CUgraphNode,
            memset_params: *const CUDA_MEMSET_NODE_PARAMS_v1,
            ctx: CUcontext,
        );
        fn cuGraphExecHostNodeSetParams(
            exec: CUgraphExec,
            node: CUgraphNode,
            node_params: *const CUDA_HOST_NODE_PARAMS_v1,
        );
        fn cuGraphExecUpdate_v2(
            exec: CUgraphExec,
            graph: CUgraph,
            result: *mut CUgraphExecUpdateResultInfo,
        );
        fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint);
        // Access to the memory of peer devices.
        fn cuDeviceCanAccessPeer(can_access: *mut c_int, device: CUdevice, peer: CUdevice);
        fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
        fn cuCtxDisablePeerAccess(peer: CUcontext);
        fn cuDeviceGetP2PAttribute(
            value: *mut c_int,
            attribute: CUdevice_P2PAttribute,
            src_device: CUdevice,
            dst_device: CUdevice,
        );
        // Profiler.
        fn cuProfilerStart();
        fn cuProfilerStop();
    } };
}
