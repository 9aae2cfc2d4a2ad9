//! Loads and stores with every lane access pattern that has a fast path, and with patterns that have
//! none. Each must move the same data as lane-by-lane accesses.

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Error, FaultKind, Gpu, Launch, Module};

const WORDS: usize = 256;

/// A name, and the index of each lane's access, in units of the access size.
type Pattern = (&'static str, fn(u32) -> u32);

const PATTERNS: [Pattern; 12] = [
    ("neighbours", |lane| lane),
    ("neighbours from an odd word on", |lane| lane + 1),
    ("one", |_| 5),
    ("halves of neighbours", |lane| lane % 16 + 20 * (lane / 16)),
    ("one for half, eights of neighbours", |lane| if lane < 16 { 3 } else { lane % 8 + 9 * (lane / 8) }),
    ("eights of neighbours", |lane| lane % 8 + 16 * (lane / 16)),
    ("eights of neighbours from odd words on", |lane| lane % 8 + 9 * (lane / 8) + 1),
    ("one for eight", |lane| 3 * (lane / 8)),
    ("neighbours for some, one for others", |lane| if lane < 8 { lane } else { 9 + lane / 16 }),
    ("backwards", |lane| 31 - lane),
    ("every other", |lane| 2 * lane % 64),
    ("anywhere", |lane| lane * 13 % 61),
];

/// Returns a kernel of one warp whose lanes with a set bit in `mask` load from or store to `data` at
/// their index in `places`, in units of the access. Loaded words go to `out`, `count` words per lane. A
/// stored word is 4 times the lane's index plus the word's index.
fn kernel(space: &str, load: bool, (ty, count): (&str, usize), in_base: bool) -> Module {
    let wide = ty.ends_with("64");
    let bytes = count * if wide { 8 } else { 4 };
    let (class, registers) = if wide { ("%rl", "b64") } else { ("%r", "b32") };
    let list: Vec<String> = (0..count).map(|index| format!("{class}1{index}")).collect();
    let vector = match count {
        1 => String::new(),
        count => format!(".v{count}"),
    };
    let data = match count {
        1 => list[0].clone(),
        _ => format!("{{{}}}", list.join(", ")),
    };
    let shared = space == "shared";
    let address = match (shared, in_base, wide) {
        (true, true, false) => "%r10",
        (true, ..) => "%r9",
        (false, true, true) => "%rl10",
        (false, ..) => "%rl9",
    };
    let suffix = if space.is_empty() { String::new() } else { format!(".{space}") };
    let access = match load {
        true => format!("@%p ld{suffix}{vector}.{ty} {data}, [{address}];"),
        false => format!("@%p st{suffix}{vector}.{ty} [{address}], {data};"),
    };
    let base = match shared {
        true => format!("mad.lo.u32 {address}, %r3, {bytes}, cells;"),
        false => format!("mad.wide.u32 {address}, %r3, {bytes}, %rl0;"),
    };
    let fill: String = (0..count)
        .map(|index| match (load, wide) {
            (true, _) if list[index] == address => String::new(),
            (true, _) => format!("mov.{registers} {}, 0;", list[index]),
            (false, false) => format!("add.u32 {}, %r2, {index};", list[index]),
            (false, true) => {
                format!("add.u32 %r4, %r2, {}; mov.b64 {}, {{%r4, %r4}};", 2 * index, list[index])
            }
        })
        .collect();
    let out: String = (0..count)
        .map(|index| format!("st.global.{registers} [%rl4+{}], {};", index * bytes / count, list[index]))
        .collect();
    module(&format!(
        ".version 7.8 .target sm_80 .address_size 64
        .visible .entry go(.param .u64 data, .param .u64 places, .param .u32 mask, .param .u64 out) {{
            .reg .pred %p; .reg .b32 %r<20>; .reg .b64 %rl<20>;
            .shared .align 16 .b8 cells[1024];
            ld.param.u64 %rl0, [data]; ld.param.u64 %rl1, [places];
            ld.param.u32 %r0, [mask]; ld.param.u64 %rl2, [out];
            mov.u32 %r1, %tid.x;
            shl.b32 %r2, %r1, 2;
            // Shared memory has the same contents as global memory, before the access and after it.
            mad.wide.u32 %rl5, %r1, 32, %rl0;
            {copy_in}
            mad.wide.u32 %rl3, %r1, 4, %rl1;
            ld.global.u32 %r3, [%rl3];
            shr.u32 %r4, %r0, %r1;
            and.b32 %r4, %r4, 1;
            setp.ne.u32 %p, %r4, 0;
            {fill}
            {base}
            {access}
            mad.wide.u32 %rl4, %r1, {bytes}, %rl2;
            {out}
            {copy_out}
            ret;
        }}",
        copy_in = copies(shared, |word| format!(
            "ld.global.u32 %r5, [%rl5+{word}]; mad.lo.u32 %r6, %r1, 32, cells; st.shared.u32 [%r6+{word}], %r5;"
        )),
        copy_out = copies(shared, |word| format!(
            "mad.lo.u32 %r6, %r1, 32, cells; ld.shared.u32 %r5, [%r6+{word}]; st.global.u32 [%rl5+{word}], %r5;"
        )),
    ))
}

fn copies(shared: bool, copy: impl Fn(usize) -> String) -> String {
    let words = (0..8).map(|word| copy(4 * word));
    if shared { words.collect() } else { String::new() }
}

fn run(module: &Module, places: &[u32], mask: u32, words: usize) -> (Vec<u32>, Vec<u32>) {
    let gpu = Gpu::new(device());
    let data = u32s(&gpu, &(0..WORDS as u32).map(|word| 1000 + word).collect::<Vec<_>>());
    let (places, out) = (u32s(&gpu, places), u32s(&gpu, &vec![0; 32 * words]));
    let args = Args::new().ptr(data).ptr(places).u32(mask).ptr(out);
    gpu.launch(module, "go", &Launch::linear(1, 32), &args).expect("runs");
    (read_u32s(&gpu, data, WORDS), read_u32s(&gpu, out, 32 * words))
}

fn each(mut test: impl FnMut(&str, (&str, usize), &[u32], u32)) {
    for space in ["global", "shared", ""] {
        for shape in [("u32", 1), ("f32", 2), ("b32", 4), ("u64", 1), ("b64", 2)] {
            for (name, place) in PATTERNS {
                let words = shape.1 * if shape.0.ends_with("64") { 2 } else { 1 };
                let room = WORDS / words;
                let places: Vec<u32> = (0..32).map(|lane| place(lane) % room as u32).collect();
                for mask in [u32::MAX, 0x00ff_ff0f, 1 << 17, 0] {
                    println!("{space} {shape:?}, {name}, {mask:#x}");
                    test(space, shape, &places, mask);
                }
            }
        }
    }
}

#[test]
fn loads_return_each_lanes_words() {
    each(|space, (ty, count), places, mask| {
        let words = count * if ty.ends_with("64") { 2 } else { 1 };
        for in_base in [false, true] {
            let (_, out) = run(&kernel(space, true, (ty, count), in_base), places, mask, words);
            for lane in (0..32).filter(|lane| mask >> lane & 1 == 1) {
                let first = 1000 + places[lane] * words as u32;
                let expected: Vec<u32> = (first..first + words as u32).collect();
                assert_eq!(out[lane * words..][..words], expected, "lane {lane}");
            }
        }
    });
}

#[test]
fn stores_write_each_lanes_words() {
    each(|space, (ty, count), places, mask| {
        let wide = ty.ends_with("64");
        let words = count * if wide { 2 } else { 1 };
        let (data, _) = run(&kernel(space, false, (ty, count), false), places, mask, words);
        let mut expected: Vec<u32> = (0..WORDS as u32).map(|word| 1000 + word).collect();
        // If lanes store to the same word, the last lane's value remains.
        for lane in (0..32).filter(|lane| mask >> lane & 1 == 1) {
            for word in 0..words {
                let value = 4 * lane + if wide { word / 2 * 2 } else { word };
                expected[places[lane] as usize * words + word] = value as u32;
            }
        }
        assert_eq!(data, expected);
    });
}

#[test]
fn faulting_lane_is_named_in_every_access_pattern() {
    let gpu = Gpu::new(device());
    let out = u32s(&gpu, &[0; 128]);
    for load in [true, false] {
        for (space, ty) in [("global", ("u32", 1)), ("", ("u32", 1)), ("shared", ("b32", 4))] {
            let kernel = kernel(space, load, ty, false);
            for lane in [0, 7, 8, 31] {
                for (_, place) in PATTERNS {
                    let mut places: Vec<u32> = (0..32).map(place).collect();
                    places[lane] = 1 << 20;
                    let data = u32s(&gpu, &[0; WORDS]);
                    let args = Args::new().ptr(data).ptr(u32s(&gpu, &places)).u32(u32::MAX).ptr(out);
                    let error = gpu.launch(&kernel, "go", &Launch::linear(1, 32), &args);
                    let Err(Error::Fault(fault)) = error else { panic!("{space}: {error:?}") };
                    assert!(matches!(fault.kind, FaultKind::OutOfBounds { .. }), "{fault}");
                    assert_eq!(fault.thread, [lane as u32, 0, 0]);
                }
            }
        }
    }
}
