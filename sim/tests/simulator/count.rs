//! Profiler counters of kernels whose traffic is known.

use crate::common::{device, module, u32s};
use warpfold_sim::{Args, Config, Counter, Gpu, Launch, Profile, Profiler, SharedAccess};

const SEQUENTIAL: &str = include_str!("../ptx/sequential_llvm.ptx");
const GRID: &str = include_str!("../ptx/grid.ptx");

/// Returns the profile of a launch of `body`. `%r0` is the thread index, `%rd0` a buffer of 4 KiB.
fn profile(body: &str, blocks: u32, threads: u32) -> Profile {
    let text = format!(
        ".version 7.8 .target sm_80 .entry k(.param .u64 pointer) {{ .reg .pred %p<4>; .reg .b32 %r<8>; \
         .reg .b64 %rd<4>; .shared .align 16 .b8 sh[4096]; ld.param.u64 %rd0, [pointer]; \
         mov.u32 %r0, %tid.x; {body} }}"
    );
    let gpu = Gpu::new(device());
    let data = u32s(&gpu, &[0; 1024]);
    let profiler = Profiler::new();
    let launch = Launch::linear(blocks, threads);
    gpu.launch_observed(&module(&text), "k", &launch, &Args::new().ptr(data), &profiler).expect("runs");
    profiler.profile()
}

#[test]
fn totals_are_those_of_the_launch() {
    let module = module(SEQUENTIAL);
    let gpu = Gpu::new(device());
    let (input, output) = (u32s(&gpu, &[1; 4096]), u32s(&gpu, &[0; 16]));
    let args = Args::new().ptr(input).u64(4096).ptr(output);
    let launch = Launch::linear(16, 256).with_dynamic_shared(1024);
    let (profiler, counter) = (Profiler::new(), Counter::new());
    let stats = gpu.launch_observed(&module, "sequential_sum_u32", &launch, &args, &profiler);
    gpu.launch_observed(&module, "sequential_sum_u32", &launch, &args, &counter).expect("runs");
    let (stats, profile) = (stats.expect("runs"), profiler.profile());
    let total = profile.total();
    assert_eq!(total.warp_instructions, stats.warp_instructions);
    assert_eq!(total.thread_instructions, stats.thread_instructions);
    assert_eq!(total.divergent_branches, counter.counts().divergent_branches);
    let each: Vec<u64> = profile.instructions.iter().map(|tally| tally.warp_instructions).collect();
    assert_eq!(each, counter.counts().executed);
    assert_eq!((profile.blocks, profile.warps), (16, 128));
    // One barrier after the load and one in each of the eight steps.
    assert_eq!(total.block_barriers, 128 * 9);
    assert_eq!(profile.steps.len(), 10);
    let active: Vec<u64> = profile.steps.iter().map(|step| step.active_warps / 16).collect();
    assert_eq!(active, [8, 4, 2, 1, 1, 1, 1, 1, 1, 0]);
    assert!(profile.steps.iter().all(|step| step.blocks == 16));
    let by_step: u64 = profile.steps.iter().map(|step| step.warp_instructions).sum();
    assert_eq!(by_step, total.warp_instructions);
    assert_eq!((total.global_loads.requests, total.global_loads.sectors), (128, 512));
    assert_eq!(total.global_loads.efficiency(), Some(1.0));
}

#[test]
fn profile_is_independent_of_host_threads() {
    let module = module(SEQUENTIAL);
    let run = |threads, launches| {
        let gpu = Gpu::new(Config { threads: Some(threads), ..device() });
        let (input, output) = (u32s(&gpu, &[1; 65_536]), u32s(&gpu, &[0; 256]));
        let args = Args::new().ptr(input).u64(65_000).ptr(output);
        let launch = Launch::linear(256, 256).with_dynamic_shared(1024);
        let profiler = Profiler::new();
        for _ in 0..launches {
            gpu.launch_observed(&module, "sequential_sum_u32", &launch, &args, &profiler).expect("runs");
        }
        profiler.profile()
    };
    let one = run(1, 1);
    assert_eq!(run(4, 1), one);
    let mut twice = one.clone();
    twice.add(&one);
    let both = run(2, 2);
    assert_eq!((both.total(), &both.steps), (twice.total(), &twice.steps));
    assert_eq!(both.total().warp_instructions, 2 * one.total().warp_instructions);
}

#[test]
fn predicated_off_lanes_are_not_counted() {
    let profile = profile(
        "setp.lt.u32 %p0, %r0, 4; @%p0 add.u32 %r1, %r0, 1; @!%p0 bra L; mov.u32 %r2, 0; L: ret;",
        1,
        32,
    );
    let lanes: Vec<u64> = profile.instructions.iter().map(|tally| tally.thread_instructions).collect();
    assert_eq!(lanes, [32, 32, 32, 4, 28, 4, 32]);
    let total = profile.total();
    assert_eq!((total.branches, total.divergent_branches), (1, 1));
    assert_eq!(total.mean_lanes(), Some(164.0 / 7.0));
}

#[test]
fn access_without_lanes_is_not_a_request() {
    let total = profile(
        "setp.gt.u32 %p0, %r0, 99; @%p0 st.shared.u32 [sh], 1; @%p0 ld.global.u32 %r1, [%rd0];
         @%p0 red.global.add.u32 [%rd0], 1; ret;",
        1,
        32,
    )
    .total();
    assert_eq!(total.warp_instructions, 7);
    assert_eq!(total.shared(), SharedAccess::default());
    assert_eq!((total.global().requests, total.global_atomics.requests), (0, 0));
}

#[test]
fn bank_conflicts_are_counted_for_each_kind_and_width() {
    let body = "mul.lo.u32 %r1, %r0, 8; mov.u32 %r2, sh; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r0;
        ld.shared.u32 %r3, [%r2]; ld.shared.v2.u32 {%r3, %r4}, [%r2]; atom.shared.add.u32 %r3, [sh], 1; ret;";
    let total = profile(body, 1, 32).total();
    let access =
        |requests, wavefronts, ideal, degree| SharedAccess { requests, wavefronts, ideal, degree };
    assert_eq!(total.shared_stores, access(1, 2, 1, 2));
    assert_eq!(total.shared_loads, access(2, 4, 3, 2));
    assert_eq!(total.shared_loads.conflicts(), 1);
    assert_eq!(total.shared_atomics, access(1, 32, 1, 32));
}

#[test]
fn atomic_passes_are_counted_per_address() {
    let profile = profile(
        "and.b32 %r1, %r0, 7; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %rd0;
         red.global.add.u32 [%rd1], 1; atom.global.add.u32 %r2, [%rd0], 1; ret;",
        3,
        64,
    );
    let atomics = profile.total().global_atomics;
    assert_eq!((atomics.requests, atomics.operations), (12, 384));
    assert_eq!((atomics.passes, atomics.sectors), (6 * 4 + 6 * 32, 12));
    let (_, hottest) = profile.hottest_atomic.expect("there are atomics");
    assert_eq!(hottest, 6 * 4 + 6 * 32);
}

#[test]
fn loads_are_under_way_until_one_of_their_results_is_named() {
    let body = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0]; ld.global.u64 %rd1, [%rd0+16];
        ld.global.u32 %r5, [%rd0+32]; add.u32 %r1, %r5, 1; ld.global.u64 %rd2, [%rd0+40]; add.u32 %r1, %r2, 0; ret;";
    assert_eq!(profile(body, 2, 32).bytes_in_flight, 16 + 8 + 4);
}

#[test]
fn preempted_blocks_keep_their_profile() {
    let gpu = Gpu::new(Config { quantum: 3, ..device() });
    let (count, data) = (u32s(&gpu, &[0]), u32s(&gpu, &[0; 160]));
    let profiler = Profiler::new();
    let (args, launch) = (Args::new().ptr(count).ptr(data), Launch::linear(40, 64));
    let stats = gpu.launch_observed(&module(GRID), "grid_barrier", &launch, &args, &profiler);
    let profile = profiler.profile();
    assert_eq!(profile.total().warp_instructions, stats.expect("runs").warp_instructions);
    assert_eq!((profile.blocks, profile.warps), (40, 80));
}

#[test]
fn the_timeline_shows_block_0_warp_by_warp() {
    let body =
        "setp.lt.u32 %p0, %r0, 40; mul.lo.u32 %r1, %r0, 8; mov.u32 %r2, sh; add.u32 %r2, %r2, %r1;
        bar.sync 0; @%p0 st.shared.u32 [%r2], %r0; ret;";
    let timeline = profile(body, 5, 64).timeline;
    assert_eq!((timeline.block, timeline.steps.len()), (0, 2));
    let [first, second] = timeline.steps.as_slice() else { panic!("two steps") };
    assert!(first.iter().all(|warp| warp.stored == 0 && warp.warp_instructions == 7));
    assert_eq!([second[0].stored, second[1].stored], [u32::MAX, 0xff]);
    assert_eq!(second[0].banks[..4], [2, 0, 2, 0]);
    assert_eq!([second[0].wavefronts, second[1].wavefronts], [2, 1]);
}

#[test]
fn ldmatrix_rows_count_as_16_byte_accesses() {
    let fill = "mov.u32 %r1, sh; mad.lo.u32 %r2, %r0, 16, %r1; st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0}; bar.sync 0;";
    let of = |text: &str| {
        let profile = profile(&format!("{fill} {text}"), 1, 32);
        let tally = *profile.instructions.iter().rev().nth(1).expect("one before the end");
        (tally.warp_instructions, tally.shared_loads.requests, tally.shared_loads.wavefronts)
    };
    // Four matrices of 128 bytes without conflicts, and one whose rows all map to the same banks.
    assert_eq!(of("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%r2];"), (1, 4, 4));
    let conflicts =
        "mad.lo.u32 %r2, %r0, 128, %r1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];";
    assert_eq!(of(conflicts), (1, 1, 8));
}
