//! Tests the simulator's floating-point arithmetic against `rustc_apfloat`: each instruction runs over
//! special operands, numbers of every exponent, and seeded random operands near rounding boundaries.
//!
//! `WARPFOLD_FLOAT_CASES` is the number of random cases of all instructions together.

mod cases;
mod reference;

use std::env;

use cases::instruction::Instruction;
use cases::{catalogue, kernel, operands::Source};
use warpfold_sim::{Args, Config, Gpu, Launch, Module};

const CASES: u64 = 2_000_000;
const BATCH: u64 = 1 << 16;

#[derive(Debug)]
struct Mismatch {
    operands: [u64; 3],
    got: u64,
    expected: u64,
}

fn random_cases() -> u64 {
    let Ok(given) = env::var("WARPFOLD_FLOAT_CASES") else { return CASES };
    given
        .parse()
        .unwrap_or_else(|_| panic!("WARPFOLD_FLOAT_CASES is {given:?}, allowed is a whole number"))
}

fn run(gpu: &Gpu, module: &Module, arity: usize, operands: &[[u64; 3]]) -> Vec<u64> {
    let count = operands.len();
    let flat: Vec<u8> =
        (0..arity).flat_map(|k| operands.iter().flat_map(move |case| case[k].to_le_bytes())).collect();
    let input = gpu.alloc(flat.len() as u64).expect("memory");
    let output = gpu.alloc(8 * count as u64).expect("memory");
    gpu.write(input, &flat).expect("operands");
    let args = Args::new().ptr(input).ptr(output).u64(count as u64);
    let launch = Launch::linear((count as u32).div_ceil(kernel::THREADS), kernel::THREADS);
    gpu.launch(module, kernel::ENTRY, &launch, &args).unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = vec![0; 8 * count];
    gpu.read(output, &mut bytes).expect("results");
    gpu.free(input).expect("memory");
    gpu.free(output).expect("memory");
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}

fn check(gpu: &Gpu, instruction: &Instruction, random: u64) -> (u64, Vec<Mismatch>) {
    let ptx = kernel::ptx(instruction);
    let module = Module::parse(&ptx).unwrap_or_else(|error| panic!("{}: {error}", instruction.text));
    let source = Source::new(instruction);
    let count = source.systematic() + random;
    let mut wrong = Vec::new();
    for start in (0..count).step_by(BATCH as usize) {
        let operands: Vec<_> =
            (start..count.min(start + BATCH)).map(|index| source.case(index)).collect();
        let results = run(gpu, &module, instruction.arity, &operands);
        for (&operands, &got) in operands.iter().zip(&results) {
            let expected = reference::expected(instruction, operands);
            if !instruction.allows(operands, expected, got) {
                wrong.push(Mismatch { operands, got, expected });
            }
        }
    }
    (count, wrong)
}

/// Describes a wrong instruction in one line, with the failed case that has the fewest bits set.
fn describe(instruction: &Instruction, wrong: &[Mismatch]) -> Option<String> {
    let simplest =
        wrong.iter().min_by_key(|case| case.operands.map(u64::count_ones).iter().sum::<u32>())?;
    let Mismatch { operands, got, expected } = simplest;
    let operands = &operands[..instruction.arity];
    Some(format!(
        "{}: {} wrong; of {operands:x?} it gives {got:#x} instead of {expected:#x}",
        instruction.text,
        wrong.len()
    ))
}

#[test]
fn arithmetic_matches_rustc_apfloat() {
    let instructions = catalogue::instructions();
    let each = random_cases().div_ceil(instructions.len() as u64);
    let gpu = Gpu::new(Config::default());
    let mut tried = 0;
    let mut lines = Vec::new();
    for instruction in &instructions {
        let (count, wrong) = check(&gpu, instruction, each);
        tried += count;
        lines.extend(describe(instruction, &wrong));
    }
    println!("{tried} cases of {} instructions, {} of them wrong", instructions.len(), lines.len());
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn an_instruction_is_listed_once() {
    let mut texts: Vec<String> = catalogue::instructions().into_iter().map(|one| one.text).collect();
    let count = texts.len();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), count);
}
