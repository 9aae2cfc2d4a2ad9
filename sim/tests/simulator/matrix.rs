//! Matrix products against plain loops, with the elements laid out as in the PTX manual.

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Config, Error, Gpu, Launch, Module};

pub(crate) type Place = fn(u32, u32) -> (u32, u32);

/// A shape of `mma`, with the layouts that a section of the manual gives for some element types.
pub(crate) struct Section {
    pub(crate) size: [u32; 3],
    pub(crate) elements: &'static [&'static str],
    pub(crate) a: Place,
    b: Place,
    sum: Place,
}

const fn ids(lane: u32) -> (u32, u32) {
    (lane >> 2, lane % 4)
}

/// Layouts of accumulators with 16 rows and with 8.
const SUM16: Place = |lane, i| (ids(lane).0 + if i < 2 { 0 } else { 8 }, ids(lane).1 * 2 + (i & 1));
const SUM8: Place = |lane, i| (ids(lane).0, ids(lane).1 * 2 + i);

pub(crate) const SECTIONS: &[Section] = &[
    Section {
        size: [8, 8, 4],
        elements: &["f64"],
        a: |lane, _| (lane >> 2, lane % 4),
        b: |lane, _| (lane % 4, lane >> 2),
        sum: |lane, i| (lane >> 2, (lane % 4) * 2 + (i & 1)),
    },
    Section {
        size: [8, 8, 16],
        elements: &["s8", "u8"],
        a: |lane, i| (ids(lane).0, ids(lane).1 * 4 + i),
        b: |lane, i| (ids(lane).1 * 4 + i, ids(lane).0),
        sum: SUM8,
    },
    Section {
        size: [8, 8, 32],
        elements: &["s4", "u4"],
        a: |lane, i| (ids(lane).0, ids(lane).1 * 8 + i),
        b: |lane, i| (ids(lane).1 * 8 + i, ids(lane).0),
        sum: SUM8,
    },
    Section {
        size: [8, 8, 128],
        elements: &["b1"],
        a: |lane, i| (ids(lane).0, ids(lane).1 * 32 + i),
        b: |lane, i| (ids(lane).1 * 32 + i, ids(lane).0),
        sum: SUM8,
    },
    Section {
        size: [16, 8, 4],
        elements: &["tf32", "f64"],
        a: |lane, i| (ids(lane).0 + if i == 0 { 0 } else { 8 }, ids(lane).1),
        b: |lane, _| (ids(lane).1, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 8],
        elements: &["f16", "bf16"],
        a: |lane, i| (ids(lane).0 + if i < 2 { 0 } else { 8 }, ids(lane).1 * 2 + (i & 1)),
        b: |lane, i| (ids(lane).1 * 2 + i, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 8],
        elements: &["tf32", "f64"],
        a: |lane, i| {
            let row = if i == 0 || i == 2 { 0 } else { 8 };
            (ids(lane).0 + row, ids(lane).1 + if i < 2 { 0 } else { 4 })
        },
        b: |lane, i| (ids(lane).1 + if i == 0 { 0 } else { 4 }, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 16],
        elements: &["f16", "bf16"],
        a: |lane, i| {
            let row = if i < 2 || (4..6).contains(&i) { 0 } else { 8 };
            (ids(lane).0 + row, ids(lane).1 * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
        },
        b: |lane, i| (ids(lane).1 * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 16],
        elements: &["f64"],
        a: |lane, i| match i % 2 {
            0 => (ids(lane).0, i * 2 + ids(lane).1),
            _ => (ids(lane).0 + 8, i * 2 - 2 + ids(lane).1),
        },
        b: |lane, i| (ids(lane).1 + i * 4, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 16],
        elements: &["s8", "u8", "e4m3", "e5m2"],
        a: |lane, i| (ids(lane).0 + if i < 4 { 0 } else { 8 }, ids(lane).1 * 4 + (i & 3)),
        b: |lane, i| (ids(lane).1 * 4 + i, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 32],
        elements: &["s4", "u4"],
        a: |lane, i| (ids(lane).0 + if i < 8 { 0 } else { 8 }, ids(lane).1 * 8 + (i & 7)),
        b: |lane, i| (ids(lane).1 * 8 + i, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 32],
        elements: &["s8", "u8", "e4m3", "e5m2"],
        a: |lane, i| {
            let row = if i < 4 || (8..12).contains(&i) { 0 } else { 8 };
            (ids(lane).0 + row, ids(lane).1 * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
        },
        b: |lane, i| (ids(lane).1 * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 64],
        elements: &["s4", "u4"],
        a: |lane, i| {
            let row = if i < 8 || (16..24).contains(&i) { 0 } else { 8 };
            (ids(lane).0 + row, ids(lane).1 * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
        },
        b: |lane, i| (ids(lane).1 * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 128],
        elements: &["b1"],
        a: |lane, i| (ids(lane).0 + if i < 32 { 0 } else { 8 }, ids(lane).1 * 32 + (i & 31)),
        b: |lane, i| (ids(lane).1 * 32 + i, ids(lane).0),
        sum: SUM16,
    },
    Section {
        size: [16, 8, 256],
        elements: &["b1"],
        a: |lane, i| {
            let row = if i < 32 || (64..96).contains(&i) { 0 } else { 8 };
            (ids(lane).0 + row, ids(lane).1 * 32 + (i & 31) + if i < 64 { 0 } else { 128 })
        },
        b: |lane, i| (ids(lane).1 * 32 + (i & 31) + if i < 32 { 0 } else { 128 }, ids(lane).0),
        sum: SUM16,
    },
];

pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 33
    }

    /// Returns a small integer that the type can represent.
    pub(crate) fn of(&mut self, element: &str) -> i64 {
        let next = self.next() as i64;
        match element {
            "b1" => next % 2,
            "u4" => next % 16,
            "s4" => next % 16 - 8,
            "u8" => next % 256,
            "s8" => next % 256 - 128,
            "s32" => next - (1 << 30),
            _ => next % 9 - 4,
        }
    }
}

pub(crate) fn bits_of(element: &str) -> u32 {
    match element {
        "b1" => 1,
        "s4" | "u4" => 4,
        "s8" | "u8" | "e4m3" | "e5m2" => 8,
        "f16" | "bf16" => 16,
        "f64" => 64,
        _ => 32,
    }
}

/// Returns the bits of a small integer as an element; halves and eighths are exact, too.
pub(crate) fn encoded(element: &str, value: f64) -> u64 {
    let float = |exponent: u32, fraction: u32| {
        let bits = value.to_bits();
        let sign = bits >> 63 << (exponent + fraction);
        if value == 0.0 {
            return sign;
        }
        let bias = (1_i64 << (exponent - 1)) - 1;
        let field = (bits >> 52 & 0x7ff) as i64 - 1023 + bias;
        assert!(field > 0 && field < (1 << exponent) - 1, "{value} is not normal");
        sign | (field as u64) << fraction | bits << 12 >> 12 >> (52 - fraction)
    };
    match element {
        "f16" => float(5, 10),
        "bf16" => float(8, 7),
        "e4m3" => float(4, 3),
        "e5m2" => float(5, 2),
        "f32" | "tf32" => u64::from((value as f32).to_bits()),
        "f64" => value.to_bits(),
        _ => value as i64 as u64 & (u64::MAX >> (64 - bits_of(element))),
    }
}

#[derive(Clone)]
pub(crate) struct Matrix {
    pub(crate) columns: u32,
    pub(crate) values: Vec<f64>,
}

impl Matrix {
    pub(crate) fn new(rows: u32, columns: u32, mut value: impl FnMut() -> f64) -> Self {
        Self { columns, values: (0..rows * columns).map(|_| value()).collect() }
    }

    pub(crate) fn at(&self, (row, column): (u32, u32)) -> f64 {
        assert!(column < self.columns, "column {column}");
        self.values[(row * self.columns + column) as usize]
    }

    pub(crate) fn fragments(&self, element: &str, place: impl Fn(u32, u32) -> (u32, u32)) -> Vec<u32> {
        let (bits, per_lane) = (bits_of(element), self.values.len() as u32 / 32);
        let mut words = Vec::new();
        for lane in 0..32 {
            let values: Vec<u64> =
                (0..per_lane).map(|i| encoded(element, self.at(place(lane, i)))).collect();
            for chunk in values.chunks(32_u32.div_ceil(bits) as usize) {
                let word = chunk.iter().rev().fold(0, |word, bit| word << (bits % 64) | bit);
                words.push(word as u32);
                if bits == 64 {
                    words.push((word >> 32) as u32);
                }
            }
        }
        words
    }
}

pub(crate) fn product(a: &Matrix, b: &Matrix, c: &Matrix, of: impl Fn(f64, f64) -> f64) -> Matrix {
    let mut d = c.clone();
    let (n, k) = (b.columns as usize, a.columns as usize);
    for (index, sum) in d.values.iter_mut().enumerate() {
        let terms = (0..k).map(|at| of(a.values[index / n * k + at], b.values[at * n + index % n]));
        *sum += terms.sum::<f64>();
    }
    d
}

/// Runs an instruction on a warp with one list of lane words per source operand and returns the
/// destination's words, lane after lane.
fn run(instruction: &str, sources: &[&[u32]], words: usize, wide: bool) -> Vec<u32> {
    attempt(instruction, sources, words, wide).unwrap_or_else(|error| panic!("{instruction}: {error}"))
}

fn attempt(instruction: &str, sources: &[&[u32]], words: usize, wide: bool) -> Result<Vec<u32>, Error> {
    attempt_with(instruction, sources, words, wide, None)
}

/// Like [`attempt`]; for a sparse product, the last source is the metadata, and a selector follows it.
fn attempt_with(
    instruction: &str,
    sources: &[&[u32]],
    words: usize,
    wide: bool,
    selector: Option<u32>,
) -> Result<Vec<u32>, Error> {
    let (ty, bytes) = if wide { ("b64", 8) } else { ("b32", 4) };
    let (mut body, mut operands, mut params) = (String::new(), Vec::new(), String::new());
    let list = |name: &str, words: usize| -> String {
        let names: Vec<String> = (0..words * 4 / bytes).map(|i| format!("%{name}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    for (number, source) in sources.iter().enumerate() {
        let per_lane = source.len() / 32;
        params += &format!(", .param .u64 s{number}");
        body += &format!(
            ".reg .{ty} %s{number}_<{per_lane}>; ld.param.u64 %at, [s{number}]; mad.wide.u32 %at, %lane, {}, %at;\n",
            4 * per_lane
        );
        for register in 0..per_lane * 4 / bytes {
            body += &format!("ld.global.{ty} %s{number}_{register}, [%at+{}];\n", register * bytes);
        }
        operands.push(list(&format!("s{number}_"), per_lane));
    }
    body += &format!(".reg .{ty} %d<{words}>;\n{instruction} {}", list("d", words));
    body += &operands.iter().map(|operand| format!(", {operand}")).collect::<String>();
    if let Some(selector) = selector {
        let metadata = format!("%s{}_0", sources.len() - 1);
        body = body.replace(&format!("{{{metadata}}}"), &metadata) + &format!(", {selector}");
    }
    body += &format!(";\nld.param.u64 %at, [out]; mad.wide.u32 %at, %lane, {}, %at;\n", 4 * words);
    for register in 0..words * 4 / bytes {
        body += &format!("st.global.{ty} [%at+{}], %d{register};\n", register * bytes);
    }
    let module = module(&format!(
        ".version 8.7\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 out{params}) {{ .reg .b32 %lane; .reg .b64 %at; mov.u32 %lane, %laneid;
         {body} ret; }}\n"
    ));
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let out = u32s(&gpu, &vec![0xdead_beef; 32 * words]);
    let args = sources.iter().fold(Args::new().ptr(out), |args, source| args.ptr(u32s(&gpu, source)));
    gpu.launch(&module, "k", &Launch::linear(1, 32), &args)?;
    Ok(read_u32s(&gpu, out, 32 * words))
}

#[test]
fn mma_fragments_match_the_manual() {
    let mut numbers = Numbers(1);
    let mut count = 0;
    for section in SECTIONS {
        let [m, n, k] = section.size;
        for &first in section.elements {
            for &second in section.elements {
                let mixes = [["s8", "u8"], ["s4", "u4"], ["e4m3", "e5m2"]];
                let mixed = |of: &[&str; 2]| of.contains(&first) && of.contains(&second);
                if first != second && !mixes.iter().any(mixed) {
                    continue;
                }
                let sums: &[&str] = match first {
                    "f16" => &["f16", "f32"],
                    "bf16" | "tf32" | "e4m3" | "e5m2" => &["f32"],
                    "f64" => &["f64"],
                    _ => &["s32"],
                };
                for sum in sums {
                    check_mma(section, [first, second, sum], &mut numbers);
                    count += 1;
                }
            }
        }
        assert!(m * n * k > 0);
    }
    assert_eq!(count, 47);
}

fn check_mma(section: &Section, [first, second, sum]: [&str; 3], numbers: &mut Numbers) {
    let [m, n, k] = section.size;
    let a = Matrix::new(m, k, || numbers.of(first) as f64);
    let b = Matrix::new(k, n, || numbers.of(second) as f64);
    let c = Matrix::new(m, n, || numbers.of(if sum == "s32" { "s8" } else { sum }) as f64);
    let operations: &[&str] = if first == "b1" { &[".and.popc", ".xor.popc"] } else { &[""] };
    for operation in operations {
        let instruction =
            format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.{sum}.{first}.{second}.{sum}{operation}");
        let expected = product(&a, &b, &c, |a, b| match *operation {
            ".and.popc" => a * b,
            ".xor.popc" => f64::from(u8::from(a != b)),
            _ => a * b,
        });
        let (a, b) = (a.fragments(first, section.a), b.fragments(second, section.b));
        let (c, expected) = (c.fragments(sum, section.sum), expected.fragments(sum, section.sum));
        let found = run(&instruction, &[&a, &b, &c], expected.len() / 32, first == "f64");
        assert_eq!(found, expected, "{instruction}");
    }
}

/// The first and last bit of the metadata of a chunk, and the lane of a group of four that has it, as in
/// the manual's figures: by row and chunk. For 16 bits and more, and for fewer.
type Metadata = fn(u32, u32) -> (u32, u32);
const WIDE: Metadata = |row, chunk| match (row < 8, chunk % 4) {
    (true, chunk_of_lane) => (chunk / 4, 4 * chunk_of_lane),
    (false, chunk_of_lane) => (chunk / 4, 16 + 4 * chunk_of_lane),
};
const NARROW: Metadata = |row, chunk| match (row < 8, chunk < 8) {
    (true, true) => (0, 4 * chunk),
    (false, true) => (1, 4 * chunk),
    (true, false) => (2, 4 * (chunk - 8)),
    (false, false) => (3, 4 * (chunk - 8)),
};

/// A sparse product: the types, k, the elements of a chunk, the number of lanes of four that have
/// metadata, and where they have it.
type Sparse = (&'static [&'static str], u32, u32, u32, Metadata);

const SPARSE: [Sparse; 9] = [
    (&["f16", "bf16"], 16, 4, 1, WIDE),
    (&["f16", "bf16"], 32, 4, 2, WIDE),
    (&["tf32"], 8, 2, 1, WIDE),
    (&["tf32"], 16, 2, 2, WIDE),
    (&["s8", "u8"], 32, 4, 2, NARROW),
    (&["s8", "u8"], 64, 4, 4, NARROW),
    (&["e4m3", "e5m2"], 64, 4, 4, NARROW),
    (&["s4", "u4"], 64, 8, 2, NARROW),
    (&["s4", "u4"], 128, 8, 4, NARROW),
];

/// A matrix with one half of the elements of each chunk, these elements alone, and the metadata of the
/// lanes.
struct SparseMatrix {
    whole: Matrix,
    stored: Matrix,
    metadata: Vec<u32>,
}

fn sparse_matrix(
    of: &Sparse,
    element: &str,
    selector: u32,
    ordered: bool,
    numbers: &mut Numbers,
) -> SparseMatrix {
    let &(_, k, chunk, lanes, metadata) = of;
    // Lanes that are not selected have metadata without meaning.
    let mut words: Vec<u32> = (0..32).map(|_| numbers.next() as u32).collect();
    for lane in (0..32).filter(|lane| lane % 4 / lanes == selector) {
        words[lane as usize] = 0;
    }
    let mut whole = Matrix::new(16, k, || 0.0);
    let mut stored = Matrix::new(16, k / 2, || 0.0);
    for row in 0..16 {
        for number in 0..k / chunk {
            // Indices count quarters of a chunk: halves of elements of `.tf32`.
            let first = if chunk == 2 { 2 * (numbers.next() % 2) } else { numbers.next() % 4 } as u32;
            let second =
                if chunk == 2 { first + 1 } else { (first + 1 + numbers.next() as u32 % 3) % 4 };
            let (first, second) =
                if ordered && first > second { (second, first) } else { (first, second) };
            let columns: Vec<u32> = match chunk {
                2 => vec![first / 2],
                4 => vec![first, second],
                _ => vec![2 * first, 2 * first + 1, 2 * second, 2 * second + 1],
            };
            for (index, column) in columns.iter().enumerate() {
                let value = numbers.of(element) as f64;
                whole.values[(row * k + number * chunk + column) as usize] = value;
                stored.values[(row * k / 2 + number * chunk / 2) as usize + index] = value;
            }
            let (lane, bit) = metadata(row, number);
            let lane = row % 8 * 4 + selector * lanes + lane;
            words[lane as usize] |= (first | second << 2) << bit;
        }
    }
    SparseMatrix { whole, stored, metadata: words }
}

fn section(element: &str, k: u32) -> &'static Section {
    let fits = |section: &&Section| section.size == [16, 8, k] && section.elements.contains(&element);
    SECTIONS.iter().find(fits).expect("a shape of the manual")
}

/// Returns the place of each element of B: `mma` has no product of this size of most types.
fn place_b(element: &str) -> impl Fn(u32, u32) -> (u32, u32) {
    let packed = 32 / bits_of(element);
    move |lane, i| (ids(lane).1 * packed + i % packed + 4 * packed * (i / packed), ids(lane).0)
}

#[test]
fn sparse_products_match_dense_ones() {
    let mut numbers = Numbers(7);
    let mut count = 0;
    for of in &SPARSE {
        let &(elements, k, _, lanes, _) = of;
        for (first, second) in elements.iter().flat_map(|&a| elements.iter().map(move |&b| (a, b))) {
            if first != second && first.contains("f16") {
                continue;
            }
            let sums: &[&str] = match first {
                "f16" => &["f16", "f32"],
                "bf16" | "tf32" | "e4m3" | "e5m2" => &["f32"],
                _ => &["s32"],
            };
            let variants = sums.iter().flat_map(|&sum| [(sum, false), (sum, true)]);
            for (sum, ordered) in variants {
                for selector in 0..4 / lanes {
                    let a = sparse_matrix(of, first, selector, ordered, &mut numbers);
                    let b = Matrix::new(k, 8, || numbers.of(second) as f64);
                    let c =
                        Matrix::new(16, 8, || numbers.of(if sum == "s32" { "s8" } else { sum }) as f64);
                    let expected = product(&a.whole, &b, &c, |a, b| a * b).fragments(sum, SUM16);
                    let variant = if ordered { "sp::ordered_metadata" } else { "sp" };
                    let instruction = format!(
                        "mma.{variant}.sync.aligned.m16n8k{k}.row.col.{sum}.{first}.{second}.{sum}"
                    );
                    let stored = a.stored.fragments(first, section(first, k / 2).a);
                    let sources = [
                        stored,
                        b.fragments(second, place_b(second)),
                        c.fragments(sum, SUM16),
                        a.metadata,
                    ];
                    let found = multiply_sparse(&instruction, &sources, selector, expected.len() / 32);
                    assert_eq!(found.expect("no fault"), expected, "{instruction}, {selector}");
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 104);
}

/// Runs `mma.sp` with the operands A, B, C and the metadata, like [`attempt`].
fn multiply_sparse(
    instruction: &str,
    sources: &[Vec<u32>; 4],
    selector: u32,
    words: usize,
) -> Result<Vec<u32>, Error> {
    let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
    attempt_with(instruction, &sources, words, false, Some(selector))
}

#[test]
fn infinities_at_zeros_of_a_sparse_matrix_have_no_effect() {
    let mut numbers = Numbers(8);
    let a = sparse_matrix(&SPARSE[0], "f16", 0, true, &mut numbers);
    // The first row of A has these columns, and each other row a column that is infinite.
    let infinite = (0..16).find(|&column| a.whole.at((3, column)) == 0.0).expect("a zero");
    let b = Matrix::new(16, 8, || 1.0);
    let mut words = b.fragments("f16", place_b("f16"));
    for lane in 0..32 {
        for i in (0..4).filter(|&i| place_b("f16")(lane, i).0 == infinite) {
            let word = &mut words[(lane * 2 + i / 2) as usize];
            *word = *word & !(0xffff << (i % 2 * 16)) | 0x7c00 << (i % 2 * 16);
        }
    }
    let zeros = Matrix::new(16, 8, || 0.0);
    let expected = product(&a.whole, &b, &zeros, |a, b| a * b).fragments("f32", SUM16);
    let sources =
        [a.stored.fragments("f16", section("f16", 8).a), words, vec![0; 128], a.metadata.clone()];
    let instruction = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    let found = multiply_sparse(instruction, &sources, 0, 4).expect("no fault");
    // Row 3 is in the first two words of lanes 12 to 15.
    for lane in 12..16 {
        assert_eq!(found[lane * 4..][..2], expected[lane * 4..][..2]);
    }
    assert!(found.iter().any(|&word| !f32::from_bits(word).is_finite()));
}

#[test]
fn invalid_metadata_is_a_fault() {
    let fails = |of: &Sparse, element: &str, variant: &str, nibble: u32, flip: u32| {
        let mut numbers = Numbers(9);
        let mut a = sparse_matrix(of, element, 0, true, &mut numbers);
        // Chunk 2 of row 9.
        let (lane, bit) = (of.4)(9, 2);
        let word = &mut a.metadata[(4 + lane) as usize];
        *word = *word & !(15 << bit) | nibble << bit;
        let k = of.1;
        let sum = if element.starts_with('s') { "s32" } else { "f32" };
        let sources = [
            a.stored.fragments(element, section(element, k / 2).a),
            Matrix::new(k, 8, || 1.0).fragments(element, place_b(element)),
            vec![0; 128],
            a.metadata,
        ];
        let instruction =
            format!("mma.{variant}.sync.aligned.m16n8k{k}.row.col.{sum}.{element}.{element}.{sum}");
        match multiply_sparse(&instruction, &sources, 0, 4) {
            Ok(_) => None,
            Err(Error::Fault(fault)) => {
                assert_eq!(fault.thread, [4 + flip, 0, 0], "{instruction}");
                Some(fault.kind.to_string())
            }
            Err(error) => panic!("{error}"),
        }
    };
    let said = |bits: &str, allowed: &str| {
        Some(format!(
            "metadata of chunk 2 of row 9 of the sparse matrix is {bits}; allowed are {allowed}"
        ))
    };
    let (ordered, different) =
        ("two indices of two bits, in ascending order", "two different indices of two bits");
    assert_eq!(fails(&SPARSE[0], "f16", "sp", 0b1010, 0), said("0b1010", different));
    assert_eq!(fails(&SPARSE[4], "s8", "sp", 0, 1), said("0b0000", different));
    assert_eq!(fails(&SPARSE[0], "f16", "sp", 0b0001, 0), None);
    assert_eq!(fails(&SPARSE[0], "f16", "sp::ordered_metadata", 0b0001, 0), said("0b0001", ordered));
    assert_eq!(fails(&SPARSE[2], "tf32", "sp", 0b1000, 0), said("0b1000", "0b0100 and 0b1110"));
    assert_eq!(fails(&SPARSE[2], "tf32", "sp", 0b1110, 0), None);
}

#[test]
fn mma_m8n8k4_multiplies_four_matrices() {
    let mut numbers = Numbers(2);
    // The manual's formulas. Each product belongs to a low and a high group of four lanes.
    let high = |lane: u32| if lane < 16 { 0 } else { 4 };
    let row_a = move |lane: u32, i: u32| (lane % 4 + high(lane), i);
    let col_a = move |lane: u32, i: u32| (i % 4 + high(lane), lane % 4);
    let row_b = move |lane: u32, i: u32| (lane % 4, i + high(lane));
    let col_b = move |lane: u32, i: u32| (i, lane % 4 + high(lane));
    let halves = move |lane: u32, i: u32| (lane % 4 + high(lane), i);
    let singles =
        move |lane: u32, i: u32| ((lane & 1) + (i & 2) + high(lane), (i & 4) + (lane & 2) + (i & 1));
    for (alayout, blayout) in [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")] {
        for sum in ["f16", "f32"] {
            let four = |rows, columns, numbers: &mut Numbers| -> Vec<Matrix> {
                (0..4).map(|_| Matrix::new(rows, columns, || numbers.of("f16") as f64)).collect()
            };
            let (a, b) = (four(8, 4, &mut numbers), four(4, 8, &mut numbers));
            let c = four(8, 8, &mut numbers);
            let d: Vec<Matrix> = (0..4).map(|i| product(&a[i], &b[i], &c[i], |a, b| a * b)).collect();
            let words =
                |of: &[Matrix], element: &str, per_lane: u32, place: &dyn Fn(u32, u32) -> (u32, u32)| {
                    let mut words = Vec::new();
                    for lane in 0..32 {
                        let matrix = &of[(lane / 4 % 4) as usize];
                        let values: Vec<u64> =
                            (0..per_lane).map(|i| encoded(element, matrix.at(place(lane, i)))).collect();
                        let packed = if element == "f16" { 2 } else { 1 };
                        words.extend(values.chunks(packed).map(|pair| {
                            pair.iter().rev().fold(0, |word: u64, half| word << 16 | half) as u32
                        }));
                    }
                    words
                };
            let a = words(&a, "f16", 4, if alayout == "row" { &row_a } else { &col_a });
            let b = words(&b, "f16", 4, if blayout == "row" { &row_b } else { &col_b });
            let place: &dyn Fn(u32, u32) -> (u32, u32) = if sum == "f16" { &halves } else { &singles };
            let (c, expected) = (words(&c, sum, 8, place), words(&d, sum, 8, place));
            let instruction = format!("mma.sync.aligned.m8n8k4.{alayout}.{blayout}.{sum}.f16.f16.{sum}");
            assert_eq!(
                run(&instruction, &[&a, &b, &c], expected.len() / 32, false),
                expected,
                "{instruction}"
            );
        }
    }
}

#[test]
fn integer_sums_wrap_or_saturate() {
    let section = &SECTIONS[1];
    let a = Matrix::new(8, 16, || -128.0).fragments("s8", section.a);
    let b = Matrix::new(16, 8, || 127.0).fragments("s8", section.b);
    let c = Matrix::new(8, 8, || f64::from(i32::MIN) + 5.0).fragments("s32", section.sum);
    let run = |how: &str| {
        let instruction = format!("mma.sync.aligned.m8n8k16.row.col{how}.s32.s8.s8.s32");
        run(&instruction, &[&a, &b, &c], 2, false)
    };
    let exact = i32::MIN.wrapping_add(5).wrapping_sub(16 * 128 * 127);
    assert!(run("").iter().all(|&word| word == exact as u32));
    assert!(run(".satfinite").iter().all(|&word| word == i32::MIN as u32));
}

#[test]
fn floats_are_summed_in_double_precision_and_rounded_once() {
    // 2^24 and 15 ones; added one at a time, the ones would be lost in single precision.
    let section = &SECTIONS[7];
    let mut at = 0..;
    let mut first = |of: usize| if at.next().is_some_and(|at| at < of) { 4096.0 } else { 1.0 };
    let b = Matrix::new(16, 8, || first(8));
    let a = Matrix {
        columns: 16,
        values: (0..256).map(|at| if at % 16 == 0 { 4096.0 } else { 1.0 }).collect(),
    };
    let c = Matrix::new(16, 8, || 0.5);
    let expected = product(&a, &b, &c, |a, b| a * b);
    let single = |at: usize| {
        let terms = (0..16).map(|k| a.values[at / 8 * 16 + k] * b.values[k * 8 + at % 8]);
        terms.fold(0.5_f32, |sum, term| sum + term as f32)
    };
    assert!((0..128).any(|at| single(at) != expected.values[at] as f32));
    let fragments =
        [a.fragments("f16", section.a), b.fragments("f16", section.b), c.fragments("f32", section.sum)];
    let sources: Vec<&[u32]> = fragments.iter().map(Vec::as_slice).collect();
    let found = run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", &sources, 4, false);
    assert_eq!(found, expected.fragments("f32", section.sum));
    // NaN results are canonical.
    let mut nan = fragments[0].clone();
    nan[0] = 0x7c01;
    let found = run(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        &[&nan, sources[1], sources[2]],
        4,
        false,
    );
    let nans: Vec<usize> = (0..128).filter(|&at| found[at] == 0x7fff_ffff).collect();
    // Row 0: the first two registers of the first four lanes.
    assert_eq!(nans, [0, 1, 4, 5, 8, 9, 12, 13]);
}

/// Tests `wmma` with matrices in memory whose rows or columns have padding between them.
fn wmma_case([m, n, k]: [u32; 3], element: &str, sum: &str, layouts: [&str; 4], space: &str) {
    let mut numbers = Numbers(u64::from(m + 3 * k));
    let a = Matrix::new(m, k, || numbers.of(element) as f64);
    let b = Matrix::new(k, n, || numbers.of(element) as f64);
    let c = Matrix::new(m, n, || numbers.of(if sum == "s32" { "s8" } else { sum }) as f64);
    let xor = element == "b1";
    let d = product(&a, &b, &c, |a, b| if xor { f64::from(u8::from(a != b)) } else { a * b });
    // Lines are followed by 16 bytes of padding.
    let stride = |line: u32, element: &str| line + 128 / bits_of(element);
    let memory = |matrix: &Matrix, element: &str, layout: &str| {
        let rows = matrix.values.len() as u32 / matrix.columns;
        let (lines, line) =
            if layout == "row" { (rows, matrix.columns) } else { (matrix.columns, rows) };
        let stride = stride(line, element);
        let mut bits: Vec<bool> = vec![false; (lines * stride * bits_of(element)) as usize];
        for at in 0..lines * line {
            let (major, minor) = (at / line, at % line);
            let place = if layout == "row" { (major, minor) } else { (minor, major) };
            let value = encoded(element, matrix.at(place));
            let start = (major * stride + minor) * bits_of(element);
            for bit in 0..bits_of(element) {
                bits[(start + bit) as usize] = value >> bit & 1 == 1;
            }
        }
        let word = |bits: &[bool]| bits.iter().rev().fold(0, |word, &bit| word << 1 | u32::from(bit));
        (bits.chunks(32).map(word).collect::<Vec<u32>>(), stride)
    };
    let list = |name: &str, count: u32| {
        let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let packed = |element: &str| if element == "f64" { 1 } else { 32 / bits_of(element) };
    let registers = |rows: u32, columns: u32, element: &str| match element {
        "f16" => 8,
        _ => rows * columns / 32 / packed(element),
    };
    let sums = m * n / 32 / packed(sum);
    let (ra, rb) = (registers(m, k, element), registers(k, n, element));
    let [alayout, blayout, clayout, dlayout] = layouts;
    let ((a, a_stride), (b, b_stride)) = (memory(&a, element, alayout), memory(&b, element, blayout));
    let ((c, c_stride), (d, d_stride)) = (memory(&c, sum, clayout), memory(&d, sum, dlayout));
    let (ty, shape) = (if element == "f64" { "b64" } else { "b32" }, format!("m{m}n{n}k{k}"));
    let types = match element {
        "f16" => format!("{sum}.{sum}"),
        _ => format!("{sum}.{element}.{element}.{sum}"),
    };
    let operation = if xor { ".xor.popc" } else { "" };
    let load = |name: &str, layout: &str, element: &str, stride: u32, count: u32| {
        format!(
            "wmma.load.{name}.sync.aligned.{layout}.{shape}{space}.{element} {}, [%{name}], {stride};\n",
            list(&format!("{name}r"), count)
        )
    };
    let module = module(&format!(
        ".version 8.7\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
         .reg .b64 %a, %b, %c, %d; .reg .{ty} %ar<8>, %br<8>, %cr<8>, %dr<8>;
         ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d];
         {}{}{}
         wmma.mma{operation}.sync.aligned.{alayout}.{blayout}.{shape}.{types} {}, {}, {}, {};
         wmma.store.d.sync.aligned.{dlayout}.{shape}{space}.{sum} [%d], {}, {d_stride}; ret; }}\n",
        load("a", alayout, element, a_stride, ra),
        load("b", blayout, element, b_stride, rb),
        load("c", clayout, sum, c_stride, sums),
        list("dr", sums),
        list("ar", ra),
        list("br", rb),
        list("cr", sums),
        list("dr", sums),
    ));
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let out = u32s(&gpu, &vec![0; d.len()]);
    let args = Args::new().ptr(u32s(&gpu, &a)).ptr(u32s(&gpu, &b)).ptr(u32s(&gpu, &c)).ptr(out);
    gpu.launch(&module, "k", &Launch::linear(1, 32), &args).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read_u32s(&gpu, out, d.len()), d, "{shape} {types} {layouts:?}");
}

#[test]
fn wmma_multiplies_matrices_in_memory() {
    let tiles = [[16, 16, 16], [32, 8, 16], [8, 32, 16]];
    let all = [
        ["row", "row", "row", "col"],
        ["col", "row", "col", "row"],
        ["row", "col", "row", "row"],
        ["col", "col", "col", "col"],
    ];
    for (layouts, space) in all.into_iter().zip(["", ".global", "", ".global"]) {
        for size in tiles {
            wmma_case(size, "f16", "f16", layouts, space);
            wmma_case(size, "f16", "f32", layouts, space);
            wmma_case(size, "bf16", "f32", layouts, space);
            wmma_case(size, "s8", "s32", layouts, space);
            wmma_case(size, "u8", "s32", layouts, space);
        }
        wmma_case([16, 16, 8], "tf32", "f32", layouts, space);
        wmma_case([8, 8, 4], "f64", "f64", layouts, space);
    }
    for layouts in [["row", "col", "row", "col"], ["row", "col", "col", "row"]] {
        wmma_case([8, 8, 32], "s4", "s32", layouts, "");
        wmma_case([8, 8, 32], "u4", "s32", layouts, "");
        wmma_case([8, 8, 128], "b1", "s32", layouts, ".global");
    }
}

/// Runs a body on a warp: `sh` has 64 rows of 8 halves, half `j` of row `i` being `256 i + j`. `%a` is
/// the address of a row that differs from lane to lane; `%r0` to `%r3` are returned, lane after lane.
fn rows(body: &str) -> Result<Vec<u32>, Error> {
    let module = module(&format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 sh[1024];
         .visible .entry k(.param .u64 out) {{ .reg .pred %p; .reg .b32 %r<4>, %lane, %a, %i, %w, %x, %y, %z; .reg .b64 %at, %g;
         mov.u32 %lane, %laneid; mov.u32 %i, 0; mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;
         mov.u32 %y, sh;
         // Word w of a lane: row 2 lane + i / 4, halves 2 (i % 4) and the next.
         FILL: shr.u32 %w, %i, 2; mad.lo.u32 %w, %lane, 2, %w; and.b32 %x, %i, 3; shl.b32 %x, %x, 1;
         mad.lo.u32 %z, %w, 256, %x; mad.lo.u32 %w, %w, 16, %y; mad.lo.u32 %w, %x, 2, %w;
         add.u32 %x, %z, 1; shl.b32 %x, %x, 16; or.b32 %z, %z, %x; st.shared.u32 [%w], %z;
         add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 8; @%p bra FILL; bar.sync 0;
         mul.lo.u32 %a, %lane, 5; rem.u32 %a, %a, 32; mad.lo.u32 %a, %a, 16, %y;
         {body}
         ld.param.u64 %at, [out]; mad.wide.u32 %at, %lane, 16, %at; st.global.v4.u32 [%at], {{%r0, %r1, %r2, %r3}}; ret; }}\n"
    ));
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let out = u32s(&gpu, &[0; 128]);
    gpu.launch(&module, "k", &Launch::linear(1, 32), &Args::new().ptr(out))?;
    Ok(read_u32s(&gpu, out, 128))
}

fn named(lane: u32) -> u32 {
    lane * 5 % 32
}

fn halves(low: u32, high: u32) -> u32 {
    low | high << 16
}

#[test]
fn ldmatrix_gives_each_lane_two_neighbours() {
    for (count, list) in [(1, "{%r0}"), (2, "{%r0, %r1}"), (4, "{%r0, %r1, %r2, %r3}")] {
        for (trans, space) in
            [("", ".shared"), (".trans", ".shared"), ("", ""), (".trans", ".shared::cta")]
        {
            let to_generic =
                if space.is_empty() { "cvt.u64.u32 %g, %a; cvta.shared.u64 %g, %g;" } else { "" };
            let base = if space.is_empty() { "%g" } else { "%a" };
            let body = format!(
                "{to_generic} ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {list}, [{base}];"
            );
            let found = rows(&body).unwrap_or_else(|error| panic!("{error}"));
            for lane in 0..32_u32 {
                for register in 0..4 {
                    let half = |row: u32, column: u32| 256 * named(8 * register + row) + column;
                    let (row, column) = (lane / 4, lane % 4 * 2);
                    let expected = match (register < count, trans) {
                        (false, _) => 0,
                        (true, "") => halves(half(row, column), half(row, column + 1)),
                        (true, _) => halves(half(column, row), half(column + 1, row)),
                    };
                    let found = found[(4 * lane + register) as usize];
                    assert_eq!(found, expected, "{body} lane {lane} register {register}");
                }
            }
        }
    }
}

#[test]
fn stmatrix_inverts_ldmatrix() {
    for trans in ["", ".trans"] {
        // Values loaded from the addressed rows are stored 32 rows further, and lanes read them back.
        let body = format!(
            "ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r0, %r1, %r2, %r3}}, [%a]; add.u32 %a, %a, 512;
             stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%a], {{%r0, %r1, %r2, %r3}}; bar.sync 0;
             ld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [%a];"
        );
        let found = rows(&body).unwrap_or_else(|error| panic!("{error}"));
        let expected: Vec<u32> = (0..32)
            .flat_map(|lane| (0..4).map(move |word| 256 * named(lane) + 2 * word))
            .map(|half| halves(half, half + 1))
            .collect();
        assert_eq!(found, expected);
    }
    // Transposing only the load or only the store transposes the matrix.
    let body = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%a]; add.u32 %a, %a, 512;
                stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%a], {%r0}; bar.sync 0; ld.shared.u32 %r0, [%a+4];";
    let found = rows(body).unwrap_or_else(|error| panic!("{error}"));
    for lane in 0..8 {
        let expected = halves(256 * named(2) + lane, 256 * named(3) + lane);
        assert_eq!(found[4 * lane as usize], expected, "lane {lane}");
    }
}

#[test]
fn movmatrix_transposes_a_matrix() {
    let body = "mul.lo.u32 %r1, %lane, 0x20002; add.u32 %r1, %r1, 0x10000; movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;";
    let found = rows(body).unwrap_or_else(|error| panic!("{error}"));
    for lane in 0..32_u32 {
        // Element (row, column) is 8 row + column.
        let (row, column) = (lane / 4, lane % 4 * 2);
        assert_eq!(found[4 * lane as usize], halves(8 * column + row, 8 * (column + 1) + row));
    }
}

#[test]
fn ldmatrix_needs_all_lanes() {
    let load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%a];";
    let said = |body: &str| rows(body).expect_err("a fault").to_string();
    let exited = said(&format!("setp.gt.u32 %p, %lane, 29; @%p exit; {load}"));
    assert!(exited.contains("names lanes 30-31 that exited or never existed"), "{exited}");
    let elsewhere = said(&format!("setp.gt.u32 %p, %lane, 29; @!%p {load} bar.sync 0;"));
    assert!(elsewhere.contains("lanes 30-31"), "{elsewhere}");
    let odd = said(&format!("setp.eq.u32 %p, %lane, 5; @%p add.u32 %a, %a, 8; {load}"));
    let expected = "thread (5, 0, 0), ptx line 14, `ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%a]`: load of 16 \
                    bytes at shared address 0x198 is misaligned; the address must be a multiple of 16";
    assert!(odd.ends_with(expected), "{odd}");
    let apart = format!(
        "setp.gt.u32 %p, %lane, 15; @%p bra HIGH; mov.u32 %r3, 1; bra.uni MEET; HIGH: mov.u32 %r3, 2; MEET: {load}"
    );
    assert!(rows(&apart).is_ok());
}

#[test]
fn unsupported_products_are_refused() {
    let refused = |instruction: &str| {
        let text = format!(
            ".version 8.7\n.target sm_90\n.address_size 64\n.entry k() {{ .reg .b32 %r<8>; .reg .b64 %d<8>;\n{instruction}\nret; }}"
        );
        Module::parse(&text).expect_err("refused").message
    };
    let four = "{%r0, %r1, %r2, %r3}";
    let two = "{%r0, %r1}";
    let sparse = |k: u32, types: &str, rest: &str| {
        refused(&format!(
            "mma.sp.sync.aligned.m16n8k{k}.row.col.{types} {four}, {two}, {two}, {four}{rest};"
        ))
    };
    let halves = "f32.f16.f16.f32";
    assert_eq!(sparse(16, halves, ""), "`mma` has 4 operands, allowed is 6");
    for selector in ["4", "-1", "%r0"] {
        assert_eq!(
            sparse(16, halves, &format!(", %r0, {selector}")),
            "the sparsity selector must be a constant from 0 to 3"
        );
    }
    assert_eq!(
        sparse(16, "f32.tf32.tf32.f32", ", %r0, 2"),
        "the sparsity selector must be a constant from 0 to 1"
    );
    for (k, types) in [(32, "f32.e4m3.e4m3.f32"), (8, "f32.f16.f16.f32"), (16, "f64.f64.f64.f64")] {
        assert_eq!(sparse(k, types, ", %r0, 0"), "`mma` has no product of these types in this shape");
    }
    assert_eq!(
        sparse(64, "f16.e4m3.e4m3.f16", ", %r0, 0"),
        "`mma.sp` sums elements of `.e4m3` and `.e5m2` only in `.f32`"
    );
    assert_eq!(
        refused(&format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {four}, {four}, {two}, {four};"
        )),
        "`mma` has no product of these types in this shape"
    );
    assert_eq!(
        refused(&format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {four}, {two}, {two}, {four};"
        )),
        "2 registers are given for a matrix that takes 4"
    );
    assert_eq!(
        refused(&format!(
            "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32 {four}, {four}, {two}, {four};"
        )),
        "`mma` needs A in `.row` and B in `.col` layout in this shape"
    );
    assert_eq!(
        refused(&format!(
            "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32 {four}, {two}, {{%r0}}, {four};"
        )),
        "products of `.b1` need `.and.popc` or `.xor.popc`, which no other type takes"
    );
    assert_eq!(
        refused("wmma.load.a.sync.aligned.col.m8n8k32.global.s4 {%r0}, [%d0];"),
        "elements of less than 8 bits need A in `.row` and B in `.col` layout"
    );
    assert_eq!(
        refused("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [%r1];"),
        "1 registers are given for 2 matrices"
    );
    assert_eq!(
        refused("ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%d1];"),
        "`ldmatrix` accesses shared memory only"
    );
}
