//! Runs a kernel through cust on the driver of this machine. Without a GPU, the same program links and
//! starts, and returns a one-line error.

use std::error::Error;
use std::thread;

use warpfold_driver::sys::{
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as OPTIN,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
};
use warpfold_driver::{Driver, cust, load};

use cust::CudaFlags;
use cust::context::{Context, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::event::{Event, EventFlags};
use cust::launch;
use cust::memory::{CopyDestination, DeviceBuffer, LockedBuffer, mem_get_info};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

/// `out[i] = in[i] + addend`, one thread per element, without a bounds check.
const PTX: &str = "
.version 6.4
.target sm_70
.address_size 64
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

#[test]
fn cust_runs_kernel_or_reports_missing_gpu() {
    let driver = match load() {
        Ok(driver) => driver,
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            let error = cust::init(CudaFlags::empty()).unwrap_err();
            assert!(!error.to_string().is_empty());
            eprintln!("without a driver: {error}");
            return;
        }
    };
    assert!(driver.version().0 >= 1);
    if let Err(error) = cust::init(CudaFlags::empty()) {
        assert!(!error.to_string().is_empty());
        eprintln!("with a driver that does not start: {error}");
        return;
    }
    use_the_gpu(driver).unwrap();
}

fn use_the_gpu(driver: &Driver) -> Result<(), Box<dyn Error>> {
    const COUNT: usize = 1 << 16;
    const BLOCK: u32 = 256;

    assert!(Device::num_devices()? > 0);
    let device = Device::get_device(0)?;
    assert!(device.get_attribute(DeviceAttribute::MultiprocessorCount)? > 0);
    let optin = driver.device_get_attribute(device.into(), OPTIN)?;
    assert!(optin >= device.get_attribute(DeviceAttribute::MaxSharedMemoryPerBlock)?);
    assert!(driver.device_get_attribute(device.into(), -1).is_err());

    let context = Context::new(device)?;
    let (free, total) = mem_get_info()?;
    assert!(free <= total && total > 0);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert!(mem_get_info().is_err(), "a context is current on one thread only");
            CurrentContext::set_current(&context)?;
            mem_get_info()
        });
        other.join().unwrap().map(|_| ())
    })?;

    let module = Module::from_ptx(PTX, &[])?;
    let add = module.get_function("add")?;
    // SAFETY: the module of `add` is loaded.
    let allow = |bytes| unsafe {
        driver.func_set_attribute((&add).into(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)
    };
    allow(optin)?;
    let error = allow(i32::MAX).unwrap_err();
    assert_eq!(error.name, "CUDA_ERROR_INVALID_VALUE");
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let (start, stop) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);

    let numbers: Vec<u32> = (0..COUNT as u32).collect();
    let input = DeviceBuffer::from_slice(&LockedBuffer::from_slice(&numbers)?)?;
    let output = DeviceBuffer::<u32>::zeroed(COUNT)?;
    let (from, to, addend) = (input.as_device_ptr(), output.as_device_ptr(), 42_u32);
    let grid = COUNT as u32 / BLOCK;
    start.record(&stream)?;
    // SAFETY: the arguments have the types of the kernel's parameters, both buffers have one element per
    // thread, and nothing else accesses them before the stream is synchronised.
    unsafe { launch!(add<<<grid, BLOCK, optin as u32, stream>>>(from, to, addend))? };
    stop.record(&stream)?;
    stream.synchronize()?;
    assert!(stop.elapsed_time_f32(&start)? > 0.0);

    let mut sums = vec![0; COUNT];
    output.copy_to(&mut sums)?;
    assert!(sums.iter().zip(&numbers).all(|(sum, number)| *sum == number + 42));

    let error = driver.module_load_ptx(&PTX.replace("mul.wide", "mul.broad")).unwrap_err();
    assert!(error.log.contains("error"), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    println!("{error}");
    Ok(())
}
