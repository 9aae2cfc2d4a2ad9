//! `malloc` and `free` in kernels.

use crate::common::{device, module, u64s};
use warpfold_sim::{Args, Config, Error, Gpu, Launch};

/// Runs a body on some threads and returns 64 words of 64 bits; `%rd1` is the address of the thread's
/// own word, `%r0` the thread index.
fn attempt(gpu: &Gpu, body: &str, threads: u32) -> Result<Vec<u64>, Error> {
    let module = module(&format!(
        ".version 8.0\n.target sm_90\n.address_size 64
         .extern .func (.param .b64 r) malloc(.param .b64 a);
         .extern .func free(.param .b64 a);
         .visible .entry k(.param .u64 pointer)
         {{ .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .param .b64 x; .param .b64 y;
         ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 8, %rd0;
         {body}
         ret; }}\n"
    ));
    let data = u64s(gpu, &[0; 64]);
    gpu.launch(&module, "k", &Launch::linear(1, threads), &Args::new().ptr(data))?;
    let mut bytes = vec![0; 512];
    gpu.read(data, &mut bytes)?;
    Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect())
}

fn gpu() -> Gpu {
    Gpu::new(Config { threads: Some(1), ..device() })
}

const MALLOC: &str = "st.param.b64 [x], 24; call (y), malloc, (x); ld.param.b64 %rd2, [y];";
const FREE: &str = "st.param.b64 [x], %rd2; call free, (x);";

#[test]
fn threads_read_and_free_each_others_blocks() {
    // Thread i reads and frees the memory that thread 63 - i has written. Later launches repeat this.
    let gpu = gpu();
    let body = format!(
        "{MALLOC} cvt.u64.u32 %rd3, %r0; st.u64 [%rd2+16], %rd3; st.global.u64 [%rd1], %rd2; bar.sync 0;
         sub.u32 %r1, 63, %r0; mad.wide.u32 %rd4, %r1, 8, %rd0; ld.global.u64 %rd2, [%rd4]; ld.u64 %rd5, [%rd2+16];
         {FREE} bar.sync 0; st.global.u64 [%rd1], %rd5;"
    );
    for _ in 0..3 {
        let expected: Vec<u64> = (0..64).rev().collect();
        assert_eq!(attempt(&gpu, &body, 64).unwrap_or_else(|error| panic!("{error}")), expected);
    }
}

#[test]
fn memory_stays_until_it_is_freed() {
    // Five blocks of 32 bytes fit; the other threads get null, also in the next launch.
    let gpu = gpu();
    assert!(gpu.set_heap_bytes(160));
    let given = |gpu: &Gpu| {
        let found = attempt(gpu, &format!("{MALLOC} st.global.u64 [%rd1], %rd2;"), 7);
        found.unwrap_or_else(|error| panic!("{error}")).iter().filter(|&&address| address != 0).count()
    };
    assert_eq!(given(&gpu), 5);
    assert_eq!(given(&gpu), 0);
    assert!(!gpu.set_heap_bytes(1 << 20));
}

#[test]
fn double_and_invalid_frees_are_faults() {
    let said = |body: &str| attempt(&gpu(), body, 3).expect_err("a fault").to_string();
    let twice = said(&format!("{MALLOC} {FREE} call free, (x);"));
    assert!(twice.contains("thread (0, 0, 0), ptx line 9, `call free, (x)`: free of 0x"), "{twice}");
    let inside = said(&format!("{MALLOC} add.u64 %rd2, %rd2, 8; {FREE}"));
    assert!(
        inside.ends_with("which is not memory that a kernel has allocated and not yet freed"),
        "{inside}"
    );
    assert!(attempt(&gpu(), "st.param.b64 [x], 0; call free, (x);", 3).is_ok());
}
