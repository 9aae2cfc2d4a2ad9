//! Hazard checks: races, and the operations that order two accesses.

use crate::common::{device, module, u32s};
use warpfold_sim::{Args, Config, Finding, Gpu, HazardKind, Hazards, Launch};

/// Returns the findings of a launch of `body`. `%r0` is the thread index, `%r1` the shared address of
/// the thread's element, `%r9` the block index, `%rd0` a buffer of 4 KiB.
fn findings(body: &str, blocks: u32, threads: u32) -> Vec<Finding> {
    let hazards = Hazards::new();
    run(&hazards, body, &Launch::linear(blocks, threads));
    hazards.findings()
}

fn run(hazards: &Hazards, body: &str, launch: &Launch) {
    let text = format!(
        ".version 8.0 .target sm_90 .entry k(.param .u64 pointer) {{ .reg .pred %p<8>; .reg .b32 %r<16>; \
         .reg .b64 %rd<8>; .shared .align 16 .b8 sh[4096]; .shared .align 8 .b64 bar; \
         ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; mov.u32 %r9, %ctaid.x; \
         shl.b32 %r1, %r0, 2; mov.u32 %r8, sh; add.u32 %r1, %r1, %r8;\n{body}\nret; }}"
    );
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let data = u32s(&gpu, &[0; 1024]);
    let args = Args::new().ptr(data);
    gpu.launch_observed(&module(&text), "k", launch, &args, &hazards.launch()).expect("runs");
}

fn kinds(body: &str, blocks: u32, threads: u32) -> Vec<HazardKind> {
    findings(body, blocks, threads).iter().map(|finding| finding.kind).collect()
}

const NONE: [HazardKind; 0] = [];
use HazardKind::{
    NoAcquire, ReadWriteRace, SizedExternal, UnwaitedCopy, Unwritten, UnwrittenResult, WriteWriteRace,
};

/// Returns a body in which each thread writes its element, and after `between` an element of another
/// warp is read.
fn neighbour(between: &str) -> String {
    format!("st.shared.u32 [%r1], %r0; {between} xor.b32 %r2, %r1, 128; ld.shared.u32 %r3, [%r2];")
}

fn next_lane(between: &str) -> String {
    format!("st.shared.u32 [%r1], %r0; {between} xor.b32 %r2, %r1, 4; ld.shared.u32 %r3, [%r2];")
}

#[test]
fn a_block_barrier_orders_warps_and_a_warp_barrier_does_not() {
    assert_eq!(kinds(&neighbour("bar.sync 0;"), 2, 64), NONE);
    assert!(kinds(&neighbour(""), 1, 64).contains(&ReadWriteRace));
    assert!(kinds(&neighbour("bar.warp.sync -1;"), 1, 64).contains(&ReadWriteRace));
    assert!(kinds(&format!("bar.sync 0; {}", neighbour("")), 1, 64).contains(&ReadWriteRace));
}

#[test]
fn partial_barriers_order_only_their_warps() {
    let pair = "shr.u32 %r4, %r0, 6; add.u32 %r4, %r4, 1; bar.sync %r4, 64;";
    assert_eq!(kinds(&neighbour(pair), 1, 128), NONE);
    let across =
        format!("st.shared.u32 [%r1], %r0; {pair} xor.b32 %r2, %r1, 256; ld.shared.u32 %r3, [%r2];");
    assert!(kinds(&across, 1, 128).contains(&ReadWriteRace));
    let producer =
        "setp.lt.u32 %p0, %r0, 32; @!%p0 bra C; st.shared.u32 [%r1], 1; bar.arrive 3, 64; bra E;
        C: bar.sync 3, 64; sub.u32 %r2, %r1, 128; ld.shared.u32 %r3, [%r2]; E:";
    assert_eq!(kinds(producer, 1, 64), NONE);
    assert_eq!(
        kinds(
            &producer.replace(
                "st.shared.u32 [%r1], 1; bar.arrive 3, 64;",
                "bar.arrive 3, 64; st.shared.u32 [%r1], 1;"
            ),
            1,
            64
        ),
        [ReadWriteRace]
    );
}

#[test]
fn lanes_of_a_warp_need_its_barrier() {
    assert_eq!(kinds(&next_lane("bar.warp.sync -1;"), 1, 32), NONE);
    assert_eq!(kinds(&next_lane("bar.sync 0;"), 1, 32), NONE);
    assert_eq!(kinds(&next_lane(""), 1, 32), [ReadWriteRace]);
    // A shuffle does not order memory accesses.
    assert_eq!(kinds(&next_lane("shfl.sync.idx.b32 %r5, %r0, 0, 31, -1;"), 1, 32), [ReadWriteRace]);
    let half = "setp.lt.u32 %p0, %r0, 16; @%p0 bar.warp.sync 0xffff; @!%p0 bar.warp.sync 0xffff0000;";
    assert_eq!(kinds(&next_lane(half), 1, 32), NONE);
    let other_half = next_lane(half).replace("%r1, 4;", "%r1, 64;");
    assert_eq!(kinds(&other_half, 1, 32), [ReadWriteRace]);
}

#[test]
fn a_write_after_a_read_races_too() {
    let body = "st.shared.u32 [%r1], %r0; bar.sync 0; xor.b32 %r2, %r1, 128; ld.shared.u32 %r3, [%r2];
        st.shared.u32 [%r1], %r3;";
    assert_eq!(kinds(body, 1, 64), [ReadWriteRace; 2], "of one warp's read, of the other's write");
    assert_eq!(kinds(&body.replace("%r3, [%r2];", "%r3, [%r2]; bar.sync 0;"), 1, 64), NONE);
}

#[test]
fn a_warp_barrier_on_two_paths_orders_them() {
    let halves = |low: &str, high: &str| {
        let read = "xor.b32 %r2, %r1, 64; ld.shared.u32 %r3, [%r2];";
        format!(
            "setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW; st.shared.u32 [%r1], 1; {high} {read} bra END;
             LOW: st.shared.u32 [%r1], 2; {low} {read} END:"
        )
    };
    let all = "bar.warp.sync -1;";
    assert_eq!(kinds(&halves(all, all), 1, 32), NONE);
    let missing = kinds(&halves("bar.warp.sync 0xffff;", "bar.warp.sync 0xffff0000;"), 1, 32);
    assert!(missing.contains(&ReadWriteRace), "{missing:?}");
    assert_eq!(kinds(&halves("barrier.sync 0;", "barrier.sync 0;"), 1, 32), NONE);
}

#[test]
fn tile_barriers_order_only_their_lanes() {
    let tile = "and.b32 %r4, %r0, 24; shl.b32 %r5, 255, %r4; bar.warp.sync %r5;";
    assert_eq!(kinds(&next_lane(tile), 1, 32), NONE);
    let across =
        format!("st.shared.u32 [%r1], %r0; {tile} xor.b32 %r2, %r1, 32; ld.shared.u32 %r3, [%r2];");
    assert!(kinds(&across, 1, 32).contains(&ReadWriteRace));
}

/// Two warps read a word; a third writes it and is ordered after only one of them. Both reads are
/// remembered, regardless of their order.
#[test]
fn a_write_races_with_either_of_two_readers() {
    for ordered in [0, 1] {
        let body = format!(
            "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [%r8], 1; bar.sync 0; shr.u32 %r2, %r0, 5;
             setp.eq.u32 %p1, %r2, 2; @!%p1 ld.shared.u32 %r3, [%r8]; setp.eq.u32 %p2, %r2, {ordered};
             or.pred %p3, %p1, %p2; @%p3 bar.sync 1, 64; setp.eq.u32 %p4, %r0, 64;
             @%p4 st.shared.u32 [%r8], 2;"
        );
        assert_eq!(kinds(&body, 1, 96), [ReadWriteRace], "ordered behind warp {ordered}");
        assert_eq!(kinds(&body.replace("bar.sync 1, 64;", "bra S; S:"), 1, 64), NONE, "no writer");
        let both = body.replace("@%p3 bar.sync 1, 64;", "bar.sync 1, 96;");
        assert_eq!(kinds(&both, 1, 96), NONE);
    }
}

#[test]
fn mbarrier_orders_arrivals_before_waits() {
    const WAIT: &str = "mbarrier.try_wait.parity.shared.b64 %p2, [%r7], 0;";
    let body = |before: &str, after: &str| {
        format!(
            "mov.u32 %r7, bar; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [%r7], 32;
             bar.sync 0; setp.lt.u32 %p1, %r0, 32; @!%p1 bra C; {before}
             mbarrier.arrive.shared.b64 _, [%r7]; {after} bra E;
             C: {WAIT} @!%p2 bra C;
             sub.u32 %r2, %r1, 128; ld.shared.u32 %r3, [%r2]; E:"
        )
    };
    let write = "st.shared.u32 [%r1], %r0;";
    assert_eq!(kinds(&body(write, ""), 1, 64), NONE);
    assert!(kinds(&body("", write), 1, 64).contains(&ReadWriteRace), "written behind the arrival");
    // A thread that does not wait for the mbarrier is not ordered by it.
    let hasty = body(write, "").replace(WAIT, "setp.eq.u32 %p2, 0, 0;");
    assert!(kinds(&hasty, 1, 64).contains(&ReadWriteRace));
}

#[test]
fn two_lanes_of_one_store_race() {
    assert_eq!(kinds("shr.u32 %r2, %r0, 1; st.global.u32 [%rd0], %r2;", 1, 32), [WriteWriteRace]);
    assert_eq!(kinds("st.shared.u8 [%r1], 1; st.shared.u8 [%r1+1], 1;", 1, 32), NONE);
    // Bytes of one word that different warps access are separate locations.
    let bytes =
        "shr.u32 %r2, %r0, 5; add.u32 %r2, %r8, %r2; and.b32 %r3, %r0, 31; setp.eq.u32 %p0, %r3, 0;
        @%p0 st.shared.u8 [%r2], 1;";
    assert_eq!(kinds(bytes, 1, 128), NONE);
}

#[test]
fn findings_name_both_instructions_and_threads() {
    let found = findings(&neighbour(""), 1, 64);
    let race = found.iter().find(|finding| finding.kind == ReadWriteRace).expect("a race");
    let (access, other) = (race.access.as_ref().expect("one"), race.other.as_ref().expect("two"));
    assert_eq!((access.thread, other.thread), ([32, 0, 0], [0, 0, 0]));
    assert!(access.text.starts_with("st.shared") || access.text.starts_with("ld.shared"), "{race}");
    assert_ne!(access.text, other.text);
    assert_eq!((access.line, race.count, race.space.to_string().as_str()), (2, 32, "shared"));
    let text = race.to_string();
    assert!(text.starts_with("read-write race at shared address 0x"), "{text}");
    assert!(text.ends_with("(32 times)"), "{text}");
}

#[test]
fn release_acquire_orders_blocks() {
    let publish = |write: &str, read: &str| {
        format!(
            "setp.ne.u32 %p0, %r0, 0; @%p0 bra E; setp.eq.u32 %p1, %r9, 0; @!%p1 bra C;
             st.global.u32 [%rd0], 7; {write} bra E;
             C: {read} setp.eq.u32 %p2, %r2, 0; @%p2 bra C; ld.global.u32 %r3, [%rd0]; E:"
        )
    };
    let release = "st.release.gpu.global.u32 [%rd0+64], 1;";
    let acquire = "ld.acquire.gpu.global.u32 %r2, [%rd0+64];";
    let (relaxed_write, relaxed_read) =
        ("st.relaxed.gpu.global.u32 [%rd0+64], 1;", "ld.relaxed.gpu.global.u32 %r2, [%rd0+64];");
    assert_eq!(kinds(&publish(release, acquire), 2, 32), NONE);
    assert_eq!(kinds(&publish(relaxed_write, acquire), 2, 32), [ReadWriteRace]);
    assert_eq!(kinds(&publish(release, relaxed_read), 2, 32), [NoAcquire]);
    let fenced_write = format!("fence.acq_rel.gpu; {relaxed_write}");
    assert_eq!(kinds(&publish(&fenced_write, acquire), 2, 32), NONE);
    let fenced_read = format!("{relaxed_read} fence.acq_rel.gpu;");
    assert_eq!(kinds(&publish(&fenced_write, &fenced_read), 2, 32), NONE);
    let volatile = (
        "membar.gl; st.volatile.global.u32 [%rd0+64], 1;",
        "ld.volatile.global.u32 %r2, [%rd0+64]; membar.gl;",
    );
    assert_eq!(kinds(&publish(volatile.0, volatile.1), 2, 32), NONE);
    let atomic = (
        "atom.acq_rel.gpu.global.add.u32 %r4, [%rd0+64], 1;",
        "atom.acq_rel.gpu.global.add.u32 %r2, [%rd0+64], 0;",
    );
    assert_eq!(kinds(&publish(atomic.0, atomic.1), 2, 32), NONE);
    let block_only = (atomic.0.replace("gpu", "cta"), atomic.1.replace("gpu", "cta"));
    assert_eq!(kinds(&publish(&block_only.0, &block_only.1), 2, 32), [ReadWriteRace]);
    // Plain reads and writes of the flag itself are a race.
    let plain = publish("st.global.u32 [%rd0+64], 1;", "ld.volatile.global.u32 %r2, [%rd0+64];");
    assert!(kinds(&plain, 2, 32).contains(&ReadWriteRace));
}

#[test]
fn publishing_for_a_block_requires_a_barrier() {
    let body = |barrier: &str| {
        format!(
            "shl.b32 %r2, %r0, 2; cvt.u64.u32 %rd1, %r2; add.u64 %rd1, %rd0, %rd1; setp.eq.u32 %p1, %r9, 0;
             @!%p1 bra C; st.global.u32 [%rd1], 1; {barrier} setp.ne.u32 %p0, %r0, 0; @%p0 bra E;
             st.release.gpu.global.u32 [%rd0+1024], 1; bra E;
             C: ld.acquire.gpu.global.u32 %r2, [%rd0+1024]; setp.eq.u32 %p2, %r2, 0; @%p2 bra C;
             ld.global.u32 %r3, [%rd1]; E:"
        )
    };
    assert_eq!(kinds(&body("bar.sync 0;"), 2, 64), NONE);
    assert_eq!(kinds(&body(""), 2, 64), [ReadWriteRace]);
}

#[test]
fn atomics_do_not_race_with_each_other_and_do_with_plain_writes() {
    assert_eq!(kinds("red.global.add.u32 [%rd0], 1; atom.global.add.u32 %r2, [%rd0], 1;", 4, 64), NONE);
    let mixed = "setp.eq.u32 %p0, %r9, 0; @%p0 red.global.add.u32 [%rd0], 1; setp.eq.u32 %p1, %r0, 0;
        setp.ne.and.u32 %p1, %r9, 0, %p1; @%p1 st.global.u32 [%rd0], 1;";
    assert!(kinds(mixed, 2, 32).contains(&WriteWriteRace));
    // An atomic of the writing thread does not hide its plain write from other threads' atomics.
    let reset = "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [%r8], 0; BARRIER atom.shared.add.u32 %r2, [%r8], 1;";
    assert!(kinds(&reset.replace("BARRIER", ""), 1, 64).contains(&WriteWriteRace));
    assert_eq!(kinds(&reset.replace("BARRIER", "bar.sync 0;"), 1, 64), NONE);
    // A word atomic races with a read of one of its bytes.
    let byte =
        "setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r0, 32; @%p0 st.shared.u32 [%r8], 0; bar.sync 0;
        @%p0 red.shared.add.u32 [%r8], 1; @%p1 ld.shared.u8 %r2, [%r8];";
    assert_eq!(kinds(byte, 1, 64), [ReadWriteRace]);
}

#[test]
fn later_launches_see_earlier_writes() {
    let hazards = Hazards::new();
    let write = "setp.eq.u32 %p0, %r0, 0; @%p0 st.global.u32 [%rd0], 1;";
    run(&hazards, write, &Launch::linear(1, 32));
    run(&hazards, "ld.global.u32 %r2, [%rd0];", &Launch::linear(4, 32));
    assert_eq!(hazards.findings(), []);
}

#[test]
fn reads_of_unwritten_memory_are_found() {
    assert_eq!(kinds("ld.shared.u32 %r2, [%r1];", 1, 32), [Unwritten]);
    assert_eq!(kinds("st.shared.u16 [%r1], 1; ld.shared.u32 %r2, [%r1];", 1, 32), [Unwritten]);
    assert_eq!(kinds("st.shared.u16 [%r1], 1; ld.shared.u16 %r2, [%r1];", 1, 32), NONE);
    assert_eq!(kinds("atom.shared.add.u32 %r2, [%r1], 1;", 1, 32), [Unwritten]);

    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let hazards = Hazards::new();
    let data = gpu.alloc(64).expect("memory");
    hazards.allocated(data, 64);
    hazards.written(data + 4, 8);
    let module = module(
        ".version 7.8 .target sm_80 .entry k(.param .u64 p) { .reg .b64 %rd<2>; .reg .b32 %r<2>;
         ld.param.u64 %rd0, [p]; ld.global.u32 %r0, [%rd0+4]; ld.global.u32 %r0, [%rd0+8];
         st.global.u32 [%rd0+16], 1; ld.global.u32 %r0, [%rd0+16];
         ld.global.u32 %r0, [%rd0+12]; ret; }",
    );
    gpu.launch_observed(&module, "k", &Launch::linear(1, 1), &Args::new().ptr(data), &hazards.launch())
        .expect("runs");
    let found = hazards.findings();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].address), (Unwritten, data + 12));
    hazards.read(data + 16, 4);
    assert_eq!(hazards.findings().len(), 1, "the kernel wrote that");
    hazards.read(data + 16, 8);
    let found = hazards.findings();
    assert_eq!((found[0].kind, found[0].address), (UnwrittenResult, data + 20));
}

/// The host reads results without the driver. Each write makes a result available once.
#[test]
fn unwritten_results_are_found_on_host_reads() {
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let results = gpu.alloc(64).expect("memory");
    let module = module(
        ".version 7.8 .target sm_80 .entry k(.param .u64 p) { .reg .b64 %rd<2>; .reg .b32 %r<2>;
         ld.param.u64 %rd0, [p]; st.global.u32 [%rd0+8], 1; st.global.u16 [%rd0+12], 1;
         atom.global.add.u32 %r0, [%rd0+16], 1; ret; }",
    );
    let launch = |hazards: &Hazards| {
        let (shape, args) = (Launch::linear(1, 1), Args::new().ptr(results));
        gpu.launch_observed(&module, "k", &shape, &args, &hazards.launch()).expect("runs");
        hazards.written(results + 24, 2);
    };
    // Reads the wanted ranges, given as offset and bytes, and returns the first offset without a result.
    let take = |hazards: &Hazards, wanted: &[(u64, u64)]| {
        wanted.iter().for_each(|&(offset, bytes)| hazards.taken(results + offset, bytes));
        let findings = hazards.findings();
        assert!(findings.iter().all(|found| found.kind == UnwrittenResult), "{findings:?}");
        findings.first().map(|found| found.address - results)
    };
    let hazards = Hazards::new();
    launch(&hazards);
    assert_eq!(take(&hazards, &[(8, 6), (16, 4), (24, 2), (0, 0)]), None);
    launch(&hazards);
    assert_eq!(take(&hazards, &[(8, 6)]), None, "each launch has a result of its own");
    assert_eq!(take(&hazards, &[(8, 6)]), Some(8), "there was one result, which was taken");

    let first_without = |wanted: &[(u64, u64)]| {
        let hazards = Hazards::new();
        launch(&hazards);
        take(&hazards, wanted)
    };
    assert_eq!(first_without(&[(40, 4)]), Some(40), "nothing was ever written there");
    assert_eq!(first_without(&[(8, 8)]), Some(14), "half of a word");
    assert_eq!(first_without(&[(24, 4)]), Some(26), "half of a word that a copy wrote");
    assert_eq!(first_without(&[(24, 2), (24, 2)]), Some(24), "a copy's result is taken as well");
    assert_eq!(first_without(&[(8, 1), (9, 1), (10, 2), (10, 1)]), Some(10));
}

#[test]
fn copies_must_be_waited_for() {
    let few = |wait: &str| {
        format!(
            "cvt.u64.u32 %rd1, %r0; shl.b64 %rd1, %rd1, 2; add.u64 %rd1, %rd0, %rd1;
             cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.commit_group; {wait} ld.shared.u32 %r2, [%r1];"
        )
    };
    assert_eq!(kinds(&few("cp.async.wait_group 0;"), 1, 32), NONE);
    assert_eq!(kinds(&few(""), 1, 32), [UnwaitedCopy]);
    assert_eq!(kinds(&few("cp.async.wait_group 1;"), 1, 32), [UnwaitedCopy]);

    let bulk = |wait: &str, before: &str| {
        format!(
            "setp.eq.u32 %p0, %r0, 0; mov.u32 %r7, bar; {before} @!%p0 bra W; mbarrier.init.shared.b64 [%r7], 1;
             mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r7], 256;
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd0], 256, [%r7];
             W: bar.sync 0; {wait} ld.shared.u32 %r2, [%r1];
             T: mbarrier.try_wait.parity.shared.b64 %p1, [%r7], 0; @!%p1 bra T;"
        )
    };
    let wait = "S: mbarrier.try_wait.parity.shared.b64 %p1, [%r7], 0; @!%p1 bra S;";
    assert_eq!(kinds(&bulk(wait, ""), 1, 64), NONE);
    assert!(kinds(&bulk("", ""), 1, 64).contains(&UnwaitedCopy));
    // The other warp reaches the mbarrier before its initialisation.
    let unmade = bulk(wait, "").replace("W: bar.sync 0;", "W:");
    assert!(kinds(&unmade, 1, 64).contains(&ReadWriteRace));
    let one_warp = format!("setp.ge.u32 %p3, %r0, 32; @%p3 bra L; {wait} L:");
    assert!(kinds(&bulk(&one_warp, ""), 1, 64).contains(&UnwaitedCopy));
    // The tile is overwritten while another warp may still be reading it.
    let reader = "st.shared.u32 [%r1], 1; ld.shared.u32 %r2, [%r1];";
    assert!(
        kinds(&bulk(wait, reader), 1, 64)
            .iter()
            .any(|kind| matches!(kind, WriteWriteRace | ReadWriteRace))
    );
    assert_eq!(kinds(&bulk(wait, &format!("{reader} bar.sync 1;")), 1, 64), NONE);
}

#[test]
fn other_blocks_of_a_cluster_are_ordered_by_its_barrier() {
    let body = |barrier: &str| {
        format!(
            "mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p0, %r2, 0; setp.eq.and.u32 %p1, %r0, 0, %p0;
             barrier.cluster.arrive; barrier.cluster.wait; mapa.shared::cluster.u32 %r3, %r8, 0;
             setp.eq.u32 %p2, %r0, 0; @!%p0 bra O; bra J; O: @%p2 st.shared::cluster.u32 [%r3], 1; J:
             {barrier} @%p1 ld.shared.u32 %r4, [sh]; barrier.cluster.arrive; barrier.cluster.wait;"
        )
    };
    let launch = Launch::linear(2, 32).with_cluster([2, 1, 1]);
    let of = |barrier: &str| {
        let hazards = Hazards::new();
        run(&hazards, &body(barrier), &launch);
        hazards.findings().iter().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    assert_eq!(of("barrier.cluster.arrive; barrier.cluster.wait;"), NONE);
    assert!(!of("bar.sync 0;").is_empty());
    assert!(of("barrier.cluster.arrive.relaxed; barrier.cluster.wait;").contains(&ReadWriteRace));
}

#[test]
fn lanes_of_a_warp_are_ordered_by_the_barrier_of_the_cluster() {
    let of = |arrive: &str, between: &str| {
        let body = format!(
            "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [sh], 1; {arrive}; {between} barrier.cluster.wait;
             ld.shared.u32 %r2, [sh];"
        );
        kinds(&body, 1, 32)
    };
    assert_eq!(of("barrier.cluster.arrive", ""), NONE);
    assert_eq!(of("barrier.cluster.arrive.relaxed", ""), [ReadWriteRace]);
    // A store after the arrival is not ordered by the barrier.
    assert_eq!(of("barrier.cluster.arrive", "@%p0 st.shared.u32 [sh], 2;"), [ReadWriteRace]);
}

#[test]
fn a_shuffle_from_a_lane_outside_of_its_members_is_found() {
    let body = "setp.lt.u32 %p0, %r0, 8; @!%p0 bra E; shfl.sync.idx.b32 %r2, %r0, 9, 31, 0xff; E:";
    assert_eq!(kinds(body, 1, 32), [HazardKind::ShuffleFromInactive]);
    assert_eq!(kinds(&body.replace(" 9,", " 7,"), 1, 32), NONE);
    let tiles = "and.b32 %r4, %r0, 24; shl.b32 %r5, 255, %r4; shfl.sync.bfly.b32 %r2, %r0, 4, 31, %r5;";
    assert_eq!(kinds(tiles, 1, 32), NONE);
    assert_eq!(kinds(&tiles.replace(" 4, 31", " 8, 31"), 1, 32), [HazardKind::ShuffleFromInactive]);
    let exited = "setp.lt.u32 %p0, %r0, 16; @!%p0 exit; shfl.sync.bfly.b32 %r2, %r0, 16, 31, -1;";
    assert_eq!(kinds(exited, 1, 32), [HazardKind::ShuffleFromInactive]);
    assert_eq!(kinds(&exited.replace(" 16, 31", " 8, 31"), 1, 32), NONE);
}

/// Runs a kernel that stores a word 16 bytes into `dyn`, then sets a static flag. Returns the findings
/// and the word read back from `dyn`.
fn dynamic(declaration: &str, bytes: u32) -> (Vec<String>, u32) {
    dynamic_after(declaration, bytes, "")
}

/// Runs `before` first, and is otherwise like [`dynamic`].
fn dynamic_after(declaration: &str, bytes: u32, before: &str) -> (Vec<String>, u32) {
    let text = format!(
        ".version 8.0 .target sm_90\n{declaration}\n.entry k(.param .u64 pointer) {{ .reg .b32 %r<8>; \
         .reg .b64 %rd<2>; .shared .align 4 .b8 flag[4]; {before} ld.param.u64 %rd0, [pointer]; mov.u32 %r0, dyn; \
         mov.u32 %r1, 7; st.shared.u32 [%r0+16], %r1; mov.u32 %r2, flag; mov.u32 %r3, 9; \
         st.shared.u32 [%r2], %r3; ld.shared.u32 %r4, [%r0+16]; st.global.u32 [%rd0], %r4; ret; }}"
    );
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let data = u32s(&gpu, &[0]);
    let (args, hazards) = (Args::new().ptr(data), Hazards::new());
    let launch = Launch::linear(1, 1).with_dynamic_shared(bytes);
    gpu.launch_observed(&module(&text), "k", &launch, &args, &hazards.launch()).expect("runs");
    let mut read = [0; 4];
    gpu.read(data, &mut read).expect("allocated");
    let found = hazards.findings();
    assert!(found.iter().all(|finding| finding.kind == SizedExternal), "{found:?}");
    (found.iter().map(ToString::to_string).collect(), u32::from_le_bytes(read))
}

#[test]
fn sized_extern_shared_array_is_static() {
    let sized = ".extern .shared .align 16 .b8 dyn[16];";
    let (found, read) = dynamic(sized, 64);
    assert_eq!(
        found,
        ["external shared array with a size (not the launch's dynamic memory) at shared address 0x0, \
          byte 0 of `dyn`"]
    );
    // The flag follows the array's 16 bytes.
    assert_eq!(read, 9);
    assert_eq!(dynamic(".extern .shared .align 16 .b8 dyn[];", 64), (Vec::new(), 7));
    // Without dynamic memory in the launch, nothing overlaps.
    assert_eq!(dynamic(sized, 0).0, [""; 0]);
    // Reserved shared memory, whose offset this entry reads, does not overlap either.
    assert_eq!(dynamic_after(sized, 0, "mov.u32 %r5, %reserved_smem_offset_begin;").0, [""; 0]);
}

#[test]
fn ldmatrix_reads_are_checked() {
    let load = |between: &str| {
        format!(
            "mad.lo.u32 %r1, %r0, 16, %r8; st.shared.v4.u32 [%r1], {{%r0, %r0, %r0, %r0}}; {between}
             xor.b32 %r2, %r1, 512; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r3, %r4, %r5, %r6}}, [%r2];"
        )
    };
    assert_eq!(kinds(&load("bar.sync 0;"), 1, 64), NONE);
    assert!(kinds(&load(""), 1, 64).contains(&ReadWriteRace));
    let store = "wmma.store.d.sync.aligned.row.m8n8k128.global.s32 [%rd0], {%r0, %r0}, 8;";
    assert_eq!(kinds(store, 1, 32), NONE);
    assert!(kinds(store, 1, 64).contains(&WriteWriteRace));
}

#[test]
fn operands_of_products_are_read_until_the_wait() {
    // Each warpgroup multiplies by 256 bytes, a quarter of its threads' elements.
    let product = |before: &str, between: &str, after: &str| {
        let text = format!(
            ".reg .f32 %d<4>; st.shared.u32 [%r1], %r0; {before} fence.proxy.async;
             shr.u32 %r8, %r8, 4; cvt.u64.u32 %rd1, %r8; or.b64 %rd1, %rd1, {:#x};
             wgmma.fence.sync.aligned;
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, {{%r0, %r0, %r0, %r0}}, %rd1, 1, 1, 1, 0;
             wgmma.commit_group.sync.aligned; {between} wgmma.wait_group.sync.aligned 0; {after}",
            0x8_0000_0008_0000_u64
        );
        kinds(&text, 1, 128)
    };
    let store = "st.shared.u32 [%r1], %r0;";
    assert_eq!(product("bar.sync 0;", "", ""), NONE);
    assert!(product("", "", "").contains(&ReadWriteRace));
    assert_eq!(product("bar.sync 0;", "", &format!("bar.sync 0; {store}")), NONE);
    // Writes by the same warps.
    assert!(product("bar.sync 0;", &format!("bar.sync 0; {store}"), "").contains(&ReadWriteRace));
    let copy = "cp.async.ca.shared.global [%r1], [%rd0], 4; cp.async.wait_all;";
    assert!(product("bar.sync 0;", &format!("bar.sync 0; {copy}"), "").contains(&ReadWriteRace));
    // A later group may stay pending, and an earlier one not.
    let group = |kept: u32| {
        let wait = format!(
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {kept}; bar.sync 0; {store}"
        );
        product("bar.sync 0;", &wait, "")
    };
    assert_eq!(group(1), NONE);
    assert!(group(2).contains(&ReadWriteRace));
    // Warps of another warpgroup, which overwrite the matrix after a barrier.
    let produced = |first: &str, second: &str| {
        let text = format!(
            ".reg .f32 %d<4>; st.shared.u32 [%r1], %r0; bar.sync 0; setp.ge.u32 %p1, %r0, 128; @%p1 bra PRODUCE;
             shr.u32 %r8, %r8, 4; cvt.u64.u32 %rd1, %r8; or.b64 %rd1, %rd1, {:#x};
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, {{%r0, %r0, %r0, %r0}}, %rd1, 1, 1, 1, 0;
             wgmma.commit_group.sync.aligned; {first} bar.sync 1, 256; {second} bra.uni END;
             PRODUCE: bar.sync 1, 256; st.shared.u32 [%r1+-512], %r0; END:",
            0x8_0000_0008_0000_u64
        );
        kinds(&text, 1, 256)
    };
    let wait = "wgmma.wait_group.sync.aligned 0;";
    assert_eq!(produced(wait, ""), NONE);
    assert!(produced("", wait).contains(&ReadWriteRace));
    // A warp's own rows of A, 512 bytes, which no other warp reads.
    let own = |between: &str, after: &str| {
        let rows = "st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};";
        let text = format!(
            ".reg .f32 %d<4>; st.shared.u32 [%r1], %r0; mad.lo.u32 %r2, %r0, 16, %r8; add.u32 %r2, %r2, 2048; {rows}
             bar.sync 0; shr.u32 %r8, %r8, 4; cvt.u64.u32 %rd2, %r8; or.b64 %rd1, %rd2, {:#x};
             add.u64 %rd2, %rd2, {:#x};
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, %rd2, %rd1, 1, 1, 1, 0, 0;
             wgmma.commit_group.sync.aligned; {between} wgmma.wait_group.sync.aligned 0; {after}",
            0x8_0000_0008_0000_u64,
            0x10_0008_0080_u64
        );
        kinds(&text.replace("ROWS", rows), 1, 128)
    };
    assert_eq!(own("", "bar.warp.sync -1; ROWS"), NONE);
    assert_eq!(own("bar.warp.sync -1; ROWS bar.warp.sync -1;", ""), [ReadWriteRace]);
    // Memory that the product does not read may be written.
    assert_eq!(
        product("bar.sync 0;", "setp.ge.u32 %p0, %r0, 64; @%p0 st.shared.u32 [%r1], %r0;", ""),
        NONE
    );
}

#[test]
fn observers_are_independent_of_launch_shapes() {
    let text = ".version 7.8 .target sm_80 .entry k() { .reg .b32 %r<2>; .shared .align 4 .b8 sh[4096];
        mov.u32 %r0, %tid.x; shl.b32 %r0, %r0, 2; mov.u32 %r1, sh; add.u32 %r0, %r0, %r1;
        st.shared.u32 [%r0], %r0; bar.sync 0; ret; }";
    let (module, hazards) = (module(text), Hazards::new());
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let observers = [hazards.launch(), hazards.launch()];
    for (threads, observer) in [32, 128].into_iter().zip(&observers) {
        let launch = Launch::linear(2, threads);
        gpu.launch_observed(&module, "k", &launch, &Args::new(), observer).expect("runs");
    }
    assert_eq!(hazards.findings().len(), 0);
}
