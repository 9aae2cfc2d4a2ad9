//! Kernels that call `cudaGraphSetConditional`.

use crate::common::{device, module};
use warpfold_sim::{Args, Config, Error, FaultKind, Gpu, Launch, Module};

/// Returns kernels as nvcc writes them: the sixth thread of one sets a handle's value; the other sets
/// the value at the end of a recursion, which adds one per call.
fn kernels() -> Module {
    let call = "{ .param .b64 param0; st.param.b64 [param0+0], %rd0;
         .param .b32 param1; st.param.b32 [param1+0], %r0;
         call.uni cudaGraphSetConditional, (param0, param1); }";
    module(&format!(
        ".version 9.0\n.target sm_90\n.address_size 64
         .extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
         .func within(.param .b64 handle, .param .b32 value, .param .b32 depth)
         {{ .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<1>;
         ld.param.u64 %rd0, [handle]; ld.param.u32 %r0, [value]; ld.param.u32 %r1, [depth];
         setp.eq.u32 %p, %r1, 0; @%p bra L; sub.u32 %r1, %r1, 1; add.u32 %r0, %r0, 1;
         {{ .param .b64 a; .param .b32 b; .param .b32 c;
         st.param.b64 [a], %rd0; st.param.b32 [b], %r0; st.param.b32 [c], %r1;
         call within, (a, b, c); }}
         ret;
         L: {call} ret; }}
         .visible .entry k(.param .u64 handle, .param .u32 value)
         {{ .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<1>;
         ld.param.u64 %rd0, [handle]; ld.param.u32 %r0, [value]; mov.u32 %r1, %tid.x;
         setp.ne.u32 %p, %r1, 5; @%p ret; {call} ret; }}
         .visible .entry recursive(.param .u64 handle, .param .u32 value)
         {{ .reg .b32 %r<2>; .reg .b64 %rd<1>;
         ld.param.u64 %rd0, [handle]; ld.param.u32 %r0, [value];
         {{ .param .b64 a; .param .b32 b; .param .b32 c;
         st.param.b64 [a], %rd0; st.param.b32 [b], %r0; st.param.b32 [c], 3;
         call within, (a, b, c); }}
         ret; }}\n"
    ))
}

#[test]
fn kernels_set_conditional_handles() {
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let module = kernels();
    let run = |entry, handle, value: u32| {
        gpu.launch(&module, entry, &Launch::linear(1, 32), &Args::new().ptr(handle).u32(value))
    };
    gpu.set_condition(0x1234_5678_9abc, 7);
    gpu.set_condition(16, 1);
    run("k", 0x1234_5678_9abc, 40).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        [0x1234_5678_9abc, 16, 17].map(|handle| gpu.condition(handle)),
        [Some(40), Some(1), None]
    );
    // A recursive function addresses its parameters relative to its stack frame.
    run("recursive", 16, 0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(gpu.condition(16), Some(3));

    let Err(Error::Fault(fault)) = run("k", 17, 1) else { panic!("no graph has this handle") };
    assert!(matches!(fault.kind, FaultKind::NoCondition { handle: 17 }), "{fault}");
    assert!(fault.to_string().contains("cudaGraphSetConditional of 0x11"), "{fault}");
    assert_eq!(fault.thread, [5, 0, 0]);
    assert!(gpu.forget_condition(16) && !gpu.forget_condition(16));
    assert!(run("k", 16, 1).is_err());
}
