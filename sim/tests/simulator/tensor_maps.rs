//! Copies of tensors by tensor maps (`cp.async.bulk.tensor`) against plain loops.

use crate::common::{device, module, read_u32s, u32s, upload};
use warpfold_sim::{
    Args, Config, Error, FaultKind, Gpu, HazardKind, Hazards, Launch, Module, Swizzle, TensorElement,
    TensorMap, TensorMapProblem,
};

/// Bytes of a kernel's shared memory for the box; the bytes that no copy writes stay `UNTOUCHED`.
const SHARED: u32 = 8 << 10;
const UNTOUCHED: u8 = 0xee;

/// Returns a module whose kernel has the map as parameter `map`, and buffers as `input` and `out`.
/// Lane 0 has `%first` set, `%map` is the generic address of the map, `%c0` to `%c4` are coordinates,
/// and `tile` is filled from `input`. After the body, `tile` is written to `out`.
fn kernel(rank: u32, body: &str) -> Module {
    let coordinates: Vec<String> = (0..rank).map(|axis| format!("%c{axis}")).collect();
    let body = body.replace("RANK", &format!("{rank}d")).replace("AT", &coordinates.join(", "));
    module(&format!(
        ".version 8.6
        .target sm_90a
        .address_size 64
        .const .align 64 .b8 constant[128];
        .visible .entry k(.param .align 64 .b8 map[128], .param .u64 input, .param .u64 out,
            .param .align 4 .b8 at[20], .param .u64 held)
        {{
            .reg .pred %first, %more, %done; .reg .b32 %c<5>, %i, %s, %w, %rank, %k; .reg .b64 %map, %in, %out, %held, %from, %to;
            .shared .align 1024 .b8 tile[{SHARED}];
            .shared .align 8 .b64 bar;
            mov.b64 %map, map; cvta.param.u64 %map, %map;
            ld.param.u64 %in, [input]; ld.param.u64 %out, [out]; ld.param.u64 %held, [held];
            ld.param.s32 %c0, [at]; ld.param.s32 %c1, [at+4]; ld.param.s32 %c2, [at+8];
            ld.param.s32 %c3, [at+12]; ld.param.s32 %c4, [at+16];
            mov.u32 %i, %tid.x; setp.eq.u32 %first, %i, 0; shl.b32 %i, %i, 2; mov.u32 %rank, %cluster_ctarank;
            mov.u32 %k, %i;
        FILL: cvt.u64.u32 %from, %k; add.u64 %from, %in, %from; ld.global.u32 %w, [%from];
            mov.u32 %s, tile; add.u32 %s, %s, %k; st.shared.u32 [%s], %w;
            add.u32 %k, %k, 128; setp.lt.u32 %more, %k, {SHARED}; @%more bra FILL;
            @%first mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
            fence.proxy.async.shared::cta;
            barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
            {body}
            mad.lo.u32 %k, %rank, {SHARED}, %i; cvt.u64.u32 %to, %k; add.u64 %to, %out, %to; mov.u32 %k, %i;
        OUT: mov.u32 %s, tile; add.u32 %s, %s, %k; ld.shared.u32 %w, [%s]; st.global.u32 [%to], %w;
            add.u64 %to, %to, 128; add.u32 %k, %k, 128; setp.lt.u32 %more, %k, {SHARED}; @%more bra OUT;
            ret;
        }}"
    ))
}

const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %done, [bar], 0; @!%done bra WAIT;";

/// Returns the body that loads a box of `bytes` bytes, and waits.
fn load(bytes: usize) -> String {
    format!(
        "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};
         @%first cp.async.bulk.tensor.RANK.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {{AT}}], [bar];
         {WAIT}"
    )
}

/// Returns the body that does `operation` with the box in `tile` and the tensor, and waits.
fn store(operation: &str) -> String {
    let (name, change) = match operation {
        "" => ("cp.async", String::new()),
        change => ("cp.reduce.async", format!(".{change}")),
    };
    format!(
        "@%first {name}.bulk.tensor.RANK.global.shared::cta{change}.tile.bulk_group [%map, {{AT}}], [tile];
         cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    )
}

/// A tensor in a buffer of `bytes` random bytes, and a box.
#[derive(Debug, Clone, Copy)]
struct Case {
    map: TensorMap,
    at: [i32; 5],
}

/// Bytes before the tensor in its buffer, which no copy may touch.
const BEFORE: usize = 256;

/// Bytes to which a copy rounds the end of a tensor's rows up.
const LOAD: u64 = 1;
const STORE: u64 = 16;

/// Bytes of elements outside of the tensor, repeated, if a map fills with NaN.
const NAN: [u8; 2] = 0x7ff7_u16.to_le_bytes();

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(step).collect()
}

impl Case {
    /// Creates a dense tensor whose rows are padded to 16 bytes.
    fn new(element: TensorElement, extent: &[u64], box_extent: &[u32], at: &[i32]) -> Self {
        let mut all = [1; 5];
        all[..extent.len()].copy_from_slice(extent);
        let mut boxes = [1; 5];
        boxes[..box_extent.len()].copy_from_slice(box_extent);
        let mut place = [0; 5];
        place[..at.len()].copy_from_slice(at);
        let mut strides = [0; 4];
        let mut bytes = (extent[0] * u64::from(element.bytes())).next_multiple_of(16);
        for (stride, extent) in strides.iter_mut().zip(&all[1..]) {
            *stride = bytes;
            bytes *= extent;
        }
        let map = TensorMap {
            element,
            rank: extent.len() as u32,
            address: 0,
            extent: all,
            strides,
            box_extent: boxes,
            element_strides: [1; 5],
            swizzle: Swizzle::None,
            fills_nan: false,
        };
        Self { map, at: place }
    }

    fn with(mut self, change: impl FnOnce(&mut TensorMap)) -> Self {
        change(&mut self.map);
        self
    }

    fn buffer_bytes(&self) -> usize {
        let last = |axis: usize| (self.map.extent[axis] - 1) * self.map.strides[axis - 1];
        let row = self.map.extent[0] * u64::from(self.map.element.bytes());
        BEFORE
            + row.next_multiple_of(STORE) as usize
            + (1..self.map.rank as usize).map(last).sum::<u64>() as usize
    }

    /// Returns for each byte of `tile` that the box covers, its offset, and its offset in the buffer.
    /// Rows of the tensor end at the next multiple of `unit` bytes.
    fn bytes(&self, unit: u64) -> Vec<(usize, Option<usize>)> {
        let Self { map, at } = self;
        let width = map.element.bytes() as usize;
        let mut extent = map.extent;
        extent[0] = (extent[0] * width as u64).next_multiple_of(unit) / width as u64;
        // Each row of a swizzled box takes the bytes of the swizzle's span.
        let pitch = match map.swizzle {
            Swizzle::None => map.box_extent[0] as usize * width,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        };
        let mut found = Vec::new();
        let mut row = 0;
        let steps = |axis: usize| {
            let step = if axis == 0 { 1 } else { map.element_strides[axis] };
            (0..map.box_extent[axis]).step_by(step as usize)
        };
        for e in steps(4) {
            for d in steps(3) {
                for c in steps(2) {
                    for b in steps(1) {
                        for a in steps(0) {
                            let mut from = Some(BEFORE as i64);
                            for (axis, step) in [a, b, c, d, e].into_iter().enumerate() {
                                let index = i64::from(at[axis]) + i64::from(step);
                                let stride =
                                    if axis == 0 { width as u64 } else { map.strides[axis - 1] };
                                let inside = index >= 0 && index < extent[axis] as i64;
                                from = from.filter(|_| inside).map(|from| from + index * stride as i64);
                            }
                            for byte in 0..width {
                                let from = from.map(|from| from as usize + byte);
                                let offset = row * pitch + a as usize * width + byte;
                                found.push((swizzled(map.swizzle, offset), from));
                            }
                        }
                        row += 1;
                    }
                }
            }
        }
        found
    }

    fn tile_bytes(&self) -> usize {
        self.bytes(LOAD).len()
    }

    /// Runs a body on the box. Returns `tile` and the tensor's buffer before and after it.
    fn run(&self, body: &str) -> [Vec<u8>; 4] {
        let filled = if body.contains("bulk_group") {
            noise(SHARED as usize, 99)
        } else {
            vec![UNTOUCHED; SHARED as usize]
        };
        self.run_on(&noise(self.buffer_bytes() - BEFORE, 7), filled, body)
    }

    /// Runs a body on a tensor and a `tile` of the given bytes; returns the same as [`Self::run`].
    fn run_on(&self, bytes: &[u8], mut filled: Vec<u8>, body: &str) -> [Vec<u8>; 4] {
        let gpu = Gpu::new(device());
        let tensor = [&noise(BEFORE, 8), bytes].concat();
        let buffer = upload(&gpu, &tensor);
        let map = TensorMap { address: buffer + BEFORE as u64, ..self.map };
        filled.resize(SHARED as usize, UNTOUCHED);
        let out = upload(&gpu, &vec![0; SHARED as usize]);
        let mut held = [0; 136];
        held[128..].copy_from_slice(&map.address.to_le_bytes());
        let held = upload(&gpu, &held);
        let args = args(&map, upload(&gpu, &filled), out, self.at).u64(held);
        let kernel = kernel(self.map.rank, body);
        gpu.launch(&kernel, "k", &Launch::linear(1, 32), &args)
            .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let (mut tile, mut after) = (vec![0; SHARED as usize], vec![0; tensor.len()]);
        gpu.read(out, &mut tile).expect("live");
        gpu.read(buffer, &mut after).expect("live");
        [filled, tile, tensor, after]
    }

    fn check_load(&self, fill: &[u8]) {
        self.check_body(&load(self.tile_bytes()), fill);
    }

    fn check_body(&self, body: &str, fill: &[u8]) {
        let bytes = self.bytes(LOAD);
        let [mut expected, tile, tensor, after] = self.run(body);
        for (index, (to, from)) in bytes.into_iter().enumerate() {
            expected[to] = from.map_or(fill[index % fill.len()], |from| tensor[from]);
        }
        assert!(tile == expected, "{self:?}");
        assert!(tensor == after, "{self:?}");
    }

    fn check_store(&self) {
        let [filled, tile, mut expected, after] = self.run(&store(""));
        for (from, to) in self.bytes(STORE) {
            if let Some(to) = to {
                expected[to] = filled[from];
            }
        }
        assert!(after == expected, "{self:?}");
        assert!(tile == filled, "{self:?}");
    }
}

fn args(map: &TensorMap, input: u64, out: u64, at: [i32; 5]) -> Args {
    let map = map.encode().unwrap_or_else(|error| panic!("{error}"));
    let at: Vec<u8> = at.iter().flat_map(|at| at.to_le_bytes()).collect();
    Args::new().bytes(&map, 64).ptr(input).ptr(out).bytes(&at, 4)
}

/// Returns where a byte of the box is stored, by the tables of the CUDA manual: in the 16-byte columns
/// of rows as long as the swizzle.
fn swizzled(swizzle: Swizzle, offset: usize) -> usize {
    let (row_bytes, rows_alike) = match swizzle {
        Swizzle::None => return offset,
        Swizzle::B32 => (32, 4),
        Swizzle::B64 => (64, 2),
        Swizzle::B128 => (128, 1),
    };
    let (row, column) = (offset / row_bytes, offset % row_bytes / 16);
    let pattern = row / rows_alike % (row_bytes / 16);
    row * row_bytes + (column ^ pattern) * 16 + offset % 16
}

use TensorElement::{Bf16, F16, F32, F32Ftz, F64, S32, S64, Tf32, Tf32Ftz, U8, U16, U32, U64};

#[test]
fn boxes_of_each_rank_are_loaded_and_stored() {
    let cases = [
        Case::new(U8, &[1000], &[256], &[304]),
        Case::new(F64, &[77], &[40], &[30]),
        Case::new(F32, &[70, 30], &[24, 9], &[12, 13]),
        Case::new(U16, &[40, 9, 7], &[16, 5, 3], &[8, 2, 3]),
        Case::new(S32, &[12, 5, 4, 6], &[8, 3, 2, 4], &[4, 1, 2, 1]),
        Case::new(U8, &[48, 4, 3, 5, 3], &[32, 2, 3, 2, 2], &[16, 1, 0, 3, 1]),
    ];
    for case in cases {
        case.check_load(&[0]);
        case.check_store();
    }
}

#[test]
fn swizzles_follow_the_tables_of_the_manual() {
    for (swizzle, row) in [(Swizzle::B32, 32), (Swizzle::B64, 64), (Swizzle::B128, 128)] {
        for rows in [1, 3, 8, 37] {
            let case = Case::new(U16, &[200, 60], &[row / 2, rows], &[8, 4]);
            let case = case.with(|map| map.swizzle = swizzle);
            case.check_load(&[0]);
            case.check_store();
        }
        for bytes in (16..row).step_by(16) {
            let short = Case::new(F32, &[50, 50], &[bytes / 4, 19], &[4, 3]);
            let short = short.with(|map| map.swizzle = swizzle);
            short.check_load(&[0]);
            short.check_store();
        }
        let outside = Case::new(F32, &[20, 20], &[row / 4, 6], &[-4, 17]);
        outside.with(|map| map.swizzle = swizzle).check_load(&[0]);
    }
}

#[test]
fn elements_outside_of_the_tensor_are_filled_and_not_written() {
    let places =
        [[-8, 2], [24, 2], [8, -2], [8, 8], [-8, -2], [32, 9], [-16, 0], [40, 0], [0, 11], [-104, 3]];
    for at in places {
        for element in [F16, Bf16, F32, F64] {
            let case = Case::new(element, &[33, 11], &[16, 4], &at);
            case.check_load(&[0]);
            case.with(|map| map.fills_nan = true).check_load(&NAN);
            if at.into_iter().all(|coordinate| coordinate >= 0) {
                case.check_store();
            }
        }
    }
    for at in [i32::MIN, i32::MAX - 3] {
        Case::new(U32, &[33, 11], &[16, 4], &[at, at]).check_load(&[0]);
    }
    Case::new(U8, &[16, 3, 3], &[32, 5, 5], &[-16, -1, -1]).check_load(&[0]);
}

/// Words of single-precision floats, and what an H200 loads of elements of type [`Tf32`].
const ROUNDED: [[u32; 2]; 16] = [
    [0x3f80_0000, 0x3f80_0000],
    [0x3f80_0fff, 0x3f80_0000],
    [0x3f80_1000, 0x3f80_0000],
    [0x3f80_1001, 0x3f80_2000],
    [0x3f80_2fff, 0x3f80_2000],
    [0x3f80_3000, 0x3f80_4000],
    [0x3f80_3001, 0x3f80_4000],
    [0x0000_0001, 0x0000_0000],
    [0x807f_ffff, 0x8080_0000],
    [0x0080_0fff, 0x0080_0000],
    [0x7f80_0000, 0x7f80_0000],
    [0xff80_0001, 0x7fff_e000],
    [0x7fc0_1234, 0x7fff_e000],
    [0x7f7f_ffff, 0x7f80_0000],
    [0xbf80_1000, 0xbf80_0000],
    [0xbf80_3000, 0xbf80_4000],
];

#[test]
fn loads_round_to_tf32_and_stores_keep_bits() {
    let words = |column: usize| ROUNDED.map(|row| row[column].to_le_bytes()).concat();
    for (element, column) in [(F32, 0), (F32Ftz, 0), (Tf32, 1), (Tf32Ftz, 1)] {
        let case = Case::new(element, &[16], &[16], &[0]);
        let [_, tile, ..] = case.run_on(&words(0), Vec::new(), &load(64));
        assert_eq!(tile[..64], words(column), "{element:?}");
        // Elements outside of the tensor are not rounded.
        let outside = Case { at: [-16, 0, 0, 0, 0], ..case }.with(|map| map.fills_nan = true);
        outside.check_load(&NAN);
        case.check_store();
    }
    for element in [F32Ftz, Tf32, Tf32Ftz] {
        let case = Case::new(element, &[16], &[16], &[-16]).with(|map| map.fills_nan = true);
        let body = made(&case.map) + &load(case.tile_bytes()).replace("%map", "%held");
        case.check_body(&body, &NAN);
    }
}

#[test]
fn element_strides_skip_elements() {
    for (stride, extent) in [(2, 8), (3, 7), (8, 16)] {
        let case = Case::new(U32, &[40, 40, 9], &[8, extent, 5], &[4, 2, 6]);
        let case = case.with(|map| map.element_strides = [4, stride, 2, 1, 1]);
        assert_eq!(case.tile_bytes(), 32 * extent.div_ceil(stride) as usize * 3);
        case.check_store();
        for first in [-2, 6] {
            Case { at: [4, 2, first, 0, 0], ..case }.check_load(&[0]);
        }
    }
}

#[test]
fn reductions_combine_elements_with_the_tensor() {
    let apply = |operation: &str, element, combine: fn(u64, u64) -> u64| {
        let case = Case::new(element, &[30, 12], &[16, 6], &[24, 9]);
        let [filled, _, mut expected, after] = case.run(&store(operation));
        let width = element.bytes() as usize;
        let value = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(&bytes[..width]);
            u64::from_le_bytes(word)
        };
        for (from, to) in case.bytes(STORE).into_iter().step_by(width) {
            if let Some(to) = to {
                let result = combine(value(&expected[to..]), value(&filled[from..]));
                expected[to..to + width].copy_from_slice(&result.to_le_bytes()[..width]);
            }
        }
        assert!(after == expected, "{operation} of {element:?}");
    };
    apply("add", U32, |a, b| (a as u32).wrapping_add(b as u32).into());
    apply("add", U64, u64::wrapping_add);
    apply("min", S32, |a, b| (a as i32).min(b as i32) as u32 as u64);
    apply("max", U64, u64::max);
    apply("xor", U32, |a, b| a ^ b);
    apply("min", S64, |a, b| (a as i64).min(b as i64) as u64);
    apply("or", U64, |a, b| a | b);
    apply("and", S32, |a, b| a & b);
    apply("min", F16, |a, b| half_extreme(a as u16, b as u16, 0x7c00, false));
    apply("max", F16, |a, b| half_extreme(a as u16, b as u16, 0x7c00, true));
    apply("min", Bf16, |a, b| half_extreme(a as u16, b as u16, 0x7f80, false));
    apply("max", Bf16, |a, b| half_extreme(a as u16, b as u16, 0x7f80, true));
    apply("inc", U32, |a, b| if a >= b { 0 } else { a + 1 });
}

/// Returns the extreme of two floats of 16 bits: a number before a NaN, and -0 below 0.
fn half_extreme(a: u16, b: u16, infinity: u16, max: bool) -> u64 {
    let magnitude = |bits: u16| i32::from(bits & 0x7fff);
    let key = |bits: u16| if bits >> 15 == 1 { -1 - magnitude(bits) } else { magnitude(bits) };
    let is_nan = |bits: u16| magnitude(bits) > infinity.into();
    let first = match (is_nan(a), is_nan(b)) {
        (true, true) => return 0x7fff,
        (false, false) => (key(a) < key(b)) != max,
        (_, second) => second,
    };
    u64::from(if first { a } else { b })
}

#[test]
fn sums_flush_subnormals_of_some_elements() {
    // Each word added to itself, by an H200.
    let mut doubled = [
        0x4000_0000,
        0x4000_0fff,
        0x4000_1000,
        0x4000_1001,
        0x4000_2fff,
        0x4000_3000,
        0x4000_3001,
        0x0000_0002,
        0x80ff_fffe,
        0x0100_0fff,
        0x7f80_0000,
        0x7fff_ffff,
        0x7fff_ffff,
        0x7f80_0000,
        0xc000_1000,
        0xc000_3000,
    ];
    let words = ROUNDED.map(|[word, _]| word.to_le_bytes()).concat();
    let check = |element, expected: [u32; 16]| {
        let case = Case::new(element, &[16], &[16], &[0]);
        let [.., after] = case.run_on(&words, words.clone(), &store("add"));
        let found: Vec<_> =
            after[BEFORE..].as_chunks().0.iter().copied().map(u32::from_le_bytes).collect();
        assert_eq!(found, expected, "{element:?}");
    };
    check(F32, doubled);
    check(Tf32, doubled);
    (doubled[7], doubled[8]) = (0, 0x8000_0000);
    check(F32Ftz, doubled);
    check(Tf32Ftz, doubled);
}

#[test]
fn multicast_writes_the_memory_of_each_block() {
    let case = Case::new(F32, &[64, 64], &[32, 16], &[8, 8]).with(|map| map.swizzle = Swizzle::B128);
    let gpu = Gpu::new(device());
    let tensor = noise(case.buffer_bytes(), 7);
    let buffer = upload(&gpu, &tensor);
    let map = TensorMap { address: buffer + BEFORE as u64, ..case.map };
    let body = format!(
        "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {}; .reg .pred %leads; .reg .b16 %mask;
         .reg .b64 %policy; createpolicy.fractional.L2::evict_last.b64 %policy;
         setp.eq.and.u32 %leads, %rank, 1, %first; mov.u16 %mask, 3;
         @%leads cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint
             [tile], [%map, {{AT}}], [bar], %mask, %policy;
         {WAIT} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        case.tile_bytes()
    );
    let filled = upload(&gpu, &vec![UNTOUCHED; SHARED as usize]);
    let out = upload(&gpu, &vec![0; 2 * SHARED as usize]);
    let launch = Launch::linear(2, 32).with_cluster([2, 1, 1]);
    gpu.launch(&kernel(2, &body), "k", &launch, &args(&map, filled, out, case.at).u64(0))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut expected = vec![UNTOUCHED; SHARED as usize];
    for (to, from) in case.bytes(LOAD) {
        expected[to] = tensor[from.expect("inside")];
    }
    for rank in 0..2 {
        let mut tile = vec![0; SHARED as usize];
        gpu.read(out + rank * u64::from(SHARED), &mut tile).expect("live");
        assert!(tile == expected, "rank {rank}");
    }
}

/// Runs a body with a map in global and in const memory as well, whose generic addresses are `%held` and
/// `constant`.
fn run_held(body: &str, change: impl FnOnce(&mut [u8; 128])) -> Result<Vec<u32>, Error> {
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let case = Case::new(U32, &[32], &[32], &[0]);
    let tensor = u32s(&gpu, &(0..32).collect::<Vec<_>>());
    let mut map = TensorMap { address: tensor, ..case.map }.encode().expect("valid");
    change(&mut map);
    let kernel = kernel(1, body);
    let (constant, _) = gpu.symbol(&kernel, "constant")?.expect("a variable");
    gpu.write(constant, &map)?;
    let held = upload(&gpu, &map);
    let filled = upload(&gpu, &vec![UNTOUCHED; SHARED as usize]);
    let out = upload(&gpu, &vec![0; SHARED as usize]);
    let args = Args::new().bytes(&map, 64).ptr(filled).ptr(out).bytes(&[0; 20], 4).u64(held);
    gpu.launch(&kernel, "k", &Launch::linear(1, 32), &args)?;
    Ok(read_u32s(&gpu, out, 32))
}

#[test]
fn maps_may_be_in_param_const_or_global_memory() {
    let expected: Vec<u32> = (0..32).collect();
    for place in ["%map", "map", "%held", "constant", "%const"] {
        let body = format!(
            ".reg .b64 %const; mov.b64 %const, constant; cvta.const.u64 %const, %const;
             prefetch.tensormap [%map]; prefetch.param.tensormap [map];
             fence.proxy.tensormap::generic.acquire.gpu [%held], 128;
             @%first cp.async.bulk.prefetch.tensor.1d.L2.global.tile [{place}, {{AT}}];
             {}",
            load(128).replace("%map", place)
        );
        assert_eq!(run_held(&body, |_| ()).unwrap_or_else(|error| panic!("{error}")), expected);
    }
}

/// Returns the body that makes a map from zero bytes in shared memory, and copies it to `%held`. The
/// address of the tensor is after it.
fn made(map: &TensorMap) -> String {
    let mut body = format!(
        "mov.u32 %s, tile; add.u32 %k, %s, 4096; add.u32 %s, %k, %i; st.shared.u32 [%s], 0; bar.warp.sync -1;
         ld.global.u64 %from, [%held+128]; mov.u32 %w, {};",
        map.rank - 1
    );
    let mut set = |field: &str, ty: &str, value: String| {
        body +=
            &format!("@%first tensormap.replace.tile.{field}.shared::cta.b1024.{ty} [%k], {value};\n");
    };
    set("global_address", "b64", "%from".to_owned());
    set("rank", "b32", "%w".to_owned());
    for axis in 0..map.rank as usize {
        set("box_dim", "b32", format!("{axis}, {}", map.box_extent[axis]));
        set("global_dim", "b32", format!("{axis}, {}", map.extent[axis]));
        set("element_stride", "b32", format!("{axis}, {}", map.element_strides[axis]));
        if axis > 0 {
            set("global_stride", "b64", format!("{}, {}", axis - 1, map.strides[axis - 1]));
        }
    }
    // The numbers of the manual's table.
    let element = match map.element {
        F32Ftz => 8,
        F64 => 9,
        Bf16 => 10,
        Tf32 => 11,
        Tf32Ftz => 12,
        other => other as u32,
    };
    set("elemtype", "b32", element.to_string());
    set("interleave_layout", "b32", "0".to_owned());
    set("swizzle_mode", "b32", (map.swizzle as u32).to_string());
    set("swizzle_atomicity", "b32", "0".to_owned());
    set("fill_mode", "b32", u32::from(map.fills_nan).to_string());
    body + "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%held], [%k], 128;
        fence.proxy.tensormap::generic.acquire.gpu [%held], 128; st.shared.u32 [%s], 0xeeeeeeee; bar.sync 0;"
}

#[test]
fn kernels_make_maps() {
    let cases = [
        Case::new(U8, &[1000], &[256], &[304]),
        Case::new(Bf16, &[70, 30], &[64, 9], &[16, 25]).with(|map| {
            (map.swizzle, map.fills_nan) = (Swizzle::B128, true);
        }),
        Case::new(F64, &[40, 9, 7], &[16, 5, 3], &[8, 2, 3]).with(|map| map.element_strides[1] = 2),
        Case::new(S32, &[12, 5, 4, 6, 3], &[8, 3, 2, 4, 2], &[4, 1, 2, 1, 1]),
    ];
    for case in cases {
        let body = made(&case.map) + &load(case.tile_bytes()).replace("%map", "%held");
        case.check_body(&body, if case.map.fills_nan { &NAN } else { &[0] });
    }
    // A field of an encoded map, in global memory.
    let body = "@%first tensormap.replace.tile.global_dim.global.b1024.b32 [%held], 0, 20; bar.sync 0;";
    let found = run_held(&(body.to_owned() + &load(128).replace("%map", "%held")), |_| ());
    let expected: Vec<u32> = (0..32).map(|at| if at < 20 { at } else { 0 }).collect();
    assert_eq!(found.unwrap_or_else(|error| panic!("{error}")), expected);
}

#[test]
fn wrong_fields_are_faults_when_a_map_is_used() {
    let says = |field: &str, expected: &str| {
        let body = format!(
            "@%first tensormap.replace.tile.{field}; bar.sync 0; {}",
            load(128).replace("%map", "%held")
        );
        let (kind, text) = fault(&body, |_| ());
        assert!(matches!(kind, FaultKind::TensorMap { .. }), "{text}");
        assert!(text.ends_with(expected), "{text}");
    };
    says(
        "box_dim.global.b1024.b32 [%held], 0, 9999",
        "is invalid: box extent of the tensor map is 0xfff; allowed is 1 to 256",
    );
    says("rank.global.b1024.b32 [%held], 0xffffffff", "is 0xff; allowed is 1 to 5");
    says("elemtype.b1024.b32 [%held], 2; st.global.u8 [%held+9], 1", "or tensormap.replace");
    says("element_stride.b1024.b32 [%held], 0, 0", "is 0x0; allowed is 1 to 8");
    let (kind, _) = fault("tensormap.replace.tile.rank.b1024.b32 [%map], 1;", |_| ());
    assert!(matches!(kind, FaultKind::ReadOnly { .. }), "{kind}");
    let (_, text) = fault("tensormap.replace.tile.rank.b1024.b32 [%in], 1;", |_| ());
    assert!(text.contains("does not hold a tensor map"), "{text}");
}

fn fault(body: &str, change: impl FnOnce(&mut [u8; 128])) -> (FaultKind, String) {
    match run_held(body, change) {
        Err(Error::Fault(fault)) => (fault.kind.clone(), fault.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn foreign_maps_are_faults() {
    for byte in [0, 9, 60, 100, 127] {
        let (kind, text) = fault(&load(128), |map| map[byte] ^= 1);
        let FaultKind::TensorMap { problem: TensorMapProblem::Foreign, .. } = kind else {
            panic!("{text}");
        };
        assert!(
            text.ends_with(
                "the tensor map at param address 0x0 does not hold a tensor map; allowed are 128 bytes of \
                 cuTensorMapEncodeTiled or tensormap.replace"
            ),
            "{text}"
        );
    }
    let (_, text) = fault(&load(128).replace("%map, {", "%in, {"), |_| ());
    assert!(text.contains("the tensor map at global address"), "{text}");
}

#[test]
fn wrong_copies_are_faults() {
    let says = |body: String, expected: &str| {
        let (_, text) = fault(&body, |_| ());
        assert!(text.contains(expected), "{text}");
    };
    says(
        load(128).replace("tensor.RANK", "tensor.2d").replace("{AT}", "{0, 0}"),
        "has 1 dimensions, and the instruction 2; both must be the same",
    );
    says(
        load(128).replace("[tile]", "[tile+64]"),
        "copy of 128 bytes at shared address 0x40 is misaligned; the address must be a multiple of 128",
    );
    says(
        load(128).replace("[tile]", &format!("[tile+{SHARED}]")),
        "copy of 128 bytes at shared address 0x2000 is out of bounds",
    );
    says(format!("add.u64 %held, %held, 32; {}", load(128).replace("%map", "%held")), "is misaligned");
    says(
        load(128)
            .replace("complete_tx::bytes", "complete_tx::bytes.multicast::cluster")
            .replace("[bar];", "[bar], 2;"),
        "block rank 1",
    );
    for (operation, element) in [
        ("min", F32),
        ("and", F32),
        ("add", S64),
        ("and", S64),
        ("inc", S64),
        ("inc", U64),
        ("inc", S32),
        ("add", U16),
        ("xor", U16),
        ("and", U8),
        ("and", F16),
        ("max", F64),
    ] {
        let case = Case::new(element, &[16], &[16], &[0]);
        let (kind, text) = fault(&store(operation), |map| {
            let address = TensorMap::decode(map).expect("a map").address;
            *map = TensorMap { address, ..case.map }.encode().expect("valid");
        });
        assert!(matches!(kind, FaultKind::TensorMap { problem: TensorMapProblem::Element { .. }, .. }));
        assert!(
            text.contains(&format!("elements of type {element:?}, for which this reduction is not")),
            "{text}"
        );
    }
    // The tensor is longer than its allocation.
    for (body, bytes, past) in [(load(128), 100, 4), (store(""), 112, 16)] {
        let (_, text) = fault(&body.replace("{AT}", "{8}"), |map| {
            let known = TensorMap::decode(map).expect("a map");
            *map = TensorMap { extent: [33, 1, 1, 1, 1], ..known }.encode().expect("valid");
        });
        assert!(text.contains(&format!("of {bytes} bytes")), "{text}");
        assert!(text.contains(&format!("ends {past} bytes past the end")), "{text}");
    }
}

#[test]
fn coordinates_that_a_gpu_rejects_are_faults() {
    let says = |body: &str, coordinates: &str, expected: &str| {
        let body = body.replace("RANK", "2d").replace("AT", coordinates);
        let (_, text) = fault(&body, |map| {
            let TensorMap { address, .. } = TensorMap::decode(map).expect("a map");
            let case = Case::new(U32, &[32, 1], &[32, 1], &[]);
            *map = TensorMap { address, ..case.map }.encode().expect("valid");
        });
        assert!(text.ends_with(expected), "{text}");
    };
    let inner = "which is byte 12 of a row; allowed are multiples of 16 bytes";
    for body in [load(128), store(""), store("add")] {
        says(&body, "3, 0", &format!("copy of a tensor at inner coordinate 3, {inner}"));
        says(&body, "-6, 0", "-6, which is byte -24 of a row; allowed are multiples of 16 bytes");
    }
    let allowed = "allowed are coordinates from 0";
    // The whole box of the last is outside of the tensor.
    for (coordinates, at) in [("-4, 0", "-4 of dimension 0"), ("8, -2", "-2 of dimension 1")] {
        let at = format!("of a tensor at coordinate {at}; {allowed}");
        says(&store(""), coordinates, &format!("store {at}"));
        says(&store("add"), coordinates, &format!("reduction {at}"));
    }
}

#[test]
fn maps_check_their_arguments() {
    let map = TensorMap { address: 0x1000, ..Case::new(U32, &[64, 8], &[32, 8], &[]).map };
    assert_eq!(TensorMap::decode(&map.encode().expect("valid")), Some(map));
    let says = |change: fn(&mut TensorMap), expected: &str| {
        let mut wrong = map;
        change(&mut wrong);
        assert_eq!(wrong.encode().expect_err("invalid").to_string(), expected);
    };
    says(|map| map.rank = 0, "rank of the tensor map is 0x0; allowed is 1 to 5");
    says(|map| map.address = 8, "address of the tensor map is 0x8; allowed is a multiple of 0x10");
    says(
        |map| map.swizzle = Swizzle::B64,
        "size of a box row in bytes of the tensor map is 0x80; allowed is at most 0x40, the span of the swizzle",
    );
}

#[test]
fn missing_waits_are_hazards() {
    let kinds = |body: &str| {
        let hazards = Hazards::new();
        let gpu = Gpu::new(Config { threads: Some(1), ..device() });
        let case = Case::new(U32, &[32, 8], &[32, 8], &[0, 0]).with(|map| map.swizzle = Swizzle::B128);
        let map = TensorMap { address: u32s(&gpu, &[5; 256]), ..case.map };
        let filled = upload(&gpu, &vec![UNTOUCHED; SHARED as usize]);
        let out = upload(&gpu, &vec![0; SHARED as usize]);
        let args = args(&map, filled, out, case.at).u64(0);
        let launch = Launch::linear(1, 32);
        gpu.launch_observed(&kernel(2, body), "k", &launch, &args, &hazards.launch()).expect("runs");
        hazards.findings().iter().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&load(1024)), []);
    let early = load(1024).replace(WAIT, "ld.shared.u32 %w, [tile+112];") + WAIT;
    assert_eq!(kinds(&early), [HazardKind::UnwaitedCopy]);
    // A word after the box may be read before the wait.
    assert_eq!(kinds(&early.replace("tile+112", "tile+1024")), []);
    let overwritten = load(1024).replace(WAIT, "@%first st.shared.u32 [tile+1020], 1;") + WAIT;
    assert_eq!(kinds(&overwritten), [HazardKind::UnwaitedCopy]);
}
