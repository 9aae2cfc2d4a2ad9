//! Calls that are not inlined: indirect, guarded and recursive.

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Config, Error, Gpu, Launch, Module};

const NVCC: &str = include_str!("../ptx/calls_nvcc.ptx");

const FUNCTIONS: &str = "
.func (.param .b32 r) twice(.param .b32 a)
{ .reg .b32 %r<4>; ld.param.b32 %r0, [a]; add.s32 %r1, %r0, %r0; st.param.b32 [r], %r1; ret; }
.func (.param .b32 r) square(.param .b32 a)
{ .reg .b32 %r<4>; ld.param.b32 %r0, [a]; mul.lo.s32 %r1, %r0, %r0; st.param.b32 [r], %r1; ret; }
.func (.param .b32 r) wide(.param .b64 a)
{ .reg .b64 %q<4>; .reg .b32 %r<4>; ld.param.b64 %q0, [a]; cvt.u32.u64 %r1, %q0; st.param.b32 [r], %r1; }
.func (.param .b32 r) depth(.param .b32 a)
{ .reg .pred %p, %q; .reg .b32 %r<4>; ld.param.b32 %r0, [a]; mov.b32 %r2, 0; setp.eq.u32 %p, %r0, 0; @%p bra OUT;
  sub.u32 %r1, %r0, 1; setp.lt.u32 %q, %r0, 3;
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), depth, (x); ld.param.b32 %r2, [y]; }
  add.u32 %r2, %r2, %r0; @%q add.u32 %r2, %r2, 1000;
OUT: st.param.b32 [r], %r2; ret; }
.global .align 8 .u64 table[3] = {twice, square, wide};
.const .align 8 .u64 constants[2] = {square, generic(twice)};
";

/// Runs a body on a block of `threads` threads and returns their `%r1`; `%r0` is the thread index.
fn attempt(config: Config, body: &str, threads: u32) -> Result<Vec<u32>, Error> {
    let module = module(&text(body));
    let gpu = Gpu::new(config);
    let data = u32s(&gpu, &vec![0xdead; threads as usize]);
    gpu.launch(&module, "k", &Launch::linear(1, threads), &Args::new().ptr(data))?;
    Ok(read_u32s(&gpu, data, threads as usize))
}

fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{FUNCTIONS}
         .visible .entry k(.param .u64 pointer)
         {{ .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .param .b32 x; .param .b32 y;
         ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %rd0;
         mov.b32 %r1, 7;
         {body}
         st.global.u32 [%rd1], %r1; ret;
         }}\n"
    )
}

fn limited() -> Config {
    Config { threads: Some(1), step_limit: 10_000_000, ..device() }
}

fn words(body: &str, threads: u32) -> Vec<u32> {
    attempt(limited(), body, threads).unwrap_or_else(|error| panic!("{error}\n{body}"))
}

fn each(threads: u32, of: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..threads).map(of).collect()
}

const PROTOTYPE: &str = "P: .callprototype (.param .b32 _) _ (.param .b32 _);";

#[test]
fn indirect_call_reaches_the_addressed_function() {
    let call = "st.param.b32 [x], %r0; call (y), %rd2, (x), P; ld.param.b32 %r1, [y];";
    let body = format!("mov.u64 %rd2, square; {PROTOTYPE} {call}");
    assert_eq!(words(&body, 64), each(64, |i| i * i));
    // A different function per lane, from a table in global and in constant memory.
    let body = format!(
        "rem.u32 %r2, %r0, 2; mad.wide.u32 %rd3, %r2, 8, table; ld.u64 %rd2, [%rd3]; {call} {PROTOTYPE}"
    );
    let body = body.replace(
        "mad.wide.u32 %rd3, %r2, 8, table;",
        "mov.u64 %rd4, table; mad.wide.u32 %rd3, %r2, 8, %rd4;",
    );
    assert_eq!(words(&body, 40), each(40, |i| if i % 2 == 0 { 2 * i } else { i * i }));
    let body = body.replace("table", "constants").replace("ld.u64", "ld.const.u64");
    assert_eq!(words(&body, 40), each(40, |i| if i % 2 == 1 { 2 * i } else { i * i }));
}

#[test]
fn call_targets_limit_an_indirect_call() {
    let call = |list: &str| {
        format!("st.param.b32 [x], %r0; call (y), %rd2, (x), {list}; ld.param.b32 %r1, [y];")
    };
    let body = format!("L: .calltargets twice, square; mov.u64 %rd2, twice; {}", call("L"));
    assert_eq!(words(&body, 3), [0, 2, 4]);
    let body = format!("ld.const.u64 %rd2, [constants]; {}", call("constants"));
    assert_eq!(words(&body, 3), [0, 1, 4]);
}

#[test]
fn registers_survive_calls_and_lanes_reconverge() {
    let body = format!(
        "{PROTOTYPE} mov.b32 %r2, 0; mov.b32 %r1, 0; add.u32 %r5, %r0, 100; mul.wide.u32 %rd5, %r0, 1000;
         setp.lt.u32 %p1, %r0, 9;
         AGAIN: add.u32 %r3, %r0, %r2; and.b32 %r4, %r3, 1; mov.u64 %rd4, table; mad.wide.u32 %rd3, %r4, 8, %rd4;
         ld.u64 %rd2, [%rd3]; st.param.b32 [x], %r3; call (y), %rd2, (x), P; ld.param.b32 %r4, [y];
         redux.sync.add.u32 %r6, %r4, -1; add.u32 %r1, %r1, %r6;
         add.u32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, 5; @%p0 bra AGAIN;
         add.u32 %r1, %r1, %r5; cvt.u32.u64 %r6, %rd5; add.u32 %r1, %r1, %r6; @%p1 add.u32 %r1, %r1, 77;"
    );
    let value = |i: u32| if i.is_multiple_of(2) { 2 * i } else { i * i };
    let sums: u32 = (0..5).map(|round| (0..32).map(|lane| value(lane + round)).sum::<u32>()).sum();
    let expected = each(32, |i| sums + i + 100 + i * 1000 + if i < 9 { 77 } else { 0 });
    assert_eq!(words(&body, 32), expected);
}

#[test]
fn a_guard_lets_some_lanes_call() {
    let call = "st.param.b32 [y], %r0; setp.gt.u32 %p0, %r0, 20; st.param.b32 [x], %r0;";
    let body = format!("{call} @%p0 call (y), twice, (x); ld.param.b32 %r1, [y];");
    assert_eq!(words(&body, 32), each(32, |i| if i > 20 { 2 * i } else { i }));
    let body = format!(
        "{call} {PROTOTYPE} mov.u64 %rd2, square; @!%p0 call (y), %rd2, (x), P; ld.param.b32 %r1, [y];"
    );
    assert_eq!(words(&body, 32), each(32, |i| if i > 20 { i } else { i * i }));
}

#[test]
fn a_function_calls_itself() {
    let body =
        "rem.u32 %r2, %r0, 11; st.param.b32 [x], %r2; call (y), depth, (x); ld.param.b32 %r1, [y];";
    let expected = |n: u32| n * (n + 1) / 2 + 1000 * n.min(2);
    assert_eq!(words(body, 70), each(70, |i| expected(i % 11)));
}

#[test]
fn each_activation_has_variables_of_its_own() {
    let module = module(NVCC);
    let gpu = Gpu::new(limited());
    let run = |name: &str, args: &dyn Fn(u64) -> Args| {
        let data = u32s(&gpu, &[0; 96]);
        gpu.launch(&module, name, &Launch::linear(1, 96), &args(data))
            .unwrap_or_else(|error| panic!("{error}"));
        read_u32s(&gpu, data, 96)
    };
    fn fib(n: u32) -> u32 {
        if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
    }
    assert_eq!(run("recurse", &|data| Args::new().ptr(data)), each(96, |i| fib(i % 13)));
    let sum = |i: u32| (0..=i % 20).map(|k| k * i).sum();
    assert_eq!(run("nested", &|data| Args::new().ptr(data)), each(96, sum));
    let area = |i: u32| if i.is_multiple_of(3) { (i * i) as f32 } else { (3 * i * i) as f32 };
    assert_eq!(run("virt", &|data| Args::new().ptr(data).u32(3)), each(96, |i| area(i).to_bits()));
    let which = u32s(&gpu, &each(96, |i| i * 7 % 3));
    let expected = each(96, |i| {
        let first = [i + 3, i.wrapping_sub(3), 3 * i][(i * 7 % 3) as usize];
        first.wrapping_add(if i % 2 == 0 { first.wrapping_mul(2) } else { first.wrapping_add(2) })
    });
    assert_eq!(run("indirect", &|data| Args::new().ptr(data).ptr(which)), expected);
}

#[test]
fn lanes_return_exit_and_reconverge_in_a_function() {
    // Half of the lanes return from within a loop, three exit, the others wait at a warp barrier.
    let text = text(
        "st.param.b32 [x], %r0; setp.ne.u32 %p0, %r0, 99; @%p0 call (y), odd, (x);
         ld.param.b32 %r1, [y]; bar.sync 0; redux.sync.add.u32 %r2, 1, 0x1fffffff; add.u32 %r1, %r1, %r2;",
    );
    let function = ".func (.param .b32 r) odd(.param .b32 a) {
         .reg .pred %p<3>; .reg .b32 %r<8>; ld.param.b32 %r0, [a]; mov.b32 %r1, 0;
         setp.ge.u32 %p0, %r0, 29; @%p0 exit;
         L: add.u32 %r1, %r1, 1; st.param.b32 [r], %r1; setp.eq.u32 %p1, %r1, %r0; @%p1 ret;
         setp.lt.u32 %p2, %r1, 14; @%p2 bra L;
         activemask.b32 %r2; popc.b32 %r3, %r2; add.u32 %r3, %r3, 1000; st.param.b32 [r], %r3; ret; }";
    let module = module(&text.replacen(".visible .entry", &format!("{function} .visible .entry"), 1));
    let gpu = Gpu::new(limited());
    let data = u32s(&gpu, &[5; 32]);
    gpu.launch(&module, "k", &Launch::linear(1, 32), &Args::new().ptr(data))
        .unwrap_or_else(|error| panic!("{error}"));
    // Lanes 1 to 14 return their number; lane 0 and lanes 15 to 28 are the 15 that reach the end.
    let expected = each(32, |i| match i {
        1..=14 => i + 29,
        29.. => 5,
        _ => 1015 + 29,
    });
    assert_eq!(read_u32s(&gpu, data, 32), expected);
}

#[test]
fn returned_lanes_do_not_rejoin_the_function() {
    let text = text("st.param.b32 [x], %r0; @%p3 call (y), some, (x); ld.param.b32 %r1, [y];").replacen(
        "@%p3 call",
        "setp.ne.u32 %p3, %r0, 99; @%p3 call",
        1,
    );
    // After the branch, its paths reconverge for the lanes that have not returned.
    let function = ".func (.param .b32 r) some(.param .b32 a) {
         .reg .pred %p<3>; .reg .b32 %r<8>; ld.param.b32 %r0, [a]; st.param.b32 [r], 1;
         setp.lt.u32 %p0, %r0, 8; setp.lt.u32 %p1, %r0, 3; @%p0 bra LOW; mov.b32 %r1, 5; bra MEET;
         LOW: @%p1 ret; mov.b32 %r1, 6;
         MEET: activemask.b32 %r2; popc.b32 %r2, %r2; mad.lo.u32 %r1, %r1, 100, %r2; st.param.b32 [r], %r1; ret; }";
    let module = module(&text.replacen(".visible .entry", &format!("{function} .visible .entry"), 1));
    let gpu = Gpu::new(limited());
    let data = u32s(&gpu, &[0; 32]);
    gpu.launch(&module, "k", &Launch::linear(1, 32), &Args::new().ptr(data))
        .unwrap_or_else(|error| panic!("{error}"));
    let expected = each(32, |i| match i {
        0..3 => 1,
        3..8 => 629,
        _ => 529,
    });
    assert_eq!(read_u32s(&gpu, data, 32), expected);
}

#[test]
fn printf_in_a_recursive_function_prints_its_own_values() {
    let text = text("st.param.b32 [x], 3; call (y), say, (x); call (y), say, (x);");
    let function = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
         .global .align 1 .b8 format[6] = {37, 100, 32, 0, 0, 0};
         .func (.param .b32 r) say(.param .b32 a) {
         .local .align 8 .b8 depot[16]; .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %q<6>;
         ld.param.b32 %r0, [a]; setp.eq.u32 %p, %r0, 0; @%p bra OUT;
         mov.u64 %q0, depot; cvta.local.u64 %q1, %q0; st.local.u32 [%q0+8], %r0; add.u64 %q2, %q1, 8; sub.u32 %r1, %r0, 1;
         { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), say, (x); }
         { .param .b64 f; .param .b64 g; .param .b32 n; mov.u64 %q3, format; cvta.global.u64 %q4, %q3;
           st.param.b64 [f], %q4; st.param.b64 [g], %q2; call (n), vprintf, (f, g); ld.param.b32 %r2, [n]; }
         OUT: ret; }";
    let module = module(&text.replacen(".visible .entry", &format!("{function} .visible .entry"), 1));
    let gpu = Gpu::new(limited());
    let data = u32s(&gpu, &[0]);
    gpu.launch(&module, "k", &Launch::linear(1, 1), &Args::new().ptr(data))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(String::from_utf8_lossy(&gpu.take_printed()), "1 2 3 1 2 3 ");
}

#[test]
fn call_depth_fault_names_the_line() {
    let module = module(NVCC);
    let gpu = Gpu::new(limited());
    let data = u32s(&gpu, &[0; 4]);
    let error = gpu.launch(&module, "endless", &Launch::linear(1, 4), &Args::new().ptr(data));
    let said = error.expect_err("it never ends").to_string();
    let line = NVCC.lines().position(|line| line.trim() == "_Z7foreveri,").expect("the call");
    let call = "`call.uni (retval0), _Z7foreveri, ( param0 )`: call of `_Z7foreveri` within 1024 calls";
    assert!(said.contains(&format!("thread (0, 0, 0), ptx line {line}, {call}")), "{said}");
    assert!(said.ends_with("allowed are 1024 calls and 524288 bytes"), "{said}");
}

#[test]
fn indirect_call_of_an_invalid_target_is_an_error() {
    let call = "st.param.b32 [x], %r0; call (y), %rd2, (x), P; ld.param.b32 %r1, [y];";
    let said = |set: &str| {
        let body = format!("{PROTOTYPE} {set} {call}");
        attempt(limited(), &body, 4).expect_err("no function").to_string()
    };
    let null = said("mov.u64 %rd2, 0;");
    let expected = "thread (0, 0, 0), ptx line 24, `call (y), %rd2, (x), P`: call of address 0x0, which \
                    is not a possible target of the call; allowed are `twice`, `square`";
    assert!(null.ends_with(expected), "{null}");
    // A function with another signature is not a possible target of the call.
    let other = said(
        "setp.lt.u32 %p0, %r0, 2; mov.u64 %rd2, twice; mov.u64 %rd3, wide; selp.b64 %rd2, %rd2, %rd3, %p0;",
    );
    assert!(
        other.contains("thread (2, 0, 0)") && other.contains("allowed are `twice`, `square`"),
        "{other}"
    );
}

#[test]
fn mismatched_calls_are_refused() {
    let refused = |body: &str| Module::parse(&text(body)).expect_err("no such call").message;
    let two = refused(&format!("{PROTOTYPE} call (y), %rd2, (x, x), P;"));
    assert_eq!(two, "the call does not match `P`, which has 1 results and 1 parameters");
    assert_eq!(refused("call (y), %rd2, (x), Q;"), "`Q` is neither a prototype nor a list of functions");
    assert_eq!(
        refused("L: .calltargets twice, nobody; call (y), %rd2, (x), L;"),
        "`nobody` is not a function with a body"
    );
    assert_eq!(
        refused("@%p0 call (y), twice, (x, x);"),
        "call of `twice` with 2 values where it declares 1"
    );
    assert_eq!(refused("mov.u32 %r1, twice;"), "the address of function `twice` needs 64 bits");
}

#[test]
fn linked_texts_may_repeat_declarations() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64
        .extern .global .align 4 .u32 later;
        .weak .global .align 4 .u32 twice = 5;
        .extern .func (.param .b32 r) nothing(.param .b32 a);
        .visible .entry k(.param .u64 pointer) {
          .reg .b32 %r<4>; .reg .b64 %rd<2>; .param .b32 x; .param .b32 y;
          ld.param.u64 %rd0, [pointer]; ld.global.u32 %r0, [later]; ld.global.u32 %r1, [twice]; add.u32 %r0, %r0, %r1;
          st.param.b32 [x], %r0; call (y), nothing, (x); st.global.u32 [%rd0], %r0; ret; }
        .weak .global .align 4 .u32 twice = 7;
        .visible .global .align 4 .u32 later = 100;
        .visible .func nothing(.param .b32 a) { ret; }";
    let module = module(text);
    let gpu = Gpu::new(limited());
    let data = u32s(&gpu, &[0]);
    gpu.launch(&module, "k", &Launch::linear(1, 1), &Args::new().ptr(data))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read_u32s(&gpu, data, 1), [105]);
    let refused = |text: &str| Module::parse(text).expect_err("twice").message;
    assert_eq!(
        refused(&text.replace(".weak .global .align 4 .u32 twice = 7", ".global .u32 twice = 7")),
        "`twice` is declared twice"
    );
    assert_eq!(refused(&text.replace(".u32 twice = 7", ".u64 twice = 7")), "`twice` is declared twice");
    assert!(
        refused(&text.replace(".u32 later = 100", ".u32 other = 100"))
            .starts_with("variable `later` is external")
    );
}
