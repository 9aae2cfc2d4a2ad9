use super::harness::{Case, case, lanes};

const ONE: u64 = 0x3f80_0000;
const ONES32: u64 = 0xffff_ffff;

pub(crate) fn cases() -> Vec<Case> {
    [loads(), vectors(), spaces(), atomics(), reductions(), fences(), textures()]
        .into_iter()
        .flatten()
        .collect()
}

fn loads() -> Vec<Case> {
    // 0x81 and 0x8081 have their top bits set, so that sign extension shows.
    let store = "st.global.u32 [%scratch], %i0;";
    let load = |signature, ty: &str, expected: u64| {
        let text = format!("{store} *ld.global.{ty} %o0, [%scratch];");
        case(signature, &text, &[(&[0x8283_8081], &[expected])])
    };
    vec![
        load("r = r", "u8", 0x81),
        load("r = r", "s8", 0xffff_ff81),
        load("h = r", "s8", 0xff81),
        load("d = r", "s8", 0xffff_ffff_ffff_ff81),
        load("r = r", "b16", 0x8081),
        load("r = r", "s16", 0xffff_8081),
        load("h = r", "u16", 0x8081),
        load("d = r", "u32", 0x8283_8081),
        load("d = r", "s32", 0xffff_ffff_8283_8081),
        load("r = r", "f32", 0x8283_8081),
        load("d = r", "b64", 0x8283_8081),
        load("r = r", "nc.L1::no_allocate.L2::128B.b32", 0x8283_8081),
        case(
            "r = r",
            "st.global.b32 [%scratch], %i0; *ldu.global.u32 %o0, [%scratch];",
            &[(&[5], &[5])],
        ),
        case(
            "r = r",
            "st.volatile.global.u32 [%scratch+4], %i0; *ld.volatile.global.u32 %o0, [%scratch+4];",
            &[(&[5], &[5])],
        ),
        case(
            "r = r",
            "st.release.gpu.global.u32 [%scratch], %i0; *ld.acquire.sys.global.u32 %o0, [%scratch];",
            &[(&[5], &[5])],
        ),
        case(
            "r = r",
            "st.relaxed.cta.u32 [%scratch], %i0; *ld.relaxed.gpu.u32 %o0, [%scratch];",
            &[(&[5], &[5])],
        ),
        case(
            "r = r",
            "st.global.wt.u32 [%scratch], %i0; *ld.global.ca.u32 %o0, [%scratch];",
            &[(&[5], &[5])],
        ),
        case(
            "r = r",
            ".reg .b64 %policy; createpolicy.fractional.L2::evict_first.b64 %policy;
             st.global.L2::cache_hint.u32 [%scratch], %i0, %policy;
             *ld.global.L1::evict_first.L2::cache_hint.u32 %o0, [%scratch], %policy;",
            &[(&[5], &[5])],
        ),
        case(
            "d = d",
            "*st.u8 [%scratch+3], %i0; ld.u64 %o0, [%scratch];",
            &[(&[0x1ab], &[0xab00_0000])],
        ),
        case(
            "d = h",
            "*st.global.b16 [%scratch+6], %i0; ld.u64 %o0, [%scratch];",
            &[(&[0xbeef], &[0xbeef_0000_0000_0000])],
        ),
        case(
            "d = ",
            "*st.global.u64 [%scratch], -2; ld.u64 %o0, [%scratch];",
            &[(&[], &[0xffff_ffff_ffff_fffe])],
        ),
        case(
            "r = ",
            "st.global.f32 [%scratch], 0f3F800000; *ld.global.f32 %o0, [%scratch+0];",
            &[(&[], &[ONE])],
        ),
        // Adjacent, strided, reversed and uniform addresses: a separate code path each.
        lanes(
            "r = r",
            ".reg .b64 %a; st.shared.u32 [shm], 0; mad.wide.u32 %a, %lane, 4, %all; *st.global.u32 [%a], %i0; ld.global.u32 %o0, [%a];",
            |lane| [lane * 3],
            |lane| [lane * 3],
        ),
        lanes(
            "r = r",
            ".reg .b64 %a, %b; .reg .b32 %m; mad.wide.u32 %a, %lane, 4, %all; *st.global.u32 [%a], %i0;
             sub.u32 %m, 31, %lane; mad.wide.u32 %b, %m, 4, %all; ld.global.u32 %o0, [%b];",
            |lane| [lane * 3],
            |lane| [(31 - lane) * 3],
        ),
        lanes(
            "d = d",
            ".reg .b64 %a; mad.wide.u32 %a, %lane, 8, %all; *st.global.u64 [%a], %i0; ld.global.u64 %o0, [%a];",
            |lane| [lane << 40],
            |lane| [lane << 40],
        ),
        lanes(
            "r = r",
            "setp.eq.u32 %done, %lane, 7; @%done st.global.u32 [%all], %i0; *ld.global.u32 %o0, [%all];",
            |lane| [lane * 5],
            |_| [35],
        ),
        lanes(
            "r = r",
            ".reg .b64 %a; mad.wide.u32 %a, %lane, 4, %all; *st.global.u32 [%a+4], %i0; ld.global.u32 %o0, [%a+4];",
            |lane| [lane + 100],
            |lane| [lane + 100],
        ),
    ]
}

fn vectors() -> Vec<Case> {
    let each = "mad.wide.u32 %a, %lane, 16, %all;";
    vec![
        lanes(
            "rrrr = r r",
            &format!(
                ".reg .b64 %a; {each} *st.global.v4.u32 [%a], {{%i0, %i1, 7, %i0}}; ld.global.v4.b32 {{%o0, %o1, %o2, %o3}}, [%a];"
            ),
            |lane| [lane, lane + 50],
            |lane| [lane, lane + 50, 7, lane],
        ),
        lanes(
            "rr = r r",
            ".reg .b64 %a; mad.wide.u32 %a, %lane, 8, %all; st.global.v2.f32 [%a], {%i0, %i1}; *ld.global.nc.v2.f32 {%o0, %o1}, [%a];",
            |lane| [lane, lane + 50],
            |lane| [lane, lane + 50],
        ),
        lanes(
            "dd = d d",
            &format!(
                ".reg .b64 %a; {each} st.global.v2.u64 [%a], {{%i0, %i1}}; *ld.global.v2.b64 {{%o0, %o1}}, [%a];"
            ),
            |lane| [lane << 33, lane],
            |lane| [lane << 33, lane],
        ),
        case(
            "rr = r r",
            "st.global.v2.b32 [%scratch+8], {%i0, %i1}; *ld.global.v4.b32 {_, _, %o0, %o1}, [%scratch];",
            &[(&[3, 4], &[3, 4])],
        ),
        case(
            "rrrr = r",
            "st.shared.u32 [shm], %i0; *ld.shared.v4.u8 {%o0, %o1, %o2, %o3}, [shm];",
            &[(&[0x0403_0281], &[0x81, 2, 3, 4])],
        ),
        case(
            "hh = h h",
            "st.global.v2.u16 [%scratch], {%i0, %i1}; *ld.global.v2.b16 {%o0, %o1}, [%scratch];",
            &[(&[0xffff, 0x1234], &[0xffff, 0x1234])],
        ),
    ]
}

fn spaces() -> Vec<Case> {
    vec![
        lanes(
            "r = r",
            ".reg .b32 %a; shl.b32 %a, %lane, 2; add.u32 %a, %a, shm; *st.shared.u32 [%a], %i0; ld.shared::cta.u32 %o0, [%a];",
            |lane| [lane * 7],
            |lane| [lane * 7],
        ),
        lanes(
            "r = r",
            ".reg .b32 %a, %b; mad.lo.u32 %a, %lane, 4, shm; xor.b32 %b, %a, 4; st.shared.u32 [%a], %i0; *ld.shared.u32 %o0, [%b];",
            |lane| [lane * 7],
            |lane| [(lane ^ 1) * 7],
        ),
        lanes("r = r", "st.local.u32 [loc+12], %i0; *ld.local.u32 %o0, [loc+12];", |lane| [lane], |lane| [lane]),
        lanes("r = ", "ld.local.u32 %o0, [loc];", |_| [], |_| [0]),
        case("rr = ", "*ld.const.u32 %o0, [cst+8]; ld.const.u32 %o1, [cst+12];", &[(&[], &[103, 0xffff_fff0])]),
        lanes(
            "r = r",
            ".reg .b64 %a; mov.u64 %a, cst; mad.wide.u32 %a, %i0, 4, %a; *ld.const.u32 %o0, [%a];",
            |lane| [lane % 3],
            |lane| [101 + lane % 3],
        ),
        case("r = ", "ld.global.u32 %o0, [dev+8];", &[(&[], &[33])]),
        case("r = ", ".reg .b64 %a; mov.u64 %a, dev; *ld.u32 %o0, [%a+4];", &[(&[], &[22])]),
        case("r = ", ".reg .b64 %a; mov.u64 %a, dev+12; *ld.global.u32 %o0, [%a];", &[(&[], &[44])]),
        case("r = ", "ld.param.u32 %o0, [count];", &[(&[], &[1])]),
        case("r = ", ".reg .b64 %a; mov.b64 %a, input; *ld.param.u32 %o0, [%a+24];", &[(&[], &[1])]),
        lanes(
            "r = ",
            ".reg .b64 %g, %s; mov.u64 %s, shm; cvta.shared.u64 %g, %s; st.shared.u32 [shm], 9;
             st.global.u32 [%scratch], 8; setp.lt.u32 %done, %lane, 11; selp.b64 %g, %g, %scratch, %done; *ld.u32 %o0, [%g];",
            |_| [],
            |lane| [if lane < 11 { 9 } else { 8 }],
        ),
    ]
}

fn atomics() -> Vec<Case> {
    let on = |signature, operation: &str, width: &str, rows: &[(&[u64], &[u64])]| {
        let text = format!(
            "st.global.{width} [%scratch], %i0; *atom.global.{operation} %o0, [%scratch], %i1; ld.global.{width} %o1, [%scratch];"
        );
        case(signature, &text, rows)
    };
    vec![
        on("rr = r r", "add.u32", "b32", &[(&[ONES32, 2], &[ONES32, 1])]),
        on("rr = r r", "relaxed.gpu.add.s32", "b32", &[(&[5, ONES32], &[5, 4])]),
        on("dd = d d", "add.u64", "b64", &[(&[u64::MAX, 2], &[u64::MAX, 1])]),
        on("rr = r r", "add.f32", "b32", &[(&[ONE, ONE], &[ONE, 0x4000_0000]), (&[1, 1], &[1, 0])]),
        on(
            "dd = d d",
            "add.f64",
            "b64",
            &[(
                &[0x3ff0_0000_0000_0000, 0x3ff0_0000_0000_0000],
                &[0x3ff0_0000_0000_0000, 0x4000_0000_0000_0000],
            )],
        ),
        on("rr = r r", "min.s32", "b32", &[(&[1, ONES32], &[1, ONES32])]),
        on("rr = r r", "min.u32", "b32", &[(&[1, ONES32], &[1, 1])]),
        on("rr = r r", "max.s32", "b32", &[(&[1, ONES32], &[1, 1])]),
        on("rr = r r", "max.u32", "b32", &[(&[1, ONES32], &[1, ONES32])]),
        on("dd = d d", "max.s64", "b64", &[(&[1, u64::MAX], &[1, 1])]),
        on("dd = d d", "min.u64", "b64", &[(&[5, 3], &[5, 3])]),
        on("rr = r r", "inc.u32", "b32", &[(&[3, 3], &[3, 0]), (&[2, 3], &[2, 3]), (&[9, 3], &[9, 0])]),
        on("rr = r r", "dec.u32", "b32", &[(&[0, 3], &[0, 3]), (&[2, 3], &[2, 1]), (&[9, 3], &[9, 3])]),
        on("rr = r r", "and.b32", "b32", &[(&[6, 3], &[6, 2])]),
        on("rr = r r", "or.b32", "b32", &[(&[6, 3], &[6, 7])]),
        on("dd = d d", "xor.b64", "b64", &[(&[6, 3], &[6, 5])]),
        on("rr = r r", "acq_rel.gpu.exch.b32", "b32", &[(&[6, 3], &[6, 3])]),
        on("dd = d d", "exch.b64", "b64", &[(&[6, 3], &[6, 3])]),
        on(
            "rr = r r",
            "add.noftz.f16x2",
            "b32",
            &[(&[0x3c00_3c00, 0x4000_3c00], &[0x3c00_3c00, 0x4200_4000])],
        ),
        on(
            "rr = r r",
            "add.noftz.bf16x2",
            "b32",
            &[(&[0x3f80_3f80, 0x4000_3f80], &[0x3f80_3f80, 0x4040_4000])],
        ),
        case(
            "rr = r r r",
            "st.global.u32 [%scratch], %i0; *atom.global.cas.b32 %o0, [%scratch], %i1, %i2; ld.global.u32 %o1, [%scratch];",
            &[(&[5, 5, 9], &[5, 9]), (&[5, 6, 9], &[5, 5])],
        ),
        case(
            "dd = d d d",
            "st.global.u64 [%scratch+8], %i0; *atom.acquire.sys.global.cas.b64 %o0, [%scratch+8], %i1, %i2; ld.global.u64 %o1, [%scratch+8];",
            &[(&[5 << 40, 5 << 40, 9], &[5 << 40, 9])],
        ),
        case(
            "hh = h h h",
            "st.global.u16 [%scratch+2], %i0; *atom.global.cas.b16 %o0, [%scratch+2], %i1, %i2; ld.global.u16 %o1, [%scratch+2];",
            &[(&[0xffff, 0xffff, 9], &[0xffff, 9])],
        ),
        // Lanes execute in order; each sees the sum of the lanes before it.
        lanes(
            "r = r",
            "atom.global.add.u32 %o0, [%all], %i0;",
            |lane| [lane],
            |lane| [lane * lane.saturating_sub(1) / 2],
        ),
        lanes("r = r", "atom.shared.add.u32 %o0, [shm], %i0;", |_| [2], |lane| [2 * lane]),
        lanes(
            "r = r",
            "atom.shared::cta.max.s32 %o0, [shm+4], %i0;",
            |lane| [lane],
            |lane| [lane.saturating_sub(1)],
        ),
        case(
            "rr = r r",
            ".reg .b64 %g; mov.u64 %g, shm; cvta.shared.u64 %g, %g; st.u32 [%g], %i0; *atom.add.u32 %o0, [%g], %i1; ld.shared.u32 %o1, [shm];",
            &[(&[5, 6], &[5, 11])],
        ),
        case(
            "r = r",
            "st.shared.b32 [shm], 1; *atom.shared.add.f32 _, [shm], %i0; ld.shared.u32 %o0, [shm];",
            &[(&[1], &[2])],
        ),
    ]
}

fn reductions() -> Vec<Case> {
    vec![
        lanes(
            "r = r",
            "red.global.add.u32 [%all], %i0; ld.global.u32 %o0, [%all];",
            |lane| [lane],
            |_| [496],
        ),
        lanes(
            "r = r",
            "red.shared.or.b32 [shm], %i0; ld.shared.u32 %o0, [shm];",
            |lane| [1 << lane],
            |_| [ONES32],
        ),
        lanes(
            "r = r",
            "red.release.gpu.global.max.u32 [%all], %i0; ld.global.u32 %o0, [%all];",
            |lane| [lane],
            |_| [31],
        ),
        lanes(
            "d = d",
            "red.add.u64 [%all], %i0; ld.global.u64 %o0, [%all];",
            |lane| [lane << 32],
            |_| [496 << 32],
        ),
        lanes(
            "d = d",
            "red.global.add.f64 [%all], %i0; ld.global.f64 %o0, [%all];",
            |_| [0x3ff0_0000_0000_0000],
            |_| [0x4040_0000_0000_0000],
        ),
        lanes(
            "rr = r r",
            "red.global.add.v2.f32 [%all], {%i0, %i1}; ld.global.v2.f32 {%o0, %o1}, [%all];",
            |_| [ONE, 0x4000_0000],
            |_| [0x4200_0000, 0x4280_0000],
        ),
        lanes(
            "rrrr = r",
            "red.relaxed.gpu.global.add.v4.f32 [%all], {%i0, %i0, %i0, 0f00000000}; ld.global.v4.f32 {%o0, %o1, %o2, %o3}, [%all];",
            |_| [ONE],
            |_| [0x4200_0000, 0x4200_0000, 0x4200_0000, 0],
        ),
        case(
            "rrrr = r r",
            "st.global.v2.f32 [%scratch], {%i0, %i0}; *atom.global.add.v2.f32 {%o0, %o1}, [%scratch], {%i1, %i1};
             ld.global.v2.f32 {%o2, %o3}, [%scratch];",
            &[(&[ONE, ONE], &[ONE, ONE, 0x4000_0000, 0x4000_0000])],
        ),
        case(
            "rr = r",
            "red.global.add.noftz.v2.f16x2 [%scratch], {%i0, %i0}; ld.global.v2.u32 {%o0, %o1}, [%scratch];",
            &[(&[0x3c00_4000], &[0x3c00_4000, 0x3c00_4000])],
        ),
        case(
            "rr = r h",
            "red.global.add.noftz.v4.bf16 [%scratch], {%i1, %i1, 0, %i1}; ld.global.v2.u32 {%o0, %o1}, [%scratch];",
            &[(&[0, 0x3f80], &[0x3f80_3f80, 0x3f80_0000])],
        ),
        lanes("r = r", "red.global.inc.u32 [%all], %i0; ld.global.u32 %o0, [%all];", |_| [9], |_| [2]),
    ]
}

fn fences() -> Vec<Case> {
    let passes = |text: &str| case("r = r", &format!("{text} mov.u32 %o0, %i0;"), &[(&[5], &[5])]);
    vec![
        passes("membar.gl;"),
        passes("membar.cta;"),
        passes("fence.acq_rel.gpu;"),
        passes("fence.sc.cta;"),
        passes("fence.proxy.async;"),
        passes("prefetch.global.L2 [%scratch];"),
        passes("prefetchu.L1 [%scratch];"),
        passes("discard.global.L2 [%scratch], 128;"),
        passes("applypriority.global.L2::evict_normal [%scratch], 128;"),
    ]
}

/// Returns cases of textures and surfaces; `texture.rs` has more.
fn textures() -> Vec<Case> {
    let place = |lane: u64| [lane % 8, lane / 8];
    vec![
        lanes("r = r r", "tex.2d.v4.u32.s32 {%o0, _, _, _}, [%tex, {%i0, %i1}];", place, |lane| [100 + lane]),
        lanes(
            "r = r",
            ".reg .b32 %y; mov.b32 %y, 0f3F800000; *tex.2d.v4.u32.f32 {%o0, _, _, _}, [%tex, {%i0, %y}];",
            |lane| [u64::from((lane as f32 / 4.0 - 0.5).to_bits())],
            |lane| [if lane < 2 { 7 } else { 108 + (lane - 2) / 4 }],
        ),
        lanes(
            "rrrr = ",
            ".reg .b32 %x; mov.b32 %x, 0f40000000; *tld4.r.2d.v4.u32.f32 {%o0, %o1, %o2, %o3}, [%tex, {%x, %x}];",
            |_| [],
            |_| [117, 118, 110, 109],
        ),
        lanes(
            "rr = ",
            "txq.width.b32 %o0, [%tex]; txq.height.b32 %o1, [%tex];",
            |_| [],
            |_| [8, 4],
        ),
        lanes("rr = ", "suq.height.b32 %o1, [%surf]; suq.width.b32 %o0, [%surf];", |_| [], |_| [8, 4]),
        lanes(
            "r = r r",
            "shl.b32 %h32, %i0, 2; *suld.b.2d.b32.trap {%o0}, [%surf, {%h32, %i1}];",
            place,
            |lane| [100 + lane],
        ),
        lanes(
            "rr = r r",
            "shl.b32 %h32, %i0, 2; *sust.b.2d.b16.trap [%surf, {%h32, %i1}], {%i1};
             suld.b.2d.b16.trap %o1, [%surf, {%h32, %i1}]; suld.b.2d.b32.trap %o0, [%surf, {%h32, %i1}];",
            place,
            |lane| [lane / 8, lane / 8],
        ),
        lanes(
            "r = r r",
            "shl.b32 %h32, %i0, 2; *sured.b.add.2d.u32.trap [%surf, {%h32, %i1}], %i0;
             suld.b.2d.b32.trap %o0, [%surf, {%h32, %i1}];",
            place,
            |lane| [100 + lane + lane % 8],
        ),
    ]
}
