use super::harness::{Case, case, case_of, lanes};

const FULL: u64 = 0xffff_ffff;

pub(crate) fn cases() -> Vec<Case> {
    [shuffles(), votes(), others(), matrices()].into_iter().flatten().collect()
}

fn shuffles() -> Vec<Case> {
    let value = |lane: u64| [lane * 10];
    vec![
        lanes("rp = r", "shfl.sync.down.b32 %o0|%o1, %i0, 4, 31, -1;", value, |lane| {
            if lane + 4 < 32 { [(lane + 4) * 10, 1] } else { [lane * 10, 0] }
        }),
        lanes("r = r", "shfl.sync.up.b32 %o0, %i0, 3, 0, 0xffffffff;", value, |lane| {
            [if lane >= 3 { (lane - 3) * 10 } else { lane * 10 }]
        }),
        lanes("rp = r", "shfl.sync.bfly.b32 %o0|%o1, %i0, 16, 31, -1;", value, |lane| {
            [(lane ^ 16) * 10, 1]
        }),
        lanes("r = r", "shfl.sync.idx.b32 %o0, %i0, 5, 31, -1;", value, |_| [50]),
        // Segments of eight lanes: operand c is 0x1800 plus the clamp 31.
        lanes("rp = r", "shfl.sync.down.b32 %o0|%o1, %i0, 4, 0x181f, -1;", value, |lane| {
            if lane % 8 < 4 { [(lane + 4) * 10, 1] } else { [lane * 10, 0] }
        }),
        lanes("rp = r", "shfl.sync.up.b32 %o0|%o1, %i0, 1, 0x1800, -1;", value, |lane| {
            if lane % 8 >= 1 { [(lane - 1) * 10, 1] } else { [lane * 10, 0] }
        }),
        lanes("r = r", "shfl.sync.idx.b32 %o0, %i0, 11, 0x181f, -1;", value, |lane| {
            [(lane / 8 * 8 + 3) * 10]
        }),
        lanes("rp = r", "shfl.sync.bfly.b32 %o0|%o1, %i0, 1, 0x1c03, -1;", value, |lane| {
            [(lane ^ 1) * 10, 1]
        }),
        lanes(
            "r = r r",
            "shfl.sync.idx.b32 %o0, %i0, %i1, 31, -1;",
            |lane| [lane * 10, (lane * 7) % 32],
            |lane| [(lane * 7) % 32 * 10],
        ),
        lanes("r = r", "mov.b32 %o0, %i0; *shfl.sync.down.b32 %o0, %o0, 1, 31, -1;", value, |lane| {
            [if lane < 31 { (lane + 1) * 10 } else { 310 }]
        }),
        lanes(
            "r = r",
            "setp.lt.u32 %done, %lane, 16; @%done bra LOW;
             shfl.sync.idx.b32 %o0, %i0, 20, 31, 0xffff0000; bra END;
             LOW: *shfl.sync.idx.b32 %o0, %i0, 2, 31, 0x0000ffff; END:",
            value,
            |lane| [if lane < 16 { 20 } else { 200 }],
        ),
        case("p = r", "shfl.sync.idx.b32 _|%o0, %i0, 0, 31, 1;", &[(&[7], &[1])]),
    ]
}

fn votes() -> Vec<Case> {
    let third = |lane: u64| [u64::from(lane.is_multiple_of(3))];
    let mask = (0..32).filter(|lane| lane % 3 == 0).fold(0, |mask, lane| mask | 1 << lane);
    vec![
        lanes("r = p", "vote.sync.ballot.b32 %o0, %i0, -1;", third, move |_| [mask]),
        lanes("r = p", "vote.sync.ballot.b32 %o0, !%i0, -1;", third, move |_| [FULL & !mask]),
        lanes("p = p", "vote.sync.all.pred %o0, %i0, -1;", |_| [1], |_| [1]),
        lanes("p = p", "vote.sync.all.pred %o0, %i0, -1;", third, |_| [0]),
        lanes("p = p", "vote.sync.any.pred %o0, %i0, -1;", third, |_| [1]),
        lanes("p = p", "vote.sync.any.pred %o0, %i0, -1;", |_| [0], |_| [0]),
        lanes("p = p", "vote.sync.uni.pred %o0, %i0, -1;", |_| [0], |_| [1]),
        lanes("p = p", "vote.sync.uni.pred %o0, %i0, -1;", third, |_| [0]),
        lanes("r = ", "activemask.b32 %o0;", |_| [], |_| [FULL]),
        lanes(
            "r = ",
            "mov.u32 %o0, 0; setp.lt.u32 %done, %lane, 9; @!%done bra END; *activemask.b32 %o0; END:",
            |_| [],
            |lane| [if lane < 9 { 0x1ff } else { 0 }],
        ),
        case("r = ", "activemask.b32 %o0;", &[(&[], &[7]), (&[], &[7]), (&[], &[7])]),
    ]
}

fn others() -> Vec<Case> {
    let value = |lane: u64| [lane + 1];
    vec![
        lanes("r = r", "redux.sync.add.u32 %o0, %i0, -1;", value, |_| [528]),
        lanes("r = r", "redux.sync.add.s32 %o0, %i0, -1;", |_| [FULL], |_| [FULL - 31]),
        lanes("r = r", "redux.sync.min.u32 %o0, %i0, -1;", |lane| [FULL - lane], |_| [FULL - 31]),
        lanes("r = r", "redux.sync.max.u32 %o0, %i0, -1;", value, |_| [32]),
        lanes(
            "r = r",
            "redux.sync.min.s32 %o0, %i0, -1;",
            |lane| [lane.wrapping_sub(5) & FULL],
            |_| [FULL - 4],
        ),
        lanes(
            "r = r",
            "redux.sync.max.s32 %o0, %i0, -1;",
            |lane| [lane.wrapping_sub(40) & FULL],
            |_| [FULL - 8],
        ),
        lanes("r = r", "redux.sync.and.b32 %o0, %i0, -1;", |lane| [0xf00 | lane], |_| [0xf00]),
        lanes("r = r", "redux.sync.or.b32 %o0, %i0, -1;", |lane| [1 << lane], |_| [FULL]),
        lanes("r = r", "redux.sync.xor.b32 %o0, %i0, -1;", |lane| [1 << lane], |_| [FULL]),
        lanes(
            "r = r",
            "redux.sync.max.f32 %o0, %i0, -1;",
            |lane| [if lane == 3 { 0x7fc0_0000 } else { 0x3f80_0000 }],
            |_| [0x3f80_0000],
        ),
        lanes(
            "r = r",
            "redux.sync.max.NaN.f32 %o0, %i0, -1;",
            |lane| [if lane == 3 { 0x7fc0_0000 } else { 0x3f80_0000 }],
            |_| [0x7fff_ffff],
        ),
        lanes(
            "r = r",
            "match.any.sync.b32 %o0, %i0, -1;",
            |lane| [lane % 2],
            |lane| [if lane % 2 == 0 { 0x5555_5555 } else { 0xaaaa_aaaa }],
        ),
        lanes("rp = r", "match.all.sync.b32 %o0|%o1, %i0, -1;", |_| [9], |_| [FULL, 1]),
        lanes("rp = r", "match.all.sync.b32 %o0|%o1, %i0, -1;", value, |_| [0, 0]),
        lanes(
            "r = d",
            "match.any.sync.b64 %o0, %i0, -1;",
            |lane| [(lane / 16) << 40],
            |lane| [if lane < 16 { 0xffff } else { 0xffff_0000 }],
        ),
        lanes("rp = ", "elect.sync %o0|%o1, -1;", |_| [], |lane| [0, u64::from(lane == 0)]),
        lanes(
            "p = ",
            "setp.lt.u32 %done, %lane, 12; @%done bra LOW; elect.sync _|%o0, 0xfffff000; bra END;
             LOW: *elect.sync _|%o0, 0x00000fff; END:",
            |_| [],
            |lane| [u64::from(lane == 0 || lane == 12)],
        ),
    ]
}

/// Two halves of value 1.
const ONES: u64 = 0x3c00_3c00;

/// Returns a product of a warpgroup with a B of ones; the test module `warpgroup` has more.
fn warpgroup() -> Case {
    let text = format!(
        ".reg .b64 %b; mov.u32 %h32, shm; mad.lo.u32 %h32, %lane, 4, %h32; st.shared.u32 [%h32], {ONES};
         bar.sync 0; fence.proxy.async; mov.u32 %h32, shm; cvt.u64.u32 %b, %h32;
         shr.u64 %b, %b, 4; or.b64 %b, %b, {:#x};
         mov.u32 %o0, 0x3f800000; mov.u32 %o1, %o0; mov.u32 %o2, %o0; mov.u32 %o3, %o0; wgmma.fence.sync.aligned;
         *wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%o0, %o1, %o2, %o3}}, {{%i0, %i0, %i0, %i0}}, %b, 1, 1, 1, 0;
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        0x8_0000_0008_0000_u64
    );
    let row = |thread: u64| (thread / 4) as u32 % 32;
    let inputs = |thread| [u64::from(0x3c00 + (row(thread) << 5)) * 0x1_0001];
    let sum = |thread| 16.0 * (1.0 + f64::from(row(thread)) / 32.0) + 1.0;
    let outputs = |thread| vec![u64::from((sum(thread) as f32).to_bits()); 4];
    case_of("rrrr = r", &text, (0..128).map(|thread| (inputs(thread).to_vec(), outputs(thread))))
}

/// Returns cases of matrix products and moves; `matrix.rs` has more.
fn matrices() -> Vec<Case> {
    // A matrix whose halves are 1000 + 8 row + column, two per lane, and its transpose.
    let value = |row: u64, column: u64| 1000 + 8 * row + column;
    let pair = move |lane: u64| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        [value(row, column) | value(row, column + 1) << 16]
    };
    let turned = move |lane: u64| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        [value(column, row) | value(column + 1, row) << 16]
    };
    vec![
        lanes(
            "rrrr = rr",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%o0, %o1, %o2, %o3}, {%i0, %i0, %i0, %i0},
             {%i1, %i1}, {0f00000000, 0f00000000, 0f00000000, 0f3F800000};",
            |lane| {
                let column = [0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800];
                [ONES, column[lane as usize / 4] * 0x1_0001]
            },
            |lane| {
                let sum = |column: u64| 16.0 * (column as f32 + 1.0);
                let (even, odd) = (sum(lane % 4 * 2), sum(lane % 4 * 2 + 1));
                [even, odd, even, odd + 1.0].map(|sum| u64::from(sum.to_bits()))
            },
        ),
        // A has the values 1, 2 in columns 2, 3 of each chunk, and B its row numbers modulo 8.
        lanes(
            "rrrr = rr",
            ".reg .b32 %e; mov.b32 %e, 0xeeeeeeee;
             *mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%o0, %o1, %o2, %o3},
             {%i0, %i0}, {%i1, %i1}, {0f00000000, 0f00000000, 0f00000000, 0f3F800000}, %e, 3;",
            |lane| [0x4000_3c00, [0x3c00_0000, 0x4200_4000, 0x4500_4400, 0x4700_4600][lane as usize % 4]],
            |_| [56.0, 56.0, 56.0, 57.0].map(|sum: f32| u64::from(sum.to_bits())),
        ),
        warpgroup(),
        lanes(
            "rr = rr",
            "*wmma.store.d.sync.aligned.row.m8n8k128.global.s32 [%all], {%i0, %i1}, 8;
             mad.wide.u32 %h64, %lane, 8, %all; ld.global.v2.u32 {%o0, %o1}, [%h64];",
            |lane| [lane, 100 + lane],
            |lane| [lane, 100 + lane],
        ),
        lanes(
            "r = r",
            "mov.u32 %h32, shm; mad.lo.u32 %h32, %lane, 4, %h32; st.shared.u32 [%h32], %i0; bar.warp.sync -1;
             mov.u32 %h32, shm; mad.lo.u32 %h32, %lane, 16, %h32;
             *ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%o0}, [%h32];",
            pair,
            turned,
        ),
        lanes(
            "r = r",
            "mov.u32 %h32, shm; mad.lo.u32 %h32, %lane, 16, %h32;
             *stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%h32], {%i0}; bar.warp.sync -1;
             mov.u32 %h32, shm; mad.lo.u32 %h32, %lane, 4, %h32; ld.shared.u32 %o0, [%h32];",
            pair,
            turned,
        ),
        lanes("r = r", "movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i0;", pair, turned),
    ]
}
