//! mbarriers, asynchronous copies and clusters of one block.

use super::harness::{Case, case, lanes};

pub(crate) fn cases() -> Vec<Case> {
    [mbarriers(), few(), bulk(), tensor_maps(), clusters()].into_iter().flatten().collect()
}

fn with_barrier(count: &str, text: &str) -> String {
    format!(
        "setp.eq.u32 %done, %lane, 0; *@%done mbarrier.init.shared::cta.b64 [shm], {count}; bar.sync 0; {text}"
    )
}

fn mbarriers() -> Vec<Case> {
    let single = |signature, count: &str, text: &str, outputs: &[u64]| {
        case(signature, &with_barrier(count, text), &[(&[], outputs)])
    };
    vec![
        single(
            "ppp = ",
            "2",
            ".reg .b64 %s; mbarrier.arrive.shared::cta.b64 %s, [shm];
             mbarrier.test_wait.shared::cta.b64 %o0, [shm], %s; mbarrier.arrive.shared.b64 _, [shm];
             mbarrier.test_wait.acquire.cta.shared::cta.b64 %o1, [shm], %s;
             mbarrier.try_wait.parity.shared::cta.b64 %o2, [shm], 0, 1000;",
            &[0, 1, 1],
        ),
        // The phase before the first has parity 1 and is complete.
        single(
            "pp = ",
            "1",
            "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %o0, [shm], 1;
             mbarrier.test_wait.parity.shared.b64 %o1, [shm], 0;",
            &[1, 0],
        ),
        single(
            "rr = ",
            "9",
            ".reg .b64 %s; mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %s, [shm], 3;
             mbarrier.pending_count.b64 %o0, %s; mbarrier.arrive.release.cluster.shared::cta.b64 %s, [shm], 2;
             mbarrier.pending_count.b64 %o1, %s;",
            &[9, 6],
        ),
        single(
            "ppp = ",
            "1",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [shm], 64; mbarrier.test_wait.parity.shared.b64 %o0, [shm], 0;
             mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [shm], 48;
             mbarrier.test_wait.parity.shared.b64 %o1, [shm], 0; mbarrier.complete_tx.shared::cluster.b64 [shm], 16;
             mbarrier.test_wait.parity.shared.b64 %o2, [shm], 0;",
            &[0, 0, 1],
        ),
        single(
            "pr = ",
            "1",
            ".reg .b64 %s, %a; mov.u64 %a, shm; cvta.shared.u64 %a, %a;
             mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [shm], 8; mbarrier.complete_tx.b64 [%a], 8;
             mbarrier.arrive.b64 %s, [%a]; mbarrier.test_wait.b64 %o0, [%a], %s; mbarrier.pending_count.b64 %o1, %s;",
            &[1, 1],
        ),
        // The next phase does not wait for a lane that has dropped out.
        single(
            "pr = ",
            "3",
            ".reg .b64 %s; mbarrier.arrive_drop.shared::cta.b64 _, [shm], 1; mbarrier.arrive.shared.b64 _, [shm], 2;
             mbarrier.test_wait.parity.shared.b64 %o0, [shm], 0; mbarrier.arrive.shared.b64 %s, [shm];
             mbarrier.pending_count.b64 %o1, %s;",
            &[1, 2],
        ),
        single("p = ", "1", "mbarrier.inval.shared::cta.b64 [shm]; mbarrier.init.shared.b64 [shm], 5; mbarrier.test_wait.parity.shared.b64 %o0, [shm], 0;", &[0]),
        lanes(
            "rp = ",
            &with_barrier(
                "32",
                ".reg .b64 %s; mbarrier.arrive.shared::cta.b64 %s, [shm]; mbarrier.pending_count.b64 %o0, %s;
                 AGAIN: mbarrier.try_wait.shared::cta.b64 %o1, [shm], %s; @!%o1 bra AGAIN;",
            ),
            |_| [],
            |lane| [32 - lane, 1],
        ),
    ]
}

fn few() -> Vec<Case> {
    let place = ".reg .b32 %s; .reg .b64 %g; mad.lo.u32 %s, %lane, 16, shm; mov.b64 %g, %scratch;";
    let copied = |text: &str| format!("{place} st.global.v2.u64 [%scratch], {{%i0, %i1}}; {text}");
    let pairs = |text: &str, outputs: fn(u64) -> [u64; 2]| {
        lanes("dd = d d", &copied(text), |lane| [lane << 40 | 1, lane + 7], outputs)
    };
    let all = |lane: u64| [lane << 40 | 1, lane + 7];
    let read = "ld.shared.v2.u64 {%o0, %o1}, [%s];";
    vec![
        pairs(&format!("*cp.async.ca.shared.global [%s], [%g], 16; cp.async.wait_all; {read}"), all),
        pairs(
            &format!(
                ".reg .b64 %policy; createpolicy.fractional.L2::evict_last.b64 %policy, 0.5;
                 *cp.async.cg.shared::cta.global.L2::cache_hint.L2::128B [%s], [%g], 16, 16, %policy;
                 cp.async.commit_group; cp.async.wait_group 0; {read}"
            ),
            all,
        ),
        pairs(
            &format!("*cp.async.ca.shared.global.L2::64B [%s], [%g], 16, 8; cp.async.wait_all; {read}"),
            |lane| [lane << 40 | 1, 0],
        ),
        pairs(
            &format!(
                "*cp.async.ca.shared.global [%s], [%g], 8; cp.async.ca.shared.global [%s+8], [%g+8], 4; cp.async.wait_all; {read}"
            ),
            all,
        ),
        pairs(
            &format!(
                "st.shared.u64 [%s], -1; setp.lt.u32 %done, %lane, 9;
                 *cp.async.cg.shared.global [%s], [%g], 16, %done; cp.async.wait_all; {read}"
            ),
            |lane| if lane < 9 { [0, 0] } else { [lane << 40 | 1, lane + 7] },
        ),
        // Nothing has arrived before the wait; a group that need not be waited for may still be pending.
        pairs(
            "*cp.async.ca.shared.global [%s], [%g], 8; cp.async.commit_group;
             cp.async.ca.shared.global [%s+8], [%g+8], 8; cp.async.commit_group;
             cp.async.wait_group 1; ld.shared.v2.u64 {%o0, %o1}, [%s];",
            |lane| [lane << 40 | 1, 0],
        ),
        lanes(
            "d = d",
            &format!(
                "{} mbarrier.init.shared.b64 [shm+1024], 32; END: bar.sync 0;
                 st.global.u64 [%scratch], %i0; *cp.async.ca.shared.global [%s], [%g], 8;
                 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [shm+1024];
                 AGAIN: mbarrier.try_wait.parity.shared.b64 %done, [shm+1024], 0; @!%done bra AGAIN; ld.shared.u64 %o0, [%s];",
                format_args!("{place} setp.ne.u32 %done, %lane, 0; @%done bra END;")
            ),
            |lane| [lane * 3],
            |lane| [lane * 3],
        ),
        // Without `.noinc` the asynchronous arrival first increments the pending count, so that the
        // phase also waits for this arrival.
        lanes(
            "dp = d",
            &format!(
                "{place} setp.ne.u32 %done, %lane, 0; @!%done mbarrier.init.shared.b64 [shm+1024], 1; bar.sync 0;
                 st.global.u64 [%scratch], %i0; *cp.async.ca.shared.global [%s], [%g], 8;
                 cp.async.mbarrier.arrive.shared.b64 [shm+1024]; bar.sync 0;
                 @!%done mbarrier.arrive.shared.b64 _, [shm+1024];
                 mbarrier.try_wait.parity.shared.b64 %o1, [shm+1024], 0; ld.shared.u64 %o0, [%s];"
            ),
            |lane| [lane * 3],
            |lane| [lane * 3, 1],
        ),
    ]
}

fn bulk() -> Vec<Case> {
    let one = |signature, text: &str, inputs: &[u64], outputs: &[u64]| {
        let text = format!("mbarrier.init.shared.b64 [shm+1024], 1; {text}");
        case(signature, &text, &[(inputs, outputs)])
    };
    let wait =
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %done, [shm+1024], 0; @!%done bra AGAIN;";
    let expect = "st.global.v2.u64 [%scratch], {%i0, %i1};
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [shm+1024], 16;";
    let load = |form: &str, operands: &str| {
        let text = format!(
            ".reg .b64 %policy; createpolicy.fractional.L2::evict_first.b64 %policy; {expect}
             *cp.async.bulk.{form} [shm], [%scratch], 16, [shm+1024]{operands}; {wait} ld.shared.v2.u64 {{%o0, %o1}}, [shm];"
        );
        one("dd = d d", &text, &[5, 6], &[5, 6])
    };
    let done = "mbarrier::complete_tx::bytes";
    vec![
        load(&format!("shared::cluster.global.{done}"), ""),
        load(&format!("shared::cta.global.{done}"), ""),
        load(&format!("shared::cluster.global.{done}.L2::cache_hint"), ", %policy"),
        load(&format!("shared::cluster.global.{done}.multicast::cluster"), ", 1"),
        load(&format!("shared::cluster.global.{done}.multicast::cluster.L2::cache_hint"), ", 1, %policy"),
        one(
            "d = d d",
            &format!(
                "{expect} st.shared.v2.u64 [shm+16], {{%i1, %i0}};
                 *cp.async.bulk.shared::cluster.shared::cta.{done} [shm], [shm+16], 16, [shm+1024]; {wait} ld.shared.u64 %o0, [shm];"
            ),
            &[5, 6],
            &[6],
        ),
        one(
            "dd = d d",
            "st.shared.v2.u64 [shm], {%i0, %i1}; *cp.async.bulk.global.shared::cta.bulk_group [%scratch+16], [shm], 16;
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ld.global.v2.u64 {%o0, %o1}, [%scratch+16];",
            &[5, 6],
            &[5, 6],
        ),
        // `.read` waits for the source only.
        one(
            "ddd = d d",
            "st.shared.v2.u64 [shm], {%i0, %i1}; *cp.async.bulk.global.shared::cta.bulk_group [%scratch], [shm], 16;
             cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; st.shared.u64 [shm], 99;
             ld.global.u64 %o2, [%scratch]; cp.async.bulk.wait_group 0; ld.global.v2.u64 {%o0, %o1}, [%scratch];",
            &[5, 6],
            &[5, 6, 0],
        ),
        one(
            "dd = d d",
            "st.global.v2.u64 [%scratch], {%i0, %i0}; st.shared.v2.u64 [shm], {%i0, %i1};
             *cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%scratch], [shm], 16;
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ld.global.v2.u64 {%o0, %o1}, [%scratch];",
            &[5, 6],
            &[10, 11],
        ),
        one(
            "r = d d",
            &format!(
                "mbarrier.arrive.expect_tx.shared.b64 _, [shm+1024], 12; st.shared.u32 [shm+8], 40;
                 st.async.weak.shared::cluster.{done}.v2.u32 [shm], {{1, 2}}, [shm+1024];
                 red.async.relaxed.cluster.shared::cluster.{done}.add.u32 [shm+8], 2, [shm+1024];
                 AGAIN: *mbarrier.try_wait.parity.shared.b64 %done, [shm+1024], 0; @!%done bra AGAIN;
                 .reg .b32 %x; ld.shared.u32 %x, [shm+4]; ld.shared.u32 %o0, [shm+8]; mad.lo.u32 %o0, %o0, 10, %x;"
            ),
            &[0, 0],
            &[422],
        ),
        one("d = d d", "*cp.async.bulk.prefetch.L2.global [%scratch], 32; mov.b64 %o0, %i0;", &[5, 6], &[5]),
        one(
            "d = d d",
            "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta; fence.proxy.async.global;
             fence.acq_rel.cluster; fence.proxy.tensormap::generic.release.gpu;
             *mbarrier.inval.shared.b64 [shm+1024]; mov.b64 %o0, %i0;",
            &[5, 6],
            &[5],
        ),
    ]
}

/// Returns a case that makes a map of the first two doublewords of lanes 16 to 31 in scratch memory, and
/// loads them.
fn tensor_maps() -> Vec<Case> {
    let fields = [
        ("global_address", "b64", "%to"),
        ("rank", "b32", "1"),
        ("box_dim", "b32", "0, 2"),
        ("box_dim", "b32", "1, 16"),
        ("global_dim", "b32", "0, 2"),
        ("global_dim", "b32", "1, 16"),
        ("global_stride", "b64", "0, 64"),
        ("element_stride", "b32", "0, 1"),
        ("element_stride", "b32", "1, 1"),
        ("elemtype", "b32", "4"),
    ];
    let set = fields.map(|(field, ty, value)| {
        format!("@%lead tensormap.replace.tile.{field}.shared::cta.b1024.{ty} [shm], {value};")
    });
    let text = format!(
        "setp.eq.u32 %done, %lane, 0; @%done mbarrier.init.shared.b64 [shm+1024], 1;
         .reg .pred %lead; .reg .b32 %s; .reg .b64 %to; setp.eq.u32 %lead, %lane, 0; add.u64 %to, %all, 1024;
         mad.lo.u32 %s, %lane, 4, shm; st.shared.u32 [%s], 0; st.global.v2.u64 [%scratch], {{%i0, %i0}}; bar.sync 0;
         {} *tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%all], [shm], 128;
         fence.proxy.tensormap::generic.acquire.gpu [%all], 128; prefetch.tensormap [%all];
         @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [shm+1024], 256;
         @%lead cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [shm+128], [%all, {{0, 0}}], [shm+1024];
         AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %done, [shm+1024], 0; @!%done bra AGAIN;
         mad.lo.u32 %s, %lane, 8, shm; ld.shared.u64 %o0, [%s+128];",
        set.concat(),
    );
    vec![lanes("d = d", &text, |lane| [lane + 7], |lane| [lane / 2 + 16 + 7])]
}

/// Returns cases for a launch without clusters, in which each block is a cluster of its own.
fn clusters() -> Vec<Case> {
    vec![
        lanes("r = ", "getctarank.shared::cluster.u32 %o0, shm;", |_| [], |_| [0]),
        lanes(
            "rr = r",
            ".reg .b32 %a, %b; shl.b32 %a, %lane, 2; add.u32 %a, %a, shm; *mapa.shared::cluster.u32 %b, %a, 0;
             st.shared::cluster.u32 [%b], %i0; ld.shared.u32 %o0, [%a]; ld.shared::cluster.u32 %o1, [%a];",
            |lane| [lane * 7],
            |lane| [lane * 7, lane * 7],
        ),
        lanes(
            "rr = r",
            ".reg .b64 %a, %b; mov.u64 %a, shm; cvta.shared.u64 %a, %a; mad.wide.u32 %a, %lane, 4, %a;
             *mapa.u64 %b, %a, 0; st.u32 [%b], %i0; ld.u32 %o0, [%a]; getctarank.u64 %o1, %b;",
            |lane| [lane * 7],
            |lane| [lane * 7, 0],
        ),
        lanes(
            "pp = ",
            ".reg .b64 %a; mov.u64 %a, shm; cvta.shared.u64 %a, %a; mapa.u64 %a, %a, 0;
             *isspacep.shared::cluster %o0, %a; isspacep.shared::cta %o1, %a;",
            |_| [],
            |_| [1, 0],
        ),
        lanes(
            "rrr = ",
            "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; mov.u32 %o0, %cluster_nctarank;
             mov.u32 %o1, %cluster_nctaid.y; mov.u32 %o2, %nclusterid.x; @%is_explicit_cluster trap;",
            |_| [],
            |_| [1, 1, 1],
        ),
        lanes("rr = ", ".reg .pred %p; mov.pred %p, %is_explicit_cluster; selp.u32 %o0, 1, 0, %p; mov.u32 %o1, %clusterid.x;", |_| [], |_| [0, 0]),
    ]
}
