//! Every kind of error with its message: line, text, kernel, block, thread, value and allowed values.

mod hopper;

use crate::common::{device, module, u32s};
use warpfold_sim::{Args, Config, Error, FaultKind, Gpu, Launch, Module, Space};

/// Returns a kernel `k` with one pointer parameter in `%rd0`; the body starts at line 9.
fn kernel(body: &str) -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n.extern .shared .b8 dyn[];\n\
         .visible .entry k(.param .u64 pointer)\n\
         {{ .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<2>; .reg .b16 %h<2>;\n\
         .shared .align 16 .b8 sh[64]; .local .align 16 .b8 lo[32];\n\
         ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
    )
}

fn run_on(gpu: &Gpu, body: &str, launch: Launch) -> Error {
    let data = u32s(gpu, &[0; 64]);
    let module = module(&kernel(body));
    gpu.launch(&module, "k", &launch, &Args::new().ptr(data)).expect_err("an error")
}

fn message(body: &str) -> String {
    run_on(&Gpu::new(Config { threads: Some(1), ..device() }), body, Launch::linear(2, 64)).to_string()
}

fn assert_message(body: &str, expected: &str) {
    assert_eq!(message(body), expected, "{body}");
}

#[test]
fn global_memory_out_of_bounds() {
    assert_message(
        "mad.wide.u32 %rd1, %r0, 8, %rd0;\nst.global.u32 [%rd1], %r0;",
        "kernel `k`, block (0, 0, 0), thread (32, 0, 0), ptx line 10, `st.global.u32 [%rd1], %r0`: \
         store of 4 bytes at global address 0x1000000000100 is out of bounds; \
         it ends 4 bytes past the end of the buffer of argument 0, 256 bytes at 0x1000000000000",
    );
    assert_message(
        "ld.global.u32 %r1, [%rd0+256];",
        "kernel `k`, block (0, 0, 0), thread (0, 0, 0), ptx line 9, `ld.global.u32 %r1, [%rd0+256]`: \
         load of 4 bytes at global address 0x1000000000100 is out of bounds; \
         it ends 4 bytes past the end of the buffer of argument 0, 256 bytes at 0x1000000000000",
    );
    assert!(
        message("ld.u32 %r1, [8];").contains("load of 4 bytes at global address 0x8 is out of bounds")
    );
    assert!(message("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+248];").contains("misaligned"));
    assert!(message("atom.global.add.u32 %r1, [%rd0+256], 1;").contains("atomic of 4 bytes"));
}

#[test]
fn a_fault_names_block_and_thread_in_three_dimensions() {
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let body = "mov.u32 %r1, %tid.y; mov.u32 %r2, %ctaid.z; and.b32 %r1, %r1, %r2;
                setp.ne.u32 %p0, %r1, 0; @%p0 trap;";
    let launch = Launch::new([1, 1, 2], [5, 2, 1]);
    let Error::Fault(fault) = run_on(&gpu, body, launch) else { panic!("no fault") };
    assert_eq!((fault.block, fault.thread), ([0, 0, 1], [0, 1, 0]));
    assert_eq!((fault.kind, fault.line, fault.text.as_str()), (FaultKind::Trap, 10, "@%p0 trap"));
}

#[test]
fn misaligned_accesses() {
    assert_message(
        "ld.global.u32 %r1, [%rd0+2];",
        "kernel `k`, block (0, 0, 0), thread (0, 0, 0), ptx line 9, `ld.global.u32 %r1, [%rd0+2]`: \
         load of 4 bytes at global address 0x1000000000002 is misaligned; \
         the address must be a multiple of 4",
    );
    assert!(message("st.shared.v2.u32 [sh+4], {%r0, %r0};").contains(
        "store of 8 bytes at shared address 0x4 is misaligned; the address must be a multiple of 8"
    ));
    assert!(message("st.local.u16 [lo+1], %h0;").contains("local address 0x1 is misaligned"));
}

#[test]
fn shared_local_param_and_const_memory_out_of_bounds() {
    assert!(message("st.shared.u32 [sh+64], %r0;").ends_with(
        "store of 4 bytes at shared address 0x40 is out of bounds; the space has 64 bytes, and the \
         access ends 4 bytes past its end; the last array is `sh`, 64 bytes at 0x0"
    ));
    let gpu = Gpu::new(device());
    let body = "mov.u32 %r1, dyn; mad.lo.u32 %r1, %r0, 4, %r1; st.shared.u32 [%r1+32], %r0; st.shared.u8 [sh], %h0;";
    let error = run_on(&gpu, body, Launch::linear(1, 32).with_dynamic_shared(128)).to_string();
    assert!(error.contains("thread (24, 0, 0)"), "{error}");
    let says = "shared address 0xc0 is out of bounds; the space has 192 bytes, and the access ends 4 \
                bytes past its end; the last array is `dyn`, 128 bytes at 0x40";
    assert!(error.ends_with(says), "{error}");
    assert!(message("ld.local.u32 %r1, [lo+32];").ends_with("the thread has 32 bytes"));
    assert!(message("ld.local.u64 %rd1, [lo+28];").contains("misaligned"));
    assert!(message("ld.param.u64 %rd1, [pointer+8];").contains("load of 8 bytes at param address 0x8"));
    assert!(message("ld.const.u32 %r1, [0];").ends_with("the space has 0 bytes"));
    assert!(message("atom.shared.add.u32 %r1, [sh+64], 1;").contains("atomic of 4 bytes at shared"));
}

#[test]
fn stores_to_read_only_memory_through_generic_addresses() {
    let text = message("mov.b64 %rd1, pointer; cvta.param.u64 %rd1, %rd1;\nst.u32 [%rd1], %r0;");
    assert!(text.ends_with("`st.u32 [%rd1], %r0`: store to param memory, which is read-only"), "{text}");
}

#[test]
fn freed_memory_is_out_of_bounds() {
    let gpu = Gpu::new(device());
    let module = module(&kernel("st.global.u32 [%rd0], 1;"));
    let data = u32s(&gpu, &[0]);
    gpu.launch(&module, "k", &Launch::linear(1, 1), &Args::new().ptr(data)).expect("live");
    gpu.free(data).expect("live");
    let error = gpu.launch(&module, "k", &Launch::linear(1, 1), &Args::new().ptr(data));
    let text = error.expect_err("freed").to_string();
    assert!(
        text.ends_with("is out of bounds; the allocation of 4 bytes at 0x1000000000000 was freed"),
        "{text}"
    );
}

#[test]
fn a_barrier_that_some_lanes_do_not_reach() {
    assert_message(
        "setp.lt.u32 %p0, %r0, 20;\n@!%p0 bra SKIP;\nbar.sync 0;\nSKIP: bar.sync 1;",
        "kernel `k`, block (0, 0, 0), thread (0, 0, 0), ptx line 11, `bar.sync 0`: \
         barrier 0 in divergent flow: warp 0 misses lanes 20-31; \
         all threads of the warp that have not exited must execute it together",
    );
    assert!(message("setp.eq.u32 %p0, %r0, 3; @%p0 bar.sync 0;").contains("misses lanes 0-2, 4-31;"));
    // A branch taken by whole warps is not divergent.
    let gpu = Gpu::new(device());
    let data = u32s(&gpu, &[0; 64]);
    let body = "setp.lt.u32 %p0, %r0, 32; @%p0 bra LOW; bar.sync 0; bra END; LOW: bar.sync 0; END:";
    let module = module(&kernel(body));
    gpu.launch(&module, "k", &Launch::linear(2, 64), &Args::new().ptr(data)).expect("runs");
}

#[test]
fn a_deadlock_of_a_block() {
    assert_message(
        "setp.lt.u32 %p0, %r0, 32;\n@%p0 bra LOW;\nbar.sync 2;\nbra END;\nLOW: bar.sync 1;\nEND:",
        "kernel `k`, block (0, 0, 0), thread (0, 0, 0), ptx line 13, `bar.sync 1`: deadlock: \
         every live warp of the block waits at a barrier: \
         barrier 1 has 32 of 64 threads, warps 0; barrier 2 has 32 of 64 threads, warps 1",
    );
    let text = message("bar.sync 3, 96;");
    assert!(text.ends_with("barrier 3 has 64 of 96 threads, warps 0 1"), "{text}");
}

#[test]
fn barriers_that_do_not_exist() {
    assert!(message("bar.sync 16;").ends_with("barrier number is 16; allowed is 0 to 15"));
    assert!(message("mov.u32 %r1, 99; barrier.sync %r1;").contains("barrier number is 99"));
    assert!(
        message("bar.sync 0, 40;")
            .ends_with("barrier thread count is 40; allowed is a multiple of 32 from 32 to 1024")
    );
}

#[test]
fn member_masks_that_name_inactive_lanes() {
    assert_message(
        "setp.lt.u32 %p0, %r0, 8;\n@!%p0 bra SKIP;\nshfl.sync.down.b32 %r1, %r0, 1, 31, 0xffff;\nSKIP: bar.warp.sync -1;",
        "kernel `k`, block (0, 0, 0), thread (0, 0, 0), ptx line 11, \
         `shfl.sync.down.b32 %r1, %r0, 1, 31, 0xffff`: \
         member mask 0x0000ffff names lanes 8-15 not active here; the active mask is 0x000000ff",
    );
    let inactive = |instruction: &str| {
        let text = message(&format!(
            "setp.lt.u32 %p0, %r0, 8; @!%p0 bra SKIP; {instruction} SKIP: bar.warp.sync -1;"
        ));
        assert!(text.contains("names lanes 8-31 not active here"), "{text}");
    };
    inactive("vote.sync.ballot.b32 %r1, %p0, -1;");
    inactive("redux.sync.add.u32 %r1, %r0, -1;");
    inactive("match.any.sync.b32 %r1, %r0, -1;");
    inactive("elect.sync _|%p1, -1;");
}

#[test]
fn member_masks_that_do_not_fit_the_lanes() {
    let text = message("shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xff;");
    assert!(text.ends_with("member mask 0x000000ff does not name the executing lanes 8-31"), "{text}");
    assert!(text.contains("thread (8, 0, 0)"), "{text}");
}

#[test]
fn indexed_branches_past_the_table() {
    let text = message("brx.idx %r0, T; T: .branchtargets A, B; A: B:");
    assert!(text.contains("thread (2, 0, 0)"), "{text}");
    assert!(text.ends_with("branch index 2 is outside of the table of 2 targets"), "{text}");
}

#[test]
fn traps_and_step_limits() {
    assert!(message("trap;").ends_with("`trap`: trap executed"));
    for threads in [1, 2] {
        let gpu = Gpu::new(Config { step_limit: 5000, threads: Some(threads), ..device() });
        let error = run_on(&gpu, "LOOP: bra LOOP;", Launch::linear(3, 32)).to_string();
        assert!(error.contains("ptx line 9, `bra LOOP`: "), "{error}");
        let says = "step limit of 5000 warp instructions reached; the thread loops in ptx line 9";
        assert!(error.ends_with(says), "{error}");
    }
}

#[test]
fn the_step_limit_is_exact() {
    let gpu = |step_limit| Gpu::new(Config { step_limit, threads: Some(1), ..device() });
    let module = module(&kernel("st.global.u32 [%rd0], 1;"));
    for (limit, fits) in [(12, true), (11, false)] {
        let gpu = gpu(limit);
        let data = u32s(&gpu, &[0]);
        let result = gpu.launch(&module, "k", &Launch::linear(3, 32), &Args::new().ptr(data));
        assert_eq!(result.is_ok(), fits, "{result:?}");
    }
}

#[test]
fn memory_limits() {
    let gpu = Gpu::new(Config { memory_limit: 10_000, ..device() });
    let first = gpu.alloc(6000).expect("fits");
    assert_eq!(
        gpu.alloc(5000).expect_err("too much").to_string(),
        "an allocation needs 5000 bytes; 6000 of the limit of 10000 bytes are in use"
    );
    assert_eq!(gpu.memory_in_use(), 6000);
    // A block's state needs memory as well.
    let module = module(&kernel(""));
    let error = gpu.launch(&module, "k", &Launch::linear(1, 1024), &Args::new().ptr(first));
    let text = error.expect_err("too much").to_string();
    assert!(text.starts_with("a block of `k` needs "), "{text}");
    assert!(text.ends_with("6000 of the limit of 10000 bytes are in use"), "{text}");
    gpu.free(first).expect("live");
    let big = Module::parse(&format!(
        ".version 7.8 .target sm_80 .global .b8 big[20000];{}",
        &kernel("")[43..]
    ));
    let error = gpu.launch(&big.expect("parses"), "k", &Launch::linear(1, 1), &Args::new().ptr(0));
    assert!(
        error.expect_err("too much").to_string().starts_with("global variable `big` needs 20000 bytes")
    );
    assert_eq!(gpu.memory_in_use(), 0);
}

#[test]
fn host_copies_outside_of_allocations() {
    let gpu = Gpu::new(device());
    let data = u32s(&gpu, &[1, 2]);
    let text = gpu.write(data + 4, &[0; 8]).expect_err("too long").to_string();
    assert_eq!(
        text,
        "write of 8 bytes at 0x1000000000004 is outside of every live allocation; it ends 4 bytes past \
         the end of an allocation of 8 bytes at 0x1000000000000"
    );
    assert!(gpu.read(8, &mut [0]).expect_err("null").to_string().starts_with("read of 1 bytes at 0x8 "));
    assert!(gpu.fill(data, 0, 9).is_err());
    assert!(gpu.free(data + 4).expect_err("inside").to_string().starts_with("free of 0 bytes"));
    gpu.free(data).expect("live");
    assert!(gpu.free(data).expect_err("twice").to_string().ends_with("was freed"));
}

#[test]
fn launches_outside_of_the_limits() {
    let gpu = Gpu::new(device());
    let module = module(&kernel(""));
    let launch = |launch: Launch| {
        gpu.launch(&module, "k", &launch, &Args::new().ptr(0)).expect_err("refused").to_string()
    };
    let shape = |grid, block| Launch::new(grid, block);
    assert_eq!(launch(Launch::linear(1, 1025)), "launch of `k`: block.x is 1025, allowed is 1 to 1024");
    assert_eq!(
        launch(shape([1; 3], [64, 32, 1])),
        "launch of `k`: block size is 2048, allowed is 1 to 1024"
    );
    assert_eq!(launch(Launch::linear(0, 1)), "launch of `k`: grid.x is 0, allowed is 1 to 2147483647");
    assert_eq!(
        launch(Launch::linear(1 << 31, 1)),
        "launch of `k`: grid.x is 2147483648, allowed is 1 to 2147483647"
    );
    assert_eq!(
        launch(shape([1, 65536, 1], [1; 3])),
        "launch of `k`: grid.y is 65536, allowed is 1 to 65535"
    );
    assert_eq!(launch(shape([1; 3], [1, 1, 65])), "launch of `k`: block.z is 65, allowed is 1 to 64");
    assert_eq!(
        launch(Launch::linear(1, 1).with_dynamic_shared(233_000)),
        "launch of `k`: shared memory is 233000, allowed is 0 to 232448"
    );
    let missing = gpu.launch(&module, "other", &Launch::linear(1, 1), &Args::new());
    assert_eq!(missing.expect_err("missing").to_string(), "module has no entry `other`; it has `k`");
    let args = gpu.launch(&module, "k", &Launch::linear(1, 1), &Args::new().u32(1));
    assert_eq!(
        args.expect_err("wrong").to_string(),
        "launch of `k`: 4 parameter bytes given, its 1 parameters take 8"
    );
}

#[test]
fn launches_against_an_entrys_directives() {
    let gpu = Gpu::new(device());
    let text = ".version 7.8 .target sm_80
        .entry most() .maxntid 64, 2 { ret; }
        .entry exactly() .reqntid 32, 4, 1 { ret; }";
    let module = module(text);
    let launch = |entry, block| {
        let launch = Launch::new([1; 3], block);
        gpu.launch(&module, entry, &launch, &Args::new()).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(launch("most", [128, 1, 1]), Ok(()));
    assert_eq!(
        launch("most", [129, 1, 1]),
        Err("launch of `most`: block size is 129, allowed is 1 to 128".to_owned())
    );
    assert_eq!(launch("exactly", [32, 4, 1]), Ok(()));
    assert_eq!(
        launch("exactly", [32, 2, 1]),
        Err("launch of `exactly`: block.y is 2, allowed is 4".to_owned())
    );
}

#[test]
fn out_of_bounds_faults_carry_their_data() {
    let gpu = Gpu::new(device());
    let Error::Fault(fault) = run_on(&gpu, "st.shared.u16 [sh+70], %h0;", Launch::linear(1, 1)) else {
        panic!("no fault");
    };
    let FaultKind::OutOfBounds { space, address, bytes, .. } = fault.kind else { panic!("wrong kind") };
    assert_eq!((space, address, bytes), (Space::Shared, 70, 2));
}

fn refused(body: &str) -> String {
    Module::parse(&kernel(body)).expect_err("refused").to_string()
}

#[test]
fn text_that_is_not_supported() {
    let expect = |body: &str, expected: &str| assert_eq!(refused(body), expected, "{body}");
    expect("frobnicate.u32 %r0, %r1;", "ptx line 9, column 1: unknown opcode `frobnicate`");
    expect(
        "  add.u32.weird %r0, %r1, %r2;",
        "ptx line 9, column 3: modifier `.weird` of `add` is not supported here",
    );
    expect("add.u32 %r0, %r1;", "ptx line 9, column 1: `add` has 2 operands, allowed is 3");
    expect("add.u32 %r0, %r1, %x;", "ptx line 9, column 1: `%x` is not declared");
    expect("add.u32 %r0, %r1, %r8;", "ptx line 9, column 1: `%r8` is not declared");
    expect(
        "add.u32 %r0, %r1, %rd1;",
        "ptx line 9, column 1: register `%rd1` has 64 bits, `add` needs 32",
    );
    expect("add %r0, %r1, %r2;", "ptx line 9, column 1: `add` needs a type");
    expect(
        "add.pred %p0, %p1, %p2;",
        "ptx line 9, column 1: `add` has no form for type `.pred` with these modifiers",
    );
    expect("bra NOWHERE;", "ptx line 9, column 1: `NOWHERE` is not declared");
    expect("X: X: ret;", "ptx line 9, column 4: `X` is declared twice");
    expect("add.u32 %r0, %r1, %r2", "ptx line 10, column 1: expected `,` or `;`, found `ret`");
    expect("mov.u32 %r0, 5 #;", "ptx line 9, column 16: `#;` is not a PTX token");
    expect(
        "shfl.down.b32 %r0, %r1, 1, 31;",
        "ptx line 9, column 1: `shfl` without `.sync` does not exist on this target",
    );
    expect("st.const.u32 [0], %r0;", "ptx line 9, column 1: const memory is read-only");
    expect(
        "ld.global.u64 %r0, [%rd0];",
        "ptx line 9, column 1: a register of 32 bits cannot hold 64 bits",
    );
    expect(
        "ld.global.u32 %r0, [sh];",
        "ptx line 9, column 1: `sh` is in shared memory, not in global memory",
    );
    assert!(
        refused("setp.u32 %p0, %r0, %r1;").contains("`setp` needs a comparison: one of `.eq`, `.ne`")
    );
    expect(
        "red.global.add.noftz.v8.f16 [%rd0], {%h0, %h1, %h0, %h1, %h0, %h1, %h0, %h1};",
        "ptx line 9, column 1: vector atomics of 8 elements (`.v8`) are not supported",
    );
    expect(
        "red.global.max.v2.f32 [%rd0], {%f0, %f1};",
        "ptx line 9, column 1: `red` has no form for type `.f32` with these modifiers",
    );
    expect(
        "red.shared.add.v2.f32 [sh], {%f0, %f1};",
        "ptx line 9, column 1: vector atomics (`.v2`) are allowed only for `.add` in global memory",
    );
    assert!(refused("cvt.u32.f32 %r0, %f0;").contains("needs `.rni`"));
    expect(
        "cvt.u32.b32 %r0, %r1;",
        "ptx line 9, column 1: `cvt` has no form for type `.b32` with these modifiers",
    );
    expect(
        "cvt.b32.u32 %r0, %r1;",
        "ptx line 9, column 1: `cvt` has no form for type `.b32` with these modifiers",
    );
    assert!(
        refused("mov.u64 %rd0, %tid.x;")
            .contains("special register `%tid` has 32 bits, but 64 are needed")
    );
    assert!(refused("lop3.b32 %r0, %r1, %r2, %r3, 256;").contains("from 0 to 255"));
    for count in [16, 36, 264] {
        let text = format!("setmaxnreg.inc.sync.aligned.u32 {count};");
        assert!(refused(&text).contains("must be a multiple of 8 from 24 to 256"), "{count}");
    }
    assert!(refused("setmaxnreg.inc.sync.u32 32;").contains("`setmaxnreg` needs `.aligned`"));
    assert!(refused("cvt.pack.s8.s32.b32 %r0, %r1, %r2, %r3;").contains("`cvt.pack` needs `.sat`"));
}

#[test]
fn a_failed_assertion_ends_the_launch() {
    let declared = ".extern .func __assertfail (.param .b64 what, .param .b64 file, .param .b32 line, \
                    .param .b64 function, .param .b64 size);";
    // "i != 5", "a.c\n" and "k".
    let texts = ".global .align 1 .b8 what[7] = {105, 32, 33, 61, 32, 53, 0};
        .global .align 1 .b8 file[5] = {97, 46, 99, 10, 0}; .global .align 1 .b8 name[2] = {107, 0};";
    let body = "setp.ne.u32 %p0, %r0, 5; @%p0 bra FINE;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
        .reg .b64 %text; mov.u64 %text, what; cvta.global.u64 %text, %text; st.param.b64 [a], %text;
        mov.u64 %text, file; cvta.global.u64 %text, %text; st.param.b64 [b], %text; st.param.b32 [c], 17;
        mov.u64 %text, name; cvta.global.u64 %text, %text; st.param.b64 [d], %text; st.param.b64 [e], 1;
        call.uni __assertfail, (a, b, c, d, e); }
        FINE:";
    let text = kernel(body).replace(".extern .shared .b8 dyn[];", &format!("{declared} {texts}"));
    let gpu = Gpu::new(device());
    let data = gpu.alloc(256).expect("memory");
    let launch = Launch::linear(1, 32);
    let error =
        gpu.launch(&Module::parse(&text).expect("it parses"), "k", &launch, &Args::new().ptr(data));
    let Err(Error::Fault(fault)) = error else { panic!("no fault") };
    assert_eq!(fault.thread, [5, 0, 0]);
    assert_eq!(fault.kind.to_string(), "assertion failed: `i != 5` at a.c?:17 in k");
    // A call with other parameters is the same fault without texts.
    let other = text.replace(declared, ".extern .func __assertfail (.param .b64 what);");
    let other = other.replace("(a, b, c, d, e)", "(a)");
    let error =
        gpu.launch(&Module::parse(&other).expect("it parses"), "k", &launch, &Args::new().ptr(data));
    let Err(Error::Fault(fault)) = error else { panic!("no fault") };
    assert_eq!(fault.kind, FaultKind::Assertion(None));
}

#[test]
fn calls_that_cannot_be_made() {
    let with = |declarations: &str, body: &str| {
        let text = kernel(body).replace(".extern .shared .b8 dyn[];", declarations);
        Module::parse(&text).expect_err("refused").to_string()
    };
    assert_eq!(
        with(".extern .func (.param .b64 r) realloc (.param .b64 a);", "call realloc, (%rd0);"),
        "ptx line 9, column 1: call of `realloc`, which is an external function without a body in this \
         module"
    );
    assert_eq!(
        with(
            ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);",
            "call vprintf, (%rd0, %rd1);"
        ),
        "ptx line 9, column 1: `vprintf` takes `.param` variables of [8, 8] bytes and returns [4]"
    );
    assert!(
        with(".func f(.param .b32 a) { ret; }", "call f;").ends_with("0 values where it declares 1")
    );
    assert!(
        with(".func f(.param .b32 a) { ret; }", "call f, (%r0);")
            .contains("needs a `.param` variable of 4 bytes")
    );
    assert!(refused("call %rd0, (%r0), P;").contains("values of a call must be `.param` variables"));
    assert!(
        refused("call %rd0, P, (%r0);").contains("end with its arguments, or with a prototype after")
    );
    assert!(refused("call 0, P;").contains("the target of a call must be a function or a register"));
    // An undefined function that nothing calls is not an error.
    let text = kernel("").replace(".extern .shared .b8 dyn[];", ".extern .func nobody();");
    assert!(Module::parse(&text).is_ok());
}

#[test]
fn modules_that_are_malformed() {
    let error = |text: &str| Module::parse(text).expect_err("refused").to_string();
    assert_eq!(error(""), "ptx line 1, column 1: the module has no `.version`");
    assert_eq!(
        error(".version x"),
        "ptx line 1, column 10: expected a version such as `7.8`, found `x`"
    );
    assert_eq!(
        error(".version 7.8\n.target sm_80\n.address_size 32"),
        "ptx line 3, column 17: address size is 32, allowed is 64"
    );
    assert!(error(".version 7.8 .entry k( { }").ends_with("expected `.param`, found `{`"));
    assert!(
        error(".version 7.8 .entry k() { ret; ").ends_with("expected `}`, found the end of the text")
    );
    assert!(
        error(".version 7.8 .global .align 3 .b8 x[4];")
            .contains("alignment is 3, allowed is a power of two")
    );
    assert!(
        error(".version 7.8 .global .b8 x[2] = {1, 2, 3};")
            .contains("initial value of 3 bytes, allowed is 2")
    );
    assert!(error(".version 7.8 .entry k(){} .entry k(){}").contains("`k` is declared twice"));
    assert!(
        error(".version 7.8 .shared .b8 x[300000]; .entry k(){ .reg .u32 %r; ld.shared.u32 %r, [x]; }")
            .contains("static shared memory of 300000 bytes, allowed is 232448")
    );
}
