//! PTX made to take more time or memory than its size warrants, and numbers made to overflow. Each text
//! must end in a module or in a one-line error, within bounds.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::common::device;
use rustix::time::{ClockId, clock_gettime};
use warpfold_sim::{Args, Config, Error, Exploration, FaultKind, Gpu, Launch, Module};

const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

/// Time limit on a slow machine for any text of these tests. All texts are below two megabytes.
const SOON: Duration = Duration::from_secs(10);

/// Returns the CPU time of this thread, which does not depend on the load of the machine.
fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("no time before the thread")
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn outcome(text: &str) -> Option<String> {
    let start = thread_time();
    let parsed = Module::parse(text);
    let (took, peak) = (thread_time() - start, peak_memory());
    assert!(took < SOON, "{took:?} for {} bytes of text", text.len());
    assert!(peak < 2 << 30, "{peak} bytes of memory");
    let message = parsed.err().map(|error| error.to_string());
    assert!(message.as_ref().is_none_or(|said| !said.contains('\n') && said.len() < 500), "{message:?}");
    message
}

fn assert_refused(text: &str, expected: &str) {
    let said = outcome(text).unwrap_or_default();
    assert!(said.contains(expected), "no `{expected}` in: {said}");
}

/// Returns functions that each call the next one `each` times; the last one has the body `last`.
fn calls(depth: usize, each: usize, last: &str) -> String {
    let mut text = format!("{HEAD}.func f{depth}() {{ {last} ret; }}\n");
    for level in (0..depth).rev() {
        let _ = writeln!(
            text,
            ".func f{level}() {{ {} ret; }}",
            format!("call f{}; ", level + 1).repeat(each)
        );
    }
    text + ".visible .entry k() { call f0; ret; }"
}

#[test]
fn exponential_call_trees_are_refused() {
    assert_refused(&calls(40, 2, "nanosleep.u32 1;"), "multiply");
    assert_refused(&calls(40, 2, ""), "multiply");
    assert_refused(
        &calls(3, 3000, &"{ .reg .b32 %r; L: mov.u32 %r, 1; @%p bra L; }".repeat(10)),
        "multiply",
    );
    let long = format!("bra {};", "x,".repeat(40_000) + "x");
    assert_refused(&calls(12, 2, &long), "multiply");
    assert_refused(&calls(200, 1, ""), "calls nest deeper than 64");
    assert_eq!(outcome(&calls(10, 2, "nanosleep.u32 1;")), None, "1024 calls are fine");
}

fn entry(body: &str) -> String {
    format!("{HEAD}.visible .entry k() {{\n{body}\nret; }}")
}

#[test]
fn scopes_and_registers_are_found_in_time() {
    let nested = format!("{}{}", "{".repeat(250_000), "}".repeat(250_000));
    assert_refused(&entry(&nested), "scopes nest deeper than 64");
    assert_eq!(outcome(&entry(&"{}".repeat(100_000))), None);
    let (mut ranges, mut uses) = (String::new(), String::new());
    for index in 0..20_000 {
        let _ = write!(ranges, ".reg .b32 %a{index}_<2>;");
        let _ = write!(uses, "mov.u32 %a{index}_1, 1;");
    }
    assert_eq!(outcome(&entry(&(ranges + &uses))), None);
    assert_refused(&entry(".reg .b32 %r<4>; .reg .b64 %r<9>;"), "`%r<9>` is declared twice");
}

/// Sets of all registers, one per block, would take gigabytes.
#[test]
fn long_live_ranges_are_computed_in_time() {
    let n = 40_000;
    let mut body = format!(".reg .pred %p; .reg .b32 %r<{n}>;\nsetp.eq.u32 %p, 1, 1;\n");
    for index in 0..n {
        let _ = writeln!(body, "L{index}: mov.u32 %r{index}, 1;\n@%p bra L{};", index / 2);
    }
    for index in 0..n {
        let _ = writeln!(body, "add.u32 %r{index}, %r{index}, 1;");
    }
    // Accepted, or refused as too large: both are within bounds.
    let said = outcome(&entry(&body));
    assert!(said.as_ref().is_none_or(|said| said.contains("multiply")), "{said:?}");
}

#[test]
fn control_flow_of_any_form_is_decoded_in_time() {
    let n = 100_000;
    let mut backwards = "bra L0;\n".to_owned();
    let mut ladder = ".reg .pred %p; setp.eq.u32 %p, 1, 1;\n".to_owned();
    let mut knot = ladder.clone();
    for index in 0..n {
        let _ = writeln!(backwards, "L{}: bra L{index};", index + 1);
        // One path falls through, the other jumps to the last rungs.
        let _ = writeln!(ladder, "L{index}: @%p bra L{};", n - 1 - index % 7);
        let _ = writeln!(knot, "L{index}: @%p bra L{};", (index * 7919 + 13) % n);
    }
    backwards.push_str("L0: bar.sync 0;\n");
    for body in [backwards.replacen("bra L0;", &format!("bra L{n};"), 1), ladder, knot] {
        let said = outcome(&entry(&body));
        assert!(said.as_ref().is_none_or(|said| said.contains("multiply")), "{said:?}");
    }
}

#[test]
fn tables_of_targets_are_not_multiplied() {
    let labels = vec!["L"; 50_000].join(",");
    let body =
        format!(".reg .b32 %r; L: T: .branchtargets {labels};\n{}", "brx.idx %r, T;\n".repeat(50_000));
    assert_refused(&entry(&body), "multiply");
}

#[test]
fn shared_variables_are_not_multiplied_by_entries() {
    let mut text = HEAD.to_owned();
    for index in 0..20_000 {
        let _ = writeln!(text, ".shared .b8 s{index}[1];\n.visible .entry k{index}() {{ ret; }}");
    }
    assert_refused(&text, "multiply");
    let entries: String =
        (0..50_000).map(|index| format!(".visible .entry k{index}() {{ ret; }}\n")).collect();
    assert_eq!(outcome(&format!("{HEAD}{entries}")), None);
}

/// A shared fault is reported once per entry, and its position in a one-line text has to be searched.
#[test]
fn many_broken_entries_parse_in_time() {
    for (before, body) in [
        (String::new(), "frob;"),
        (String::new(), "1;"),
        (String::new(), "# ret;"),
        (format!(".func f() {{ {0}: {0}: }}", "l".repeat(400_000)), "call f;"),
        (format!(".func f(.param .b32 {}) {{ ret; }}", "p".repeat(800_000)), "call f, (x);"),
        (format!(".func f() {{ {}; }}", "frob".repeat(200_000)), "call f;"),
    ] {
        let entry = |index| format!(".entry k{index}() {{ {body} }} ");
        let text = format!("{HEAD}{before}") + &(0..30_000).map(entry).collect::<String>();
        assert!(outcome(&text).is_some(), "{body}");
        let start = thread_time();
        let Ok(module) = Module::parse_each(&text) else { continue };
        assert_eq!((module.entries().len(), module.broken().len()), (0, 30_000));
        let took = thread_time() - start;
        assert!(took < SOON, "{took:?} for {body}");
    }
    let open = ".entry k() { (".repeat(50_000);
    assert_refused(&format!("{HEAD}{open}"), "expected");
    assert_refused(&format!("{HEAD}{}", ".func (".repeat(100_000)), "expected");
    assert_eq!(outcome(&format!("{HEAD}{}", "# ; ".repeat(200_000))).as_deref(), {
        Some("ptx line 4, column 1: `# ; # ; # ; ` is not a PTX token")
    });
}

#[test]
fn parameters_have_a_limit() {
    let list = vec![".param .b8 p[32764]"; 140_000].join(",").replacen("p[", "q[", 1);
    let text = format!("{HEAD}.visible .entry k({list}) {{ ret; }}");
    assert_refused(&text, "bytes of parameters, allowed are 32764");
    assert_refused(&" ".repeat((64 << 20) + 1), "allowed are 67108864");
}

#[test]
fn thread_counts_do_not_overflow() {
    for counts in ["4294967295, 4294967295, 4294967295", "65536, 65536, 65536", "0, 0, 0"] {
        let module = Module::parse(&format!("{HEAD}.visible .entry k() .maxntid {counts} {{ ret; }}"))
            .expect("ptx");
        let run = Gpu::new(device()).launch(&module, "k", &Launch::linear(1, 32), &Args::new());
        let is_right = match counts {
            "0, 0, 0" => matches!(run, Err(Error::InvalidLaunch { .. })),
            _ => run.is_ok(),
        };
        assert!(is_right, "{counts}: {run:?}");
    }
}

#[test]
fn addresses_outside_a_variable_are_out_of_bounds() {
    let offsets =
        ["-8", "+-8", "+-9223372036854775808", "+9223372036854775807", "+18446744073709551615"];
    for (space, name) in
        [("local", "lo"), ("shared", "sh"), ("const", "co"), ("global", "gl"), ("param", "p")]
    {
        for offset in offsets {
            for access in [
                format!("ld.{space}.u32 %r, [{name}{offset}];"),
                format!("ld.{space}.v4.u32 {{%r, %r, %r, %r}}, [{name}{offset}];"),
                format!("mov.u64 %rd, {name}{offset}; ld.{space}.u32 %r, [%rd{offset}];"),
                format!("mov.u64 %rd, {name}{offset}; ld.u32 %r, [%rd{offset}];"),
            ] {
                let text = format!(
                    "{HEAD}.const .align 8 .b8 co[16]; .global .align 8 .b8 gl[16];\n\
                     .visible .entry k(.param .u64 p) {{ .reg .b32 %r; .reg .b64 %rd;\n\
                     .local .align 8 .b8 lo[16]; .shared .align 8 .b8 sh[16]; {access} ret; }}"
                );
                // Some of the texts are not valid PTX.
                let Ok(module) = Module::parse(&text) else { continue };
                let run =
                    Gpu::new(device()).launch(&module, "k", &Launch::linear(1, 32), &Args::new().ptr(0));
                // Adding the same offset twice may lead back to the variable.
                let may_be_inside = access.starts_with("mov");
                assert!(matches!(run, Err(Error::Fault(_))) || may_be_inside, "{access}: {run:?}");
            }
        }
    }
}

/// Long-running kernels: by many short blocks, by barriers that end each turn early, by local memory
/// that is cleared for each block, and by an endless loop.
const LONG: &str = "
.visible .entry blocks() { ret; }
.visible .entry barriers() { L: bar.sync 0; bra L; }
.visible .entry cleared() {
    .local .b8 much[262144]; .reg .b64 %a; .reg .b32 %b;
    mov.u64 %a, much; ld.local.u32 %b, [%a]; ret;
}
.visible .entry loops() { L: bra L; }
";

const LIMIT: Duration = Duration::from_millis(300);

#[test]
fn a_launch_ends_when_its_time_is_over() {
    let module = Module::parse(&format!("{HEAD}{LONG}")).expect("PTX");
    let (many, seed) = (i32::MAX as u32, |launch: Launch| launch.with_seed(1));
    for (entry, launch) in [
        ("blocks", Launch::linear(many, 1)),
        ("blocks", seed(Launch::linear(many, 1))),
        ("blocks", Launch::linear(many - 1, 1).with_cluster([2, 1, 1])),
        ("barriers", Launch::linear(1, 64)),
        ("barriers", seed(Launch::linear(1, 64))),
        ("cleared", Launch::linear(many, 256)),
        ("loops", Launch::linear(1, 1024)),
    ] {
        let config = Config { time_limit: Some(LIMIT), step_limit: u64::MAX, ..Config::default() };
        let start = Instant::now();
        match Gpu::new(config).launch(&module, entry, &launch, &Args::new()) {
            Err(Error::Fault(fault)) => assert_eq!(fault.kind, FaultKind::TimeLimit { limit: LIMIT }),
            other => panic!("{entry}: {other:?}"),
        }
        assert!(start.elapsed() >= LIMIT && start.elapsed() < SOON, "{entry}: {:?}", start.elapsed());
    }
}

#[test]
fn an_exploration_ends_when_the_time_of_a_launch_is_over() {
    let module = Module::parse(&format!("{HEAD}{LONG}")).expect("PTX");
    let config = Config { time_limit: Some(LIMIT), step_limit: u64::MAX, ..Config::default() };
    let (gpu, args, start) = (Gpu::new(config), Args::new(), Instant::now());
    let exploration = Exploration::new(&gpu).launch(&module, "loops", &Launch::linear(1, 32), &args);
    let said = exploration.expect("a launch").run(|_| Ok(())).expect_err("endless").to_string();
    assert!(said.contains("limit of 0.3 s for a launch reached"), "{said}");
    assert!(start.elapsed() < SOON);
}
