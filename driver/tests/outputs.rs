//! Tests of the values that `Driver`'s methods read from output parameters, and of their launches.

use std::cell::RefCell;
use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::OnceLock;

use warpfold_driver::sys::*;
use warpfold_driver::{
    Context, Device, Driver, Function, LaunchShape, Module, ParameterCut, Parameters, PointerAttributes,
    PrimaryContextState, Provider, Stream,
};

thread_local! {
    /// The shape (grid, block, shared bytes), the attributes and the parameters of the last launch.
    static LAUNCH: RefCell<(Vec<u32>, Vec<LaunchAttribute>, Vec<u64>)> = const {
        RefCell::new((Vec::new(), Vec::new(), Vec::new()))
    };
}

/// Defines driver functions that write known values to their output parameters.
macro_rules! writers {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {
        mod functions {
            #![allow(non_snake_case)]
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    #[allow(unused_unsafe, reason = "some write nothing")]
                    // SAFETY: `Driver`'s methods pass pointers to variables of the declared types, and
                    // arrays of the lengths that they pass.
                    unsafe { $body }
                    CUDA_SUCCESS
                }
            )*
        }

        struct Writer;

        impl Provider for Writer {
            fn name(&self) -> &str {
                "a writer"
            }

            fn find(&self, name: &str) -> Option<NonNull<c_void>> {
                let function = match name {
                    $(stringify!($name) => functions::$name as *mut c_void,)*
                    _ => return None,
                };
                NonNull::new(function)
            }
        }
    };
}

writers! {
    fn cuInit(_flags: c_uint) {}
    fn cuDriverGetVersion(version: *mut c_int) {
        *version = 12_090;
    }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, _device: CUdevice) {
        // Fills the whole buffer, without a terminator.
        name.write_bytes(b'x', len as usize);
    }
    fn cuDeviceGetPCIBusId(text: *mut c_char, _len: c_int, _device: CUdevice) {
        text.copy_from_nonoverlapping(c"0000:3b:00.0".as_ptr(), 13);
    }
    fn cuDeviceGetByPCIBusId(device: *mut CUdevice, address: *const c_char) {
        assert_eq!(CStr::from_ptr(address), c"3b:0.0");
        *device = 7;
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice) {
        *value = attribute * 10 + device;
    }
    fn cuDevicePrimaryCtxGetState(_device: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        (*flags, *active) = (4, 1);
    }
    fn cuCtxGetCurrent(context: *mut CUcontext) {
        *context = ptr::null_mut();
    }
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        (*least, *greatest) = (0, -5);
    }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        (*free, *total) = (3, 8);
    }
    fn cuMemGetAddressRange_v2(start: *mut CUdeviceptr, bytes: *mut usize, address: CUdeviceptr) {
        (*start, *bytes) = (address - 4, 64);
    }
    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        _module: CUmodule,
        name: *const c_char,
    ) {
        assert_eq!(CStr::from_ptr(name), c"counter");
        (*address, *bytes) = (0x7000, 4);
    }
    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        _count: c_uint,
        _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        assert_eq!(CStr::from_ptr(image.cast()), c".version 8.0");
        *module = ptr::without_provenance_mut(3);
    }
    fn cuFuncGetParamInfo(_function: CUfunction, index: usize, offset: *mut usize, bytes: *mut usize) {
        (*offset, *bytes) = (8 * index, 4);
    }
    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut CUpointer_attribute,
        values: *mut *mut c_void,
        address: CUdeviceptr,
    ) {
        for index in 0..count as usize {
            let value = *values.add(index);
            match *attributes.add(index) {
                CU_POINTER_ATTRIBUTE_CONTEXT => *value.cast() = ptr::without_provenance_mut::<c_void>(2),
                CU_POINTER_ATTRIBUTE_MEMORY_TYPE => *value.cast() = CU_MEMORYTYPE_DEVICE,
                CU_POINTER_ATTRIBUTE_DEVICE_POINTER => *value.cast() = address,
                CU_POINTER_ATTRIBUTE_HOST_POINTER => *value.cast() = ptr::null_mut::<c_void>(),
                CU_POINTER_ATTRIBUTE_IS_MANAGED => *value.cast() = 1_u8,
                CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => *value.cast() = 5_i32,
                CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => *value.cast() = address - 16,
                CU_POINTER_ATTRIBUTE_RANGE_SIZE => *value.cast() = 256_usize,
                other => panic!("attribute {other}"),
            }
        }
    }
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        let CUmemPoolProps { alloc_type, location, .. } = *properties;
        assert_eq!((alloc_type, location.kind, location.id), (1, 1, 1));
        *pool = ptr::without_provenance_mut(4);
    }
    fn cuMemPoolSetAttribute(_pool: CUmemoryPool, _attribute: CUmemPool_attribute, value: *mut c_void) {
        assert_eq!(*value.cast::<u64>(), u64::MAX);
    }
    fn cuOccupancyMaxActiveClusters(
        clusters: *mut c_int,
        _function: CUfunction,
        config: *const LaunchConfig,
    ) {
        let config = &*config;
        assert_eq!((config.attribute_count, (*config.attributes).id), (1, 4));
        *clusters = 66;
    }
    fn cuLaunchKernelEx(
        config: *const LaunchConfig,
        _function: CUfunction,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        assert!(extra.is_null());
        let config = &*config;
        let shape = [&config.grid[..], &config.block, &[config.shared_bytes]].concat();
        let attributes = slice::from_raw_parts(config.attributes, config.attribute_count as usize);
        let values = [
            (*parameters).cast::<u64>().read_unaligned(),
            (*parameters.add(1)).cast::<u32>().read_unaligned().into(),
        ];
        LAUNCH.set((shape, attributes.to_vec(), values.to_vec()));
    }
}

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&Driver> = OnceLock::new();
    // SAFETY: the functions have the driver's types, and access only memory that a driver could access.
    DRIVER.get_or_init(|| unsafe { Driver::provided(&Writer) }.unwrap())
}

const DEVICE: Device = Device::from_raw(1);
const MODULE: Module = Module::from_raw(ptr::null_mut());
const FUNCTION: Function = Function::from_raw(ptr::null_mut());

#[test]
fn devices_and_contexts() {
    let driver = driver();
    assert_eq!(driver.version(), (12, 9));
    assert_eq!(driver.device_get_name(DEVICE).unwrap(), "x".repeat(255));
    assert_eq!(driver.device_get_pci_bus_id(DEVICE).unwrap(), "0000:3b:00.0");
    assert_eq!(driver.device_get_by_pci_bus_id("3b:0.0"), Ok(Device::from_raw(7)));
    let error = driver.device_get_by_pci_bus_id("3b\0").unwrap_err();
    assert_eq!((error.call, error.code), ("cuDeviceGetByPCIBusId", CUDA_ERROR_INVALID_VALUE));
    assert_eq!(driver.device_compute_capability(DEVICE), Ok((751, 761)));
    let state = PrimaryContextState { flags: 4, is_active: true };
    assert_eq!(driver.primary_ctx_get_state(DEVICE), Ok(state));
    assert_eq!(driver.ctx_get_current(), Ok(None));
    assert_eq!(driver.ctx_get_stream_priority_range(), Ok((0, -5)));
}

#[test]
fn memory() {
    let driver = driver();
    assert_eq!(driver.mem_get_info(), Ok((3, 8)));
    assert_eq!(driver.mem_get_address_range(0x1004), Ok((0x1000, 64)));
    let expected = PointerAttributes {
        memory_type: CU_MEMORYTYPE_DEVICE,
        is_managed: true,
        device_ordinal: 5,
        context: Some(Context::from_raw(ptr::without_provenance_mut(2))),
        device_address: 0x2010,
        host_address: ptr::null_mut(),
        range_start: 0x2000,
        range_bytes: 256,
    };
    assert_eq!(driver.pointer_get_attributes(0x2010), Ok(expected));
    let pool = driver.mem_pool_create(DEVICE).unwrap();
    assert_eq!(pool.raw().addr(), 4);
    // SAFETY: `cuMemPoolSetAttribute` of `Writer` only reads the value.
    unsafe { driver.mem_pool_set_release_threshold(pool, u64::MAX) }.unwrap();
}

#[test]
fn modules() {
    let driver = driver();
    assert_eq!(driver.module_load_ptx(".version 8.0").unwrap().raw().addr(), 3);
    // SAFETY: the functions of `Writer` dereference no handle.
    unsafe {
        assert_eq!(driver.module_get_global(MODULE, c"counter"), Ok((0x7000, 4)));
        assert_eq!(driver.func_get_param_info(FUNCTION, 2), Ok(Some((16, 4))));
        let error = driver.module_get_function(MODULE, c"sum").unwrap_err();
        assert_eq!((error.call, error.code), ("cuModuleGetFunction", CUDA_ERROR_NOT_FOUND));
    }
}

#[test]
fn launches() {
    let driver = driver();
    let mut values = [0_u8; 12];
    values[..8].copy_from_slice(&0x1122_3344_5566_7788_u64.to_ne_bytes());
    values[8..].copy_from_slice(&99_u32.to_ne_bytes());
    let cuts = [ParameterCut { offset: 0, bytes: 8 }, ParameterCut { offset: 8, bytes: 4 }];
    let shape = LaunchShape {
        shared_bytes: 100,
        cluster: Some([2, 1, 1]),
        overlapping: true,
        cooperative: true,
        ..LaunchShape::new([4, 5, 6], [32, 2, 1])
    };
    let parameters = Parameters::Bytes { values: &values, cuts: &cuts };
    // SAFETY: `cuLaunchKernelEx` of `Writer` reads two parameters of these sizes.
    unsafe { driver.launch(FUNCTION, &shape, Stream::DEFAULT, parameters) }.unwrap();
    let (shape_seen, attributes, parameters) = LAUNCH.take();
    assert_eq!(shape_seen, [4, 5, 6, 32, 2, 1, 100]);
    assert_eq!(parameters, [0x1122_3344_5566_7788, 99]);
    let attributes: Vec<_> = attributes.iter().map(|a| (a.id, [a.value[0], a.value[1]])).collect();
    assert_eq!(
        attributes,
        [
            (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, [2, 1]),
            (CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, [1, 0]),
            (CU_LAUNCH_ATTRIBUTE_COOPERATIVE, [1, 0]),
        ]
    );
    // SAFETY: `cuOccupancyMaxActiveClusters` of `Writer` only reads the configuration.
    let clusters = unsafe {
        driver.occupancy_max_active_clusters(
            FUNCTION,
            &LaunchShape { overlapping: false, cooperative: false, ..shape },
        )
    };
    assert_eq!(clusters, Ok(66));
}
