//! The output of kernels on standard output, and the grid barrier of cooperative launches.

mod common;

use std::ffi::CString;
use std::process::Command;
use std::{env, ptr};

use common::{Session, get, ok};
use warpfold_driver::sys::*;

const PTX: &str = ".version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 format[7] = {37, 100, 58, 110, 105, 10, 0};
.visible .entry says(.param .u32 value) {
    .reg .b32 %r<2>; .reg .b64 %rd<2>; .local .align 8 .b8 depot[8];
    ld.param.u32 %r0, [value]; mov.u64 %rd0, depot; st.local.u32 [%rd0], %r0; cvta.local.u64 %rd0, %rd0;
    mov.u64 %rd1, format; cvta.global.u64 %rd1, %rd1;
    { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd1; st.param.b64 [b], %rd0;
    call.uni (r), vprintf, (a, b); }
    ret;
}
.visible .entry workspace(.param .u64 to) {
    .reg .b32 %r<2>; .reg .b64 %rd<1>;
    ld.param.u64 %rd0, [to]; mov.u32 %r0, %envreg1; mov.u32 %r1, %envreg2; or.b32 %r0, %r0, %r1;
    st.global.u32 [%rd0], %r0; ret;
}
";

fn function(name: &str) -> CUfunction {
    let (text, name) = (CString::new(PTX).unwrap(), CString::new(name).unwrap());
    let module = get!(cuModuleLoadData(text.as_ptr().cast()));
    get!(cuModuleGetFunction(module, name.as_ptr()))
}

/// Runs in a process of its own, to capture its output.
#[test]
fn kernel_printf_writes_to_standard_output() {
    const INNER: &str = "WARPFOLD_TEST_PRINTS";
    if env::var_os(INNER).is_none() {
        let mut again = Command::new(env::current_exe().unwrap());
        let name = "kernel_printf_writes_to_standard_output";
        let output = again.args(["--exact", name, "--nocapture"]).env(INNER, "1").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        let printed: Vec<&str> = said.lines().filter(|line| line.ends_with(":ni")).collect();
        assert_eq!(printed, ["7:ni", "7:ni", "-8:ni", "-8:ni"]);
        return;
    }
    let _session = Session::new();
    let says = function("says");
    println!();
    for mut value in [7_i32, -8] {
        let mut parameters = [ptr::from_mut(&mut value).cast()];
        let (none, given) = (ptr::null_mut(), parameters.as_mut_ptr());
        ok!(cuLaunchKernel(says, 2, 1, 1, 1, 1, 1, 0, none, given, ptr::null_mut()));
    }
    ok!(cuCtxSynchronize());
}

#[test]
fn only_cooperative_launches_have_a_grid_barrier() {
    let _session = Session::new();
    let workspace = function("workspace");
    let mut to: u64 = get!(cuMemAlloc_v2(4));
    let mut parameters = [ptr::from_mut(&mut to).cast()];
    let (none, given) = (ptr::null_mut(), parameters.as_mut_ptr());
    let mut found = [1_u32, 0];
    ok!(cuLaunchKernel(workspace, 1, 1, 1, 1, 1, 1, 0, none, given, ptr::null_mut()));
    ok!(cuMemcpyDtoH_v2(found[..1].as_mut_ptr().cast(), to, 4));
    ok!(cuLaunchCooperativeKernel(workspace, 1, 1, 1, 1, 1, 1, 0, none, given));
    ok!(cuMemcpyDtoH_v2(found[1..].as_mut_ptr().cast(), to, 4));
    assert!(found[0] == 0 && found[1] != 0, "{found:x?}");
}
