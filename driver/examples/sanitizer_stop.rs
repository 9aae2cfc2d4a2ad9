//! Reproduces a hang of compute-sanitizer's racecheck. Each thread repeatedly allocates, uploads on a
//! stream that all threads share, launches a kernel without barriers on a stream of its own, downloads,
//! and frees. Under racecheck some runs hang with the GPU busy; without it every run completes.
//! docs/reliability.md of the repository lists how many runs hang.
//!
//!     compute-sanitizer --tool racecheck sanitizer_stop 4 60
//!
//! The arguments are the number of threads and the iterations of each. Exits with 7 if no thread makes
//! progress for 8 seconds.

use std::{
    env,
    error::Error,
    process,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use warpfold_driver::{CallError, Driver, Function, LaunchShape, Parameters, Stream, sys};

/// A kernel for one block of 256 threads: `values[i] += 1`.
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.shared .align 4 .b8 kept[1024];
.visible .entry increment(.param .u64 values)
{
    .reg .u32 %r<5>;
    .reg .u64 %rd<4>;
    ld.param.u64 %rd1, [values];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    mov.u32 %r2, kept;
    mad.lo.u32 %r2, %r1, 4, %r2;
    ld.global.u32 %r3, [%rd1];
    st.shared.u32 [%r2], %r3;
    bar.sync 0;
    ld.shared.u32 %r4, [%r2];
    add.u32 %r4, %r4, 1;
    st.global.u32 [%rd1], %r4;
    ret;
}
";

const COUNT: usize = 256;
const SHAPE: LaunchShape = LaunchShape::new([1, 1, 1], [COUNT as u32, 1, 1]);
const LONG: Duration = Duration::from_secs(8);

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> =
        env::args().skip(1).map(|given| given.parse()).collect::<Result<_, _>>()?;
    let [threads, turns] = numbers[..] else {
        return Err("two numbers are needed: the threads, and the repetitions of each".into());
    };
    let driver = Driver::load()?;
    driver.init()?;
    let context = driver.primary_ctx_retain(driver.device_get(0)?)?;
    // SAFETY: the context is retained until the process ends.
    unsafe { driver.ctx_set_current(Some(context)) }?;
    let module = driver.module_load_ptx(PTX)?;
    // SAFETY: the module is loaded and never unloaded.
    let increment = unsafe { driver.module_get_function(module, c"increment") }?;
    let copies = driver.stream_create(sys::CU_STREAM_NON_BLOCKING)?;
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        let start = Instant::now();
        let work = || -> Result<(), CallError> {
            // SAFETY: the context is retained until the process ends.
            unsafe { driver.ctx_set_current(Some(context)) }?;
            let stream = driver.stream_create(sys::CU_STREAM_NON_BLOCKING)?;
            for _ in 0..turns {
                // SAFETY: the function is loaded in the current context, to which both streams belong.
                unsafe { turn(driver, increment, stream, copies) }?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut last = (0, Instant::now());
        while running.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            let now = done.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            } else if last.1.elapsed() > LONG {
                println!("stopped after {now} of {} turns", threads * turns);
                process::exit(7);
            }
        }
        for thread in running {
            thread.join().expect("no thread panics")?;
        }
        println!("{} turns in {:.1} s", threads * turns, start.elapsed().as_secs_f64());
        Ok(())
    })
}

/// # Safety
/// `increment` is the kernel of [`PTX`]. It and both streams belong to the current context.
unsafe fn turn(
    driver: &Driver,
    increment: Function,
    stream: Stream,
    copies: Stream,
) -> Result<(), CallError> {
    let mut values = [7_u32; COUNT];
    let bytes = size_of_val(&values);
    let memory = driver.mem_alloc(bytes)?;
    let mut parameters = [(&raw const memory).cast_mut().cast()];
    // SAFETY: the device memory and `values` have `bytes` bytes, and the kernel accesses no others. Each
    // copy and the launch is complete before the next operation. The caller guarantees that `increment`
    // and both streams belong to the current context.
    unsafe {
        driver.memcpy_htod_async(memory, values.as_ptr().cast(), bytes, copies)?;
        driver.stream_synchronize(copies)?;
        driver.launch(increment, &SHAPE, stream, Parameters::Pointers(&mut parameters))?;
        driver.stream_synchronize(stream)?;
        driver.memcpy_dtoh_async(values.as_mut_ptr().cast(), memory, bytes, copies)?;
        driver.stream_synchronize(copies)?;
        driver.mem_free(memory)?;
    }
    assert_eq!(values, [8; COUNT]);
    Ok(())
}
