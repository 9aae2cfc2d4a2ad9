//! A thread computes the same in a warp with others as it does alone: random
//! programs of arithmetic, branches and loops, run in blocks of 64 threads and
//! in blocks of one.

mod common;

use std::fmt::Write as _;

use common::{device, module, read_u32s, u32s};
use proptest::prelude::*;
use warpfold_sim::{Args, Config, Gpu, Launch};

/// Registers that the programs compute on.
const REGISTERS: usize = 6;

#[derive(Debug, Clone)]
enum Statement {
    Compute {
        operation: usize,
        d: usize,
        a: usize,
        b: usize,
        guarded: Option<(usize, bool)>,
    },
    /// Loads or stores a word of the thread's own memory.
    Memory {
        store: bool,
        register: usize,
        word: usize,
    },
    If {
        comparison: usize,
        a: usize,
        b: usize,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// Repeats as often as the low bits of a register say.
    Loop {
        count: usize,
        body: Vec<Statement>,
    },
    /// Lanes whose register has these low bits return.
    Return {
        register: usize,
        bits: u32,
    },
}

const OPERATIONS: [&str; 12] = [
    "add.u32",
    "sub.s32",
    "mul.lo.s32",
    "xor.b32",
    "min.s32",
    "max.u32",
    "shl.b32",
    "shr.s32",
    "div.u32",
    "rem.s32",
    "add.f32",
    "mul.hi.u32",
];
const COMPARISONS: [&str; 6] = ["eq.u32", "lt.s32", "ge.u32", "ne.s32", "gt.f32", "leu.f32"];

fn statement() -> impl Strategy<Value = Statement> {
    let r = || 0..REGISTERS;
    let leaf = prop_oneof![
        6 => (0..OPERATIONS.len(), r(), r(), r(), prop::option::of((r(), any::<bool>())))
            .prop_map(|(operation, d, a, b, guarded)| Statement::Compute { operation, d, a, b, guarded }),
        2 => (any::<bool>(), r(), 0..4_usize)
            .prop_map(|(store, register, word)| Statement::Memory { store, register, word }),
        1 => (r(), 0..16_u32).prop_map(|(register, bits)| Statement::Return { register, bits }),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        let body = || prop::collection::vec(inner.clone(), 0..5);
        prop_oneof![
            (0..COMPARISONS.len(), r(), r(), body(), body()).prop_map(
                |(comparison, a, b, then, otherwise)| Statement::If {
                    comparison,
                    a,
                    b,
                    then,
                    otherwise
                }
            ),
            (r(), body()).prop_map(|(count, body)| Statement::Loop { count, body }),
        ]
    })
}

/// Writes statements as PTX, with numbered labels.
struct Writer {
    text: String,
    labels: usize,
    /// Loops around the statement, each with a counter of its own.
    depth: usize,
}

impl Writer {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.write_fmt(line).expect("a string");
        self.text.push('\n');
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn block(&mut self, statements: &[Statement]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Compute { operation, d, a, b, guarded } => {
                let mut guard = String::new();
                if let Some((register, negated)) = guarded {
                    self.line(format_args!("setp.lt.s32 %p, %r{register}, 0;"));
                    guard = format!("@{}%p ", if *negated { "!" } else { "" });
                }
                let operation = OPERATIONS[*operation];
                self.line(format_args!("{guard}{operation} %r{d}, %r{a}, %r{b};"));
            }
            Statement::Memory { store: true, register, word } => {
                self.line(format_args!("st.global.u32 [%memory+{}], %r{register};", word * 4));
            }
            Statement::Memory { store: false, register, word } => {
                self.line(format_args!("ld.global.u32 %r{register}, [%memory+{}];", word * 4));
            }
            Statement::If { comparison, a, b, then, otherwise } => {
                let (other, end) = (self.label(), self.label());
                self.line(format_args!("setp.{} %p, %r{a}, %r{b};", COMPARISONS[*comparison]));
                self.line(format_args!("@!%p bra L{other};"));
                self.block(then);
                self.line(format_args!("bra L{end};\nL{other}:"));
                self.block(otherwise);
                self.line(format_args!("L{end}:"));
            }
            Statement::Loop { count, body } => {
                let (again, end) = (self.label(), self.label());
                let counter = self.depth;
                self.depth += 1;
                self.line(format_args!("and.b32 %c{counter}, %r{count}, 3;\nL{again}:"));
                self.line(format_args!("setp.eq.u32 %p, %c{counter}, 0;\n@%p bra L{end};"));
                self.block(body);
                self.line(format_args!("sub.u32 %c{counter}, %c{counter}, 1;\nbra L{again};\nL{end}:"));
                self.depth -= 1;
            }
            Statement::Return { register, bits } => {
                self.line(format_args!("and.b32 %t, %r{register}, 15;\nsetp.eq.u32 %p, %t, {bits};"));
                self.line(format_args!("@%p bra END;"));
            }
        }
    }
}

fn program(statements: &[Statement]) -> String {
    let mut writer = Writer { text: String::new(), labels: 0, depth: 0 };
    writer.block(statements);
    let mut text = ".version 7.8 .target sm_80
        .entry k(.param .u64 data) {
        .reg .pred %p; .reg .b32 %r<6>, %c<8>, %t, %block, %size, %thread; .reg .b64 %memory;
        ld.param.u64 %memory, [data];
        mov.u32 %thread, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x;
        mad.lo.u32 %thread, %block, %size, %thread;
        mad.wide.u32 %memory, %thread, 64, %memory;\n"
        .to_owned();
    for register in 0..REGISTERS {
        let factor = [1_u32, 0x9e37_79b9, 3, 0x0101_0101, 0x8000_0001, 77][register];
        writeln!(text, "mad.lo.u32 %r{register}, %thread, {factor}, {register};").expect("a string");
    }
    text += &writer.text;
    text += "END:\n";
    for register in 0..REGISTERS {
        writeln!(text, "st.global.u32 [%memory+{}], %r{register};", 16 + register * 4)
            .expect("a string");
    }
    text + "ret; }"
}

const THREADS: u32 = 64;

fn results(text: &str, blocks: u32, quantum: u32) -> Vec<u32> {
    let gpu = Gpu::new(Config { threads: Some(1), quantum, ..device() });
    let data = u32s(&gpu, &[0x1234_5678; 16 * THREADS as usize]);
    let launch = Launch::linear(blocks, THREADS / blocks);
    gpu.launch(&module(text), "k", &launch, &Args::new().ptr(data)).expect("runs");
    read_u32s(&gpu, data, 16 * THREADS as usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_thread_computes_the_same_alone(statements in prop::collection::vec(statement(), 1..8)) {
        let text = program(&statements);
        let together = results(&text, 1, 4096);
        prop_assert_eq!(&together, &results(&text, THREADS, 4096), "{}", text);
        prop_assert_eq!(&together, &results(&text, 4, 1), "{}", text);
    }
}
