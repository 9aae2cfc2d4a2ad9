//! What faults and findings say: the user's line and those around it, the buffer and by how much an access
//! missed it, which order is missing.

mod common;

use common::{device, module, u32s};
use warpfold_sim::{Args, Config, Error, Fault, Gpu, Launch, Module};

/// By nvcc 13.0 with `-lineinfo`, of a file /home/me/lines.cu.
const LINES: &str = include_str!("ptx/lines_nvcc.ptx");

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
fn a_fault_in_what_was_inlined_names_each_call() {
    let (gpu, module) = (gpu(), module(LINES));
    let (p, q) = (gpu.alloc(32).expect("memory"), gpu.alloc(32).expect("memory"));
    assert!(gpu.memory().set_name(p, "values"));
    let fault = fault(&gpu, &module, "_Z7inlinedPKfPf", 8, &Args::new().ptr(p).ptr(q));
    assert_eq!(
        fault.to_string(),
        "/home/me/lines.cu:5:5: kernel `inlined(float const*, float*)`, block (0, 0, 0), thread (7, 0, 0), \
         ptx line 59, `ld.global.f32 %f1, [%rd6+4]`, in `inner(float const*, int)`, called at \
         /home/me/lines.cu:9:5, at /home/me/lines.cu:15:5: load of 4 bytes at global address \
         0x1000000000020 is out of bounds; it ends 4 bytes behind the end of `values`, 32 bytes at \
         0x1000000000000"
    );
    let location = fault.location.expect("lines");
    let lines: Vec<u32> = location.places().map(|place| place.line).collect();
    assert_eq!((lines, location.outermost().line), (vec![5, 9, 15], 15));
    assert_eq!(location.inlined_at.as_ref().expect("calls").function.as_deref(), Some("_Z5outerPKfi"));
}

#[test]
fn what_is_called_is_at_its_call() {
    let (gpu, module) = (gpu(), module(LINES));
    let (p, q) = (gpu.alloc(32).expect("memory"), gpu.alloc(32).expect("memory"));
    let fault = fault(&gpu, &module, "_Z5callsPKfPf", 8, &Args::new().ptr(p).ptr(q));
    let text = fault.to_string();
    assert!(text.starts_with("/home/me/lines.cu:2:"), "{text}");
    assert!(
        text.contains(", in `called(float const*, int)`, called at /home/me/lines.cu:20:5: "),
        "{text}"
    );
    let says =
        "it ends 4 bytes behind the end of what argument 0 points to, 32 bytes at 0x1000000000000";
    assert!(text.ends_with(says), "{text}");
}

#[test]
fn what_a_header_does_is_told_at_the_users_line() {
    let (gpu, module) = (gpu(), module(LINES));
    let counter = u32s(&gpu, &[0; 4]);
    let text = fault(&gpu, &module, "_Z6countsPi", 5, &Args::new().ptr(counter)).to_string();
    assert!(text.starts_with("/home/me/lines.cu:24:5: kernel `counts(int*)`"), "{text}");
    let header =
        ", through /usr/local/cuda/include/device_atomic_functions.hpp:107:3: atomic of 4 bytes";
    assert!(text.contains(header), "{text}");
}

/// rustc's backend, which writes no `inlined_at`, and by `-Zverbose-asm` the chain in comments.
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
    // Two files end in `src/lib.rs`, and it is not said which of them is meant.
    let said = "kernels/src/tree.rs:13:8, called at kernels/src/first.rs:33:9, at src/lib.rs:62:30";
    assert_eq!(of("ld.global"), said);
    assert_eq!(of("st.global"), "src/lib.rs:70:1");
}

#[test]
fn no_text_makes_chains_too_long() {
    let mut text = ".version 7.8 .target sm_80 .entry k() { .loc 1 1 1\n".to_owned();
    for line in 2..5000 {
        text += &format!(".loc 1 {line} 1, inlined_at 1 {} 1\n", line - 1);
    }
    text += "ret; }\n.file 1 \"a.cu\"";
    let module = module(&text);
    let location = module.entry("k").expect("an entry").instructions()[0].location.clone();
    assert!((2..=64).contains(&location.expect("lines").places().count()));
}

/// Accesses of `%rd0`, eight words called `x`, by one thread.
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
fn a_buffer_is_told_by_name_size_and_base_and_how_far_it_was_missed() {
    let x = "`x`, 32 bytes at 0x1000000000000";
    assert_eq!(
        missed("ld.global.u32 %r0, [%rd0+32];"),
        format!("it ends 4 bytes behind the end of {x}")
    );
    assert_eq!(
        missed("ld.global.v2.u32 {%r0, %r1}, [%rd0+32];"),
        format!("it ends 8 bytes behind the end of {x}")
    );
    assert_eq!(
        missed("ld.global.u8 %r0, [%rd0+1031];"),
        format!("it ends 1000 bytes behind the end of {x}")
    );
    assert_eq!(missed("st.global.u32 [%rd0-4], %r0;"), format!("it begins 4 bytes before {x}"));
    assert_eq!(missed("st.global.u32 [8], %r0;"), format!("the nearest to it is {x}"));
    let table = "it ends 4 bytes behind the end of `table`, 12 bytes at 0x";
    assert!(missed("st.global.u32 [table+12], %r0;").starts_with(table));
    let shared =
        "the space has 24 bytes, of which it ends 12 behind; the last there is `last`, 8 bytes at 0x10";
    assert_eq!(missed("st.shared.u32 [%r1+16], %r0;"), shared);
}

#[test]
fn what_was_freed_is_told() {
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
