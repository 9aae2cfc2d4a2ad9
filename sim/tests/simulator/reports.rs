//! Text of faults and findings: the source line and its callers, the buffer and the distance of an
//! access from it, and the missing order.

use crate::common::{device, module, u32s};
use warpfold_sim::{Args, Config, Error, Fault, Finding, Gpu, HazardKind, Hazards, Launch, Module};

/// Output of nvcc 13.0 with `-lineinfo` for `/home/me/lines.cu`.
const LINES: &str = include_str!("../ptx/lines_nvcc.ptx");

fn gpu() -> Gpu {
    Gpu::new(Config { threads: Some(1), ..device() })
}

fn fault(gpu: &Gpu, module: &Module, entry: &str, threads: u32, args: &Args) -> Fault {
    let ran = gpu.launch(module, entry, &Launch::linear(1, threads), args);
    match ran.expect_err("a fault") {
        Error::Fault(fault) => *fault,
        error => panic!("{error}"),
    }
}

#[test]
fn fault_in_inlined_code_names_each_call() {
    let (gpu, module) = (gpu(), module(LINES));
    let (p, q) = (gpu.alloc(32).expect("memory"), gpu.alloc(32).expect("memory"));
    assert!(gpu.memory().set_name(p, "values"));
    let fault = fault(&gpu, &module, "_Z7inlinedPKfPf", 8, &Args::new().ptr(p).ptr(q));
    assert_eq!(
        fault.to_string(),
        "/home/me/lines.cu:5:5: kernel `inlined(float const*, float*)`, block (0, 0, 0), thread (7, 0, 0), \
         ptx line 59, `ld.global.f32 %f1, [%rd6+4]`, in `inner(float const*, int)`, called at \
         /home/me/lines.cu:9:5, at /home/me/lines.cu:15:5: load of 4 bytes at global address \
         0x1000000000020 is out of bounds; it ends 4 bytes past the end of `values`, 32 bytes at \
         0x1000000000000"
    );
    let location = fault.location.expect("lines");
    let lines: Vec<u32> = location.places().map(|place| place.line).collect();
    assert_eq!((lines, location.outermost().line), (vec![5, 9, 15], 15));
    assert_eq!(location.inlined_at.as_ref().expect("calls").function.as_deref(), Some("_Z5outerPKfi"));
}

#[test]
fn fault_in_a_called_function_names_the_call() {
    let (gpu, module) = (gpu(), module(LINES));
    let (p, q) = (gpu.alloc(32).expect("memory"), gpu.alloc(32).expect("memory"));
    let fault = fault(&gpu, &module, "_Z5callsPKfPf", 8, &Args::new().ptr(p).ptr(q));
    let text = fault.to_string();
    assert!(text.starts_with("/home/me/lines.cu:2:"), "{text}");
    assert!(
        text.contains(", in `called(float const*, int)`, called at /home/me/lines.cu:20:5: "),
        "{text}"
    );
    let says = "it ends 4 bytes past the end of the buffer of argument 0, 32 bytes at 0x1000000000000";
    assert!(text.ends_with(says), "{text}");
}

#[test]
fn faults_in_headers_are_reported_at_the_users_line() {
    let (gpu, module) = (gpu(), module(LINES));
    let counter = u32s(&gpu, &[0; 4]);
    let text = fault(&gpu, &module, "_Z6countsPi", 5, &Args::new().ptr(counter)).to_string();
    assert!(text.starts_with("/home/me/lines.cu:24:5: kernel `counts(int*)`"), "{text}");
    let header =
        ", through /usr/local/cuda/include/device_atomic_functions.hpp:107:3: atomic of 4 bytes";
    assert!(text.contains(header), "{text}");
}

/// The same file compiled with `-G`, for which only the debug information records inlined calls.
#[test]
fn debug_information_names_the_calls() {
    let (gpu, module) = (gpu(), module(include_str!("../ptx/lines_nvcc_debug.ptx")));
    let (p, q) = (gpu.alloc(32).expect("memory"), gpu.alloc(32).expect("memory"));
    let args = Args::new().ptr(p).ptr(q);
    let of = |entry: &str| fault(&gpu, &module, entry, 8, &args).location.expect("lines").to_string();
    assert_eq!(
        of("_Z7inlinedPKfPf"),
        "/home/me/lines.cu:5:5, in `inner(float const*, int)`, called at /home/me/lines.cu:9, at \
         /home/me/lines.cu:15"
    );
    let said =
        "/home/me/lines.cu:2:44, in `called(float const*, int)`, called at /home/me/lines.cu:20:5";
    assert_eq!(of("_Z5callsPKfPf"), said);
    let said = fault(&gpu, &module, "_Z6countsPi", 9, &Args::new().ptr(p)).to_string();
    assert!(said.starts_with("/home/me/lines.cu:24:5: kernel `counts(int*)`"), "{said}");
}

#[test]
fn corrupt_debug_information_is_ignored() {
    let text = include_str!("../ptx/lines_nvcc_debug.ptx");
    let start = text.find(".section\t.debug_abbrev").expect("a section");
    let words: Vec<(usize, &str)> = text[start..].match_indices(".b8 ").step_by(7).collect();
    for (at, _) in words {
        let mut text = text.to_owned();
        text.replace_range(start + at..start + at + 4, ".b8 255,129,");
        assert_eq!(module(&text).entries().len(), 3);
        text.truncate(start + at);
        assert_eq!(module(&(text + "}")).entries().len(), 3);
    }
}

/// rustc's backend writes no `inlined_at`; with `-Zverbose-asm` the call chain is in comments.
#[test]
fn comments_of_llvm_name_the_calls() {
    let text = "
.version 7.8 .target sm_80
.visible .entry f(.param .u64 p)
{
\t.reg .b64 %rd<2>; .reg .b32 %r<2>;
\tld.param.u64 %rd0, [p];
\t.loc\t5 13 8                         // src/tree.rs:13:8 @[ src/first.rs:33:9 @[ src/lib.rs:62:30 ] ]
\tld.global.u32 %r0, [%rd0];
\t.loc\t5 0 8                          // src/tree.rs:0:8 @[ src/lib.rs:70:1 ]
\tst.global.u32 [%rd0], %r0;
\tret;
}
.file\t2 \"kernels/src/first.rs\"
.file\t3 \"kernels/src/lib.rs\"
.file\t4 \"/rustc/1234/library/core/src/lib.rs\"
.file\t5 \"kernels/src/tree.rs\"";
    let module = module(text);
    let of = |opcode: &str| {
        let entry = module.entry("f").expect("an entry");
        let info = entry.instructions().iter().find(|info| info.text.starts_with(opcode));
        info.expect("an instruction").location.as_ref().expect("lines").to_string()
    };
    // Two files end in `src/lib.rs`, and the text does not tell them apart.
    let said = "kernels/src/tree.rs:13:8, called at kernels/src/first.rs:33:9, at src/lib.rs:62:30";
    assert_eq!(of("ld.global"), said);
    assert_eq!(of("st.global"), "src/lib.rs:70:1");
}

#[test]
fn inline_chains_are_limited() {
    let mut text = ".version 7.8 .target sm_80 .entry k() { .loc 1 1 1\n".to_owned();
    for line in 2..5000 {
        text += &format!(".loc 1 {line} 1, inlined_at 1 {} 1\n", line - 1);
    }
    text += "ret; }\n.file 1 \"a.cu\"";
    let module = module(&text);
    let location = module.entry("k").expect("an entry").instructions()[0].location.clone();
    assert!((2..=64).contains(&location.expect("lines").places().count()));
}

fn missed(body: &str) -> String {
    let text = format!(
        ".version 7.8 .target sm_80 .global .align 4 .b8 table[12];
         .entry k(.param .u64 unused, .param .u64 p) {{ .reg .b64 %rd<4>; .reg .b32 %r<4>;
         .shared .align 4 .b8 first[16]; .shared .align 4 .b8 last[8];
         ld.param.u64 %rd0, [p]; mov.u32 %r0, first; mov.u32 %r1, last; {body} ret; }}"
    );
    let (gpu, module) = (gpu(), module(&text));
    let x = u32s(&gpu, &[0; 8]);
    gpu.memory().set_name(x, "x");
    let text = fault(&gpu, &module, "k", 1, &Args::new().ptr(0).ptr(x)).to_string();
    text.rsplit("is out of bounds; ").next().expect("a last part").to_owned()
}

#[test]
fn out_of_bounds_fault_names_the_nearest_buffer() {
    let x = "`x`, 32 bytes at 0x1000000000000";
    assert_eq!(missed("ld.global.u32 %r0, [%rd0+32];"), format!("it ends 4 bytes past the end of {x}"));
    assert_eq!(
        missed("ld.global.v2.u32 {%r0, %r1}, [%rd0+32];"),
        format!("it ends 8 bytes past the end of {x}")
    );
    assert_eq!(
        missed("ld.global.u8 %r0, [%rd0+1031];"),
        format!("it ends 1000 bytes past the end of {x}")
    );
    assert_eq!(missed("st.global.u32 [%rd0-4], %r0;"), format!("it begins 4 bytes before {x}"));
    assert_eq!(missed("st.global.u32 [8], %r0;"), format!("the nearest to it is {x}"));
    let table = "it ends 4 bytes past the end of `table`, 12 bytes at 0x";
    assert!(missed("st.global.u32 [table+12], %r0;").starts_with(table));
    let shared = "the space has 24 bytes, and the access ends 12 bytes past its end; the last array is \
                  `last`, 8 bytes at 0x10";
    assert_eq!(missed("st.shared.u32 [%r1+16], %r0;"), shared);
}

#[test]
fn faults_name_freed_buffers() {
    let gpu = gpu();
    let x = u32s(&gpu, &[0; 8]);
    gpu.memory().set_name(x, "x");
    gpu.free(x).expect("live");
    let module = module(
        ".version 7.8 .target sm_80 .entry k(.param .u64 p) { .reg .b64 %rd<2>; ld.param.u64 %rd0, [p];
         st.global.u32 [%rd0+8], 1; ret; }",
    );
    let text = fault(&gpu, &module, "k", 1, &Args::new().ptr(x)).to_string();
    assert!(text.ends_with("is out of bounds; `x`, 32 bytes at 0x1000000000000, was freed"), "{text}");
    let again = gpu.free(x).expect_err("freed").to_string();
    assert!(again.ends_with("; `x`, 32 bytes at 0x1000000000000, was freed"), "{again}");
}

/// Returns the findings of threads that access `sh`; `%r1` is the address of a thread's byte.
fn findings(hazards: &Hazards, body: &str, blocks: u32, threads: u32) -> Vec<Finding> {
    let text = format!(
        ".version 8.0 .target sm_90 .entry k(.param .u64 p) {{ .reg .pred %p<8>; .reg .b32 %r<16>; \
         .reg .b64 %rd<8>; .shared .align 16 .b8 sh[4096]; ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; \
         mov.u32 %r9, %ctaid.x; mov.u32 %r8, sh; add.u32 %r1, %r8, %r0;\n{body}\nret; }}"
    );
    let gpu = gpu();
    let data = u32s(&gpu, &[0; 1024]);
    gpu.memory().set_name(data, "data");
    let (launch, args) = (Launch::linear(blocks, threads), Args::new().ptr(data));
    let ran = gpu.launch_observed(&module(&text), "k", &launch, &args, &hazards.launch());
    ran.expect("runs");
    hazards.findings()
}

fn kinds(body: &str, threads: u32) -> Vec<HazardKind> {
    findings(&Hazards::new(), body, 1, threads).iter().map(|finding| finding.kind).collect()
}

#[test]
fn bytes_of_a_word_are_separate_locations() {
    let none: [HazardKind; 0] = [];
    let own = "st.shared.u8 [%r1], %r0; ld.shared.u8 %r2, [%r1]; st.shared.u8 [%r1], %r2;";
    assert_eq!(kinds(own, 64), none);
    let halves = "shl.b32 %r2, %r0, 1; add.u32 %r2, %r8, %r2; st.shared.u16 [%r2], %r0; \
                  ld.shared.u16 %r3, [%r2]; st.shared.u16 [%r2], %r3;";
    assert_eq!(kinds(halves, 64), none);
    // An access of another thread's byte is a race, whichever byte of the word it is.
    for other in [1, 2, 3] {
        let body =
            format!("st.shared.u8 [%r1], %r0; xor.b32 %r2, %r1, {other}; ld.shared.u8 %r3, [%r2];");
        let found = findings(&Hazards::new(), &body, 1, 32);
        assert_eq!(
            found.iter().map(|found| found.kind).collect::<Vec<_>>(),
            [HazardKind::ReadWriteRace]
        );
        assert_eq!((found[0].address, found[0].count), (other, 32), "{}", found[0]);
        assert!(found[0].buffer.as_deref() == Some(&*format!("byte {other} of `sh`")), "{}", found[0]);
    }
}

/// A write is remembered until its own byte is written again, regardless of the word's other bytes.
#[test]
fn writes_are_remembered_per_byte() {
    // Warps 0 and 1 write a byte each and warp 2 reads both; barriers order only one of the writes.
    let body = |first: &str, second: &str| {
        format!(
            "shr.u32 %r4, %r0, 5; and.b32 %r5, %r0, 31; setp.ne.u32 %p0, %r5, 0;
             setp.eq.u32 %p1, %r4, 0; setp.eq.u32 %p2, %r4, 1; setp.eq.u32 %p3, %r4, 2;
             @!%p1 bra B; @!%p0 st.shared.u8 [%r8], 1; {first} bar.sync 1, 64; bra E;
             B: @!%p2 bra C; bar.sync 1, 64; @!%p0 st.shared.u8 [%r8+1], 1; {second} bra E;
             C: bar.sync 2, 64; @!%p0 ld.shared.u16 %r6, [%r8]; E:"
        )
    };
    let meets = "bar.arrive 2, 64;";
    assert_eq!(kinds(&body("", meets), 96), []);
    assert_eq!(kinds(&body(meets, ""), 96), [HazardKind::ReadWriteRace], "of byte 1");
    // If bytes were not told apart, warp 1's write would hide that warp 0's write is not ordered before
    // the read.
    let other = "bar.sync 2, 64; @!%p0 ld.shared.u8 %r6, [%r8]; E:";
    let first = body("", "").replace("bar.sync 1, 64;", "");
    let first = first.replace("bar.sync 2, 64; @!%p0 ld.shared.u16 %r6, [%r8]; E:", other);
    let first = first
        .replace("@!%p0 st.shared.u8 [%r8+1], 1;", "@!%p0 st.shared.u8 [%r8+1], 1; bar.arrive 2, 64;");
    assert_eq!(kinds(&first, 96), [HazardKind::ReadWriteRace], "of byte 0");
}

/// Returns the findings of two blocks: block 0 writes a value and then a flag; thread 0 of block 1
/// observes the flag by an atomic, and all threads of block 1 read the value after a barrier.
fn last_block(write: &str, read: &str) -> Vec<Finding> {
    let body = format!(
        "setp.ne.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r9, 0; @!%p1 bra C; @%p0 bra E;
         st.global.u32 [%rd0], 7; {write} red.relaxed.gpu.global.add.u32 [%rd0+64], 1; bra E;
         C: @%p0 bra D;
         L: atom.relaxed.gpu.global.add.u32 %r2, [%rd0+64], 0; setp.eq.u32 %p2, %r2, 0; @%p2 bra L; {read}
         D: bar.sync 0; ld.global.u32 %r3, [%rd0]; E:"
    );
    findings(&Hazards::new(), &body, 2, 64)
}

#[test]
fn missing_acquire_differs_from_missing_release() {
    let fence = "fence.acq_rel.gpu;";
    assert_eq!(last_block(fence, fence), []);
    let found = last_block(fence, "");
    let kinds: Vec<_> = found.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [HazardKind::NoAcquire], "{found:?}");
    let text = found[0].to_string();
    let (start, says) = (
        "race due to a missing acquire fence at global address 0x1000000000000, byte 0 of `data`, 4096 \
         bytes",
        "; an acquire fence is missing after the atomic at block (1, 0, 0), thread (0, 0, 0), ptx line \
         5, `atom.relaxed.gpu",
    );
    assert!(text.starts_with(start) && text.contains(says), "{text}");
    for read in ["", fence] {
        let found = last_block("", read);
        assert!(found.iter().all(|found| found.kind == HazardKind::ReadWriteRace), "{found:?}");
        assert!(!found.is_empty());
    }
}

#[test]
fn strict_checks_find_volatile_lockstep_exchange() {
    let body = |between: &str| {
        format!(
            "mul.lo.u32 %r2, %r0, 4; add.u32 %r2, %r8, %r2; st.volatile.shared.u32 [%r2], %r0; {between}
             xor.b32 %r3, %r2, 4; ld.volatile.shared.u32 %r4, [%r3];"
        )
    };
    let of = |hazards: Hazards, between: &str| -> Vec<HazardKind> {
        findings(&hazards, &body(between), 1, 32).iter().map(|finding| finding.kind).collect()
    };
    assert_eq!(of(Hazards::new(), ""), []);
    assert_eq!(of(Hazards::strict(), ""), [HazardKind::LockStep]);
    assert_eq!(of(Hazards::strict(), "bar.warp.sync -1;"), []);
}
