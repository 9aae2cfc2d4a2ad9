//! Shared by the tests: modules, devices, typed copies.
#![allow(dead_code, reason = "each test crate uses a part of it")]

use warpfold_sim::{Config, Gpu, Module};

pub(crate) fn module(ptx: &str) -> Module {
    Module::parse(ptx).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns limits that end a kernel that hangs.
pub(crate) fn device() -> Config {
    Config { memory_limit: 256 << 20, step_limit: 200_000_000, ..Config::default() }
}

pub(crate) fn upload(gpu: &Gpu, bytes: &[u8]) -> u64 {
    let address = gpu.alloc(bytes.len().max(1) as u64).expect("memory");
    gpu.write(address, bytes).expect("live memory");
    address
}

macro_rules! uploads {
    ($($name:ident: $ty:ty;)*) => {$(
        pub(crate) fn $name(gpu: &Gpu, values: &[$ty]) -> u64 {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            upload(gpu, &bytes)
        }
    )*};
}

uploads! {
    u32s: u32;
    u64s: u64;
    f32s: f32;
    f64s: f64;
}

pub(crate) fn read_u32s(gpu: &Gpu, address: u64, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; count * 4];
    gpu.read(address, &mut bytes).expect("live memory");
    let words = bytes.chunks_exact(4);
    words.map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect()
}
