//! Independent thread scheduling, as from sm_70 on: groups with member masks, lanes that have exited,
//! lanes that wait for each other on different paths, locks.

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Config, Error, Gpu, Launch, Stats};

/// Runs a kernel with this body and `threads` threads per block. `%rd0` is the address of 64 words,
/// which are returned, `%rd1` that of the thread's own word, `%r0` the thread index and `%a` the address
/// of `sh`, 64 words of shared memory.
fn attempt(config: Config, body: &str, threads: u32) -> Result<(Vec<u32>, Stats), Error> {
    let module = module(&format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 pointer)\n\
         {{ .reg .pred %p<4>; .reg .b32 %r<8>, %a; .reg .b64 %rd<4>;\n.shared .align 16 .b8 sh[256];\n\
         ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %rd0; mov.u32 %a, sh;\n\
         {body}\nret;\n}}\n"
    ));
    let gpu = Gpu::new(config);
    let data = u32s(&gpu, &[0; 64]);
    let stats = gpu.launch(&module, "k", &Launch::linear(1, threads), &Args::new().ptr(data))?;
    Ok((read_u32s(&gpu, data, 64), stats))
}

fn limited() -> Config {
    Config { threads: Some(1), step_limit: 1_000_000, ..device() }
}

fn words(body: &str, threads: u32) -> Vec<u32> {
    attempt(limited(), body, threads).unwrap_or_else(|error| panic!("{error}\n{body}")).0
}

fn message(body: &str, threads: u32) -> String {
    attempt(limited(), body, threads).expect_err("an error").to_string()
}

const TILE_OF_8: &str = "and.b32 %r1, %r0, 24; shl.b32 %r2, 255, %r1;\n";

#[test]
fn one_instruction_serves_groups_of_several_masks() {
    let expected = |of: fn(u32, Vec<u32>) -> u32| -> Vec<u32> {
        (0..64).map(|i| if i < 32 { of(i, (i / 8 * 8..i / 8 * 8 + 8).collect()) } else { 0 }).collect()
    };
    let run = |instruction: &str| words(&format!("{TILE_OF_8}{instruction}\nst.u32 [%rd1], %r3;"), 32);
    assert_eq!(run("redux.sync.add.u32 %r3, %r0, %r2;"), expected(|_, tile| tile.iter().sum()));
    assert_eq!(
        run("shfl.sync.down.b32 %r3, %r0, 3, 0x181f, %r2;"),
        expected(|i, tile| if tile.contains(&(i + 3)) { i + 3 } else { i })
    );
    assert_eq!(
        run("setp.eq.u32 %p0, %r0, 9; vote.sync.any.pred %p1, %p0, %r2; selp.u32 %r3, 1, 0, %p1;"),
        expected(|_, tile| u32::from(tile.contains(&9)))
    );
    assert_eq!(
        run("rem.u32 %r4, %r0, 2; match.any.sync.b32 %r3, %r4, %r2;"),
        expected(|i, tile| (0x55 << (i % 2)) << tile[0])
    );
    assert_eq!(run("elect.sync %r3|%p0, %r2;"), expected(|_, tile| tile[0]));
    // Groups are separate, so no group's sum includes another's lanes.
    let partition = "rem.u32 %r1, %r0, 3; match.any.sync.b32 %r2, %r1, -1;";
    let sums = words(&format!("{partition} redux.sync.add.u32 %r3, 1, %r2; st.u32 [%rd1], %r3;"), 32);
    assert!(sums[..32].iter().enumerate().all(|(i, &sum)| sum == [11, 11, 10][i % 3]), "{sums:?}");
}

#[test]
fn groups_of_one_instruction_cost_one() {
    let count = |gone: u32, mask: &str| {
        let exit = format!("setp.eq.u32 %p0, %r0, {gone}; @%p0 exit;");
        let body = format!("{TILE_OF_8}{exit}redux.sync.add.u32 %r3, %r0, {mask};");
        attempt(limited(), &body, 32).expect("runs").1
    };
    assert_eq!(count(99, "%r2"), count(99, "-1"));
    assert_eq!(count(5, "%r2"), count(5, "-1"));
}

#[test]
fn lanes_that_have_exited_are_not_waited_for() {
    let body = "setp.ge.u32 %p0, %r0, 48; @%p0 exit; mov.u32 %r1, 1;
        redux.sync.add.u32 %r2, %r1, -1; vote.sync.all.pred %p1, %p1, -1; activemask.b32 %r3;
        vote.sync.ballot.b32 %r4, !%p3, -1; bar.warp.sync -1; add.u32 %r2, %r2, %r4; st.u32 [%rd1], %r2;";
    let expected: Vec<u32> = [vec![31; 32], vec![0xffff + 16; 16], vec![0; 16]].concat();
    assert_eq!(words(body, 64), expected);
    // In a block of 40 threads the other lanes never existed.
    assert_eq!(words("redux.sync.or.b32 %r1, %r0, -1; st.u32 [%rd1], %r1;", 40)[32..40], [39; 8]);
    // One instruction serves four groups. Two groups have lost a lane.
    let body = format!(
        "{TILE_OF_8}setp.eq.u32 %p0, %r0, 5; setp.eq.or.u32 %p1, %r0, 20, %p0; @%p1 exit;
        redux.sync.add.u32 %r3, 1, %r2; st.u32 [%rd1], %r3;"
    );
    let sums: Vec<u32> = words(&body, 32)[..32].to_vec();
    let expected = |lane: usize| if [5, 20].contains(&lane) { 0 } else { [7, 8, 7, 8][lane / 8] };
    assert_eq!(sums, (0..32).map(expected).collect::<Vec<u32>>());
    let body = "setp.lt.u32 %p0, %r0, 8; @%p0 bra MEET; add.u32 %r1, %r0, 1; ret;
        MEET: redux.sync.add.u32 %r2, %r0, -1; st.u32 [%rd1], %r2;";
    assert_eq!(words(body, 32)[..8], [28; 8]);
}

#[test]
fn strict_mode_refuses_masks_of_exited_lanes() {
    let strict = |body: &str, threads| {
        let error = attempt(Config { strict: true, ..limited() }, body, threads).expect_err("strict");
        error.to_string()
    };
    let text = strict("setp.ge.u32 %p0, %r0, 48; @%p0 exit;\nvote.sync.any.pred %p1, %p0, -1;", 64);
    assert!(
        text.ends_with(
            "`vote.sync.any.pred %p1, %p0, -1`: member mask 0xffffffff names lanes 16-31 that exited or \
             never existed; the active mask is 0x0000ffff"
        ),
        "{text}"
    );
    let text = strict("redux.sync.or.b32 %r1, %r0, -1;", 40);
    assert!(
        text.contains("thread (32, 0, 0)") && text.contains("names lanes 8-31 that exited"),
        "{text}"
    );
    // A branch to the end is an exit, too.
    let text = strict("setp.ge.u32 %p0, %r0, 48; @%p0 bra END; bar.warp.sync -1; END:", 64);
    assert!(text.contains("names lanes 16-31 that exited"), "{text}");
    let full = "redux.sync.add.u32 %r1, %r0, -1; bar.warp.sync -1; elect.sync _|%p0, -1;";
    assert!(attempt(Config { strict: true, ..limited() }, full, 64).is_ok());
}

#[test]
fn warp_barrier_joins_two_branches() {
    let body = "shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %a; xor.b32 %r2, %r0, 16; shl.b32 %r2, %r2, 2;
        add.u32 %r2, %r2, %a; setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW;
        add.u32 %r3, %r0, 100; st.volatile.shared.u32 [%r1], %r3; bar.warp.sync -1;
        ld.volatile.shared.u32 %r4, [%r2]; add.u32 %r4, %r4, 1000; bra END;
        LOW: add.u32 %r3, %r0, 200; st.volatile.shared.u32 [%r1], %r3; bar.warp.sync -1;
        ld.volatile.shared.u32 %r4, [%r2]; add.u32 %r4, %r4, 2000;
        END: bar.warp.sync -1; st.u32 [%rd1], %r4;";
    let expected: Vec<u32> = (0..32).map(|i| if i < 16 { i + 2116 } else { i + 1184 }).collect();
    assert_eq!(words(body, 32)[..32], expected);
}

#[test]
fn collectives_wait_for_late_members() {
    let body = "setp.lt.u32 %p0, %r0, 16; mov.u32 %r1, 7; @%p0 bra MEET; mov.u32 %r2, 0;
        LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 100; @%p1 bra LOOP; mov.u32 %r1, %r2;
        MEET: shfl.sync.idx.b32 %r3, %r1, 31, 31, -1; st.u32 [%rd1], %r3;";
    assert_eq!(words(body, 32)[..32], [100; 32]);
    // Lanes leave a loop one after the other. Each iteration counts only the lanes that are still in it.
    let body = "mov.u32 %r1, 0; mov.u32 %r3, 0;
        LOOP: setp.gt.u32 %p0, %r1, %r0; @%p0 bra OUT; activemask.b32 %r2; redux.sync.add.u32 %r2, 1, %r2;
        add.u32 %r3, %r3, %r2; add.u32 %r1, %r1, 1; bra LOOP;
        OUT: bar.warp.sync -1; st.u32 [%rd1], %r3;";
    let expected: Vec<u32> = (0..32).map(|i| (0..=i).map(|round| 32 - round).sum()).collect();
    assert_eq!(words(body, 32)[..32], expected);
}

#[test]
fn a_lock_is_taken_by_each_lane() {
    let add =
        "ld.volatile.shared.u32 %r2, [%a+4]; add.u32 %r2, %r2, 1; st.volatile.shared.u32 [%a+4], %r2;
        membar.cta; atom.shared.exch.b32 %r3, [%a], 0;";
    let begin = "st.volatile.shared.u32 [%a], 0; st.volatile.shared.u32 [%a+4], 0; bar.sync 0;";
    let end = "bar.sync 0; ld.shared.u32 %r5, [%a+4]; st.u32 [%rd1], %r5;";
    let spins = format!(
        "{begin} LOOP: atom.shared.cas.b32 %r1, [%a], 0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra LOOP; {add} {end}"
    );
    assert_eq!(words(&spins, 64), [64; 64]);
    let tries = format!(
        "{begin} LOOP: atom.shared.cas.b32 %r1, [%a], 0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra NEXT; {add}
         mov.u32 %r1, 0; NEXT: setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP; {end}"
    );
    assert_eq!(words(&tries, 64), [64; 64]);
}

#[test]
fn lane_can_wait_for_another_lanes_store() {
    for writer in [0, 31] {
        let body = format!(
            "st.volatile.shared.u32 [%a], 0; bar.sync 0; setp.eq.u32 %p0, %r0, {writer}; @%p0 bra WRITE;
             WAIT: ld.volatile.shared.u32 %r1, [%a]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT; bra END;
             WRITE: mov.u32 %r1, 5; st.volatile.shared.u32 [%a], %r1;
             END: st.u32 [%rd1], %r1;"
        );
        assert_eq!(words(&body, 32)[..32], [5; 32]);
    }
}

#[test]
fn a_barrier_that_is_not_aligned_is_reached_on_two_paths() {
    let body = |sync: &str| {
        format!(
            "shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %a; setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW;
             st.shared.u32 [%r1], 1; {sync} bra END;
             LOW: st.shared.u32 [%r1], 2; {sync}
             END: xor.b32 %r2, %r0, 63; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %a; ld.shared.u32 %r3, [%r2];
             st.u32 [%rd1], %r3;"
        )
    };
    let expected: Vec<u32> = (0..64).map(|i| if i >= 48 { 2 } else { 1 }).collect();
    assert_eq!(words(&body("barrier.sync 1;"), 64), expected);
    for aligned in ["barrier.sync.aligned 1;", "bar.sync 1;"] {
        let text = message(&body(aligned), 64);
        assert!(text.contains("barrier 1 in divergent flow: warp 0 misses lanes "), "{text}");
    }
}

/// One half of a warp arrives at an mbarrier that the other half waits for.
#[test]
fn mbarrier_synchronizes_divergent_paths() {
    for wait in ["mbarrier.try_wait.parity", "mbarrier.test_wait.parity"] {
        for arrive in ["lt", "ge"] {
            let body = format!(
                "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [%a], 16; bar.sync 0;
                 setp.{arrive}.u32 %p1, %r0, 16; @%p1 bra ARRIVE;
                 WAIT: {wait}.shared.b64 %p2, [%a], 0; @!%p2 bra WAIT; mov.u32 %r1, 1; bra END;
                 ARRIVE: mbarrier.arrive.shared.b64 %rd2, [%a]; mov.u32 %r1, 2;
                 END: st.u32 [%rd1], %r1;"
            );
            let sum: u32 = words(&body, 32).iter().sum();
            assert_eq!(sum, 48, "{wait} {arrive}");
        }
    }
}

#[test]
fn deadlocked_lanes_are_named() {
    let text = message(
        "setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; bra END;
         LOW: vote.sync.any.pred %p1, %p0, -1; END:",
        32,
    );
    assert!(text.contains("member mask 0xffffffff names lanes "), "{text}");
    assert!(text.contains("not active here"), "{text}");
    let text = message(
        "setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW; barrier.sync 1; bra END; LOW: barrier.sync 2; END:",
        32,
    );
    assert!(text.contains("in divergent flow: warp 0 misses lanes "), "{text}");
}

/// `this_grid().sync()` of cooperative groups: each block's first thread increments the counter to which
/// `%envreg1` and `%envreg2` point, and waits until the highest bit has changed.
const GRID_SYNC: &str = "
    mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; cvt.u64.u32 %rd2, %r1; cvt.u64.u32 %rd3, %r2;
    bfi.b64 %rd2, %rd2, %rd3, 32, 32; mov.u32 %r7, %ctaid.x; barrier.sync 0;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra MET;
    mov.u32 %r3, 1; setp.eq.u32 %p1, %r7, 0; mov.u32 %r4, %nctaid.x; sub.u32 %r4, 0x80000001, %r4;
    selp.b32 %r3, %r4, %r3, %p1; atom.add.release.gpu.u32 %r5, [%rd2+4], %r3;
    LOOP: ld.acquire.gpu.u32 %r6, [%rd2+4]; xor.b32 %r6, %r6, %r5; setp.ge.s32 %p2, %r6, 0; @%p2 bra LOOP;
    MET: barrier.sync 0;";

fn run_grid_sync(shape: Launch) -> Result<Vec<u32>, Error> {
    let module = module(&format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 pointer)\n\
         {{ .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<8>;\n\
         ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; mov.u32 %r7, %ctaid.x;\n\
         mul.wide.u32 %rd4, %r7, 4; add.u64 %rd4, %rd0, %rd4; add.u32 %r8, %r7, 1;\n\
         setp.eq.u32 %p3, %r0, 0; @%p3 st.global.u32 [%rd4], %r8;\n{GRID_SYNC}\n\
         mov.u32 %r9, %nctaid.x; rem.u32 %r8, %r8, %r9; mul.wide.u32 %rd5, %r8, 4;\n\
         add.u64 %rd5, %rd0, %rd5; ld.volatile.global.u32 %r10, [%rd5];\n\
         @%p3 st.global.u32 [%rd4+128], %r10;\nret;\n}}\n"
    ));
    let gpu = Gpu::new(limited());
    let data = u32s(&gpu, &[0; 64]);
    let in_use = gpu.memory_in_use();
    // Each launch has its own memory for the barrier.
    for _ in 0..2 {
        gpu.launch(&module, "k", &shape, &Args::new().ptr(data))?;
        assert_eq!(gpu.memory_in_use(), in_use);
    }
    Ok(read_u32s(&gpu, data + 128, 32))
}

#[test]
fn cooperative_launch_has_a_grid_barrier() {
    let found = run_grid_sync(Launch::linear(20, 64).cooperatively()).expect("they meet");
    let expected: Vec<u32> = (0..32).map(|i| if i < 20 { (i + 1) % 20 + 1 } else { 0 }).collect();
    assert_eq!(found, expected);
    // Launches that are not cooperative have no such barrier.
    let error = run_grid_sync(Launch::linear(20, 64)).expect_err("nowhere to meet").to_string();
    assert!(error.contains("atomic of 4 bytes at global address 0x4 is out of bounds"), "{error}");
}

#[test]
fn shared_memory_is_rounded_up_to_the_granularity() {
    let store = |offset: u32, shared_granularity| {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {{\n\
             .shared .b32 word; st.shared.u32 [word+{offset}], 7; ret; }}"
        );
        let gpu = Gpu::new(Config { shared_granularity, ..device() });
        gpu.launch(&module(&text), "k", &Launch::linear(1, 1), &Args::new()).map(drop)
    };
    store(0, 1).expect("within the array");
    store(4, 1).expect_err("past the array");
    store(124, 128).expect("within the rounded size");
    store(128, 128).expect_err("past the rounded size");
}

/// Shared memory after that of the launch. Only entries that read its address can reach it.
#[test]
fn reserved_shared_memory_exists_only_when_used() {
    let body = "mov.u32 %r1, %reserved_smem_offset_1; mov.u32 %r2, %reserved_smem_offset_begin;
        mov.u32 %r3, %reserved_smem_offset_end; mov.u32 %r4, %reserved_smem_offset_cap; mov.u32 %r5, %total_smem_size;
        st.shared.u32 [%r1], 7; ld.shared.u32 %r6, [%r1+284]; ld.shared.u32 %r7, [%r1];
        sub.u32 %r3, %r3, %r2; sub.u32 %r3, %r3, %r4; add.u32 %r7, %r7, %r3;
        setp.lt.u32 %p0, %r2, %r5; @%p0 trap; st.u32 [%rd1], %r7;";
    assert_eq!(words(body, 32)[..32], [7; 32]);
    let text = message("mov.u32 %r1, %total_smem_size; st.shared.u32 [%r1], 7;", 32);
    assert!(text.contains("store of 4 bytes at shared address 0x100 is out of bounds"), "{text}");
}
