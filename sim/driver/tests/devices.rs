//! Devices, contexts and memory pools. A test that needs several devices runs itself again in a process
//! with that number.

mod common;

use std::process::{Command, Output};
use std::ptr;

use common::{LEGACY, Pointer, Session, Word, code, detail, event, get, launch_with, ok, peek, stream};
use warpfold_driver::sys::*;
use warpfold_sim_driver::{host_room, memory_in_use};

const DEVICES: &str = "WARPFOLD_SIM_DEVICES";

fn again(test: &str, variable: &str, value: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("a test has a program"));
    command.env(variable, value).args(["--exact", test, "--nocapture"]);
    command.output().expect("the program of this test runs")
}

/// Returns whether this process has `count` devices. If not, runs the test in a process that has them,
/// and checks that the test passes.
fn has_devices(test: &str, count: &str) -> bool {
    has(test, DEVICES, count)
}

/// Returns whether this process has the value in its environment, as [`has_devices`] does.
fn has(test: &str, variable: &str, value: &str) -> bool {
    if std::env::var(variable).is_ok_and(|own| own == value) {
        return true;
    }
    let output = again(test, variable, value);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    false
}

#[test]
fn devices_have_distinct_identities() {
    if !has_devices("devices_have_distinct_identities", "3") {
        return;
    }
    ok!(cuInit(0));
    let count: c_int = get!(cuDeviceGetCount());
    assert_eq!(count, 3);
    assert_eq!(code!(cuDeviceGet(&mut 0, 3)), CUDA_ERROR_INVALID_DEVICE);
    let mut seen = std::collections::HashSet::new();
    for device in 0..count {
        let (mut uuid, mut text) = (CUuuid::default(), [0_u8; 20]);
        ok!(cuDeviceGetUuid_v2(&mut uuid, device));
        ok!(cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), 20, device));
        let mut found = -1;
        ok!(cuDeviceGetByPCIBusId(&mut found, text.as_ptr().cast()));
        assert_eq!(found, device);
        let mut bus = 0;
        ok!(cuDeviceGetAttribute(&mut bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device));
        assert!(seen.insert((uuid.bytes.to_vec(), bus)));
        let session = Session::on(device);
        assert_eq!(get::<c_int>(|place| code!(cuCtxGetDevice(place))), device);
        let address = session.word(1);
        assert_eq!((address >> 44) - (1 << 4), device as u64, "{address:#x}");
    }
    assert_eq!(seen.len(), 3);
}

fn get<T: common::Plain>(call: impl FnOnce(&mut T) -> c_int) -> T {
    let mut place = T::ZERO;
    assert_eq!(call(&mut place), 0, "{}", detail());
    place
}

#[test]
fn invalid_device_count_is_a_one_line_error() {
    if std::env::var(DEVICES).is_ok() {
        assert_eq!(code!(cuInit(0)), CUDA_ERROR_NO_DEVICE);
        assert!(detail().contains("allowed is 1 to 16"), "{}", detail());
        assert_eq!(code!(cuDeviceGetCount(&mut 0)), CUDA_ERROR_NOT_INITIALIZED);
        return;
    }
    for wrong in ["0", "17", "two", "-1", ",apart", "4,", "4, apart"] {
        let output = again("invalid_device_count_is_a_one_line_error", DEVICES, wrong);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{err}");
        let expected = format!(
            "warpfold-sim-driver: WARPFOLD_SIM_DEVICES is `{wrong}`; allowed is 1 to 16, optionally \
             followed by `,apart` for devices that cannot access each other"
        );
        assert_eq!(err.lines().filter(|line| line.contains("warpfold")).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn fault_from_the_environment_is_injected() {
    let name = "fault_from_the_environment_is_injected";
    match std::env::var("WARPFOLD_SIM_FAIL") {
        Ok(fault) if fault.ends_with("wrong") => assert_eq!(code!(cuInit(0)), CUDA_ERROR_NO_DEVICE),
        Ok(_) => {
            let _session = Session::new();
            let _first: u64 = get!(cuMemAlloc_v2(4));
            assert_eq!(code!(cuMemAlloc_v2(&mut 0, 4)), 700);
            assert_eq!(code!(cuMemAlloc_v2(&mut 0, 4)), 700, "it is sticky");
        }
        Err(_) => {
            for fault in ["cuMemAlloc_v2:2:700:sticky", "cuMemAlloc_v2:2:wrong"] {
                let output = again(name, "WARPFOLD_SIM_FAIL", fault);
                let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
                assert!(output.status.success(), "{}{err}", String::from_utf8_lossy(out));
            }
        }
    }
}

/// The copy runs after the earlier work of both contexts and before their later work, whichever context
/// is current.
#[test]
fn a_copy_between_contexts_waits_for_both() {
    if !has_devices("a_copy_between_contexts_waits_for_both", "2") {
        return;
    }
    let first = Session::on(0);
    let from = first.word(5);
    first.launch("add", LEGACY, &[Pointer(from), Word(1)]);
    let second = Session::on(1);
    let to = second.word(0);
    second.launch("add", LEGACY, &[Pointer(to), Word(100)]);
    assert_eq!(peek(to), 0, "it has not run");
    ok!(cuMemcpyPeer(to, second.context, from, first.context, 4));
    first.make_current();
    first.launch("add", LEGACY, &[Pointer(from), Word(1)]);
    second.make_current();
    ok!(cuCtxSynchronize());
    assert_eq!(peek(to), 6);
}

#[test]
fn peer_access_is_required_except_for_copies() {
    if !has_devices("peer_access_is_required_except_for_copies", "2") {
        return;
    }
    let first = Session::on(0);
    let from = first.word(5);
    let second = Session::on(1);
    let to = second.word(0);
    assert_eq!(get::<c_int>(|can| code!(cuDeviceCanAccessPeer(can, 1, 0))), 1);
    assert_eq!(get::<c_int>(|can| code!(cuDeviceCanAccessPeer(can, 1, 1))), 0);
    ok!(cuMemcpyPeer(to, second.context, from, first.context, 4));
    assert_eq!(peek(to), 5);
    assert_eq!(code!(cuCtxDisablePeerAccess(first.context)), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    ok!(cuCtxEnablePeerAccess(first.context, 0));
    let twice = code!(cuCtxEnablePeerAccess(first.context, 0));
    assert_eq!(twice, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    second.launch("add", LEGACY, &[Pointer(from), Word(1)]);
    ok!(cuCtxSynchronize());
    assert_eq!(peek(from), 6);
    ok!(cuCtxDisablePeerAccess(first.context));
    second.launch("add", LEGACY, &[Pointer(from), Word(1)]);
    assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_ILLEGAL_ADDRESS, "no peer any more");
    first.make_current();
    assert_eq!(peek(from), 6, "the other device is well");
    // A stream of one device may wait for an event of another one.
    let done = event();
    first.launch("set", LEGACY, &[Pointer(from), Word(8)]);
    ok!(cuEventRecord(done, LEGACY));
    let other = Session::on(1);
    let copy = other.word(0);
    let side = stream();
    ok!(cuStreamWaitEvent(side, done, 0));
    ok!(cuMemcpyDtoDAsync_v2(copy, from, 4, side));
    ok!(cuStreamSynchronize(side));
    assert_eq!(peek(copy), 8);
    second.make_current();
}

#[test]
fn devices_share_the_memory_of_the_process() {
    if !has_devices("devices_share_the_memory_of_the_process", "16") {
        return;
    }
    let sessions: Vec<_> = (0..16).map(Session::on).collect();
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    // No page is touched, so this uses no memory of the host.
    let mut taken = 0;
    for session in &sessions {
        session.make_current();
        taken += usize::from(code!(cuMemAlloc_v2(&mut 0, total / 2)) == 0);
    }
    assert!((1..16).contains(&taken), "{taken} halves of {total} bytes");
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert!(free < total / 2, "{free} of {total} are free");
}

/// The system provides addresses for more memory than the host has, and kills a process that uses them
/// all.
#[test]
fn overcommit_of_host_memory_is_refused() {
    let _session = Session::new();
    let room = host_room() as usize;
    let mut first = ptr::null_mut();
    // Either allocation alone fits.
    let half = room / 5 * 3;
    ok!(cuMemAllocHost_v2(&mut first, half));
    assert!(host_room() as usize <= room - half + (1 << 30), "{} of {room}", host_room());
    for code in [
        code!(cuMemAllocHost_v2(&mut ptr::null_mut(), half)),
        code!(cuMemAllocManaged(&mut 0, half, CU_MEM_ATTACH_GLOBAL)),
        code!(cuMemAlloc_v2(&mut 0, half)),
    ] {
        assert_eq!(code, CUDA_ERROR_OUT_OF_MEMORY);
        assert!(!detail().contains('\n'), "{}", detail());
    }
    ok!(cuMemFreeHost(first));
}

/// A program that does not initialise its memory must not read zeros. Only the start of a large
/// allocation is filled, so that untouched pages cost nothing.
#[test]
fn new_memory_is_not_zero() {
    let _session = Session::new();
    let stream = stream();
    let at = |address: u64| {
        let word = peek(address);
        ok!(cuCtxSynchronize());
        word
    };
    let locked: *mut c_void = get!(cuMemHostAlloc(4, 0));
    for address in [
        get!(cuMemAlloc_v2(4)),
        get!(cuMemAllocAsync(4, stream)),
        get!(cuMemAllocManaged(4, CU_MEM_ATTACH_GLOBAL)),
        locked.addr() as u64,
    ] {
        assert_eq!(at(address), u32::MAX);
    }
    let large: u64 = get!(cuMemAlloc_v2(2 << 20));
    assert_eq!([at(large), at(large + (1 << 20) - 4), at(large + (1 << 20))], [u32::MAX, u32::MAX, 0]);
}

#[test]
fn last_release_destroys_the_primary_context() {
    if !has_devices("last_release_destroys_the_primary_context", "1") {
        return;
    }
    ok!(cuInit(0));
    let (mut flags, mut active) = (0, -1);
    ok!(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
    assert_eq!(active, 0);
    let first: CUcontext = get!(cuDevicePrimaryCtxRetain(0));
    let second: CUcontext = get!(cuDevicePrimaryCtxRetain(0));
    assert_eq!(first, second);
    assert_eq!(code!(cuMemAlloc_v2(&mut 0, 4)), CUDA_ERROR_INVALID_CONTEXT, "none is current");
    ok!(cuCtxSetCurrent(first));
    let address: u64 = get!(cuMemAlloc_v2(100));
    assert_eq!(memory_in_use(first), 100);
    assert_eq!(code!(cuCtxDestroy_v2(first)), CUDA_ERROR_INVALID_CONTEXT, "it is primary");
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    ok!(cuMemsetD32_v2(address, 5, 1));
    ok!(cuCtxSynchronize());
    assert_eq!(peek(address), 5);
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(code!(cuMemAlloc_v2(&mut 0, 4)), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(code!(cuDevicePrimaryCtxRelease_v2(0)), CUDA_ERROR_INVALID_CONTEXT);
    assert_eq!(memory_in_use(first), 0);
    let third: CUcontext = get!(cuDevicePrimaryCtxRetain(0));
    ok!(cuCtxSetCurrent(third));
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert_eq!(free, total, "what the former one had is free");
}

#[test]
fn contexts_are_stacked_on_each_thread() {
    let below = Session::new();
    {
        let above = Session::new();
        let current: CUcontext = get!(cuCtxGetCurrent());
        assert_eq!(current, above.context);
        let mut popped = ptr::null_mut();
        ok!(cuCtxPopCurrent_v2(&mut popped));
        assert_eq!(popped, above.context);
        let current: CUcontext = get!(cuCtxGetCurrent());
        assert_eq!(current, below.context);
        ok!(cuCtxPushCurrent_v2(above.context));
    }
    let current: CUcontext = get!(cuCtxGetCurrent());
    assert_eq!(current, below.context, "destroying the current one brings back that below");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let none: CUcontext = get!(cuCtxGetCurrent());
            assert!(none.is_null());
        });
    });
}

#[test]
fn destroying_a_context_drops_its_work_and_its_memory() {
    let session = Session::new();
    let (context, address) = (session.context, session.word(1));
    let nothing = session.function("nothing");
    session.launch("set", LEGACY, &[Pointer(address), Word(2)]);
    let locked: *mut c_void = get!(cuMemAllocHost_v2(100));
    assert!(!locked.is_null() && memory_in_use(context) >= 104);
    drop(session);
    assert_eq!(memory_in_use(context), 0);
    let other = Session::new();
    assert_eq!(code!(cuMemFree_v2(address)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch_with(nothing, [1; 3], [1; 3], 0, LEGACY, &[]), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuMemcpyDtoD_v2(other.word(0), address, 4)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn pools_allocate_at_once_and_free_in_order() {
    let session = Session::new();
    let stream = stream();
    let pool = get::<CUmemoryPool>(|place| code!(cuDeviceGetDefaultMemPool(place, 0)));
    let used = || {
        let mut used = 0_u64;
        ok!(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, (&raw mut used).cast()));
        used
    };
    let (before, in_use) = (used(), memory_in_use(session.context));
    let address: u64 = get!(cuMemAllocAsync(4, stream));
    session.launch("set", stream, &[Pointer(address), Word(3)]);
    let copy = session.word(0);
    session.launch("copy", stream, &[Pointer(copy), Pointer(address)]);
    ok!(cuMemFreeAsync(address, stream));
    assert_eq!(used(), before + 4, "the order frees it");
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(copy), 3);
    assert_eq!((used(), memory_in_use(session.context)), (before, in_use + 4));
    session.launch("set", stream, &[Pointer(address), Word(4)]);
    assert_eq!(code!(cuStreamSynchronize(stream)), CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn pool_access_is_granted_per_device() {
    if !has_devices("pool_access_is_granted_per_device", "2") {
        return;
    }
    let first = Session::on(0);
    let pool = get::<CUmemoryPool>(|place| code!(cuDeviceGetDefaultMemPool(place, 0)));
    let address: u64 = get!(cuMemAllocAsync(4, LEGACY));
    first.launch("set", LEGACY, &[Pointer(address), Word(3)]);
    ok!(cuCtxSynchronize());
    let on = |id| CUmemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id };
    let set = |id, flags| {
        let wanted = CUmemAccessDesc { location: on(id), flags };
        code!(cuMemPoolSetAccess(pool, &wanted, 1))
    };
    let access =
        |id| get::<CUmemAccess_flags>(|flags| code!(cuMemPoolGetAccess(flags, pool, &mut on(id))));
    let (all, none) = (CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    assert_eq!((access(0), access(1)), (all, none));
    assert_eq!((set(0, all), set(0, none)), (0, CUDA_ERROR_INVALID_VALUE));
    assert_eq!(set(1, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(set(2, all), CUDA_ERROR_INVALID_DEVICE);
    assert_eq!(code!(cuMemPoolSetAccess(pool, ptr::null(), 1)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!((set(1, all), access(1)), (0, all));
    // Contexts that are created later have access, too.
    let second = Session::on(1);
    let copy = second.word(0);
    second.launch("copy", LEGACY, &[Pointer(copy), Pointer(address)]);
    ok!(cuCtxSynchronize());
    assert_eq!(peek(copy), 3);
    assert_eq!((set(1, none), access(1)), (0, none));
    second.launch("copy", LEGACY, &[Pointer(copy), Pointer(address)]);
    assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn pool_access_ends_with_its_context() {
    if !has_devices("pool_access_ends_with_its_context", "2") {
        return;
    }
    let first = Session::on(0);
    let pool = get::<CUmemoryPool>(|place| code!(cuDeviceGetDefaultMemPool(place, 0)));
    let address: u64 = get!(cuMemAllocAsync(4, LEGACY));
    ok!(cuCtxSynchronize());
    let location = CUmemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id: 1 };
    let wanted = CUmemAccessDesc { location, flags: CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    ok!(cuMemPoolSetAccess(pool, &wanted, 1));
    let second = Session::on(1);
    let copy = second.word(0);
    first.make_current();
    drop(first);
    second.make_current();
    second.launch("copy", LEGACY, &[Pointer(copy), Pointer(address)]);
    assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn pointer_attributes_describe_the_allocation() {
    let session = Session::new();
    let word = session.word(0);
    let locked: *mut c_void = get!(cuMemAllocHost_v2(100));
    let managed: u64 = get!(cuMemAllocManaged(100, CU_MEM_ATTACH_GLOBAL));
    let ask = |attribute, address| {
        let mut answer = 0_u64;
        let code = code!(cuPointerGetAttribute((&raw mut answer).cast(), attribute, address));
        (code, answer)
    };
    let kind = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    assert_eq!(ask(kind, word + 3), (0, 2));
    assert_eq!(ask(kind, locked.addr() as u64 + 99), (0, 1));
    assert_eq!(ask(kind, managed), (0, 2));
    assert_eq!(ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), (0, 1));
    assert_eq!(ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, managed + 7), (0, 100));
    assert_eq!(ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, word + 3), (0, word));
    assert_eq!(ask(CU_POINTER_ATTRIBUTE_CONTEXT, word), (0, session.context.addr() as u64));
    assert_eq!(ask(kind, (&raw const session).addr() as u64).0, CUDA_ERROR_INVALID_VALUE);
    assert_eq!(ask(kind, word + 4).0, CUDA_ERROR_INVALID_VALUE, "behind its end");
    session.launch("set", LEGACY, &[Pointer(managed), Word(7)]);
    ok!(cuCtxSynchronize());
    // SAFETY: the kernel has completed, and managed memory has the same address on the host.
    assert_eq!(unsafe { ptr::with_exposed_provenance::<u32>(managed as usize).read() }, 7);
    ok!(cuMemFree_v2(managed));
    assert_eq!(code!(cuMemFree_v2(locked.addr() as u64)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemFreeHost(locked));
}

#[test]
fn locations_of_managed_memory_are_checked() {
    let _session = Session::new();
    let managed: u64 = get!(cuMemAllocManaged(100, CU_MEM_ATTACH_GLOBAL));
    let prefetch = |kind, id| {
        let location = CUmemLocation { kind, id };
        code!(cuMemPrefetchAsync_v2(managed, 100, location, 0, LEGACY))
    };
    let advise =
        |advice, kind, id| code!(cuMemAdvise_v2(managed, 100, advice, CUmemLocation { kind, id }));
    let preferred = |kind, id| advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kind, id);
    let accessed = |kind, id| advise(CU_MEM_ADVISE_SET_ACCESSED_BY, kind, id);
    // Whether the location is one to prefer, and one that accesses memory.
    let locations = [
        (CU_MEM_LOCATION_TYPE_INVALID, 0, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE),
        (CU_MEM_LOCATION_TYPE_DEVICE, 0, CUDA_SUCCESS, CUDA_SUCCESS),
        (CU_MEM_LOCATION_TYPE_DEVICE, 1000, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE),
        (CU_MEM_LOCATION_TYPE_DEVICE, -1, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE),
        (CU_MEM_LOCATION_TYPE_HOST, 1000, CUDA_SUCCESS, CUDA_SUCCESS),
        (CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE),
        (CU_MEM_LOCATION_TYPE_HOST_NUMA, -1, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE),
        (CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, -1, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE),
        (99, 0, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE),
    ];
    for (kind, id, place, access) in locations {
        let found = [prefetch(kind, id), preferred(kind, id), accessed(kind, id)];
        assert_eq!(found, [place, place, access], "type {kind}, number {id}");
        assert_eq!(advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, kind, id), access);
        for ignores in [
            CU_MEM_ADVISE_SET_READ_MOSTLY,
            CU_MEM_ADVISE_UNSET_READ_MOSTLY,
            CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
        ] {
            assert_eq!(advise(ignores, kind, id), CUDA_SUCCESS);
        }
    }
    assert_eq!(advise(7, CU_MEM_LOCATION_TYPE_DEVICE, 0), CUDA_ERROR_INVALID_VALUE);
    // The earlier forms have the number of a device, or -1 for the host.
    for (device, code) in [(0, CUDA_SUCCESS), (-1, CUDA_SUCCESS), (1000, CUDA_ERROR_INVALID_DEVICE)] {
        assert_eq!(code!(cuMemPrefetchAsync(managed, 100, device, LEGACY)), code);
        let preferred = CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
        assert_eq!(code!(cuMemAdvise(managed, 100, preferred, device)), code);
    }
    ok!(cuMemFree_v2(managed));
}

#[test]
fn device_attributes_match_the_capability() {
    ok!(cuInit(0));
    let ask = |attribute| {
        let mut value = -1;
        let code = code!(cuDeviceGetAttribute(&mut value, attribute, 0));
        (code, value)
    };
    assert_eq!(ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), (0, 9));
    assert_eq!(ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), (0, 8));
    assert_eq!(ask(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR), (0, 32));
    assert_eq!(ask(CU_DEVICE_ATTRIBUTE_CLOCK_RATE), (0, 0), "it has no times");
    for attribute in 1..=147 {
        assert_eq!(ask(attribute).0, 0, "attribute {attribute}");
    }
    assert_eq!([0, 148, -1].map(|attribute| ask(attribute).0), [CUDA_ERROR_INVALID_VALUE; 3]);
    let mut name = [0_u8; 8];
    ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 8, 0));
    assert_eq!(&name, b"PTX sim\0", "as much as there is room for");
}

#[test]
fn devices_have_the_capability_of_the_environment() {
    if !has("devices_have_the_capability_of_the_environment", "WARPFOLD_SIM_CAPABILITY", "8.6") {
        return;
    }
    let session = Session::new();
    let ask = |attribute| get!(cuDeviceGetAttribute(attribute, 0));
    assert_eq!(ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 8);
    assert_eq!(ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 6);
    assert_eq!(ask(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), 0);
    let (mut major, mut minor) = (0, 0);
    ok!(cuDeviceComputeCapability(&mut major, &mut minor, 0));
    assert_eq!((major, minor), (8, 6));
    let attribute = |function, attribute| get!(cuFuncGetAttribute(attribute, function));
    let nothing = session.function("nothing");
    assert_eq!(attribute(nothing, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 86);
    let text = |target| {
        format!(".version 9.2\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\0")
    };
    let load = |target| {
        let mut module = ptr::null_mut();
        let code = code!(cuModuleLoadData(&mut module, text(target).as_ptr().cast()));
        (code, module)
    };
    assert_eq!(load("sm_90").0, CUDA_ERROR_INVALID_PTX, "{}", detail());
    assert!(detail().contains("the text is for sm_90; the device is sm_86"), "{}", detail());
    assert_eq!(load("sm_80a").0, CUDA_ERROR_INVALID_PTX, "for devices of 8.0 alone");
    // The architecture of the text, and not the version of its language, 92.
    for (target, number) in [("sm_86", 86), ("sm_86a", 86), ("sm_80", 80)] {
        let (code, module) = load(target);
        assert_eq!(code, 0, "{}", detail());
        assert_eq!(attribute(common::function(module, "k"), CU_FUNC_ATTRIBUTE_PTX_VERSION), number);
    }
}

#[test]
fn unknown_capabilities_are_refused() {
    let output = again("device_attributes_match_the_capability", "WARPFOLD_SIM_CAPABILITY", "9.1\n");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let expected =
        "WARPFOLD_SIM_CAPABILITY is `9.1\\n`; allowed are 8.0, 8.6, 8.7, 8.8, 8.9, 9.0, 10.0, ";
    assert!(!output.status.success() && said.contains(expected), "{said}");
}

#[test]
fn isolated_devices_have_no_peer_access() {
    if !has_devices("isolated_devices_have_no_peer_access", "2,apart") {
        return;
    }
    ok!(cuInit(0));
    let mut can = -1;
    ok!(cuDeviceCanAccessPeer(&mut can, 0, 1));
    let atomics = CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    let mut native = -1;
    ok!(cuDeviceGetP2PAttribute(&mut native, atomics, 0, 1));
    assert_eq!((can, native), (0, 0));
    let (mut first, mut second) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuDevicePrimaryCtxRetain(&mut first, 0));
    ok!(cuDevicePrimaryCtxRetain(&mut second, 1));
    ok!(cuCtxSetCurrent(first));
    assert_eq!(code!(cuCtxEnablePeerAccess(second, 0)), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

#[test]
fn context_params_without_restriction_are_accepted() {
    ok!(cuInit(0));
    // `CUctxCreateParams`: two pointers, here null, with a count between them.
    let params: [usize; 3] = [0; 3];
    let given = || params.as_ptr().cast_mut().cast();
    let context: CUcontext = get!(cuCtxCreate_v4(given(), 0, 0));
    ok!(cuCtxDestroy_v2(context));
    let context: CUcontext = get!(cuCtxCreate_v4(ptr::null_mut(), 0, 0));
    ok!(cuCtxDestroy_v2(context));
    for asked in [0, 2] {
        let mut params = params;
        params[asked] = ptr::from_ref(&params).addr();
        let mut context = ptr::null_mut();
        let code = code!(cuCtxCreate_v4(&mut context, params.as_mut_ptr().cast(), 0, 0));
        assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
    }
}
