//! Products of warpgroups against plain loops, with operands laid out as in the PTX manual.

use crate::common::{device, module, read_u32s, u32s};
use crate::matrix::{Matrix, Numbers, Place, SECTIONS, bits_of, encoded, product};
use warpfold_sim::{Args, Config, Error, FaultKind, Gpu, Launch, Module, WarpgroupProblem};

/// Words of the shared memory of a test, half of it for A, half for B.
const WORDS: usize = 24 << 10;
const HALF: u32 = 2 * WORDS as u32;

/// A matrix in shared memory, in one of the manual's canonical layouts.
#[derive(Debug, Clone, Copy)]
struct Stored {
    /// Bytes that a line's swizzle spans; 16 without swizzle.
    span: u32,
    /// Set for M-major A and N-major B.
    transposed: bool,
    /// Address of the pattern, and of the matrix in its first line.
    pattern: u32,
    within: u32,
    leading: u32,
    stride: u32,
}

impl Stored {
    fn new(span: u32, transposed: bool, pattern: u32) -> Self {
        let (leading, stride) = match (span, transposed) {
            // Core matrices of 128 bytes with gaps.
            (16, _) => (128, 384),
            // The leading offset is not used.
            (_, false) => (0x3fff0, 8 * span),
            (_, true) => (16 * span, 8 * span),
        };
        Self { span, transposed, pattern, within: 0, leading, stride }
    }

    /// Returns the address of an element of `bits` bits, and its first bit: index `outer` along m or n.
    fn place(&self, outer: u32, k: u32, bits: u32) -> (u32, u32) {
        let t = 128 / bits;
        let Self { span, leading, stride, .. } = *self;
        let wide = span / 16;
        let offset = match (self.transposed, span) {
            (false, 16) => outer % 8 * 16 + outer / 8 * stride + k / t * leading,
            (false, _) => outer % 8 * span + outer / 8 * stride + k / t * 16,
            (true, 16) => outer / t * stride + k % 8 * 16 + k / 8 * leading,
            (true, _) => {
                outer / t % wide * 16 + outer / t / wide * leading + k % 8 * span + k / 8 * stride
            }
        };
        let along = if self.transposed { outer } else { k } % t * bits;
        let address = self.pattern + self.within + offset + along / 8;
        let relative = address - self.pattern;
        (self.pattern + (relative ^ relative >> 3 & (span - 16)), along % 8)
    }

    fn write(&self, memory: &mut [u8], matrix: &Matrix, (element, is_a): (&str, bool)) {
        let bits = bits_of(element);
        for at in 0..matrix.values.len() as u32 {
            let (row, column) = (at / matrix.columns, at % matrix.columns);
            let (outer, k) = if is_a { (row, column) } else { (column, row) };
            let (address, bit) = self.place(outer, k, bits);
            let value = encoded(element, matrix.at((row, column)));
            if bits < 8 {
                let byte = &mut memory[address as usize];
                *byte = *byte & !(1 << bit) | (value as u8) << bit;
            } else {
                let bytes = &value.to_le_bytes()[..bits as usize / 8];
                memory[address as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    fn descriptor(&self) -> u64 {
        let field = |bytes: u32| u64::from(bytes >> 4);
        let mode = match self.span {
            16 => 0,
            128 => 1,
            64 => 2,
            _ => 3,
        };
        let base = if self.span == 16 { 0 } else { u64::from(self.pattern >> 7 & 7) };
        let start = field(self.pattern + self.within);
        start | field(self.leading) << 16 | field(self.stride) << 32 | base << 49 | mode << 62
    }
}

/// A product, and how its operands are passed.
#[derive(Debug, Clone, Copy)]
struct Case {
    n: u32,
    /// Types of D, A and B.
    elements: [&'static str; 3],
    /// A in shared memory; `None` in registers.
    a: Option<Stored>,
    b: Stored,
    adds: bool,
    saturates: bool,
    scales: [i32; 2],
}

impl Case {
    fn new(n: u32, elements: [&'static str; 3]) -> Self {
        let (a, b) = (Some(Stored::new(128, false, 0)), Stored::new(128, false, HALF));
        Self { n, elements, a, b, adds: true, saturates: false, scales: [1, 1] }
    }

    const fn k(&self) -> u32 {
        match self.elements[1].as_bytes() {
            [b'f', b'1', b'6'] | [b'b', b'f', ..] => 16,
            [b't', ..] => 8,
            [b'b', b'1'] => 256,
            _ => 32,
        }
    }

    fn is_float(&self) -> bool {
        self.elements[0] != "s32"
    }

    fn instruction(&self) -> String {
        let Self { n, elements: [d, a, b], adds, scales, .. } = self;
        let names = |name: &str, count: u32| -> String {
            let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        let first = if self.a.is_some() { "%da".to_owned() } else { names("a", 4) };
        let mut operands = format!("{}, {first}, %db, {}", names("d", self.sums()), u8::from(*adds));
        if self.is_float() {
            operands += &format!(", {}, {}", scales[0], scales[1]);
        }
        if bits_of(a) == 16 {
            let transposed = self.a.into_iter().chain([self.b]).map(|matrix| matrix.transposed);
            operands += &transposed.map(|yes| format!(", {}", u8::from(yes))).collect::<String>();
        }
        let how = if *a == "b1" { ".and.popc" } else { "" };
        let types = format!("{}{d}.{a}.{b}{how}", if self.saturates { "satfinite." } else { "" });
        format!("wgmma.mma_async.sync.aligned.m64n{n}k{}.{types} {operands};", self.k())
    }

    /// Registers of D in each lane.
    fn sums(&self) -> u32 {
        self.n / if self.elements[0] == "f16" { 4 } else { 2 }
    }

    fn check(&self) {
        let mut numbers = Numbers(u64::from(self.n));
        let [d, a, b] = self.elements;
        let k = self.k();
        let first = Matrix::new(64, k, || numbers.of(a) as f64);
        let second = Matrix::new(k, self.n, || numbers.of(b) as f64);
        let sums = Matrix::new(64, self.n, || numbers.of(if d == "s32" { "s8" } else { d }) as f64);
        let mut memory: Vec<u8> = (0..4 * WORDS).map(|_| numbers.next() as u8).collect();
        if let Some(stored) = self.a {
            stored.write(&mut memory, &first, (a, true));
        }
        self.b.write(&mut memory, &second, (b, false));
        let section =
            SECTIONS.iter().find(|section| section.size == [16, 8, k] && section.elements.contains(&a));
        let place = section.expect("a layout of 16 rows").a;
        let (fragments, held) = (by_warp(&first, a, place), by_warp(&sums, d, SUM));
        let sign = f64::from(self.scales[0] * self.scales[1]);
        let start = if self.adds { sums } else { Matrix::new(64, self.n, || 0.0) };
        let expected = by_warp(&product(&first, &second, &start, |a, b| sign * a * b), d, SUM);
        let found = self.run(&memory, &fragments, &held).unwrap_or_else(|e| panic!("{self:?}: {e}"));
        let wrong = (0..expected.len()).find(|&at| found[at] != expected[at]);
        assert_eq!(wrong, None, "{self:?}: the first wrong word of D");
    }

    /// Runs the product in a warpgroup, with the words of each thread's registers.
    fn run(&self, memory: &[u8], a: &[u32], d: &[u32]) -> Result<Vec<u32>, Error> {
        let (instruction, sums) = (self.instruction(), self.sums());
        let mut body = String::new();
        let mut each = |name: &str, from: &str, count: u32, op: &str| {
            body += &format!("ld.param.u64 %at, [{from}]; mad.wide.u32 %at, %t, {}, %at;\n", 4 * count);
            for i in 0..count {
                body += &match op {
                    "ld" => format!("ld.global.b32 %{name}{i}, [%at+{}];\n", 4 * i),
                    _ => format!("st.global.b32 [%at+{}], %{name}{i};\n", 4 * i),
                };
            }
        };
        each("a", "a", 4, "ld");
        each("d", "d", sums, "ld");
        let loads = std::mem::take(&mut body);
        let mut each = |count: u32| {
            body += &format!("ld.param.u64 %at, [d]; mad.wide.u32 %at, %t, {}, %at;\n", 4 * count);
            for i in 0..count {
                body += &format!("st.global.b32 [%at+{}], %d{i};\n", 4 * i);
            }
        };
        each(sums);
        let text = format!(
            "{HEAD}.visible .entry k(.param .u64 image, .param .u64 a, .param .u64 d, .param .u64 da, .param .u64 db) {{
             .reg .pred %p; .reg .b32 %t, %i, %w, %s, %a<4>, %d<{sums}>; .reg .b64 %at, %g, %da, %db;
             mov.u32 %t, %tid.x; mov.u32 %i, %t; ld.param.u64 %at, [image];
             COPY: mul.wide.u32 %g, %i, 4; add.u64 %g, %g, %at; ld.global.u32 %w, [%g];
             mov.u32 %s, sh; mad.lo.u32 %s, %i, 4, %s; st.shared.u32 [%s], %w;
             add.u32 %i, %i, 128; setp.lt.u32 %p, %i, {WORDS}; @%p bra COPY;
             bar.sync 0; fence.proxy.async.shared::cta;
             ld.param.u64 %da, [da]; ld.param.u64 %db, [db];
             {loads}wgmma.fence.sync.aligned;
             {instruction}
             wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
             {body} ret; }}\n"
        );
        let module = module(&text);
        let gpu = Gpu::new(Config { threads: Some(1), ..device() });
        let image: Vec<u32> = memory
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")))
            .collect();
        let held = u32s(&gpu, d);
        let descriptors = [self.a.map_or(0, |a| a.descriptor()), self.b.descriptor()];
        let args = Args::new().ptr(u32s(&gpu, &image)).ptr(u32s(&gpu, a)).ptr(held);
        let args = descriptors.iter().fold(args, |args, &descriptor| args.u64(descriptor));
        gpu.launch(&module, "k", &Launch::linear(1, 128), &args)?;
        Ok(read_u32s(&gpu, held, d.len()))
    }
}

const HEAD: &str =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 sh[98304];\n";

/// The layout of D in the 16 rows of a warp.
const SUM: Place = |lane, i| (lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2);

/// Returns the words of each thread of the warpgroup, each of whose warps has 16 rows.
fn by_warp(matrix: &Matrix, element: &str, place: Place) -> Vec<u32> {
    let rows = matrix.values.chunks_exact(16 * matrix.columns as usize);
    let parts = rows.map(|rows| Matrix { columns: matrix.columns, values: rows.to_vec() });
    parts.flat_map(|part| part.fragments(element, place)).collect()
}

const KINDS: [[&str; 3]; 17] = [
    ["f32", "f16", "f16"],
    ["f16", "f16", "f16"],
    ["f32", "bf16", "bf16"],
    ["f32", "tf32", "tf32"],
    ["f32", "e4m3", "e4m3"],
    ["f32", "e4m3", "e5m2"],
    ["f32", "e5m2", "e4m3"],
    ["f32", "e5m2", "e5m2"],
    ["f16", "e4m3", "e4m3"],
    ["f16", "e4m3", "e5m2"],
    ["f16", "e5m2", "e4m3"],
    ["f16", "e5m2", "e5m2"],
    ["s32", "s8", "s8"],
    ["s32", "s8", "u8"],
    ["s32", "u8", "s8"],
    ["s32", "u8", "u8"],
    ["s32", "b1", "b1"],
];

#[test]
fn every_type_and_width_multiplies() {
    for elements in KINDS {
        for n in [8, 24, 64, 128, 256] {
            let case = Case::new(n, elements);
            case.check();
            Case { a: None, ..case }.check();
        }
        Case { adds: false, ..Case::new(16, elements) }.check();
    }
}

#[test]
fn every_layout_of_operands_is_read() {
    for elements in [KINDS[0], KINDS[2], KINDS[3], KINDS[4], KINDS[12], KINDS[16]] {
        let transposes = bits_of(elements[1]) == 16;
        for span in [16, 32, 64, 128] {
            for transposed in [[false, false], [false, true], [true, false], [true, true]] {
                if !transposes && transposed != [false, false] {
                    continue;
                }
                let case = Case::new(96, elements);
                let a = Stored::new(span, transposed[0], 0);
                let b = Stored::new(span, transposed[1], HALF);
                Case { a: Some(a), b, ..case }.check();
                Case { a: None, b, ..case }.check();
            }
        }
    }
}

#[test]
fn matrices_start_within_a_line_of_the_pattern() {
    for span in [64, 128] {
        let case = Case::new(32, KINDS[0]);
        for within in (0..span).step_by(32) {
            let a = Stored { within, ..Stored::new(span, false, 0) };
            let b = Stored { within, ..Stored::new(span, false, HALF) };
            Case { a: Some(a), b, ..case }.check();
        }
        // Later rows of k: the matrix starts at the pattern\'s beginning eight lines further.
        let b = Stored { within: 8 * span, ..Stored::new(span, true, HALF) };
        Case { b, ..case }.check();
    }
}

#[test]
fn base_offset_says_where_the_pattern_starts() {
    for span in [32, 64, 128] {
        for lines in [1, 3, 7] {
            let case = Case::new(32, KINDS[0]);
            let a = Stored::new(span, false, 128 * lines);
            let b = Stored::new(span, true, HALF + 128 * lines);
            Case { a: Some(a), b, ..case }.check();
        }
    }
}

#[test]
fn scales_negate_a_factor() {
    for scales in [[-1, 1], [1, -1], [-1, -1]] {
        for elements in [KINDS[0], KINDS[1], KINDS[3], KINDS[4]] {
            Case { scales, ..Case::new(8, elements) }.check();
            Case { scales, a: None, adds: false, ..Case::new(8, elements) }.check();
        }
    }
}

#[test]
fn warpgroups_of_a_block_multiply_by_themselves() {
    // B is the first eight rows of the identity; thread t writes the first sum, A[row, column].
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 out) {{
         .reg .pred %p; .reg .b32 %t, %w, %s, %a<4>, %d<4>; .reg .b64 %at, %db;
         mov.u32 %t, %tid.x; mov.u32 %s, sh; mad.lo.u32 %s, %t, 4, %s; mov.u32 %w, 0; st.shared.u32 [%s], %w; bar.sync 0;
         setp.lt.u32 %p, %t, 8; mul.lo.u32 %w, %t, 18; mov.u32 %s, sh; add.u32 %s, %s, %w; mov.u32 %w, 0x3c00;
         @%p st.shared.b16 [%s], %w; bar.sync 0; fence.proxy.async;
         // Row r of the block has 2 r and 2 r + 1 times 1024 subnormals, as lanes have pairs.
         shl.b32 %w, %t, 1; add.u32 %s, %w, 1; shl.b32 %s, %s, 16; or.b32 %a0, %s, %w; mov.u32 %a1, 0; mov.u32 %a2, 0; mov.u32 %a3, 0;
         mov.b64 %db, {:#x}; wgmma.fence.sync.aligned;
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, {{%a0, %a1, %a2, %a3}}, %db, 0, 1, 1, 0;
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
         ld.param.u64 %at, [out]; mad.wide.u32 %at, %t, 4, %at; st.global.b32 [%at], %d1; ret; }}\n",
        8_u64 << 16 | 8 << 32
    );
    let text =
        text.replace("@%p st.shared.b16 [%s], %w", "cvt.u16.u32 %h, %w; @%p st.shared.b16 [%s], %h");
    let text = text.replace(".reg .pred %p;", ".reg .pred %p; .reg .b16 %h;");
    let module = module(&text);
    for seed in [None, Some(1), Some(2)] {
        let gpu = Gpu::new(Config { threads: Some(1), ..device() });
        let out = u32s(&gpu, &[0; 256]);
        let launch = Launch::linear(1, 256);
        let launch = seed.map_or(launch, |seed| launch.with_seed(seed));
        gpu.launch(&module, "k", &launch, &Args::new().ptr(out)).expect("a launch");
        let expected: Vec<u32> =
            (0..256).map(|t| ((2 * t + 1) as f32 * 0.5_f32.powi(24)).to_bits()).collect();
        assert_eq!(read_u32s(&gpu, out, 256), expected, "seed {seed:?}");
    }
}

#[test]
fn integer_sums_saturate() {
    let case = Case { a: None, ..Case::new(8, KINDS[12]) };
    let d = vec![i32::MIN as u32 + 5; 128 * 4];
    let (a, memory) = (vec![0x8080_8080; 128 * 4], vec![0x7f; 4 * WORDS]);
    let exact = (i32::MIN + 5).wrapping_sub(32 * 128 * 127) as u32;
    let found = case.run(&memory, &a, &d).expect("a launch");
    assert!(found.iter().all(|&word| word == exact));
    let found = Case { saturates: true, ..case }.run(&memory, &a, &d).expect("a launch");
    assert!(found.iter().all(|&word| word == i32::MIN as u32));
}

#[test]
fn the_order_of_groups_needs_no_product() {
    let text = include_str!("../ptx/wgmma.ptx");
    let gpu = Gpu::new(device());
    let out = u32s(&gpu, &[0; 128]);
    gpu.launch(&module(text), "k", &Launch::linear(1, 128), &Args::new().ptr(out)).expect("a launch");
}

fn fault(threads: u32, change: &str) -> Error {
    let text = format!(
        "{HEAD}.visible .entry k() {{ .reg .pred %p; .reg .b32 %t, %a<4>, %d<4>; .reg .b64 %db;
         mov.u32 %t, sh; mov.u32 %t, %tid.x; mov.b64 %db, {:#x}; setp.ge.u32 %p, %t, 0; {change}
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, {{%a0, %a1, %a2, %a3}}, %db, %p, 1, 1, 0;
         ret; }}\n",
        8_u64 << 16 | 8 << 32
    );
    let gpu = Gpu::new(device());
    gpu.launch(&module(&text), "k", &Launch::linear(1, threads), &Args::new()).expect_err("a fault")
}

#[test]
fn wrong_warpgroups_and_operands_are_faults() {
    let kind = |error: &Error| match error {
        Error::Fault(fault) => fault.kind.clone(),
        other => panic!("{other}"),
    };
    let error = fault(192, "");
    let problem = WarpgroupProblem::Incomplete { first: 4, warps: 2 };
    assert_eq!(kind(&error), FaultKind::Warpgroup(problem));
    assert!(error.to_string().ends_with(
        "the block has 2 of the 4 warps of the warpgroup that starts at warp 4; allowed are blocks with all 4"
    ));
    let error = fault(128, "setp.eq.u32 %p, %t, 3; @%p add.u64 %db, %db, 1; setp.ge.u32 %p, %t, 0;");
    assert!(
        error.to_string().ends_with(
            "the descriptor of B is 0x800080000 in lane 0 and 0x800080001 in lane 3; all threads of the \
         warpgroup must pass the same value"
        ),
        "{error}"
    );
    let error = fault(128, "setp.ne.u32 %p, %t, 5;");
    let problem = WarpgroupProblem::Differs { operand: "scale-d", first: 1, lane: 5, other: 0 };
    assert_eq!(kind(&error), FaultKind::Warpgroup(problem));
    let error = fault(128, "mov.b64 %db, 0x0000000800081800;");
    assert!(
        error.to_string().contains("load of 16 bytes at shared address 0x18000 is out of bounds"),
        "{error}"
    );
    let error = fault(128, "setp.lt.u32 %p, %t, 7; @%p bra DONE; bra NEXT; DONE: exit; NEXT:");
    assert!(error.to_string().contains("names lanes 0-6 that exited"), "{error}");
}

#[test]
fn unsupported_forms_are_refused() {
    let refused = |instruction: &str| {
        let text = format!(
            "{HEAD}.entry k() {{ .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;\n{instruction}\nret; }}"
        );
        Module::parse(&text).expect_err("refused").message
    };
    let four = "{%r0, %r1, %r2, %r3}";
    for (instruction, message) in [
        (
            format!(
                "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {four}, %d0, %d1, %r4, 0, %p, 1, 1, 0, 0;"
            ),
            "products of sparse matrices (`wgmma.mma_async.sp`) are not supported",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {four}, %d0, %d1, %p, 1, 1, 0, 0;"
            ),
            "shape `.m64n12k16` has n 12; allowed for these types is 8 to 256 in steps of 8",
        ),
        (
            format!("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {four}, %d0, %d1, %p;"),
            "shape `.m64n40k32` has n 40; allowed for these types is 8, 24, and 16 to 256 in steps of 16",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {four}, %d0, %d1, %p, 1, 1, 0, 0;"
            ),
            "`wgmma` has no product of these types in this shape",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {four}, %d0, %d1, %p, 1, 1, 0, 0;"
            ),
            "`wgmma` has no product of these types in this shape",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {four}, %d0, %d1, %p, 1, 1, 0, 0;"
            ),
            "`wgmma` has no product of these types with this type of D",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {four}, %d0, %d1, %p, 2, 1, 0, 0;"
            ),
            "a scale of `wgmma` must be 1 or -1",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {four}, %d0, %d1, %p, 1, 1, 0, -1;"
            ),
            "a transposition of `wgmma` must be 0 or 1",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {four}, %d0, %d1, %p, 1, 1, 0, 0;"
            ),
            "`wgmma` has 8 operands, allowed is 6",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {four}, {four}, %d1, %p, 1, 1, 0, 0;"
            ),
            "`wgmma` has 8 operands, allowed is 7",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {four}, %d0, %d1, %p, 1, 1, 0, 0;"
            ),
            "4 registers are given for a matrix that takes 8",
        ),
        (
            format!("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.xor.popc {four}, %d0, %d1, %p;"),
            "products of `.b1` need `.and.popc`",
        ),
        (
            format!(
                "wgmma.mma_async.sync.aligned.satfinite.m64n8k16.f32.f16.f16 {four}, %d0, %d1, %p, 1, 1, 0, 0;"
            ),
            "only products of integers take `.satfinite`",
        ),
        (
            format!("wgmma.mma_async.sync.aligned.f32.f16.f16 {four}, %d0, %d1, %p, 1, 1, 0, 0;"),
            "`wgmma` needs a shape such as `.m64n8k16`",
        ),
        (
            "wgmma.wait_group.sync.aligned %r0;".to_owned(),
            "the number of groups that may stay pending must be a constant",
        ),
        ("wgmma.fence.sync.aligned 0;".to_owned(), "`wgmma` has 1 operands, allowed is 0"),
        ("wgmma.fence;".to_owned(), "`wgmma` needs a modifier: one of `.sync`"),
    ] {
        assert_eq!(refused(&instruction), message, "{instruction}");
    }
}
