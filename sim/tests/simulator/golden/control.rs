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
        case("r = r", "bar.sync 0; mov.u32 %o0, %i0;", &[(&[5], &[5]), (&[6], &[6])]),
        case("r = r", "bar.warp.sync 3; mov.u32 %o0, %i0;", &[(&[5], &[5]), (&[6], &[6])]),
        case("r = r", "barrier.sync.aligned 1, 32; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        case("r = r", "barrier.cta.sync 0; bar.arrive 2, 64; mov.u32 %o0, %i0;", &[(&[5], &[5])]),
        lanes("r = p", "bar.red.popc.u32 %o0, 0, %i0;", |lane| [lane % 3 / 2], |_| [10]),
        lanes("p = p", "barrier.red.and.pred %o0, 0, %i0;", |lane| [u64::from(lane != 5)], |_| [0]),
        lanes("p = p", "bar.red.or.pred %o0, 0, 32, !%i0;", |lane| [u64::from(lane != 5)], |_| [1]),
    ]
}
