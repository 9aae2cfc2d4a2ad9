//! Results do not depend on how threads and warps are grouped: random programs of arithmetic, branches
//! and loops give the same in blocks of all threads and in blocks of one, in lock step with other warps
//! and alone. Observed launches, whose warps run by themselves, are compared with unobserved ones.

use std::fmt::Write as _;

use crate::common::{device, module, read_u32s, u32s};
use proptest::prelude::*;
use warpfold_sim::{Args, Config, Counter, Gpu, Launch, Stats};

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
    /// Repeats its body a number of times that the low bits of a register give.
    Loop {
        count: usize,
        body: Vec<Statement>,
    },
    /// Ends the lanes whose register has these low bits.
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

struct Writer {
    text: String,
    labels: usize,
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

const THREADS: u32 = 320;

fn results(text: &str, blocks: u32, quantum: u32) -> Vec<u32> {
    launched(text, blocks, quantum, false).0
}

fn launched(text: &str, blocks: u32, quantum: u32, observed: bool) -> (Vec<u32>, Stats) {
    let gpu = Gpu::new(Config { threads: Some(1), quantum, ..device() });
    let data = u32s(&gpu, &[0x1234_5678; 16 * THREADS as usize]);
    let launch = Launch::linear(blocks, THREADS / blocks);
    let (module, args) = (module(text), Args::new().ptr(data));
    let stats = match observed {
        true => gpu.launch_observed(&module, "k", &launch, &args, &Counter::new()),
        false => gpu.launch(&module, "k", &launch, &args),
    };
    (read_u32s(&gpu, data, 16 * THREADS as usize), stats.expect("runs"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_are_independent_of_grouping(statements in prop::collection::vec(statement(), 1..8)) {
        let text = program(&statements);
        let together = results(&text, 1, 4096);
        prop_assert_eq!(&together, &results(&text, THREADS, 4096), "{}", text);
        prop_assert_eq!(&together, &results(&text, 4, 1), "{}", text);
        let (watched, counted) = launched(&text, 1, 4096, true);
        prop_assert_eq!(&together, &watched, "{}", text);
        prop_assert_eq!(launched(&text, 1, 4096, false).1, counted, "{}", text);
    }
}

/// Warps of a block that exit in part, wait for each other, exchange values and diverge again.
const MEETING: &str = ".version 7.8 .target sm_80
.entry k(.param .u64 data) {
    .reg .pred %p, %q; .reg .b32 %t, %i, %v, %w, %a, %other, %lane; .reg .b64 %memory, %own;
    .shared .align 4 .b8 cells[1280];
    ld.param.u64 %memory, [data];
    mov.u32 %t, %tid.x; mov.u32 %lane, %laneid; mov.u32 %a, cells;
    mov.u32 %v, %ctaid.x; mov.u32 %w, %ntid.x; mad.lo.u32 %v, %v, %w, %t;
    mad.wide.u32 %own, %v, 64, %memory;
    mov.u32 %w, %ntid.x; sub.u32 %w, %w, %t; mad.lo.u32 %other, %w, 4, %a; sub.u32 %other, %other, 4;
    mad.lo.u32 %a, %t, 4, %a;
    // The last lanes of every second warp exit, and are nowhere from here on.
    and.b32 %v, %t, 0x3c;
    setp.eq.u32 %p, %v, 0x3c;
    @%p exit;
    mov.u32 %i, 0; mov.u32 %w, %t;
ROUND:
    st.shared.u32 [%a], %w;
    bar.sync 0;
    // Some warps go another way, some only in part.
    shr.u32 %v, %t, 5;
    setp.gt.u32 %p, %v, %i;
    @%p bra ODD;
    // What the thread at the other end has put there.
    ld.shared.u32 %v, [%other];
    add.u32 %w, %w, %v;
    bra JOIN;
ODD:
    setp.gt.u32 %q, %lane, %i;
    @%q mul.lo.u32 %w, %w, 3;
    shfl.sync.bfly.b32 %v, %w, 1, 31, 0xffffffff;
    add.u32 %w, %w, %v;
JOIN:
    bar.red.popc.u32 %v, 1, %q;
    add.u32 %w, %w, %v;
    red.global.add.u32 [%memory+4], %w;
    bar.sync 0, 320;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 7;
    @%p bra ROUND;
    st.global.u32 [%own+16], %w;
    ret;
}";

#[test]
fn lockstep_warps_match_observed_warps() {
    // Ten warps are more than the eight that run in step; five warps are fewer.
    for (blocks, quantum) in [1, 2].into_iter().flat_map(|b| [4096, 64, 3, 1].map(|q| (b, q))) {
        let text = MEETING.replace("320", &(THREADS / blocks).to_string());
        let (watched, counted) = launched(&text, blocks, quantum, true);
        let (plain, stats) = launched(&text, blocks, quantum, false);
        assert_eq!(plain, watched, "{blocks} blocks, turns of {quantum}");
        assert_eq!(stats, counted, "{blocks} blocks, turns of {quantum}");
    }
}

#[test]
fn lockstep_collectives_match_observed_warps() {
    let text = ".version 8.0 .target sm_90
        .entry k(.param .u64 data) {
        .reg .pred %p, %q; .reg .b32 %t, %v, %w, %b, %n; .reg .b64 %memory;
        ld.param.u64 %memory, [data];
        mov.u32 %v, %ctaid.x; mov.u32 %w, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %t, %v, %w, %t;
        mad.wide.u32 %memory, %t, 64, %memory;
        mul.lo.u32 %v, %t, 0x9e3779b9; shr.u32 %b, %v, 27; and.b32 %n, %v, 3;
        shfl.sync.down.b32 %w|%p, %v, %b, 31, -1; @%p add.u32 %v, %v, %w;
        shfl.sync.up.b32 %w|%p, %v, 3, 0, -1; @!%p xor.b32 %v, %v, %w;
        shfl.sync.bfly.b32 %w, %v, 5, 0x181f, -1; add.u32 %v, %v, %w;
        shfl.sync.idx.b32 %w, %v, %n, 31, -1; mad.lo.u32 %v, %w, 5, %v;
        setp.gt.s32 %q, %v, 0;
        vote.sync.ballot.b32 %w, %q, -1; xor.b32 %v, %v, %w;
        vote.sync.uni.pred %p, !%q, -1; @%p add.u32 %v, %v, 7;
        match.any.sync.b32 %w, %n, -1; add.u32 %v, %v, %w;
        match.all.sync.b32 %w|%p, %n, -1; @!%p add.u32 %v, %v, 11;
        redux.sync.max.u32 %w, %v, -1; sub.u32 %v, %w, %v;
        bar.warp.sync -1;
        elect.sync %w|%p, -1; @%p add.u32 %v, %v, %w; add.u32 %v, %v, %w;
        st.global.u32 [%memory], %v; ret; }";
    for quantum in [4096, 3] {
        let (watched, counted) = launched(text, 2, quantum, true);
        let (plain, stats) = launched(text, 2, quantum, false);
        assert_eq!(plain, watched, "turns of {quantum}");
        assert_eq!(stats, counted, "turns of {quantum}");
    }
}

#[test]
fn lockstep_fault_names_thread_and_instruction() {
    let text = MEETING.replace("[%own+16], %w", "[%own+20471], %w");
    let text = text.replace("st.global.u32 [%own+20471]", "st.global.u8 [%own+20471]");
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let data = u32s(&gpu, &[0; 16 * THREADS as usize]);
    let launch = Launch::linear(1, THREADS);
    let error = gpu.launch(&module(&text), "k", &launch, &Args::new().ptr(data)).expect_err("too far");
    let text = error.to_string();
    assert!(text.contains("thread (1, 0, 0)") && text.contains("st.global.u8"), "{text}");
}

#[test]
fn divergent_barrier_is_a_fault_in_lockstep() {
    let text = ".version 7.8 .target sm_80 .entry k(.param .u64 data) {
        .reg .pred %p; .reg .b32 %t;
        mov.u32 %t, %tid.x; and.b32 %t, %t, 1; setp.eq.u32 %p, %t, 0;
        @%p bar.sync 0;
        bar.sync 0; ret; }";
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let data = u32s(&gpu, &[0]);
    let launch = Launch::linear(1, 64);
    let (module, args) = (module(text), Args::new().ptr(data));
    let plain = gpu.launch(&module, "k", &launch, &args).expect_err("half of each warp");
    let watched = gpu.launch_observed(&module, "k", &launch, &args, &Counter::new());
    assert_eq!(plain.to_string(), watched.expect_err("half of each warp").to_string());
}

/// Warp 0 has arrived early, so it passes alone through the barrier that both warps reach together. Warp
/// 1 waits there until warp 0 has exited.
#[test]
fn early_arrival_counts_at_a_lockstep_barrier() {
    let text = ".version 7.8 .target sm_80 .entry k(.param .u64 data) {
        .reg .pred %p, %first; .reg .b32 %t, %i; .reg .b64 %d;
        .shared .align 4 .b8 cell[4];
        ld.param.u64 %d, [data];
        mov.u32 %t, %tid.x; setp.lt.u32 %first, %t, 32; mov.u32 %i, 0; mov.u32 %t, 0;
        st.shared.u32 [cell], %t;
        @!%first bra COUNT;
        bar.arrive 0, 64;
        bra MEET;
    COUNT:
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 30; @%p bra COUNT;
    MEET:
        bar.sync 0;
        @%first bra LOOK;
        mov.u32 %t, 1; st.shared.u32 [cell], %t; exit;
    LOOK:
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 10; @%p bra LOOK;
        ld.shared.u32 %i, [cell]; st.global.u32 [%d], %i; ret; }";
    let (watched, counted) = launched(text, 5, 64, true);
    let (plain, stats) = launched(text, 5, 64, false);
    assert_eq!((watched[0], plain[0]), (0, 0));
    assert_eq!(stats, counted);
}

#[test]
fn two_lock_backoff_terminates() {
    let text = ".version 7.8 .target sm_80 .entry k(.param .u64 data) {
        .reg .pred %p; .reg .b32 %t, %w, %m, %o, %v; .reg .b64 %d;
        .shared .align 4 .b8 locks[8];
        ld.param.u64 %d, [data];
        mov.u32 %t, %laneid; setp.ne.u32 %p, %t, 0; @%p exit;
        mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.u32 %o, locks;
        mad.lo.u32 %m, %w, 4, %o; xor.b32 %w, %w, 1; mad.lo.u32 %o, %w, 4, %o;
    AGAIN:
        atom.shared.cas.b32 %v, [%m], 0, 1; setp.ne.u32 %p, %v, 0; @%p bra AGAIN;
        atom.shared.cas.b32 %v, [%o], 0, 1; setp.eq.u32 %p, %v, 0; @%p bra GOT;
        atom.shared.exch.b32 %v, [%m], 0; bra AGAIN;
    GOT:
        ld.volatile.global.u32 %v, [%d]; add.u32 %v, %v, 1; st.volatile.global.u32 [%d], %v;
        atom.shared.exch.b32 %v, [%o], 0; atom.shared.exch.b32 %v, [%m], 0; ret; }";
    let gpu = Gpu::new(Config { threads: Some(1), step_limit: 2_000_000, ..device() });
    let data = u32s(&gpu, &[0]);
    gpu.launch(&module(text), "k", &Launch::linear(1, 64), &Args::new().ptr(data)).expect("ends");
    assert_eq!(read_u32s(&gpu, data, 1), [2]);
}

#[test]
fn clock_is_monotonic_across_warps_of_a_block() {
    // Warp 0 counts to 500 and stores the time; warp 1 reads it after the barrier.
    let text = ".version 7.8 .target sm_80 .entry k(.param .u64 data) {
        .reg .pred %p, %first; .reg .b32 %t, %i; .reg .b64 %d, %then, %now;
        .shared .align 8 .b8 told[8];
        ld.param.u64 %d, [data];
        mov.u32 %t, %tid.x; setp.lt.u32 %first, %t, 32; mov.u32 %i, 0;
        @!%first bra MEET;
    COUNT:
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 500; @%p bra COUNT;
        mov.u64 %then, %clock64; st.shared.u64 [told], %then;
    MEET:
        bar.sync 0;
        @%first exit;
        mov.u64 %now, %clock64; ld.shared.u64 %then, [told];
        sub.s64 %now, %now, %then; st.global.u64 [%d], %now; ret; }";
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let data = u32s(&gpu, &[0; 2]);
    gpu.launch(&module(text), "k", &Launch::linear(1, 64), &Args::new().ptr(data)).expect("ends");
    let passed = read_u32s(&gpu, data, 2);
    assert!(passed[0] != 0 && passed[1] == 0, "{passed:?}");
}

#[test]
fn first_faulting_warp_is_reported() {
    // Warp 0 reaches the load last, or reaches it first and waits. Other warps fault there at the same
    // time, or before.
    let text = ".version 7.8 .target sm_80 .entry k() {
        .reg .pred %p; .reg .b32 %t; .reg .b64 %nowhere;
        mov.u32 %t, %tid.x; mov.u64 %nowhere, 0; setp.lt.u32 %p, %t, 32;
        @%p bra FAR;
        add.u32 %t, %t, 1;
        bra MEET;
    FAR:
        add.u32 %t, %t, 2;
    MEET:
        ld.global.u32 %t, [%nowhere]; ret; }";
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let before = text.replace("add.u32 %t, %t, 1", "ld.global.u32 %t, [%nowhere+4]");
    for text in [text.to_owned(), text.replace("bra FAR", "bra MEET"), before] {
        let launch = Launch::linear(1, 128);
        let error =
            gpu.launch(&module(&text), "k", &launch, &Args::new()).expect_err("nothing is there");
        let text = error.to_string();
        assert!(text.contains("thread (0, 0, 0)") && text.contains("[%nowhere]"), "{text}");
    }
}
