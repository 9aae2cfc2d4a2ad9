//! A cudarc program that does not depend on this repository: a sum by blocks and atomics, on two
//! streams. `cargo test --test suite programs::` runs it in the simulator.

use cudarc::{
    driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg},
    nvrtc::Ptx,
};

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 values, .param .u32 n, .param .u64 total)
{
    .reg .pred %p;
    .reg .b32 %r<9>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd0, [values];
    ld.param.u32 %r0, [n];
    ld.param.u64 %rd1, [total];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %nctaid.x;
    mul.lo.u32 %r5, %r5, %r2;
    mov.u32 %r6, 0;
AGAIN:
    setp.ge.u32 %p, %r4, %r0;
    @%p bra DONE;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd2, %rd0, %rd2;
    ld.global.u32 %r7, [%rd2];
    add.u32 %r6, %r6, %r7;
    add.u32 %r4, %r4, %r5;
    bra AGAIN;
DONE:
    redux.sync.add.u32 %r6, %r6, -1;
    and.b32 %r8, %r3, 31;
    setp.ne.u32 %p, %r8, 0;
    @%p ret;
    red.global.add.u32 [%rd1], %r6;
    ret;
}";

fn main() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let kernel = context.load_module(Ptx::from_src(PTX))?.load_function("sum")?;
    let values: Vec<u32> = (0..1000).collect();
    let (stream, other) = (context.default_stream(), context.new_stream()?);
    let on_device = stream.clone_htod(&values)?;
    let mut total = stream.alloc_zeros::<u32>(1)?;
    other.join(&stream)?;
    let config = LaunchConfig { grid_dim: (3, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
    let mut launch = other.launch_builder(&kernel);
    let n = values.len() as u32;
    launch.arg(&on_device).arg(&n).arg(&mut total);
    // SAFETY: the arguments are those of the kernel, which stays within the slices.
    unsafe { launch.launch(config) }?;
    let total = other.clone_dtoh(&total)?;
    println!("sum of {n} is {}", total[0]);
    if std::env::args().nth(1).as_deref() == Some("abort") {
        std::process::abort();
    }
    Ok(())
}
