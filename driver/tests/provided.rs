//! Tests of a driver that this program provides: the driver call that each method of `Driver` makes, and
//! the conversion of the call's result.

mod recorder;

use std::ffi::c_void;
use std::ptr;

use recorder::{answer, calls, driver};
use warpfold_driver::sys::*;
use warpfold_driver::{
    CallError, Context, Device, Driver, Event, Function, Graph, GraphExec, LaunchShape, MemoryPool,
    Module, ParameterCut, Parameters, Provider, Stream,
};

type Call = fn(&Driver) -> Result<(), CallError>;

const DEVICE: Device = Device::from_raw(1);
const CONTEXT: Context = Context::from_raw(ptr::without_provenance_mut(2));
const MODULE: Module = Module::from_raw(ptr::without_provenance_mut(3));
const FUNCTION: Function = Function::from_raw(ptr::without_provenance_mut(4));
const STREAM: Stream = Stream::from_raw(ptr::without_provenance_mut(5));
const EVENT: Event = Event::from_raw(ptr::without_provenance_mut(6));
const LATER: Event = Event::from_raw(ptr::without_provenance_mut(7));
const GRAPH: Graph = Graph::from_raw(ptr::without_provenance_mut(8));
const EXEC: GraphExec = GraphExec::from_raw(ptr::without_provenance_mut(9));
const POOL: MemoryPool = MemoryPool::from_raw(ptr::without_provenance_mut(10));
const HOST: *mut c_void = ptr::without_provenance_mut(0xb);
const SHAPE: LaunchShape = LaunchShape::new([2, 3, 4], [5, 6, 7]);

/// Safe methods, with the driver calls that they make.
const SAFE: &[(&str, Call)] = &[
    ("cuInit(0)", |d| d.init()),
    ("cuDeviceGetCount(&)", |d| d.device_count().map(drop)),
    ("cuDeviceGet(&, 11)", |d| d.device_get(11).map(drop)),
    ("cuDeviceGet(&, 2147483647)", |d| d.device_get(u32::MAX).map(drop)),
    ("cuDeviceGetByPCIBusId(&, &)", |d| d.device_get_by_pci_bus_id("0:0.0").map(drop)),
    ("cuDeviceGetName(&, 255, 1)", |d| d.device_get_name(DEVICE).map(drop)),
    ("cuDeviceGetPCIBusId(&, 255, 1)", |d| d.device_get_pci_bus_id(DEVICE).map(drop)),
    ("cuDeviceGetUuid_v2(&, 1)", |d| d.device_get_uuid(DEVICE).map(drop)),
    ("cuDeviceTotalMem_v2(&, 1)", |d| d.device_total_mem(DEVICE).map(drop)),
    ("cuDeviceGetAttribute(&, 97, 1)", |d| d.device_get_attribute(DEVICE, 97).map(drop)),
    ("cuDeviceGetDefaultMemPool(&, 1)", |d| d.device_get_default_mem_pool(DEVICE).map(drop)),
    ("cuDeviceCanAccessPeer(&, 1, 22)", |d| {
        d.device_can_access_peer(DEVICE, Device::from_raw(22)).map(drop)
    }),
    ("cuDeviceGetP2PAttribute(&, 3, 1, 22)", |d| {
        d.device_get_p2p_attribute(3, DEVICE, Device::from_raw(22)).map(drop)
    }),
    ("cuDevicePrimaryCtxRetain(&, 1)", |d| d.primary_ctx_retain(DEVICE).map(drop)),
    ("cuDevicePrimaryCtxSetFlags_v2(1, 4)", |d| d.primary_ctx_set_flags(DEVICE, 4)),
    ("cuDevicePrimaryCtxGetState(1, &, &)", |d| d.primary_ctx_get_state(DEVICE).map(drop)),
    ("cuCtxCreate_v2(&, 4, 1)", |d| d.ctx_create(DEVICE, 4).map(drop)),
    ("cuCtxGetCurrent(&)", |d| d.ctx_get_current().map(drop)),
    ("cuCtxPopCurrent_v2(&)", |d| d.ctx_pop_current().map(drop)),
    ("cuCtxGetDevice(&)", |d| d.ctx_get_device().map(drop)),
    ("cuCtxGetFlags(&)", |d| d.ctx_get_flags().map(drop)),
    ("cuCtxSynchronize()", |d| d.ctx_synchronize()),
    ("cuCtxGetLimit(&, 2)", |d| d.ctx_get_limit(2).map(drop)),
    ("cuCtxSetLimit(2, 33)", |d| d.ctx_set_limit(2, 33)),
    ("cuCtxGetStreamPriorityRange(&, &)", |d| d.ctx_get_stream_priority_range().map(drop)),
    ("cuMemGetInfo_v2(&, &)", |d| d.mem_get_info().map(drop)),
    ("cuMemAlloc_v2(&, 44)", |d| d.mem_alloc(44).map(drop)),
    ("cuMemAllocManaged(&, 44, 1)", |d| d.mem_alloc_managed(44, 1).map(drop)),
    ("cuMemHostAlloc(&, 44, 2)", |d| d.mem_host_alloc(44, 2).map(drop)),
    ("cuMemGetAddressRange_v2(&, &, 44)", |d| d.mem_get_address_range(44).map(drop)),
    ("cuPointerGetAttributes(8, &, &, 44)", |d| d.pointer_get_attributes(44).map(drop)),
    ("cuMemPoolCreate(&, &)", |d| d.mem_pool_create(DEVICE).map(drop)),
    ("cuModuleLoadDataEx(&, &, 2, &, &)", |d| Ok(d.module_load_ptx("").map(drop)?)),
    ("cuStreamCreate(&, 1)", |d| d.stream_create(1).map(drop)),
    ("cuStreamCreateWithPriority(&, 1, -5)", |d| d.stream_create_with_priority(1, -5).map(drop)),
    ("cuThreadExchangeStreamCaptureMode(&)", |d| d.thread_exchange_stream_capture_mode(2).map(drop)),
    ("cuEventCreate(&, 2)", |d| d.event_create(2).map(drop)),
];

/// Lists unsafe methods with the driver calls that they make.
macro_rules! on_handles {
    ($($seen:literal $method:ident($($argument:expr),*);)*) => {
        &[$(
            // SAFETY: `driver` only records its arguments.
            ($seen, |driver| unsafe { driver.$method($($argument),*) }.map(drop)),
        )*]
    };
}

const ON_HANDLES: &[(&str, Call)] = on_handles! {
    "cuDevicePrimaryCtxRelease_v2(1)" primary_ctx_release(DEVICE);
    "cuDevicePrimaryCtxReset_v2(1)" primary_ctx_reset(DEVICE);
    "cuCtxDestroy_v2(0x2)" ctx_destroy(CONTEXT);
    "cuCtxSetCurrent(0x2)" ctx_set_current(Some(CONTEXT));
    "cuCtxSetCurrent(0x0)" ctx_set_current(None);
    "cuCtxPushCurrent_v2(0x2)" ctx_push_current(CONTEXT);
    "cuCtxEnablePeerAccess(0x2, 0)" ctx_enable_peer_access(CONTEXT);
    "cuCtxDisablePeerAccess(0x2)" ctx_disable_peer_access(CONTEXT);
    "cuModuleLoadData(&, &)" module_load_data(b"image");
    "cuModuleUnload(0x3)" module_unload(MODULE);
    "cuModuleGetFunction(&, 0x3, &)" module_get_function(MODULE, c"name");
    "cuModuleGetGlobal_v2(&, &, 0x3, &)" module_get_global(MODULE, c"name");
    "cuFuncGetAttribute(&, 4, 0x4)" func_get_attribute(FUNCTION, 4);
    "cuFuncSetAttribute(0x4, 8, 99)" func_set_attribute(FUNCTION, 8, 99);
    "cuFuncGetParamInfo(0x4, 12, &, &)" func_get_param_info(FUNCTION, 12);
    "cuMemFree_v2(44)" mem_free(44);
    "cuMemFreeHost(0xb)" mem_free_host(HOST);
    "cuMemHostRegister_v2(0xb, 13, 2)" mem_host_register(HOST, 13, 2);
    "cuMemHostUnregister(0xb)" mem_host_unregister(HOST);
    "cuMemHostGetDevicePointer_v2(&, 0xb, 0)" mem_host_get_device_pointer(HOST);
    "cuMemcpyHtoD_v2(44, 0xb, 13)" memcpy_htod(44, HOST, 13);
    "cuMemcpyDtoH_v2(0xb, 44, 13)" memcpy_dtoh(HOST, 44, 13);
    "cuMemcpyHtoDAsync_v2(44, 0xb, 13, 0x5)" memcpy_htod_async(44, HOST, 13, STREAM);
    "cuMemcpyDtoHAsync_v2(0xb, 44, 13, 0x5)" memcpy_dtoh_async(HOST, 44, 13, STREAM);
    "cuMemcpyDtoDAsync_v2(44, 45, 13, 0x5)" memcpy_dtod_async(44, 45, 13, STREAM);
    "cuMemcpyAsync(44, 45, 13, 0x5)" memcpy_async(44, 45, 13, STREAM);
    "cuMemcpyPeerAsync(44, 0x2, 45, 0xc, 13, 0x5)" memcpy_peer_async(
        (44, CONTEXT),
        (45, Context::from_raw(ptr::without_provenance_mut(0xc))),
        13,
        STREAM
    );
    "cuMemsetD8_v2(44, 7, 13)" memset_d8(44, 7, 13);
    "cuMemsetD8Async(44, 7, 13, 0x5)" memset_d8_async(44, 7, 13, STREAM);
    "cuMemsetD32Async(44, 7, 13, 0x5)" memset_d32_async(44, 7, 13, STREAM);
    "cuMemAllocAsync(&, 13, 0x5)" mem_alloc_async(13, STREAM);
    "cuMemAllocFromPoolAsync(&, 13, 0xa, 0x5)" mem_alloc_from_pool_async(13, POOL, STREAM);
    "cuMemFreeAsync(44, 0x5)" mem_free_async(44, STREAM);
    "cuMemPoolDestroy(0xa)" mem_pool_destroy(POOL);
    "cuMemPoolTrimTo(0xa, 13)" mem_pool_trim_to(POOL, 13);
    "cuMemPoolSetAttribute(0xa, 4, &)" mem_pool_set_release_threshold(POOL, 13);
    "cuMemPoolGetAttribute(0xa, 7, &)" mem_pool_used(POOL);
    "cuStreamDestroy_v2(0x5)" stream_destroy(STREAM);
    "cuStreamSynchronize(0x5)" stream_synchronize(STREAM);
    "cuStreamSynchronize(0x1)" stream_synchronize(Stream::LEGACY);
    "cuStreamQuery(0x5)" stream_query(STREAM);
    "cuStreamWaitEvent(0x5, 0x6, 0)" stream_wait_event(STREAM, EVENT);
    "cuLaunchHostFunc(0x5, &, 0xb)" launch_host_func(STREAM, nothing, HOST);
    "cuStreamGetFlags(0x5, &)" stream_get_flags(STREAM);
    "cuStreamGetPriority(0x5, &)" stream_get_priority(STREAM);
    "cuStreamGetCtx(0x5, &)" stream_get_ctx(STREAM);
    "cuStreamGetId(0x5, &)" stream_get_id(STREAM);
    "cuStreamBeginCapture_v2(0x5, 1)" stream_begin_capture(STREAM, 1);
    "cuStreamEndCapture(0x5, &)" stream_end_capture(STREAM);
    "cuStreamIsCapturing(0x5, &)" stream_is_capturing(STREAM);
    "cuEventRecord(0x6, 0x5)" event_record(EVENT, STREAM);
    "cuEventQuery(0x6)" event_query(EVENT);
    "cuEventSynchronize(0x6)" event_synchronize(EVENT);
    "cuEventElapsedTime(&, 0x6, 0x7)" event_elapsed_time(EVENT, LATER);
    "cuEventDestroy_v2(0x6)" event_destroy(EVENT);
    "cuGraphInstantiateWithFlags(&, 0x8, 0)" graph_instantiate(GRAPH);
    "cuGraphGetNodes(0x8, 0x0, &)" graph_node_count(GRAPH);
    "cuGraphDestroy(0x8)" graph_destroy(GRAPH);
    "cuGraphUpload(0x9, 0x5)" graph_upload(EXEC, STREAM);
    "cuGraphLaunch(0x9, 0x5)" graph_launch(EXEC, STREAM);
    "cuGraphExecDestroy(0x9)" graph_exec_destroy(EXEC);
    "cuOccupancyMaxActiveBlocksPerMultiprocessor(&, 0x4, 256, 13)"
        occupancy_max_active_blocks(FUNCTION, 256, 13);
    "cuOccupancyAvailableDynamicSMemPerBlock(&, 0x4, 2, 256)"
        occupancy_available_dynamic_shared(FUNCTION, 2, 256);
    "cuOccupancyMaxActiveClusters(&, 0x4, &)" occupancy_max_active_clusters(FUNCTION, &SHAPE);
    "cuLaunchKernel(0x4, 2, 3, 4, 5, 6, 7, 0, 0x5, &, 0x0)"
        launch(FUNCTION, &SHAPE, STREAM, Parameters::Bytes { values: &[], cuts: &[] });
    "cuLaunchCooperativeKernel(0x4, 2, 3, 4, 5, 6, 7, 8, 0x5, &)" launch(
        FUNCTION,
        &LaunchShape { cooperative: true, shared_bytes: 8, ..SHAPE },
        STREAM,
        Parameters::Pointers(&mut [HOST])
    );
    "cuLaunchKernelEx(&, 0x4, &, 0x0)" launch(
        FUNCTION,
        &LaunchShape { overlapping: true, ..SHAPE },
        STREAM,
        Parameters::Pointers(&mut [HOST])
    );
};

extern "C" fn nothing(_: *mut c_void) {}

fn all() -> impl Iterator<Item = &'static (&'static str, Call)> {
    SAFE.iter().chain(ON_HANDLES)
}

#[test]
fn methods_pass_arguments_in_order() {
    let driver = driver();
    calls();
    for (seen, call) in all() {
        call(driver).unwrap();
        assert_eq!(calls(), [*seen]);
    }
}

#[test]
fn errors_have_the_call_code_and_detail() {
    let driver = driver();
    for (seen, call) in all() {
        let name = seen.split('(').next().unwrap();
        answer(CUDA_ERROR_ILLEGAL_ADDRESS, Some("at kernel.ptx:12"));
        let error = call(driver).expect_err(seen);
        assert_eq!((error.call, error.code), (name, 700), "{error}");
        assert!(error.is_sticky());
        assert_eq!(
            error.to_string(),
            format!(
                "{name} failed: an illegal memory access was encountered \
                 (CUDA_ERROR_ILLEGAL_ADDRESS, 700): at kernel.ptx:12"
            )
        );
    }
}

#[test]
fn query_returns_false_when_not_ready() {
    let driver = driver();
    answer(CUDA_ERROR_NOT_READY, None);
    // SAFETY: `driver` only records its arguments.
    unsafe {
        assert_eq!(driver.stream_query(STREAM), Ok(false));
        assert_eq!(driver.event_query(EVENT), Ok(false));
        assert_eq!(driver.event_elapsed_time(EVENT, LATER).unwrap_err().code, CUDA_ERROR_NOT_READY);
        answer(CUDA_SUCCESS, None);
        assert_eq!(driver.stream_query(STREAM), Ok(true));
        assert_eq!(driver.event_query(EVENT), Ok(true));
    }
}

#[test]
fn param_info_past_last_parameter_is_none() {
    let driver = driver();
    answer(CUDA_ERROR_INVALID_VALUE, None);
    // SAFETY: `driver` only records its arguments.
    assert_eq!(unsafe { driver.func_get_param_info(FUNCTION, 0) }, Ok(None));
}

#[test]
fn out_of_range_parameters_are_refused_before_the_call() {
    let driver = driver();
    calls();
    let cuts = [ParameterCut { offset: 4, bytes: 8 }];
    let parameters = Parameters::Bytes { values: &[0; 8], cuts: &cuts };
    // SAFETY: `driver` only records its arguments.
    let error = unsafe { driver.launch(FUNCTION, &SHAPE, STREAM, parameters) }.unwrap_err();
    assert_eq!(calls(), [""; 0]);
    assert_eq!(
        error.to_string(),
        "cuLaunchKernel failed: invalid argument (CUDA_ERROR_INVALID_VALUE, 1): \
         parameter 0 is at bytes 4 to 12 of 8; keep it inside them"
    );
    assert!(!error.is_sticky());
}

#[test]
fn driver_reports_name_version_and_missing_functions() {
    let driver = driver();
    assert_eq!((driver.name(), driver.version()), ("a recorder of calls", (13, 2)));
    assert!(driver.is_simulated());
    assert_eq!(driver.missing(), ["cuCtxGetId"]);
    answer(CUDA_ERROR_ILLEGAL_ADDRESS, Some("of an earlier call"));
    let mut id = 0;
    // SAFETY: `driver` has no cuCtxGetId, and the stand-in that replaces it accesses no memory.
    let code = unsafe { (driver.api().cuCtxGetId)(ptr::null_mut(), &mut id) };
    let error = driver.check("cuCtxGetId", code).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cuCtxGetId failed: named symbol not found (CUDA_ERROR_NOT_FOUND, 500): \
         this driver does not have the function"
    );
}

#[test]
fn host_takes_is_forwarded_to_provider() {
    let driver = driver();
    calls();
    driver.host_takes(44, 13);
    assert_eq!(calls(), ["host takes(44, 13)"]);
}

#[test]
fn provider_without_driver_functions_is_refused() {
    struct Empty;
    impl Provider for Empty {
        fn name(&self) -> &str {
            "an empty one"
        }
        fn find(&self, _: &str) -> Option<ptr::NonNull<c_void>> {
            None
        }
    }
    // SAFETY: `Empty` provides no functions.
    let error = unsafe { Driver::provided(&Empty) }.unwrap_err().to_string();
    assert!(error.starts_with("no CUDA driver: an empty one: not a CUDA driver (no cuInit"), "{error}");
    assert_eq!(error.lines().count(), 1);
}
