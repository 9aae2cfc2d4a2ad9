//! Damaged PTX gives an error or a result, never a panic and never a hang.

use crate::common::u32s;
use proptest::prelude::*;
use proptest::sample::Index;
use warpfold_sim::{Args, Config, Entry, Gpu, Launch, Module};

const FIXTURES: [&str; 8] = [
    include_str!("../ptx/sequential_llvm.ptx"),
    include_str!("../ptx/reduce_nvcc.ptx"),
    include_str!("../ptx/grid.ptx"),
    include_str!("../ptx/flow.ptx"),
    include_str!("../ptx/instructions.ptx"),
    include_str!("../ptx/hopper.ptx"),
    include_str!("../ptx/hopper_nvcc.ptx"),
    include_str!("../ptx/calls_nvcc.ptx"),
];

/// A change to the text in units of tokens or bytes.
#[derive(Debug, Clone)]
enum Damage {
    Delete(Index),
    Duplicate(Index),
    Swap(Index, Index),
    /// Replaces the first token with the second.
    Replace(Index, Index),
    Number(Index, u64),
    Byte(Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    prop_oneof![
        index().prop_map(Damage::Delete),
        index().prop_map(Damage::Duplicate),
        (index(), index()).prop_map(|(a, b)| Damage::Swap(a, b)),
        (index(), index()).prop_map(|(a, b)| Damage::Replace(a, b)),
        (index(), prop_oneof![0..40_u64, any::<u64>(), Just(1 << 31), Just(1 << 32)])
            .prop_map(|(at, value)| Damage::Number(at, value)),
        (index(), 0x20..0x7f_u8).prop_map(|(at, byte)| Damage::Byte(at, byte)),
    ]
}

fn pieces(text: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    let mut pieces: Vec<String> = Vec::new();
    let mut previous = ' ';
    for c in text.chars() {
        match pieces.last_mut() {
            Some(last) if word(c) && word(previous) && c != '.' => last.push(c),
            _ => pieces.push(c.to_string()),
        }
        previous = c;
    }
    pieces
}

fn damaged(text: &str, changes: &[Damage]) -> String {
    let mut pieces = pieces(text);
    for change in changes {
        let count = pieces.len();
        match change {
            Damage::Delete(at) => drop(pieces.remove(at.index(count))),
            Damage::Duplicate(at) => {
                let at = at.index(count);
                pieces.insert(at, pieces[at].clone());
            }
            Damage::Swap(a, b) => pieces.swap(a.index(count), b.index(count)),
            Damage::Replace(a, b) => pieces[a.index(count)] = pieces[b.index(count)].clone(),
            Damage::Number(at, value) => {
                let numbers: Vec<usize> = (0..count)
                    .filter(|&i| pieces[i].starts_with(|c: char| c.is_ascii_digit()))
                    .collect();
                pieces[numbers[at.index(numbers.len())]] = value.to_string();
            }
            Damage::Byte(at, byte) => {
                let at = at.index(count);
                pieces[at] = char::from(*byte).to_string();
            }
        }
    }
    pieces.concat()
}

fn run_all(text: &str) {
    let Ok(module) = Module::parse_each(text) else { return };
    let limits = Config {
        memory_limit: 32 << 20,
        step_limit: 20_000,
        quantum: 64,
        threads: Some(1),
        ..Config::default()
    };
    let gpu = Gpu::new(limits);
    let data = u32s(&gpu, &[0; 4096]);
    for broken in module.broken().filter(|broken| broken.is_entry()) {
        let refused = gpu.launch(&module, broken.name(), &Launch::linear(1, 1), &Args::new());
        let message = refused.expect_err("it is broken").to_string();
        assert!(message.ends_with(&broken.error().to_string()) && !message.contains('\n'), "{message}");
    }
    for entry in module.entries() {
        // Grids that fit the clusters of most entries, and a cluster shape that few entries require.
        let required = entry.required_cluster().map_or(2, |[x, ..]| x.clamp(1, 8));
        let plain = |block| Launch::new([required, 1, 1], block).with_dynamic_shared(256);
        for launch in [plain([33, 1, 1]), plain([4, 4, 4]), plain([40, 1, 1]).with_cluster([2, 1, 1])] {
            let result = gpu.launch(&module, entry.name(), &launch, &arguments(entry, data));
            if let Err(error) = result {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

fn arguments(entry: &Entry, data: u64) -> Args {
    entry.params().iter().fold(Args::new(), |args, param| {
        let mut bytes = vec![0; param.size];
        let value = if param.size >= 8 { data } else { 20 }.to_le_bytes();
        let length = value.len().min(param.size);
        bytes[..length].copy_from_slice(&value[..length]);
        args.bytes(&bytes, param.align)
    })
}

#[test]
fn the_fixtures_run_undamaged() {
    for text in FIXTURES {
        Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
        run_all(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_text_neither_panics_nor_hangs(
        fixture in 0..FIXTURES.len(),
        changes in prop::collection::vec(damage(), 1..6),
    ) {
        run_all(&damaged(FIXTURES[fixture], &changes));
    }

    #[test]
    fn arbitrary_tokens_neither_panic_nor_hang(
        order in prop::collection::vec((0..FIXTURES.len(), any::<Index>()), 1..60),
    ) {
        let pieces: Vec<Vec<String>> = FIXTURES.iter().map(|text| pieces(text)).collect();
        let pick = |(fixture, at): &(usize, Index)| pieces[*fixture][at.index(pieces[*fixture].len())].clone();
        let body: String = order.iter().map(pick).collect::<Vec<_>>().join(" ");
        run_all(&format!(".version 7.8 .target sm_80 .entry k() {{ .reg .b32 %r<9>; {body} }}"));
        run_all(&body);
    }
}
