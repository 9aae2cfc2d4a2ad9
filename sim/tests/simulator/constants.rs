//! Integer constants wherever PTX allows one: as a number, as `WARP_SZ`, or as an expression.

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Gpu, Launch, Module};

const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

fn words(declared: &str, body: &str, count: usize) -> Vec<u32> {
    let text = format!(
        "{HEAD}{declared}\n.visible .entry k(.param .u64 out) {{\n\
         .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %out, %rd<9>; .reg .f32 %f<3>;\n\
         ld.param.u64 %out, [out];\n{body}\nret;\n}}"
    );
    let gpu = Gpu::new(device());
    let out = u32s(&gpu, &[0; 64]);
    gpu.launch(&module(&text), "k", &Launch::linear(1, 1), &Args::new().ptr(out)).expect("runs");
    read_u32s(&gpu, out, count)
}

#[test]
fn the_size_of_a_warp_is_an_operand() {
    let stores = "mov.u32 %r1, WARP_SZ; st.global.u32 [%out], %r1;
        mov.u64 %rd1, WARP_SZ; st.global.u64 [%out+8], %rd1;
        add.s32 %r2, %r1, -WARP_SZ; st.global.u32 [%out+4], %r2;
        mov.f32 %f1, 0f3F800000; setp.eq.u32 %p1, %r1, WARP_SZ; selp.b32 %r3, WARP_SZ, 0, %p1;
        st.global.u32 [%out+16], %r3; st.global.u32 [%out+WARP_SZ], WARP_SZ;
        st.global.v2.u32 [%out+WARP_SZ+8], {WARP_SZ, 1};";
    assert_eq!(words("", stores, 12), [32, 0, 32, 0, 32, 0, 0, 0, 32, 0, 32, 1]);
}

#[test]
fn expressions_are_operands() {
    let stores = "mov.u32 %r1, WARP_SZ*2 - 1; st.global.u32 [%out], %r1;
        mov.u32 %r1, (WARP_SZ >> 1) + 0x10; st.global.u32 [%out+2*2], %r1;
        mov.u32 %r1, ~(WARP_SZ - 1); st.global.u32 [%out+(4+4)], %r1;
        add.u64 %rd1, %out, WARP_SZ; mov.u32 %r1, WARP_SZ == 32 ? 7 : 8;
        st.global.u32 [%rd1-WARP_SZ+12], %r1;
        mov.u32 %r1, 6|1; st.global.u32 [%out + 16], %r1; mov.u32 %r1, !WARP_SZ + 9;
        st.global.u32 [%out+4*5], %r1;";
    assert_eq!(words("", stores, 6), [63, 32, !31, 7, 7, 9]);
}

#[test]
fn lengths_and_initial_values_are_constants() {
    let declared = ".global .align 4 .u32 table[WARP_SZ / 8] = {WARP_SZ, WARP_SZ + 1, -WARP_SZ, 3};
        .global .align 4 .f32 single = WARP_SZ;
        .const .align 8 .u64 second = generic(table) + WARP_SZ / 8;
        .func (.param .b32 sum) bytes(.param .align 4 .b8 a[WARP_SZ]) {
            .reg .b32 %r<2>; ld.param.b32 %r0, [a + WARP_SZ - 4]; st.param.b32 [sum], %r0; ret; }";
    let body =
        ".shared .align 4 .b8 s[WARP_SZ][2 * 2]; .shared .align 4 .u32 last; .reg .b32 %a<WARP_SZ>;
        mov.u32 %r1, last; mov.u32 %r2, s; st.shared.u32 [last], 1; st.shared.u32 [s], 2;
        sub.u32 %r1, %r1, %r2; st.global.u32 [%out], %r1;
        ld.const.u64 %rd1, [second]; ld.u32 %r1, [%rd1]; st.global.u32 [%out+4], %r1;
        ld.global.u32 %r1, [table + 8]; st.global.u32 [%out+8], %r1;
        ld.global.u32 %r1, [single]; st.global.u32 [%out+12], %r1;
        mov.u32 %a31, 5; st.global.u32 [%out+16], %a31;
        { .param .align 4 .b8 given[WARP_SZ]; .param .b32 got; st.param.b32 [given+28], 77;
        call (got), bytes, (given); ld.param.b32 %r1, [got]; }
        st.global.u32 [%out+20], %r1;";
    assert_eq!(words(declared, body, 6), [128, 33, (-32_i32) as u32, 32_f32.to_bits(), 5, 77]);
    let module = module(&format!("{HEAD}.entry k() .maxntid WARP_SZ, 4, 1 {{ ret; }}"));
    assert_eq!(module.entry("k").expect("entry").max_threads(), Some([32, 4, 1]));
}

#[test]
fn constants_out_of_range_are_refused() {
    let refused = |declared: &str| {
        let text = format!("{HEAD}{declared}");
        Module::parse(&text).expect_err("refused").to_string()
    };
    assert_eq!(
        refused(".global .b8 a[1 - 2];"),
        "ptx line 4, column 15: an array length is -1, allowed is at most 4294967296"
    );
    assert_eq!(
        refused(".global .b8 a[WARP_SZ / 0];"),
        "ptx line 4, column 23: division by zero in a constant expression"
    );
    assert_eq!(
        refused(".entry k() { st.global.u32 [4 *], 1; ret; }"),
        "ptx line 4, column 32: expected an integer, found `]`"
    );
}
