//! Launches in an order chosen by a seed: correct kernels stay correct, and kernels that are only
//! correct in lock step fail. Endless loops are stopped and named.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Config, Error, Fault, FaultKind, Gpu, Launch, Loop, Module, Observer};

const SEEDS: u64 = 16;

fn words(module: &Module, launch: &Launch, count: usize) -> Vec<u32> {
    let gpu = Gpu::new(device());
    let data = u32s(&gpu, &vec![0; count]);
    gpu.launch(module, "k", launch, &Args::new().ptr(data)).unwrap_or_else(|error| panic!("{error}"));
    read_u32s(&gpu, data, count)
}

/// Returns the number of seeds under which a kernel of one block differs from its lock-step result.
fn differing(module: &Module, launch: Launch, count: usize) -> usize {
    let plain = words(module, &launch, count);
    (0..SEEDS).filter(|&seed| words(module, &launch.with_seed(seed), count) != plain).count()
}

/// Returns a reduction as written before Volta: its last steps are volatile accesses of shared memory,
/// with `between` where a warp barrier belongs.
fn warp_synchronous(between: &str) -> Module {
    let steps: String = [16, 8, 4, 2, 1]
        .iter()
        .map(|step| {
            format!(
                "ld.volatile.shared.u32 %r3, [%r1]; ld.volatile.shared.u32 %r4, [%r1+{}]; {between}
                 add.u32 %r3, %r3, %r4; st.volatile.shared.u32 [%r1], %r3; {between}\n",
                4 * step
            )
        })
        .collect();
    module(&format!(
        ".version 7.8 .target sm_80 .entry k(.param .u64 p) {{ .reg .pred %p; .reg .b32 %r<8>;
         .reg .b64 %rd<2>; .shared .align 4 .b8 sh[256]; ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x;
         shl.b32 %r1, %r0, 2; mov.u32 %r2, sh; add.u32 %r1, %r1, %r2; add.u32 %r3, %r0, 1;
         st.volatile.shared.u32 [%r1], %r3; bar.sync 0; setp.gt.u32 %p, %r0, 31; @%p bra END;
         {steps} setp.ne.u32 %p, %r0, 0; @%p bra END; st.global.u32 [%rd0], %r3; END: ret; }}"
    ))
}

#[test]
fn seeds_expose_missing_warp_barriers() {
    let launch = Launch::linear(1, 32);
    let wrong = warp_synchronous("");
    assert_eq!(words(&wrong, &launch, 1), [32 * 33 / 2], "in lock step it is right");
    let differs = differing(&wrong, launch, 1);
    assert!(differs > SEEDS as usize / 2, "it differs under {differs} of {SEEDS} seeds");
    assert_eq!(differing(&warp_synchronous("bar.warp.sync -1;"), launch, 1), 0);
}

#[test]
fn seeds_reorder_warps() {
    let body = |between: &str| {
        module(&format!(
            ".version 7.8 .target sm_80 .entry k(.param .u64 p) {{ .reg .b32 %r<8>; .reg .b64 %rd<3>;
             ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1;
             st.global.u32 [%rd1], %r0; {between} xor.b32 %r1, %r0, 32; mul.wide.u32 %rd2, %r1, 4;
             add.u64 %rd2, %rd0, %rd2; ld.global.u32 %r2, [%rd2]; st.global.u32 [%rd1+512], %r2; ret; }}"
        ))
    };
    let launch = Launch::linear(1, 128);
    assert!(differing(&body(""), launch, 256) > SEEDS as usize / 2);
    assert_eq!(differing(&body("bar.sync 0;"), launch, 256), 0);
}

#[test]
fn seeds_permute_blocks() {
    let tickets = module(
        ".version 7.8 .target sm_80 .entry k(.param .u64 p) { .reg .b32 %r<8>; .reg .b64 %rd<3>;
         ld.param.u64 %rd0, [p]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1;
         atom.global.add.u32 %r1, [%rd0], 1; st.global.u32 [%rd1+4], %r1; ret; }",
    );
    let launch = Launch::linear(20, 1);
    assert!(differing(&tickets, launch, 21) > SEEDS as usize / 2);
    for seed in 0..SEEDS {
        let mut found = words(&tickets, &launch.with_seed(seed), 21);
        assert_eq!(found[0], 20, "seed {seed}");
        assert_eq!(found, words(&tickets, &launch.with_seed(seed), 21), "a seed repeats");
        found[1..].sort_unstable();
        assert!(found[1..].iter().copied().eq(0..20), "seed {seed}: {found:?}");
    }
}

#[test]
fn correct_kernels_are_correct_under_every_seed() {
    for (text, launch, count) in [
        (
            "setp.lt.u32 %p, %r0, 16; @%p bra LOW; shfl.sync.bfly.b32 %r1, %r0, 8, 31, 0xffff0000; bra END;
             LOW: shfl.sync.bfly.b32 %r1, %r0, 4, 31, 0x0000ffff; END: st.global.u32 [%rd1], %r1;
             bar.warp.sync -1; vote.sync.ballot.b32 %r2, %p, -1; st.global.u32 [%rd1+128], %r2;",
            Launch::linear(1, 32),
            64,
        ),
        (
            "AGAIN: atom.global.cas.b32 %r1, [%rd0+1024], 0, 1; setp.ne.u32 %p, %r1, 0; @%p bra AGAIN;
             ld.volatile.global.u32 %r2, [%rd0]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd0], %r2;
             membar.gl; atom.global.exch.b32 %r1, [%rd0+1024], 0;",
            Launch::linear(3, 40),
            257,
        ),
        (
            "mov.u32 %r3, 0; and.b32 %r4, %r0, 7; LOOP: st.global.u32 [%rd1], %r3; add.u32 %r3, %r3, 1;
             setp.le.u32 %p, %r3, %r4; @%p bra LOOP; bar.sync 0; redux.sync.add.u32 %r5, %r3, -1;
             st.global.u32 [%rd1+256], %r5;",
            Launch::linear(1, 64),
            128,
        ),
    ] {
        let module = module(&format!(
            ".version 7.8 .target sm_80 .entry k(.param .u64 p) {{ .reg .pred %p; .reg .b32 %r<8>;
             .reg .b64 %rd<3>; ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;
             add.u64 %rd1, %rd0, %rd1; {text} ret; }}"
        ));
        assert_eq!(differing(&module, launch, count), 0, "{text}");
    }
}

#[derive(Default)]
struct Seen(AtomicU64);

impl Observer for Seen {
    type Block = ();

    fn block_begin(&self, _: &warpfold_sim::BlockInfo<'_>) {}

    fn instruction(&self, (): &mut (), event: &warpfold_sim::Event<'_>) {
        if event.instruction.opcode == "st" {
            self.0.fetch_add(u64::from(event.executed.count_ones()), Ordering::Relaxed);
        }
    }

    fn block_end(&self, (): ()) {}
}

#[test]
fn observers_see_seeded_launches() {
    let module = warp_synchronous("bar.warp.sync -1;");
    let gpu = Gpu::new(device());
    let data = u32s(&gpu, &[0]);
    let seen = Seen::default();
    let launch = Launch::linear(1, 32).with_seed(3);
    gpu.launch_observed(&module, "k", &launch, &Args::new().ptr(data), &seen).expect("runs");
    assert_eq!(seen.0.into_inner(), 32 * 6 + 1, "each lane's stores, and that of the result");
}

fn endless(config: Config, text: &str, launch: &Launch) -> Fault {
    let gpu = Gpu::new(Config { threads: Some(1), ..config });
    let data = u32s(&gpu, &[0; 64]);
    let ran = gpu.launch(&module(text), "k", launch, &Args::new().ptr(data));
    match ran.expect_err("a limit") {
        Error::Fault(fault) => *fault,
        error => panic!("{error}"),
    }
}

/// A loop that ends, followed by two nested loops; the outer one never ends.
const ROUNDS: &str = ".version 7.8 .target sm_80
.entry k(.param .u64 p) { .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<2>;
ld.param.u64 %rd0, [p]; mov.u32 %r0, 0;
FIRST: add.u32 %r0, %r0, 1;
setp.lt.u32 %p, %r0, 9;
@%p bra FIRST;
.loc 1 70 3
OUTER: mov.u32 %r0, 0;
.loc 1 71 5
INNER: add.u32 %r0, %r0, 1;
setp.lt.u32 %p, %r0, 5;
@%p bra INNER;
.loc 1 72 5
ld.volatile.global.u32 %r1, [%rd0];
setp.eq.u32 %p, %r1, 0;
.loc 1 70 9
@%p bra OUTER;
ret; }
.file 1 \"wait.cu\"";

#[test]
fn endless_loops_are_named() {
    let limited = Config { thread_step_limit: 100_000, ..device() };
    let fault = endless(limited, ROUNDS, &Launch::linear(2, 64));
    assert_eq!(fault.looping, Some(Loop { first_line: 8, last_line: 17 }));
    let text = fault.to_string();
    assert!(text.starts_with("wait.cu:70:9: kernel `k`, block (0, 0, 0), thread ("), "{text}");
    let says = "ptx line 17, `@%p bra OUTER`: limit of 100000 steps of one thread reached; the thread \
                loops in ptx lines 8 to 17";
    assert!(text.ends_with(says), "{text}");
    // Launch limits report the same loop.
    let fault = endless(Config { step_limit: 100_000, ..device() }, ROUNDS, &Launch::linear(1, 1));
    assert_eq!(
        (fault.looping, fault.kind),
        (Some(Loop { first_line: 8, last_line: 17 }), FaultKind::StepLimit { limit: 100_000 })
    );
    let limit = Duration::from_millis(50);
    let fault = endless(
        Config { time_limit: Some(limit), step_limit: u64::MAX, ..device() },
        ROUNDS,
        &Launch::linear(1, 1),
    );
    assert_eq!(
        (fault.looping, fault.kind),
        (Some(Loop { first_line: 8, last_line: 17 }), FaultKind::TimeLimit { limit })
    );
    let text = ROUNDS.replace("ld.volatile.global.u32 %r1, [%rd0];", "mov.u32 %r1, 0;");
    for config in [
        Config { time_limit: Some(limit), step_limit: u64::MAX, ..device() },
        Config { thread_step_limit: 1000, ..device() },
    ] {
        let fault = endless(config, &text, &Launch::linear(1, 32));
        assert_eq!(fault.looping, Some(Loop { first_line: 8, last_line: 17 }));
    }
}

#[test]
fn thread_step_limit_is_exact() {
    let text = ROUNDS.replace("@%p bra OUTER;", "");
    let module = module(&text);
    let run = |limit: u64, blocks: u32| {
        let gpu = Gpu::new(Config { thread_step_limit: limit, quantum: 1, ..device() });
        let data = u32s(&gpu, &[0]);
        gpu.launch(&module, "k", &Launch::linear(blocks, 32), &Args::new().ptr(data))
    };
    let steps = run(u64::MAX, 1).expect("ends").warp_instructions;
    // Limits count steps per thread, not of all threads.
    assert_eq!(run(steps, 4).expect("ends").warp_instructions, 4 * steps);
    assert!(run(steps - 2, 1).is_err());
}
