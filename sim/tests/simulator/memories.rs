//! Devices that access each other's memory and the host's, and modules with separate variables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{AddressSpace, Args, Budget, Error, GlobalMemory, Gpu, Launch};

const ADD: &str = ".version 7.8 .target sm_80 .address_size 64
.visible .global .align 4 .u32 calls = 5;
.visible .entry add(.param .u64 from, .param .u64 to) {
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [from];
    ld.param.u64 %rd1, [to];
    ld.u32 %r0, [%rd0];
    atom.global.add.u32 %r1, [%rd1], %r0;
    red.global.add.u32 [calls], 1;
    ret;
}";

fn gpu(number: u32) -> Gpu {
    let addresses = AddressSpace::of_device(number, Budget::new(1 << 20));
    Gpu::with_memory(device(), GlobalMemory::new(Arc::new(addresses)))
}

fn add(gpu: &Gpu, from: u64, to: u64) -> Result<(), Error> {
    let args = Args::new().ptr(from).ptr(to);
    gpu.launch(&module(ADD), "add", &Launch::linear(1, 1), &args).map(|_| ())
}

#[test]
fn peer_access_is_one_way_and_ends_on_free() {
    let (first, second) = (gpu(0), gpu(1));
    let (from, to) = (u32s(&first, &[20]), u32s(&second, &[22]));
    assert!(matches!(add(&second, from, to), Err(Error::Fault(_))));
    second.see([first.memory().clone()]);
    add(&second, from, to).expect("a peer's memory");
    assert_eq!(read_u32s(&second, to, 1), [42]);
    let later = u32s(&first, &[100]);
    add(&second, later, to).expect("allocated behind the last launch");
    assert_eq!(read_u32s(&second, to, 1), [142]);
    first.free(later).expect("live");
    assert!(matches!(add(&second, later, to), Err(Error::Fault(_))));
    assert!(matches!(add(&first, from, to), Err(Error::Fault(_))), "one sees the other, not back");
}

#[test]
fn kernels_reach_cells_of_the_host_at_their_own_address() {
    static CELLS: [AtomicU64; 2] = [AtomicU64::new(7 << 32), AtomicU64::new(35)];
    let gpu = gpu(0);
    let host = GlobalMemory::of_lent_cells();
    let address = host.lend(&CELLS, Arc::new(())).expect("not lent yet");
    gpu.see([host.clone()]);
    assert_eq!(address, CELLS.as_ptr().addr() as u64);
    add(&gpu, address + 4, address + 8).expect("the host's memory");
    assert_eq!(CELLS[1].load(Ordering::Relaxed), 42);
    host.free(address).expect("lent");
    assert!(matches!(add(&gpu, address + 4, address + 8), Err(Error::Fault(_))));
}

#[test]
fn another_module_of_the_same_text_has_its_own_variables() {
    let gpu = gpu(0);
    let first = module(ADD);
    let second = first.another();
    let word = u32s(&gpu, &[1]);
    let args = Args::new().ptr(word).ptr(word);
    gpu.launch(&first, "add", &Launch::linear(1, 1), &args).expect("runs");
    let value = |module| {
        let (address, bytes) = gpu.symbol(module, "calls").expect("room").expect("a variable");
        assert_eq!(bytes, 4);
        read_u32s(&gpu, address, 1)[0]
    };
    assert_eq!((value(&first), value(&second), value(&first.clone())), (6, 5, 6));
}

const LOOK_UP: &str = "\
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .u32 scale = 3;
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
.visible .entry look_up(.param .u64 out)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    mov.u64 %rd2, table;
    add.u64 %rd3, %rd2, %rd1;
    ld.const.u32 %r1, [%rd3];
    cvta.const.u64 %rd4, %rd3;
    ld.u32 %r2, [%rd4];
    ld.const.u32 %r3, [scale];
    add.u32 %r4, %r1, %r2;
    mul.lo.u32 %r4, %r4, %r3;
    add.u64 %rd5, %rd0, %rd1;
    st.global.u32 [%rd5], %r4;
    ret;
}";

#[test]
fn the_host_writes_const_memory_between_launches() {
    let gpu = gpu(0);
    let (first, in_use) = (module(LOOK_UP), gpu.memory_in_use());
    let second = first.another();
    let out = u32s(&gpu, &[0; 4]);
    let look_up = |module| {
        gpu.launch(module, "look_up", &Launch::linear(1, 4), &Args::new().ptr(out)).expect("runs");
        read_u32s(&gpu, out, 4)
    };
    assert_eq!(look_up(&first), [6, 12, 18, 24]);
    let (table, bytes) = gpu.symbol(&first, "table").expect("room").expect("a variable");
    let (scale, scale_bytes) = gpu.symbol(&first, "scale").expect("room").expect("a variable");
    assert_eq!((bytes, scale_bytes), (16, 4));
    assert_eq!(read_u32s(&gpu, table, 4), [1, 2, 3, 4]);
    gpu.write(table + 4, &50_u32.to_le_bytes()).expect("inside");
    gpu.write(scale, &1_u32.to_le_bytes()).expect("inside");
    assert_eq!(look_up(&first), [2, 100, 6, 8]);
    assert_eq!(look_up(&second), [6, 12, 18, 24]);
    assert_eq!(gpu.symbol(&first, "nothing").expect("room"), None);
    gpu.unload(&first);
    gpu.unload(&second);
    gpu.free(out).expect("live");
    assert_eq!(gpu.memory_in_use(), in_use);
}
