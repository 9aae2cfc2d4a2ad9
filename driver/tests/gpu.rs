//! Tests the methods of `Driver` on the GPU of this machine, without cust. On a machine without a GPU,
//! tests that the error is one line.

use std::error::Error;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use warpfold_driver::sys::*;
use warpfold_driver::{
    CallError, Context, Device, Driver, Function, LaunchShape, ParameterCut, Parameters, Stream,
};

/// `out[i] = in[i] + addend`, one thread per element, without a bounds check.
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.global .align 4 .u32 marker = 77;
.visible .entry add(.param .u64 in, .param .u64 out, .param .u32 addend)
{
    .reg .u32 %r<7>;
    .reg .u64 %rd<6>;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [addend];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    ld.global.u32 %r6, [%rd4];
    add.u32 %r6, %r6, %r1;
    st.global.u32 [%rd5], %r6;
    ret;
}
";

const COUNT: usize = 1 << 16;
const BYTES: usize = 4 * COUNT;
const SHAPE: LaunchShape = LaunchShape::new([COUNT as u32 / 256, 1, 1], [256, 1, 1]);

#[test]
fn driver_methods_run_on_gpu_or_report_missing_gpu() {
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            eprintln!("without a driver: {error}");
            return;
        }
    };
    if let Err(error) = driver.init() {
        assert!(error.to_string().starts_with("cuInit failed: "), "{error}");
        eprintln!("with a driver that does not start: {error}");
        return;
    }
    assert_eq!(driver.missing(), [""; 0], "CUDA 12.8 and later have all of them");
    let device = driver.device_get(0).unwrap();
    describe(driver, device).unwrap();
    let context = driver.primary_ctx_retain(device).unwrap();
    // SAFETY: the context is retained until everything in it has been released.
    unsafe {
        driver.ctx_set_current(Some(context)).unwrap();
        assert_eq!(driver.ctx_get_current(), Ok(Some(context)));
        use_memory(driver, context).unwrap();
        run_kernels(driver, device).unwrap();
        driver.ctx_set_current(None).unwrap();
        assert_eq!(driver.ctx_get_current(), Ok(None));
        driver.primary_ctx_release(device).unwrap();
    }
}

fn describe(driver: &Driver, device: Device) -> Result<(), CallError> {
    let name = driver.device_get_name(device)?;
    let address = driver.device_get_pci_bus_id(device)?;
    assert_eq!(driver.device_get_by_pci_bus_id(&address), Ok(device));
    let (major, minor) = driver.device_compute_capability(device)?;
    println!("{name} at {address}, {major}.{minor}, {} bytes", driver.device_total_mem(device)?);
    assert_ne!(driver.device_get_uuid(device)?, [0; 16]);
    let none = driver.device_get(driver.device_count()?).unwrap_err();
    assert_eq!((none.code, none.is_sticky()), (CUDA_ERROR_INVALID_DEVICE, false));
    let unknown = driver.device_get_attribute(device, -1).unwrap_err();
    assert_eq!(unknown.code, CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

/// # Safety
/// The context is current.
unsafe fn use_memory(driver: &Driver, context: Context) -> Result<(), CallError> {
    let (free, total) = driver.mem_get_info()?;
    assert!(free <= total);
    let memory = driver.mem_alloc(BYTES)?;
    let known = driver.pointer_get_attributes(memory + 8)?;
    assert_eq!((known.memory_type, known.device_ordinal), (CU_MEMORYTYPE_DEVICE, 0));
    assert_eq!((known.context, known.is_managed), (Some(context), false));
    assert_eq!((known.range_start, known.range_bytes), (memory, BYTES));
    assert_eq!(known.device_address, memory + 8);
    assert_eq!(driver.mem_get_address_range(memory + 8), Ok((memory, BYTES)));

    let local = 0_u32;
    let unknown = driver.pointer_get_attributes((&raw const local).addr() as u64)?;
    assert_ne!(unknown.memory_type, CU_MEMORYTYPE_DEVICE);
    assert_eq!(unknown.context, None);

    let host = driver.mem_host_alloc(BYTES, CU_MEMHOSTALLOC_PORTABLE)?;
    let known = driver.pointer_get_attributes(host.addr() as u64)?;
    assert_eq!((known.memory_type, known.host_address), (CU_MEMORYTYPE_HOST, host));
    // SAFETY: the freed memory was allocated above and is not used any more.
    unsafe {
        assert_eq!(driver.mem_host_get_device_pointer(host), Ok(known.device_address));
        driver.mem_free_host(host)?;
        driver.mem_free(memory)
    }
}

/// # Safety
/// The device's context is current.
unsafe fn run_kernels(driver: &Driver, device: Device) -> Result<(), Box<dyn Error>> {
    let rejected = driver.module_load_ptx(&PTX.replace("mul.wide", "mul.broad")).unwrap_err();
    println!("{rejected}");
    assert_eq!(rejected.error.code, CUDA_ERROR_INVALID_PTX);
    assert!(rejected.to_string().contains("error"), "{rejected}");

    let clusters = driver.device_compute_capability(device)? >= (9, 0);
    let ptx = if clusters { PTX.replace("sm_80", "sm_90") } else { PTX.to_owned() };
    let module = driver.module_load_ptx(&ptx)?;
    // SAFETY: all handles are alive when they are used, and memory that kernels access stays allocated
    // until the stream was synchronised.
    unsafe {
        let absent = driver.module_get_function(module, c"none").unwrap_err();
        assert_eq!(absent.code, CUDA_ERROR_NOT_FOUND);
        let (marker, bytes) = driver.module_get_global(module, c"marker")?;
        let mut value = 0_u32;
        driver.memcpy_dtoh((&raw mut value).cast(), marker, bytes)?;
        assert_eq!((value, bytes), (77, 4));

        let add = driver.module_get_function(module, c"add")?;
        examine(driver, add)?;
        let stream = driver.stream_create(CU_STREAM_NON_BLOCKING)?;
        assert_eq!(driver.stream_get_flags(stream), Ok(CU_STREAM_NON_BLOCKING));
        run_on(driver, add, stream, clusters)?;
        record(driver, add, stream)?;
        driver.stream_destroy(stream)?;
        driver.module_unload(module)?;
    }
    Ok(())
}

/// # Safety
/// `add` is alive.
unsafe fn examine(driver: &Driver, add: Function) -> Result<(), CallError> {
    // SAFETY: the caller guarantees a live function.
    unsafe {
        assert!(driver.func_get_attribute(add, CU_FUNC_ATTRIBUTE_NUM_REGS)? > 0);
        driver.func_set_attribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10)?;
        let parameters: Vec<_> =
            (0..4).map(|index| driver.func_get_param_info(add, index)).collect::<Result<_, _>>()?;
        assert_eq!(parameters, [Some((0, 8)), Some((8, 8)), Some((16, 4)), None]);
        let blocks = driver.occupancy_max_active_blocks(add, 256, 0)?;
        assert!((1..=32).contains(&blocks), "{blocks}");
        assert!(driver.occupancy_available_dynamic_shared(add, 1, 256)? >= 48 << 10);
    }
    Ok(())
}

/// Runs the kernel with each kind of launch, on stream-ordered memory.
///
/// # Safety
/// `add` and `stream` are alive.
unsafe fn run_on(
    driver: &Driver,
    add: Function,
    stream: Stream,
    clusters: bool,
) -> Result<(), CallError> {
    // SAFETY: the caller guarantees live handles; the copies and the kernel stay within the allocations.
    unsafe {
        let (from, to) =
            (driver.mem_alloc_async(BYTES, stream)?, driver.mem_alloc_async(BYTES, stream)?);
        let cooperative = LaunchShape { cooperative: true, ..SHAPE };
        let cluster = LaunchShape { cluster: Some([2, 1, 1]), overlapping: true, ..SHAPE };
        for (addend, shape) in [(1, SHAPE), (2, cooperative), (3, cluster)] {
            if shape.cluster.is_some() {
                if !clusters {
                    continue;
                }
                assert!(driver.occupancy_max_active_clusters(add, &shape)? > 0);
            }
            driver.memset_d32_async(from, 40, COUNT, stream)?;
            driver.memset_d8_async(to, 0xee, BYTES, stream)?;
            launch(driver, add, &shape, stream, (from, to, addend))?;
            let mut sums = vec![0_u32; COUNT];
            driver.memcpy_dtoh_async(sums.as_mut_ptr().cast(), to, BYTES, stream)?;
            driver.stream_synchronize(stream)?;
            assert!(sums.iter().all(|&sum| sum == 40 + addend), "{shape:?}");
        }
        driver.mem_free_async(from, stream)?;
        driver.mem_free_async(to, stream)?;
        driver.stream_synchronize(stream)
    }
}

/// # Safety
/// The conditions of [`Driver::launch`] apply.
unsafe fn launch(
    driver: &Driver,
    add: Function,
    shape: &LaunchShape,
    stream: Stream,
    (from, to, addend): (CUdeviceptr, CUdeviceptr, u32),
) -> Result<(), CallError> {
    let mut values = [0; 20];
    values[..8].copy_from_slice(&from.to_ne_bytes());
    values[8..16].copy_from_slice(&to.to_ne_bytes());
    values[16..].copy_from_slice(&addend.to_ne_bytes());
    let cuts = [(0, 8), (8, 8), (16, 4)].map(|(offset, bytes)| ParameterCut { offset, bytes });
    // SAFETY: the caller guarantees live handles and memory; the kernel's parameters have these sizes.
    unsafe { driver.launch(add, shape, stream, Parameters::Bytes { values: &values, cuts: &cuts }) }
}

/// Captures two launches, a copy and a host function, and launches the graph three times.
///
/// # Safety
/// `add` and `stream` are alive.
unsafe fn record(driver: &Driver, add: Function, stream: Stream) -> Result<(), CallError> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count(by: *mut c_void) {
        CALLS.fetch_add(by.addr() as u32, Ordering::Relaxed);
    }
    let by = std::ptr::without_provenance_mut(5);
    // SAFETY: the caller guarantees live handles; the memory that the graph uses stays allocated until
    // the stream was synchronised.
    unsafe {
        let (from, to) = (driver.mem_alloc(BYTES)?, driver.mem_alloc(BYTES)?);
        driver.memset_d8(from, 0, BYTES)?;
        driver.stream_synchronize(Stream::LEGACY)?;
        driver.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        assert_eq!(driver.stream_is_capturing(stream), Ok(CU_STREAM_CAPTURE_STATUS_ACTIVE));
        launch(driver, add, &SHAPE, stream, (from, to, 1))?;
        launch(driver, add, &SHAPE, stream, (from, to, 1))?;
        driver.memcpy_dtod_async(from, to, BYTES, stream)?;
        driver.launch_host_func(stream, count, by)?;
        let graph = driver.stream_end_capture(stream)?;
        assert_eq!(driver.graph_node_count(graph), Ok(4));
        let exec = driver.graph_instantiate(graph)?;
        driver.graph_destroy(graph)?;
        driver.graph_upload(exec, stream)?;

        let (start, end) =
            (driver.event_create(CU_EVENT_DEFAULT)?, driver.event_create(CU_EVENT_DEFAULT)?);
        driver.event_record(start, stream)?;
        for _ in 0..3 {
            driver.graph_launch(exec, stream)?;
        }
        driver.event_record(end, stream)?;
        driver.stream_wait_event(Stream::LEGACY, end)?;
        driver.event_synchronize(end)?;
        assert_eq!((driver.event_query(end), driver.stream_query(stream)), (Ok(true), Ok(true)));
        assert!(driver.event_elapsed_time(start, end)? > 0.0);

        let mut sums = vec![0_u32; COUNT];
        driver.memcpy_dtoh(sums.as_mut_ptr().cast(), from, BYTES)?;
        assert!(sums.iter().all(|&sum| sum == 3), "{:?}", &sums[..8]);
        assert_eq!(CALLS.load(Ordering::Relaxed), 15);
        driver.event_destroy(start)?;
        driver.event_destroy(end)?;
        driver.graph_exec_destroy(exec)?;
        driver.mem_free(from)?;
        driver.mem_free(to)
    }
}
