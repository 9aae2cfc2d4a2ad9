//! Errors of mbarriers, asynchronous copies and clusters.

use warpfold_sim::{Args, Config, Error, FaultKind, Gpu, Launch, MbarrierProblem};

use super::{message, refused, run_on};
use crate::common::{device, module, u32s};

/// Returns a kernel's error on one thread, with an mbarrier at `sh` that waits for two arrivals.
fn alone(body: &str) -> String {
    let body = format!("mbarrier.init.shared.b64 [sh], 2;\n{body}");
    run_on(&Gpu::new(device()), &body, Launch::linear(1, 1)).to_string()
}

fn assert_alone(body: &str, expected: &str) {
    let text = alone(body);
    assert!(text.ends_with(expected), "{body}: {text}");
    assert!(!text.contains('\n'), "{text}");
}

/// Returns the message of a kernel's error on a cluster of two blocks of 32 threads; `%r1` is the rank,
/// `%p1` is set if it is not 0.
fn in_cluster(body: &str) -> String {
    let body = format!("mov.u32 %r1, %cluster_ctarank; setp.ne.u32 %p1, %r1, 0;\n{body}");
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    run_on(&gpu, &body, Launch::linear(2, 32).with_cluster([2, 1, 1])).to_string()
}

#[test]
fn mbarriers_that_do_not_exist() {
    assert_alone(
        "mbarrier.arrive.shared.b64 _, [sh+8];",
        "ptx line 10, `mbarrier.arrive.shared.b64 _, [sh+8]`: \
         mbarrier at shared address 0x8 is not initialised; mbarrier.init must come first",
    );
    assert_alone(
        "mbarrier.inval.shared.b64 [sh]; mbarrier.test_wait.parity.shared.b64 %p0, [sh], 0;",
        "mbarrier at shared address 0x0 is invalidated; mbarrier.init must make a new one first",
    );
    assert_alone(
        "mbarrier.init.shared.b64 [sh], 2;",
        "mbarrier at shared address 0x0 is initialised already; \
         mbarrier.inval must come before another mbarrier.init",
    );
    assert_alone(
        "st.shared.u64 [sh], 5; mbarrier.arrive.shared.b64 _, [sh];",
        "mbarrier at shared address 0x0 holds 0x5, which is not the state of an mbarrier; its bytes \
         were overwritten",
    );
    assert_alone(
        "mbarrier.arrive.b64 _, [%rd0];",
        "mbarrier at shared address 0x1000000000000 is not in shared memory",
    );
    assert_alone(
        "mbarrier.init.shared.b64 [sh+12], 2;",
        "mbarrier of 8 bytes at shared address 0xc is misaligned; the address must be a multiple of 8",
    );
    assert_alone(
        "mbarrier.init.shared.b64 [sh+64], 2;",
        "mbarrier of 8 bytes at shared address 0x40 is out of bounds; the space has 64 bytes, and the \
         access ends 8 bytes past its end; the last array is `sh`, 64 bytes at 0x0",
    );
}

#[test]
fn mbarrier_counts_out_of_range() {
    let range = "allowed is 1 to 1048575";
    for count in ["0", "1048576", "-1"] {
        let text = alone(&format!("mbarrier.init.shared.b64 [sh+8], {count};"));
        assert!(text.contains("gets an arrival count of ") && text.ends_with(range), "{text}");
    }
    assert_alone(
        "mbarrier.arrive.shared.b64 _, [sh], 3;",
        "mbarrier at shared address 0x0 gets 3 arrivals; its phase waits for 2 more",
    );
    assert_alone(
        "mbarrier.arrive.shared.b64 _, [sh], 0;",
        &format!("gets an arrival count of 0; {range}"),
    );
    assert_alone(
        "mbarrier.arrive_drop.shared.b64 _, [sh], 9;",
        "gets 9 arrivals; its phase waits for 2 more",
    );
    assert_alone(
        "mbarrier.arrive.noComplete.shared.b64 %rd1, [sh], 2;",
        "mbarrier at shared address 0x0 completes its phase by an arrival with .noComplete",
    );
    assert_alone(
        "mbarrier.expect_tx.shared.b64 [sh], 1048576;",
        "gets a transaction count of 1048576; allowed is 0 to 1048575",
    );
    assert_alone(
        "mbarrier.expect_tx.shared.b64 [sh], 1048575; mbarrier.expect_tx.shared.b64 [sh], 1;",
        "has a transaction count of 1048576 bytes; allowed is -1048575 to 1048575",
    );
    assert_alone(
        "mbarrier.complete_tx.shared.b64 [sh], 1048575; mbarrier.complete_tx.shared.b64 [sh], 1;",
        "has a transaction count of -1048576 bytes; allowed is -1048575 to 1048575",
    );
    assert_alone(
        "mbarrier.try_wait.parity.shared.b64 %p0, [sh], 2;",
        "gets a phase parity of 2; allowed is 0 or 1",
    );
    let Error::Fault(fault) =
        run_on(&Gpu::new(device()), "mbarrier.arrive.shared.b64 _, [sh];", Launch::linear(1, 1))
    else {
        panic!("no fault");
    };
    assert_eq!(fault.kind, FaultKind::Mbarrier { address: 0, problem: MbarrierProblem::Uninitialised });
}

#[test]
fn waits_that_never_end() {
    let text = message(
        "setp.ne.u32 %p0, %r0, 0; @%p0 bra W; mbarrier.init.shared.b64 [sh], 65; W: bar.sync 0;
         mbarrier.arrive.shared.b64 _, [sh]; setp.lt.u32 %p0, %r0, 32; @%p0 bra S;
         AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [sh], 0; @!%p1 bra AGAIN; S: bar.sync 1;",
    );
    assert!(
        text.ends_with(
            "deadlock: every live warp of the block waits at a barrier: barrier 1 has 32 of 64 threads, \
             warps 0; mbarrier at shared address 0x0 lacks 1 arrivals and 0 bytes, warps 1"
        ),
        "{text}"
    );
    let text =
        in_cluster("@%p1 bra END;\nbar.sync 3, 64;\nEND: barrier.cluster.arrive; barrier.cluster.wait;");
    assert!(text.contains("block (0, 0, 0), thread (0, 0, 0), ptx line 11, `bar.sync 3, 64`"), "{text}");
    assert!(
        text.ends_with(
            "deadlock: every live warp of the cluster waits: block rank 0: barrier 3 has 32 of 64 threads, \
             warps 0; block rank 1: barrier.cluster has 1 of 2 warps, warps 0"
        ),
        "{text}"
    );
}

#[test]
fn bulk_copies_that_cannot_be_made() {
    let copy = |to: &str, from: &str, bytes: &str, barrier: &str| {
        alone(&format!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{from}], {bytes}, [{barrier}];"
        ))
    };
    let ends = |text: String, expected: &str| assert!(text.ends_with(expected), "{text}");
    ends(copy("sh+16", "%rd0", "24", "sh"), "size of the copy is 0x18; allowed is a multiple of 0x10");
    ends(
        copy("sh+16", "%rd0+8", "16", "sh"),
        "copy of 16 bytes at global address 0x1000000000008 is misaligned; the address must be a multiple of 16",
    );
    ends(
        copy("sh+8", "%rd0", "16", "sh"),
        "copy of 16 bytes at shared address 0x8 is misaligned; the address must be a multiple of 16",
    );
    ends(
        copy("sh+16", "%rd0", "272", "sh"),
        "copy of 272 bytes at global address 0x1000000000000 is out of bounds; it ends 16 bytes past \
         the end of the buffer of argument 0, 256 bytes at 0x1000000000000",
    );
    ends(
        copy("sh+48", "%rd0", "32", "sh"),
        "copy of 32 bytes at shared address 0x30 is out of bounds; the space has 64 bytes, and the \
         access ends 16 bytes past its end; the last array is `sh`, 64 bytes at 0x0",
    );
    ends(
        copy("sh+16", "%rd0", "16", "sh+8"),
        "mbarrier at shared address 0x8 is not initialised; mbarrier.init must come first",
    );
    assert_alone(
        "cp.async.ca.shared.global [sh+16], [%rd0], 8, 9;",
        "source size of the copy is 0x9; allowed is at most the size of the copy",
    );
    assert_alone(
        "cp.async.cg.shared.global [sh+16], [%rd0+4], 16;",
        "copy of 16 bytes at global address 0x1000000000004 is misaligned; the address must be a multiple of 16",
    );
    // Faults of a copy's completion are reported at its issue.
    let text = alone(
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [sh+16], [%rd0], 16, [sh];
         mbarrier.inval.shared.b64 [sh]; LOOP: nanosleep.u32 1; bra LOOP;",
    );
    assert!(text.contains("ptx line 10, `cp.async.bulk"), "{text}");
    assert!(text.ends_with("mbarrier.init must make a new one first"), "{text}");
}

#[test]
fn blocks_that_exit_before_their_copies_land() {
    assert_alone(
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [sh+16], [%rd0], 32, [sh];",
        "bulk copy of 32 bytes still writes the shared memory of block rank 0 of the cluster as the \
         block exits; a wait for its mbarrier must come first",
    );
    assert_alone(
        "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [sh+16], 16; cp.async.bulk.commit_group;",
        "still reads the shared memory of block rank 0 of the cluster as the block exits; \
         cp.async.bulk.wait_group.read must come first",
    );
    // A block may exit once its bulk copies have read their source; a thread's own copies end with it.
    let gpu = Gpu::new(device());
    let data = u32s(&gpu, &[0; 64]);
    let body = "st.shared.u32 [sh], 7; cp.async.bulk.global.shared::cta.bulk_group [%rd0], [sh], 16;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.ca.shared.global [sh], [%rd0], 4;";
    let module = module(&super::kernel(body));
    gpu.launch(&module, "k", &Launch::linear(1, 1), &Args::new().ptr(data)).expect("runs");
    assert_eq!(crate::common::read_u32s(&gpu, data, 1), [7]);
}

#[test]
fn shared_memory_of_other_blocks() {
    let text = in_cluster(
        "@!%p1 bra END;\nLOOP: mapa.shared::cluster.u32 %r2, sh, 0; st.shared::cluster.u32 [%r2+4], %r1; bra LOOP; END:",
    );
    assert!(text.contains("block (1, 0, 0), thread (0, 0, 0), ptx line 11"), "{text}");
    assert!(
        text.ends_with(
            "store at shared address 0x4 of block rank 0 of the cluster, which has exited; a block must \
             wait for the last access by other blocks before it exits, for example at barrier.cluster"
        ),
        "{text}"
    );
    let text = in_cluster("mapa.shared::cluster.u32 %r2, sh, 5; ld.shared::cluster.u32 %r3, [%r2];");
    assert!(
        text.ends_with("load at shared address 0x0 of block rank 5; the cluster has 2 blocks"),
        "{text}"
    );
    // Without `::cluster`, an address must be in the block's own memory.
    let text = in_cluster("mapa.shared::cluster.u32 %r2, sh, 1; ld.shared.u32 %r3, [%r2];");
    assert!(text.contains("shared address 0x2000000 is out of bounds"), "{text}");
    let text = in_cluster("mapa.shared::cluster.u32 %r2, sh, 1; st.shared::cluster.u32 [%r2+64], %r3;");
    assert!(
        text.contains("shared address 0x40 is out of bounds; the space has 64 bytes, and"),
        "{text}"
    );
    let text = in_cluster(
        "setp.ne.u32 %p0, %r0, 0; @%p0 bra END; mbarrier.init.shared.b64 [sh], 1; mapa.shared::cluster.u32 %r2, sh, 1;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [sh+16], [%rd0], 16, [sh], 9; END:",
    );
    assert!(text.contains("of block rank 3; the cluster has 2 blocks"), "{text}");
    let text = in_cluster(
        "mapa.shared::cluster.u32 %r2, sh, 1;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+16], [%rd0], 16, [sh];",
    );
    assert!(text.ends_with("allowed is that of the block whose shared memory is written"), "{text}");
}

#[test]
fn cluster_barriers_out_of_order() {
    let ends = |body: &str, expected: &str| {
        let text = in_cluster(body);
        assert!(text.ends_with(expected), "{text}");
    };
    ends(
        "barrier.cluster.arrive; barrier.cluster.arrive;",
        "barrier.cluster.arrive follows another one without a barrier.cluster.wait in between",
    );
    ends("barrier.cluster.wait;", "barrier.cluster.wait without a barrier.cluster.arrive before it");
    ends(
        "setp.lt.u32 %p0, %r0, 20; @!%p0 bra SKIP; barrier.cluster.arrive; SKIP: bar.sync 1;",
        "barrier.cluster.arrive in divergent flow: warp 0 misses lanes 20-31; \
         all threads of the warp that have not exited must execute it together",
    );
}

#[test]
fn launches_of_clusters() {
    let gpu = Gpu::new(device());
    let module = module(
        ".version 8.6 .target sm_90 .entry plain() { ret; }
         .entry explicit() .explicitcluster { ret; }
         .entry required() .explicitcluster .reqnctapercluster 4, 1, 1 { ret; }
         .entry most() .maxclusterrank 4 { ret; }",
    );
    let launch = |entry: &str, grid: [u32; 3], cluster: Option<[u32; 3]>| {
        let launch = Launch { cluster, ..Launch::new(grid, [32, 1, 1]) };
        gpu.launch(&module, entry, &launch, &Args::new()).map(|s| s.blocks).map_err(|e| e.to_string())
    };
    let refused = |text: &str| Err(format!("launch of {text}"));
    assert_eq!(launch("plain", [6, 4, 1], Some([3, 2, 1])), Ok(24));
    assert_eq!(
        launch("plain", [7, 1, 1], Some([2, 1, 1])),
        refused("`plain`: grid.x is 7, allowed is a multiple of 2, the cluster's extent")
    );
    assert_eq!(
        launch("plain", [9, 9, 1], Some([3, 3, 1])),
        refused("`plain`: cluster size is 9, allowed is 1 to 8")
    );
    assert_eq!(
        launch("plain", [16, 1, 1], Some([16, 1, 1])),
        refused("`plain`: cluster.x is 16, allowed is 1 to 8")
    );
    assert_eq!(
        launch("plain", [16, 1, 1], Some([1, 0, 1])),
        refused("`plain`: cluster.y is 0, allowed is 1 to 8")
    );
    assert_eq!(
        launch("explicit", [4, 1, 1], None),
        refused("`explicit`: cluster size is 0, allowed is 1 to 8, which the launch must state")
    );
    assert_eq!(launch("explicit", [4, 1, 1], Some([1; 3])), Ok(4));
    assert_eq!(launch("required", [8, 1, 1], None), Ok(8));
    assert_eq!(
        launch("required", [6, 1, 1], None),
        refused("`required`: grid.x is 6, allowed is a multiple of 4, the cluster's extent")
    );
    assert_eq!(
        launch("required", [8, 1, 1], Some([2, 1, 1])),
        refused("`required`: cluster.x is 2, allowed is 4")
    );
    assert_eq!(
        launch("most", [8, 1, 1], Some([8, 1, 1])),
        refused("`most`: cluster size is 8, allowed is 1 to 4")
    );
    assert_eq!(module.entry("most").and_then(warpfold_sim::Entry::max_cluster_blocks), Some(4));
    let small = Gpu::new(Config { memory_limit: 10_000, ..device() });
    let error =
        small.launch(&module, "plain", &Launch::linear(8, 32).with_cluster([8, 1, 1]), &Args::new());
    let text = error.expect_err("too much").to_string();
    assert!(text.starts_with("a cluster of 8 blocks of `plain` needs "), "{text}");
}

#[test]
fn text_of_copies_and_clusters_that_is_not_supported() {
    let ends = |body: &str, expected: &str| {
        let text = refused(body);
        assert!(text.ends_with(expected), "{body}: {text}");
    };
    ends(
        "mbarrier.init.global.b64 [%rd0], 1;",
        "an mbarrier must be in shared memory, not in global memory",
    );
    ends(
        "mbarrier.arrive.shared::cluster.b64 %rd1, [%r0];",
        "an arrival in `.shared::cluster` memory returns no state, only `_`",
    );
    ends(
        "mbarrier.try_wait.parity.shared::cluster.b64 %p0, [%r0], 0;",
        "threads wait for mbarriers of their own block only",
    );
    ends(
        "mbarrier.shared.b64 [sh];",
        "one of `.init`, `.inval`, `.expect_tx`, `.complete_tx`, `.arrive`, `.arrive_drop`, `.test_wait`, `.try_wait`, `.pending_count`",
    );
    ends("mbarrier.arrive.noComplete.shared.b64 %rd1, [sh];", "`mbarrier` has 2 operands, allowed is 3");
    ends("cp.async.cg.shared.global [sh], [%rd0], 8;", "`cp.async.cg` copies 16 bytes");
    ends("cp.async.ca.shared.global [sh], [%rd0], 12;", "`cp.async.ca` copies 4, 8 or 16 bytes");
    ends("cp.async.ca.global.shared [%rd0], [sh], 4;", "`cp` does not copy between these state spaces");
    ends("cp.async.wait_group %r0;", "the number of groups that may stay pending must be a constant");
    ends("cp.async.bulk.wait_all;", "`cp.async.bulk` has no `.wait_all`");
    ends(
        "cp.async.bulk.shared::cluster.global.bulk_group [sh], [%rd0], 16;",
        "bulk copies to global memory complete through groups, all others through an mbarrier",
    );
    for mode in ["im2col", "im2col::w", "im2col::w::128", "tile::gather4"] {
        ends(
            &format!(
                "cp.async.bulk.tensor.3d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes [sh], \
                 [%rd0, {{%r0, %r0, %r0}}], [sh], {{1}};"
            ),
            &format!("copies of tensors by `.{mode}` are not supported; `.tile` is"),
        );
    }
    for mode in ["im2col_no_offs", "tile::scatter4"] {
        ends(
            &format!(
                "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.{mode}.bulk_group \
                 [%rd0, {{%r0, %r0, %r0}}], [sh];"
            ),
            &format!("copies of tensors by `.{mode}` are not supported; `.tile` is"),
        );
    }
    ends(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd0, {%r0}], [sh];",
        "1 coordinates are given, but 2 are needed for `.2d`",
    );
    ends(
        "cp.async.bulk.tensor.global.shared::cta.bulk_group [%rd0, {%r0}], [sh];",
        "`cp` needs a number of dimensions: one of `.1d`, `.2d`, `.3d`, `.4d`, `.5d`",
    );
    ends(
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd0], [sh];",
        "a copy of a tensor needs a tensor map and coordinates in brackets",
    );
    ends(
        "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%rd0], 4;",
        "operand 2 of `.swizzle_mode` must be a constant from 0 to 3",
    );
    ends(
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%rd0], 13;",
        "operand 2 of `.elemtype` must be a constant from 0 to 12",
    );
    ends(
        "tensormap.replace.tile.global_stride.global.b1024.b64 [%rd0], %r0, %rd0;",
        "operand 2 of `.global_stride` must be a constant from 0 to 3",
    );
    ends(
        "tensormap.replace.tile.rank.global.b1024.b64 [%rd0], %rd0;",
        "`tensormap` has no form for type `.b64` with these modifiers",
    );
    ends(
        "tensormap.replace.tile.interleave_layout.global.b1024.b32 [%rd0], 1;",
        "operand 2 of `.interleave_layout` must be the constant 0",
    );
    ends(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd0], [sh], 64;",
        "`tensormap.cp_fenceproxy` copies 128 bytes",
    );
    ends(
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.exch.bulk_group [%rd0, {%r0}], [sh];",
        "tensors are reduced by operations other than `.exch` and `.cas`",
    );
    ends(
        "mapa.u32 %r1, %r0, 0;",
        "a generic address needs 64 bits; 32 bits are allowed with `.shared::cluster`",
    );
    ends("barrier.cluster.sync;", "`barrier` needs an operation: one of `.arrive`, `.wait`");
}
