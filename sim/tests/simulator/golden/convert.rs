use super::harness::{Case, EDGES32, EDGES64, FLOATS, case, lanes, sweep1};

const ONE: u64 = 0x3f80_0000;
const ONES32: u64 = 0xffff_ffff;

pub(crate) fn cases() -> Vec<Case> {
    [moves(), specials(), integers(), floats(), addresses()].into_iter().flatten().collect()
}

fn moves() -> Vec<Case> {
    vec![
        sweep1("r = r", "mov.b32 %o0, %i0;", EDGES32, |a| a),
        sweep1("d = d", "mov.u64 %o0, %i0;", EDGES64, |a| a),
        case("h = h", "mov.u16 %o0, %i0;", &[(&[0xffff], &[0xffff])]),
        case("p = p", "mov.pred %o0, %i0;", &[(&[1], &[1]), (&[0], &[0])]),
        case("p = ", "mov.pred %o0, -1;", &[(&[], &[1])]),
        case("p = ", "mov.pred %o0, 0;", &[(&[], &[0])]),
        case("r = ", "mov.f32 %o0, 0f40490FDB;", &[(&[], &[0x4049_0fdb])]),
        case("r = ", "mov.b32 %o0, -1;", &[(&[], &[ONES32])]),
        case("d = ", "mov.f64 %o0, 0d400921FB54442D18;", &[(&[], &[0x4009_21fb_5444_2d18])]),
        case("d = ", "mov.b64 %o0, 0xFFFFFFFFFFFFFFFF;", &[(&[], &[u64::MAX])]),
        case(
            "d = r r",
            "mov.b64 %o0, {%i0, %i1};",
            &[(&[0x89ab_cdef, 0x0123_4567], &[0x0123_4567_89ab_cdef])],
        ),
        case(
            "rr = d",
            "mov.b64 {%o0, %o1}, %i0;",
            &[(&[0x0123_4567_89ab_cdef], &[0x89ab_cdef, 0x0123_4567])],
        ),
        case("r = d", "mov.b64 {_, %o0}, %i0;", &[(&[0x0123_4567_89ab_cdef], &[0x0123_4567])]),
        case("r = h h", "mov.b32 %o0, {%i0, %i1};", &[(&[0x1234, 0x5678], &[0x5678_1234])]),
        case("hh = r", "mov.b32 {%o0, %o1}, %i0;", &[(&[0x5678_1234], &[0x1234, 0x5678])]),
        case(
            "d = h h h h",
            "mov.b64 %o0, {%i0, %i1, %i2, %i3};",
            &[(&[1, 2, 3, 4], &[0x0004_0003_0002_0001])],
        ),
        case(
            "hhhh = d",
            "mov.b64 {%o0, %o1, %o2, %o3}, %i0;",
            &[(&[0x0004_0003_0002_0001], &[1, 2, 3, 4])],
        ),
    ]
}

fn specials() -> Vec<Case> {
    let all = |text: &str, f: fn(u64) -> u64| lanes("r = ", text, |_| [], move |lane| [f(lane)]);
    vec![
        all("mov.u32 %o0, %tid.x;", |lane| lane),
        all("mov.u32 %o0, %tid.y;", |_| 0),
        all("mov.u32 %o0, %ntid.x;", |_| 32),
        all("mov.u32 %o0, %ntid.z;", |_| 1),
        all("mov.u32 %o0, %ctaid.x;", |_| 0),
        all("mov.u32 %o0, %nctaid.x;", |_| 1),
        all("mov.u32 %o0, %laneid;", |lane| lane),
        all("mov.u32 %o0, %warpid;", |_| 0),
        all("mov.u32 %o0, %nwarpid;", |_| 1),
        all("mov.u32 %o0, %lanemask_eq;", |lane| 1 << lane),
        all("mov.u32 %o0, %lanemask_lt;", |lane| (1 << lane) - 1),
        all("mov.u32 %o0, %lanemask_le;", |lane| (2 << lane) - 1),
        all("mov.u32 %o0, %lanemask_gt;", |lane| ONES32 & !((2 << lane) - 1)),
        all("mov.u32 %o0, %lanemask_ge;", |lane| ONES32 & !((1 << lane) - 1)),
        all("mov.u32 %o0, %dynamic_smem_size;", |_| 0),
        all("st.shared.u32 [shm], 0; *mov.u32 %o0, %total_smem_size;", |_| 2048),
        all("mov.u32 %o0, %smid;", |_| 0),
        all("mov.u32 %o0, %envreg2;", |_| 0),
        all("mov.u32 %o0, %cluster_nctaid.x;", |_| 1),
        all("mov.u32 %o0, %nsmid;", |_| 132),
        all("add.u32 %o0, %laneid, %ntid.x;", |lane| lane + 32),
        case(
            "p = ",
            ".reg .b64 %a, %b; *mov.u64 %a, %clock64; mov.u64 %b, %clock64; setp.lt.u64 %o0, %a, %b;",
            &[(&[], &[1])],
        ),
        case(
            "p = ",
            ".reg .b32 %a, %b; *mov.u32 %a, %clock; mov.u32 %b, %clock; setp.lt.u32 %o0, %a, %b;",
            &[(&[], &[1])],
        ),
        case(
            "p = ",
            ".reg .b64 %a, %b; *mov.u64 %a, %globaltimer; mov.u64 %b, %globaltimer; setp.lt.u64 %o0, %a, %b;",
            &[(&[], &[1])],
        ),
    ]
}

fn integers() -> Vec<Case> {
    let signed = |bits: u64| i64::from(bits as u32 as i32) as u64;
    vec![
        sweep1("d = r", "cvt.u64.u32 %o0, %i0;", EDGES32, |a| a),
        sweep1("d = r", "cvt.s64.s32 %o0, %i0;", EDGES32, signed),
        sweep1("r = d", "cvt.u32.u64 %o0, %i0;", EDGES64, |a| a & ONES32),
        sweep1("r = r", "cvt.u32.u8 %o0, %i0;", EDGES32, |a| a & 0xff),
        sweep1("r = r", "cvt.s32.s8 %o0, %i0;", EDGES32, |a| u64::from(a as u8 as i8 as i32 as u32)),
        sweep1("r = r", "cvt.s32.s16 %o0, %i0;", EDGES32, |a| u64::from(a as u16 as i16 as i32 as u32)),
        sweep1("h = r", "cvt.u16.u32 %o0, %i0;", EDGES32, |a| a & 0xffff),
        sweep1("r = h", "cvt.u32.u16 %o0, %i0;", &[0, 0x8000, 0xffff], |a| a),
        sweep1("r = h", "cvt.s32.s16 %o0, %i0;", &[0, 0x8000, 0xffff], |a| {
            u64::from(a as u16 as i16 as i32 as u32)
        }),
        sweep1("h = h", "cvt.s16.s8 %o0, %i0;", &[0x7f, 0x80, 0x1ff], |a| {
            u64::from(a as u8 as i8 as i16 as u16)
        }),
        // A register wider than the type is filled by extending the value.
        sweep1("r = r", "cvt.s8.s32 %o0, %i0;", EDGES32, |a| u64::from(a as u8 as i8 as i32 as u32)),
        sweep1("r = r", "cvt.u8.s32 %o0, %i0;", EDGES32, |a| a & 0xff),
        sweep1("d = d", "cvt.u64.u32 %o0, %i0;", EDGES64, |a| a & ONES32),
        case("r = r", "cvt.sat.s8.s32 %o0, %i0;", &[(&[200], &[127]), (&[0xffff_ff00], &[0xffff_ff80])]),
        case("r = r", "cvt.sat.u8.s32 %o0, %i0;", &[(&[300], &[255]), (&[ONES32], &[0])]),
        case("r = d", "cvt.sat.u32.s64 %o0, %i0;", &[(&[1 << 40], &[ONES32]), (&[u64::MAX], &[0])]),
        case("r = r", "cvt.sat.s32.u32 %o0, %i0;", &[(&[ONES32], &[0x7fff_ffff])]),
    ]
}

fn floats() -> Vec<Case> {
    let float = |bits: u64| f32::from_bits(bits as u32);
    let wide = move |a, whole| if float(a).is_nan() { 1 << 63 } else { whole };
    let host = |value: f32| if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) };
    vec![
        sweep1("r = r", "cvt.rzi.s32.f32 %o0, %i0;", FLOATS, move |a| u64::from(float(a) as i32 as u32)),
        sweep1("r = r", "cvt.rzi.u32.f32 %o0, %i0;", FLOATS, move |a| u64::from(float(a) as u32)),
        sweep1("d = r", "cvt.rzi.s64.f32 %o0, %i0;", FLOATS, move |a| wide(a, float(a) as i64 as u64)),
        sweep1("d = r", "cvt.rzi.u64.f32 %o0, %i0;", FLOATS, move |a| wide(a, float(a) as u64)),
        case(
            "r = r",
            "cvt.rni.s32.f32 %o0, %i0;",
            &[
                (&[0x3fc0_0000], &[2]),
                (&[0x4020_0000], &[2]),
                (&[0xbfc0_0000], &[0xffff_fffe]),
                (&[0x4f00_0000], &[0x7fff_ffff]),
                (&[0xff80_0000], &[0x8000_0000]),
                (&[0x7fc0_0000], &[0]),
            ],
        ),
        case(
            "r = r",
            "cvt.rmi.s32.f32 %o0, %i0;",
            &[(&[0xbf00_0000], &[ONES32]), (&[0x3f00_0000], &[0])],
        ),
        case("r = r", "cvt.rpi.u32.f32 %o0, %i0;", &[(&[0x3f00_0000], &[1]), (&[0xbf00_0000], &[0])]),
        case("r = r", "cvt.rpi.ftz.s32.f32 %o0, %i0;", &[(&[1], &[0])]),
        case("r = r", "cvt.rpi.s32.f32 %o0, %i0;", &[(&[1], &[1])]),
        case(
            "h = r",
            "cvt.rzi.s16.f32 %o0, %i0;",
            &[(&[0x4730_0000], &[0x7fff]), (&[0xbf80_0000], &[0xffff])],
        ),
        case("r = r", "cvt.rzi.u8.f32 %o0, %i0;", &[(&[0x43fa_0000], &[255]), (&[0x4249_0000], &[50])]),
        sweep1("r = r", "cvt.rn.f32.u32 %o0, %i0;", EDGES32, |a| u64::from((a as u32 as f32).to_bits())),
        sweep1("r = r", "cvt.rn.f32.s32 %o0, %i0;", EDGES32, |a| {
            u64::from((a as u32 as i32 as f32).to_bits())
        }),
        sweep1("r = d", "cvt.rn.f32.u64 %o0, %i0;", EDGES64, |a| u64::from((a as f32).to_bits())),
        sweep1("d = d", "cvt.rn.f64.s64 %o0, %i0;", EDGES64, |a| (a as i64 as f64).to_bits()),
        sweep1("d = r", "cvt.rn.f64.u32 %o0, %i0;", EDGES32, |a| (a as f64).to_bits()),
        case(
            "r = r",
            "cvt.rz.f32.u32 %o0, %i0;",
            &[(&[0x0100_0001], &[0x4b80_0000]), (&[ONES32], &[0x4f7f_ffff])],
        ),
        case("r = r", "cvt.rp.f32.u32 %o0, %i0;", &[(&[0x0100_0001], &[0x4b80_0001])]),
        sweep1("r = r", "cvt.rni.f32.f32 %o0, %i0;", FLOATS, move |a| host(float(a).round_ties_even())),
        sweep1("r = r", "cvt.rzi.f32.f32 %o0, %i0;", FLOATS, move |a| host(float(a).trunc())),
        sweep1("r = r", "cvt.rmi.f32.f32 %o0, %i0;", FLOATS, move |a| host(float(a).floor())),
        sweep1("r = r", "cvt.rpi.f32.f32 %o0, %i0;", FLOATS, move |a| host(float(a).ceil())),
        case(
            "r = r",
            "cvt.sat.f32.f32 %o0, %i0;",
            &[
                (&[0x4000_0000], &[ONE]),
                (&[0xbf80_0000], &[0]),
                (&[0x7fc0_0000], &[0]),
                (&[0x3f00_0000], &[0x3f00_0000]),
            ],
        ),
        case("r = r", "cvt.f32.f32 %o0, %i0;", &[(&[0xff80_0001], &[0xff80_0001])]),
        case(
            "r = r",
            "cvt.ftz.f32.f32 %o0, %i0;",
            &[(&[0x8000_0001], &[0x8000_0000]), (&[0xff80_0001], &[0x7fff_ffff])],
        ),
        case("d = r", "cvt.ftz.f64.f32 %o0, %i0;", &[(&[0xff80_0001], &[0x7fff_ffff_e000_0000])]),
        case(
            "d = r",
            "cvt.f64.f32 %o0, %i0;",
            &[
                (&[ONE], &[0x3ff0_0000_0000_0000]),
                (&[1], &[0x36a0_0000_0000_0000]),
                (&[0xff80_0001], &[0xfff8_0000_2000_0000]),
            ],
        ),
        case(
            "r = d",
            "cvt.rn.f32.f64 %o0, %i0;",
            &[
                (&[0x3fd5_5555_5555_5555], &[0x3eaa_aaab]),
                // A NaN keeps its sign and the part of its payload that fits.
                (&[0xfff0_0000_2000_0001], &[0xffc0_0001]),
                (&[0x36a0_0000_0000_0000], &[1]),
            ],
        ),
        case(
            "r = d",
            "cvt.rz.f32.f64 %o0, %i0;",
            &[(&[0x3fd5_5555_5555_5555], &[0x3eaa_aaaa]), (&[0x7fe0_0000_0000_0000], &[0x7f7f_ffff])],
        ),
        case("r = d", "cvt.rn.ftz.f32.f64 %o0, %i0;", &[(&[0x36a0_0000_0000_0000], &[0])]),
        // Subnormal halves are normal singles, so `.ftz` does not flush them.
        case("h = r", "cvt.rn.ftz.f16.f32 %o0, %i0;", &[(&[0x3380_0000], &[1]), (&[0x007f_ffff], &[0])]),
        case("r = h", "cvt.ftz.f32.f16 %o0, %i0;", &[(&[1], &[0x3380_0000])]),
        case(
            "d = d",
            "cvt.rzi.s64.f64 %o0, %i0;",
            &[
                (&[0xc004_0000_0000_0000], &[0xffff_ffff_ffff_fffe]),
                (&[0x43e0_0000_0000_0000], &[0x7fff_ffff_ffff_ffff]),
                (&[0xfff8_0000_0000_0000], &[1 << 63]),
            ],
        ),
        case(
            "d = d",
            "cvt.rni.f64.f64 %o0, %i0;",
            &[(&[0x4004_0000_0000_0000], &[0x4000_0000_0000_0000])],
        ),
        case(
            "h = r",
            "cvt.rn.f16.f32 %o0, %i0;",
            &[
                (&[ONE], &[0x3c00]),
                (&[0x477f_f000], &[0x7c00]),
                (&[0x3380_0000], &[1]),
                (&[0x7fc0_0000], &[0x7fff]),
            ],
        ),
        case(
            "r = h",
            "cvt.f32.f16 %o0, %i0;",
            &[
                (&[0x3c00], &[ONE]),
                (&[0x0001], &[0x3380_0000]),
                (&[0xfc00], &[0xff80_0000]),
                (&[0x7e00], &[0x7fff_ffff]),
            ],
        ),
        case(
            "h = r",
            "cvt.rn.bf16.f32 %o0, %i0;",
            &[(&[0x3f80_8000], &[0x3f80]), (&[0x3f81_8000], &[0x3f82])],
        ),
        case("r = h", "cvt.f32.bf16 %o0, %i0;", &[(&[0x4049], &[0x4049_0000])]),
        case("r = r r", "cvt.rn.f16x2.f32 %o0, %i0, %i1;", &[(&[ONE, 0x4000_0000], &[0x3c00_4000])]),
        case(
            "r = r r",
            "cvt.rn.relu.bf16x2.f32 %o0, %i0, %i1;",
            &[(&[0xbf80_0000, ONE], &[0x0000_3f80])],
        ),
        case("h = r", "cvt.rn.f16.s32 %o0, %i0;", &[(&[3], &[0x4200])]),
        case("r = h", "cvt.rzi.s32.f16 %o0, %i0;", &[(&[0xc200], &[0xffff_fffd])]),
    ]
}

fn addresses() -> Vec<Case> {
    vec![
        case(
            "rpp = ",
            ".reg .b64 %g, %s;
             mov.u64 %s, shm; *cvta.shared.u64 %g, %s; st.u32 [%g+8], 77; ld.shared.u32 %o0, [shm+8];
             isspacep.shared %o1, %g; isspacep.global %o2, %g;",
            &[(&[], &[77, 1, 0])],
        ),
        case(
            "p = ",
            ".reg .b64 %g, %s, %t;
             mov.u64 %s, shm; cvta.shared.u64 %g, %s; *cvta.to.shared.u64 %t, %g; setp.eq.u64 %o0, %s, %t;",
            &[(&[], &[1])],
        ),
        case("p = ", ".reg .b64 %g; *cvta.to.global.u64 %g, %scratch; setp.eq.u64 %o0, %g, %scratch;", &[(&[], &[1])]),
        case("ppp = ", "*isspacep.global %o0, %scratch; isspacep.shared %o1, %scratch; isspacep.local %o2, %scratch;", &[(&[], &[1, 0, 0])]),
        case(
            "rp = ",
            ".reg .b64 %g, %l;
             mov.u64 %l, loc; *cvta.local.u64 %g, %l; st.u32 [%g], %lane; ld.local.u32 %o0, [loc]; isspacep.local %o1, %g;",
            &[(&[], &[0, 1]), (&[], &[1, 1])],
        ),
        case(
            "r = ",
            ".reg .b64 %g, %c; mov.u64 %c, cst; *cvta.const.u64 %g, %c; ld.u32 %o0, [%g+4];",
            &[(&[], &[102])],
        ),
        case("r = ", ".reg .b64 %g, %p; mov.b64 %p, count; *cvta.param.u64 %g, %p; ld.u32 %o0, [%g];", &[(&[], &[1])]),
        case("d = ", "createpolicy.fractional.L2::evict_last.b64 %o0, 0f3F800000;", &[(&[], &[0])]),
    ]
}
