//! Memory of threads that `alloca` takes from their stacks.

use std::collections::BTreeSet;

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Config, Error, Exploration, FaultKind, Gpu, Hazards, Launch, Module, Space};

/// `fill` sums the `n` words that it has stored to memory of its own, `depth` stores its parameter in
/// `16 * n` bytes, calls itself, and adds what it stored.
const FUNCTIONS: &str = "
.func (.param .b32 r) fill(.param .b32 n)
{ .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %q<4>; ld.param.b32 %r0, [n]; mul.wide.u32 %q0, %r0, 4;
  alloca.u64 %q1, %q0; mov.b32 %r1, 0; mov.b32 %r2, 0;
S: mad.wide.u32 %q2, %r1, 4, %q1; st.local.u32 [%q2], %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra S;
L: sub.u32 %r1, %r1, 1; mad.wide.u32 %q2, %r1, 4, %q1; ld.local.u32 %r3, [%q2]; add.u32 %r2, %r2, %r3;
  setp.ne.u32 %p, %r1, 0; @%p bra L; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) depth(.param .b32 n)
{ .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %q<4>; .local .align 16 .b32 own; ld.param.b32 %r0, [n];
  mov.b32 %r4, 0; setp.eq.u32 %p, %r0, 0; @%p bra OUT; st.local.u32 [own], %r0;
  mul.wide.u32 %q0, %r0, 16; alloca.u64 %q1, %q0; st.local.u32 [%q1], %r0; mul.wide.u32 %q2, %r0, 16; add.u64 %q2, %q1, %q2;
  st.local.u32 [%q2+-4], %r0; sub.u32 %r1, %r0, 1;
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), depth, (x); ld.param.b32 %r4, [y]; }
  ld.local.u32 %r2, [%q1]; ld.local.u32 %r3, [%q2+-4]; add.u32 %r4, %r4, %r2; add.u32 %r4, %r4, %r3;
  ld.local.u32 %r2, [own]; add.u32 %r4, %r4, %r2;
OUT: st.param.b32 [r], %r4; ret; }
";

fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{FUNCTIONS}
         .visible .entry k(.param .u64 pointer)
         {{ .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .param .b32 x; .param .b32 y;
         ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
         mad.lo.u32 %r4, %r2, %r3, %r0; mad.wide.u32 %rd1, %r4, 4, %rd0; mov.b32 %r1, 7;
         {body}
         st.global.u32 [%rd1], %r1; ret;
         }}\n"
    )
}

fn limited() -> Config {
    Config { threads: Some(1), step_limit: 10_000_000, ..device() }
}

/// Runs a body on blocks of threads and returns their `%r1`; `%r0` is the thread index.
fn attempt(body: &str, launch: &Launch) -> Result<Vec<u32>, Error> {
    let (module, gpu) = (module(&text(body)), Gpu::new(limited()));
    let count = (launch.grid[0] * launch.block[0]) as usize;
    let data = u32s(&gpu, &vec![0xdead; count]);
    gpu.launch(&module, "k", launch, &Args::new().ptr(data))?;
    Ok(read_u32s(&gpu, data, count))
}

fn words(body: &str, threads: u32) -> Vec<u32> {
    attempt(body, &Launch::linear(1, threads)).unwrap_or_else(|error| panic!("{error}\n{body}"))
}

fn fault(body: &str) -> (FaultKind, [u32; 3]) {
    match attempt(body, &Launch::linear(1, 32)) {
        Err(Error::Fault(fault)) => (fault.kind, fault.thread),
        other => panic!("{other:?} instead of a fault\n{body}"),
    }
}

fn each(threads: u32, of: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..threads).map(of).collect()
}

/// Fills an allocation of `8 * tid + 8` bytes, with another order of instructions in each half of the
/// warp.
const DIVERGENT: &str = "
    mad.lo.u32 %r5, %r0, 8, 8; cvt.u64.u32 %rd2, %r5; setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW;
    alloca.u64 %rd3, %rd2; alloca.u64 %rd4, 32, 32; bra MEET;
    LOW: alloca.u64 %rd4, 32, 32; alloca.u64 %rd3, %rd2;
    MEET: add.u64 %rd5, %rd3, %rd2; st.local.u32 [%rd5+-4], %r0; st.local.u32 [%rd4], 100; st.local.u32 [%rd4+28], 1000;
    ld.local.u32 %r1, [%rd5+-4]; ld.local.u32 %r6, [%rd4]; add.u32 %r1, %r1, %r6; ld.local.u32 %r6, [%rd4+28];
    add.u32 %r1, %r1, %r6; and.b64 %rd6, %rd4, 31; cvt.u32.u64 %r6, %rd6; add.u32 %r1, %r1, %r6;";

#[test]
fn lanes_allocate_different_sizes_in_any_order() {
    let expected = each(96, |i| 1100 + i);
    assert_eq!(words(DIVERGENT, 96), expected);
    for seed in 1..5 {
        let launch = Launch::linear(1, 96).with_seed(seed);
        assert_eq!(attempt(DIVERGENT, &launch).expect("no fault"), expected, "seed {seed}");
    }
    // Each block starts with an empty stack.
    let blocks = attempt(DIVERGENT, &Launch::linear(200, 32)).expect("no fault");
    assert_eq!(blocks, each(32, |i| 1100 + i).repeat(200));
}

#[test]
fn generic_pointers_reach_the_allocation() {
    let body = "alloca.u64 %rd2, 16; cvta.local.u64 %rd3, %rd2; st.u32 [%rd3+12], %r0; ld.local.u32 %r1, [%rd2+12];";
    assert_eq!(words(body, 40), each(40, |i| i));
}

#[test]
fn return_frees_the_allocations_of_a_function() {
    // Without that, 200 times 3900 bytes would not fit.
    let body = "mov.b32 %r5, 0; mov.b32 %r1, 0; stacksave.u32 %r7;
        L: add.u32 %r6, %r0, 970; st.param.b32 [x], %r6; call (y), fill, (x); ld.param.b32 %r6, [y]; add.u32 %r1, %r1, %r6;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 200; @%p0 bra L;
        stacksave.u32 %r8; sub.u32 %r8, %r8, %r7; add.u32 %r1, %r1, %r8;";
    let sum = |n: u32| n * (n - 1) / 2;
    assert_eq!(words(body, 2), each(2, |i| sum(970 + i).wrapping_mul(200)));
}

#[test]
fn a_guarded_call_keeps_the_callers_allocation() {
    let body =
        "alloca.u64 %rd2, 32; st.local.u32 [%rd2+28], %r0; add.u32 %r5, %r0, 1; st.param.b32 [x], %r5;
        setp.gt.u32 %p0, %r0, 4; st.param.b32 [y], 0; @%p0 call (y), fill, (x); ld.param.b32 %r1, [y];
        ld.local.u32 %r6, [%rd2+28]; mad.lo.u32 %r1, %r6, 1000, %r1;";
    assert_eq!(words(body, 40), each(40, |i| 1000 * i + if i > 4 { i * (i + 1) / 2 } else { 0 }));
}

#[test]
fn each_activation_has_an_allocation_of_its_own() {
    let body =
        "rem.u32 %r5, %r0, 13; cvt.u64.u32 %rd2, %r5; alloca.u64 %rd3, %rd2, 4; st.param.b32 [x], %r5;
        call (y), depth, (x); ld.param.b32 %r1, [y];";
    let expected = each(70, |i| 3 * (i % 13) * (i % 13 + 1) / 2);
    assert_eq!(words(body, 70), expected);
    let seeded = attempt(body, &Launch::linear(1, 70).with_seed(3));
    assert_eq!(seeded.expect("no fault"), expected);
}

#[test]
fn an_exceeded_stack_is_a_fault() {
    let limit = 512 << 10;
    // The parameters of calls take 8 bytes.
    let body = |bytes: &str| {
        format!("alloca.u64 %rd2, 8; mov.u64 %rd3, {bytes}; alloca.u64 %rd2, %rd3; mov.b32 %r1, 1;")
    };
    assert_eq!(words(&body("524272"), 1), [1]);
    for (text, bytes) in [("524273", 524_273), ("-1", u64::MAX)] {
        let kind = FaultKind::StackOverflow { bytes, in_use: 16, limit };
        assert_eq!(fault(&body(text)), (kind, [0, 0, 0]));
    }
    // Only the lane that allocates too much has the fault.
    let body = "mul.wide.u32 %rd2, %r0, 0x4000; alloca.u64 %rd3, %rd2; alloca.u64 %rd3, 0x4000;";
    let kind = FaultKind::StackOverflow { bytes: 0x4000, in_use: 8 + 31 * 0x4000, limit };
    assert_eq!(fault(body), (kind.clone(), [31, 0, 0]));
    assert_eq!(
        kind.to_string(),
        "alloca of 16384 bytes with 507912 bytes in use exceeds the thread's local memory; allowed are \
         524288 bytes"
    );
    // A call that does not fit after an allocation.
    let body =
        "alloca.u64 %rd2, 524272; st.param.b32 [x], 1; call (y), depth, (x); ld.param.b32 %r1, [y];";
    let (kind, _) = fault(body);
    assert!(matches!(kind, FaultKind::CallDepth(_)), "{kind}");
}

#[test]
fn accesses_outside_the_stack_are_faults() {
    let outside = |body: &str, address: u64, bytes: u32| {
        let (kind, thread) = fault(body);
        let FaultKind::OutOfBounds { access, space: Space::Local, address: at, allowed, .. } = kind
        else {
            panic!("{kind}\n{body}");
        };
        assert_eq!((at, allowed), (address, format!("the thread has {bytes} bytes")), "{access}");
        thread
    };
    assert_eq!(outside("alloca.u64 %rd2, 60; st.local.u32 [%rd2+60], 1;", 68, 68), [0, 0, 0]);
    // Each lane has an end of its own.
    let body = "sub.u32 %r5, 32, %r0; mul.wide.u32 %rd2, %r5, 4; alloca.u64 %rd3, %rd2; ld.local.u32 %r1, [%rd3+96];";
    assert_eq!(outside(body, 8 + 96, 8 + 96), [8, 0, 0]);
    // Freed by `stackrestore`, and by the return of the function.
    let body = "alloca.u64 %rd4, 8; stacksave.u64 %rd2; alloca.u64 %rd3, 400; st.local.u32 [%rd3], 1; stackrestore.u64 %rd2; ld.local.u32 %r1, [%rd3];";
    outside(body, 16, 16);
    let body =
        "st.param.b32 [x], 100; call (y), fill, (x); mov.u64 %rd2, 256; ld.local.u32 %r1, [%rd2];";
    outside(body, 256, 8);
}

#[test]
fn stackrestore_takes_pointers_of_the_function() {
    let body = "alloca.u64 %rd2, 24; add.u64 %rd3, %rd2, 25; stackrestore.u64 %rd3;";
    let kind = FaultKind::StackPointer { pointer: 33, least: 8, top: 32 };
    assert_eq!(fault(body), (kind, [0, 0, 0]));
    let (found, _) = fault("mov.u64 %rd2, 4; stackrestore.u64 %rd2;");
    assert_eq!(
        found.to_string(),
        "stackrestore of 0x4; allowed are pointers from stacksave in the same function, at present 0x8 \
         to 0x8"
    );
    // In a function, the caller's pointers are outside.
    let function = ".func inner(.param .b64 a) { .reg .b64 %q; alloca.u64 %q, 8; ld.param.b64 %q, [a]; stackrestore.u64 %q; ret; }";
    let body = "{ .param .b64 z; stacksave.u64 %rd2; alloca.u64 %rd3, 8; st.param.b64 [z], %rd2; call inner, (z); }";
    let text = text(body).replacen(".visible .entry", &format!("{function} .visible .entry"), 1);
    let (module, gpu) = (module(&text), Gpu::new(limited()));
    let data = u32s(&gpu, &[0; 32]);
    let failed = gpu.launch(&module, "k", &Launch::linear(1, 32), &Args::new().ptr(data));
    let Err(Error::Fault(failed)) = failed else { panic!("{failed:?}") };
    assert_eq!(failed.kind, FaultKind::StackPointer { pointer: 16, least: 32, top: 40 });
}

#[test]
fn observed_and_explored_launches_have_the_same_stacks() {
    let (module, gpu) = (module(&text(DIVERGENT)), Gpu::new(limited()));
    let data = u32s(&gpu, &[0; 64]);
    let hazards = Hazards::new();
    let launch = Launch::linear(1, 64);
    let args = Args::new().ptr(data);
    gpu.launch_observed(&module, "k", &launch, &args, &hazards.launch()).expect("no fault");
    assert_eq!(hazards.findings(), []);
    assert_eq!(read_u32s(&gpu, data, 64), each(64, |i| 1100 + i));

    // Two warps add what each has stored in its allocation.
    let body = "sub.u32 %r5, %r0, 31; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd2, %rd2, 4; alloca.u64 %rd3, %rd2; st.local.u32 [%rd3], %r0;
        ld.local.u32 %r6, [%rd3]; setp.ne.u32 %p0, %r0, 0; setp.ne.and.u32 %p0, %r0, 32, %p0; @%p0 bra END;
        add.u32 %r6, %r6, 1; atom.global.add.u32 %r1, [%rd0], %r6; bra STORED; END: mov.b32 %r1, 0; STORED:";
    let body = format!("add.u64 %rd1, %rd1, 4; {body}");
    let module = self::module(&text(&body));
    let gpu = Gpu::new(limited());
    let data = u32s(&gpu, &[0; 65]);
    let args = Args::new().ptr(data);
    let exploration = Exploration::new(&gpu).launch(&module, "k", &launch, &args).expect("a launch");
    let mut outcomes = BTreeSet::new();
    let explored = exploration.run(|gpu| {
        let words = read_u32s(gpu, data, 65);
        outcomes.insert([words[0], words[1], words[33]]);
        Ok(())
    });
    explored.expect("all orders");
    assert_eq!(outcomes, BTreeSet::from([[34, 0, 1], [34, 33, 0]]));
}

#[test]
fn invalid_stack_instructions_are_refused() {
    let refused = |body: &str| Module::parse(&text(body)).expect_err(body).message;
    let align = "the alignment must be a power of two from 1 to 8388608";
    for given in ["0", "12", "16777216", "%r0"] {
        assert_eq!(refused(&format!("alloca.u64 %rd2, 8, {given};")), align);
    }
    assert_eq!(refused("alloca.u64 %rd2;"), "`alloca` has 1 operands, allowed is 2 to 3");
    assert_eq!(refused("alloca.u64 %r2, 8;"), "register `%r2` has 32 bits, `alloca` needs 64");
    for opcode in ["alloca.s32 %r2, 8;", "stacksave.b32 %r2;", "stackrestore.f32 %r2;"] {
        assert!(refused(opcode).contains("has no form for type"), "{opcode}");
    }
}
