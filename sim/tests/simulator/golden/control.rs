//! Branches, calls, barriers and instructions without effect.

use super::harness::{Case, case, lanes};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        lanes(
            "r = r",
            "setp.lt.u32 %done, %i0, 10; *@%done bra LESS; mov.u32 %o0, 2; bra.uni END; LESS: mov.u32 %o0, 1; END:",
            |lane| [lane],
            |lane| [if lane < 10 { 1 } else { 2 }],
        ),
        lanes(
            "r = r",
            ".reg .b32 %n; mov.u32 %n, %i0; mov.u32 %o0, 0;
             AGAIN: add.u32 %o0, %o0, %n; sub.u32 %n, %n, 1; setp.gt.s32 %done, %n, 0; *@%done bra AGAIN;",
            |lane| [lane + 1],
            |lane| [(lane + 1) * (lane + 2) / 2],
        ),
        lanes(
            "r = r",
            "brx.idx %i0, TABLE;
             TABLE: .branchtargets A, B, C;
             A: mov.u32 %o0, 10; bra D; B: mov.u32 %o0, 20; bra D; C: mov.u32 %o0, 30; D:",
            |lane| [lane % 3],
            |lane| [lane % 3 * 10 + 10],
        ),
        case("r = r", "setmaxnreg.inc.sync.aligned.u32 32; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        case("r = r", "setmaxnreg.dec.sync.aligned.u32 256; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        // Exited lanes store nothing: their outputs stay 0.
        lanes(
            "r = r",
            "mov.u32 %o0, %i0; setp.ge.u32 %done, %lane, 20; *@%done exit;",
            |lane| [lane + 1],
            |lane| [if lane < 20 { lane + 1 } else { 0 }],
        ),
        lanes(
            "r = r",
            "mov.u32 %o0, %i0; setp.ge.u32 %done, %lane, 20; *@%done ret;",
            |lane| [lane + 1],
            |lane| [if lane < 20 { lane + 1 } else { 0 }],
        ),
        lanes("r = r", "setp.gt.u32 %done, %lane, 99; *@%done trap; mov.u32 %o0, %i0;", |lane| [lane], |lane| [lane]),
        case("r = r", "brkpt; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        case("r = r", "pmevent 3; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        case("r = r", "nanosleep.u32 40; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        case("r = r", "griddepcontrol.wait; griddepcontrol.launch_dependents; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        // Each lane allocates another size; the second allocation does not overlap the first.
        lanes(
            "r = d",
            ".reg .b64 %p, %q; .reg .b32 %v; *alloca.u64 %p, %i0; alloca.u64 %q, 8, 64; st.local.u32 [%p+4], %lane;
             st.local.u32 [%q], 1000; ld.local.u32 %o0, [%p+4]; ld.local.u32 %v, [%q]; add.u32 %o0, %o0, %v;",
            |lane| [8 + 4 * lane],
            |lane| [1000 + lane],
        ),
        lanes(
            "r = r",
            ".reg .b32 %p, %q; *alloca.u32 %p, %i0, 16; alloca.u32 %q, %i0, 1; sub.u32 %o0, %q, %p;",
            |lane| [lane],
            |lane| [lane.next_multiple_of(8)],
        ),
        lanes(
            "r = d",
            ".reg .b64 %s, %t, %p; *stacksave.u64 %s; alloca.u64 %p, %i0; stackrestore.u64 %s; stacksave.u64 %t;
             sub.u64 %t, %t, %s; cvt.u32.u64 %o0, %t;",
            |lane| [lane],
            |_| [0],
        ),
        lanes(
            "r = r",
            ".reg .b32 %s, %p, %q; stacksave.u32 %s; alloca.u32 %p, %i0; *stackrestore.u32 %s; alloca.u32 %q, 4;
             sub.u32 %o0, %q, %p;",
            |lane| [lane],
            |_| [0],
        ),
        case("r = r", "bar.sync 0; mov.u32 %o0, %i0;", &[(&[5], &[5]), (&[6], &[6])]),
        case("r = r", "bar.warp.sync 3; mov.u32 %o0, %i0;", &[(&[5], &[5]), (&[6], &[6])]),
        case("r = r", "barrier.sync.aligned 1, 32; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        case("r = r", "barrier.cta.sync 0; bar.arrive 2, 64; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        lanes("r = p", "bar.red.popc.u32 %o0, 0, %i0;", |lane| [lane % 3 / 2], |_| [10]),
        lanes("p = p", "barrier.red.and.pred %o0, 0, %i0;", |lane| [u64::from(lane != 5)], |_| [0]),
        lanes("p = p", "bar.red.or.pred %o0, 0, 32, !%i0;", |lane| [u64::from(lane != 5)], |_| [1]),
    ]
}
