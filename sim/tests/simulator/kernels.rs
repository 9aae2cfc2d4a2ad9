//! Whole kernels in both styles of PTX, with closed-form results.

use crate::common::{device, f32s, f64s, module, read_u32s, u32s, u64s};
use warpfold_sim::{Args, Config, Gpu, HazardKind, Hazards, Launch};

const SEQUENTIAL: &str = include_str!("../ptx/sequential_llvm.ptx");
const NVCC: &str = include_str!("../ptx/reduce_nvcc.ptx");
const GRID: &str = include_str!("../ptx/grid.ptx");
const MATRIX: &str = include_str!("../ptx/matrix_nvcc.ptx");
const FLOW: &str = include_str!("../ptx/flow.ptx");
const NVVM_COOPERATIVE: &str = include_str!("../ptx/nvvm_cooperative.ptx");
const NVVM_CLUSTER: &str = include_str!("../ptx/nvvm_cluster.ptx");
const NVVM_LAST_BLOCK: &str = include_str!("../ptx/nvvm_single_pass_last_block.ptx");
/// Corrected versions of the three `NVVM_*` kernels, compiled by LLVM and by libNVVM.
const MENDED: [[&str; 3]; 2] = [
    [
        include_str!("../ptx/llvm_mended_cooperative.ptx"),
        include_str!("../ptx/llvm_mended_cluster.ptx"),
        include_str!("../ptx/llvm_mended_single_pass_last_block.ptx"),
    ],
    [
        include_str!("../ptx/nvvm_mended_cooperative.ptx"),
        include_str!("../ptx/nvvm_mended_cluster.ptx"),
        include_str!("../ptx/nvvm_mended_single_pass_last_block.ptx"),
    ],
];

fn devices() -> Vec<Gpu> {
    let with = |threads, quantum| Gpu::new(Config { threads, quantum, ..device() });
    vec![with(Some(1), 4096), with(Some(4), 4096), with(Some(1), 1), with(Some(3), 17)]
}

#[test]
fn devices_and_modules_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Gpu>();
    shared::<warpfold_sim::Module>();
    shared::<warpfold_sim::Error>();
}

#[test]
fn tree_reduction_in_shared_memory() {
    let module = module(SEQUENTIAL);
    for gpu in devices() {
        for (block, length) in [(256, 1000_u32), (64, 64), (1024, 5000), (1, 3), (128, 1)] {
            let blocks = length.div_ceil(block);
            let values: Vec<u32> = (0..length).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            let (input, output) = (u32s(&gpu, &values), u32s(&gpu, &vec![0; blocks as usize]));
            let launch = Launch::linear(blocks, block).with_dynamic_shared(block * 4);
            let args = Args::new().ptr(input).u64(length.into()).ptr(output);
            let stats = gpu.launch(&module, "sequential_sum_u32", &launch, &args).expect("runs");
            let expected: Vec<u32> = values
                .chunks(block as usize)
                .map(|chunk| chunk.iter().copied().fold(0, u32::wrapping_add))
                .collect();
            assert_eq!(read_u32s(&gpu, output, blocks as usize), expected);
            assert_eq!(stats.blocks, u64::from(blocks));
            assert_eq!(stats.warps, u64::from(blocks * block.div_ceil(32)));
        }
    }
}

#[test]
fn grid_stride_loop_and_shuffles() {
    let module = module(NVCC);
    for gpu in devices() {
        for length in [0_u32, 1, 31, 1000, 5003] {
            let values: Vec<f32> = (0..length).map(|i| (i % 17) as f32).collect();
            let (input, output) = (f32s(&gpu, &values), f32s(&gpu, &[0.0; 4]));
            let args = Args::new().ptr(input).ptr(output).i32(length as i32);
            gpu.launch(&module, "_Z6stridePKfPfi", &Launch::linear(4, 96), &args).expect("runs");
            let sums = read_u32s(&gpu, output, 4).into_iter().map(f32::from_bits);
            assert_eq!(sums.sum::<f32>(), values.iter().sum::<f32>());
        }
    }
}

#[test]
fn products_of_matrices_by_tiles() {
    const SIDE: usize = 64;
    let module = module(MATRIX);
    // Small whole numbers, different in each row and column: products are exact in any order.
    let of = |factor: usize| (0..SIDE * SIDE).map(move |i| (i * factor % 61) as f32 - 30.0);
    let [left, right]: [Vec<f32>; 2] = [of(7).collect(), of(11).collect()];
    let element = |row: usize, column: usize| -> f32 {
        (0..SIDE).map(|k| left[row * SIDE + k] * right[k * SIDE + column]).sum()
    };
    let expected: Vec<f32> = (0..SIDE * SIDE).map(|i| element(i / SIDE, i % SIDE)).collect();
    for gpu in devices() {
        let (a, b) = (f32s(&gpu, &left), f32s(&gpu, &right));
        for (entry, tile, block) in [
            ("product_32", 32, [32, 32, 1]),
            ("product_16", 16, [16, 16, 1]),
            ("product_blocked", 64, [256, 1, 1]),
        ] {
            let c = f32s(&gpu, &vec![-1.0; SIDE * SIDE]);
            let grid = SIDE as u32 / tile;
            let args = Args::new().ptr(a).ptr(b).ptr(c).i32(SIDE as i32);
            gpu.launch(&module, entry, &Launch::new([grid, grid, 1], block), &args).expect("runs");
            let product: Vec<f32> =
                read_u32s(&gpu, c, SIDE * SIDE).into_iter().map(f32::from_bits).collect();
            assert_eq!(product, expected, "{entry}");
        }
    }
}

#[test]
fn static_and_dynamic_shared_memory_through_generic_addresses() {
    let gpu = Gpu::new(device());
    let values: Vec<f64> = (0..64).map(|i| f64::from(i) / 8.0).collect();
    let (input, output) = (f64s(&gpu, &values), f64s(&gpu, &[0.0]));
    let launch = Launch::linear(1, 64).with_dynamic_shared(256);
    let args = Args::new().ptr(input).ptr(output).u32(32);
    gpu.launch(&module(NVCC), "_Z7genericPKdPdj", &launch, &args).expect("runs");
    let mut bytes = [0; 8];
    gpu.read(output, &mut bytes).expect("output");
    assert_eq!(f64::from_le_bytes(bytes), values.iter().sum::<f64>());
}

#[test]
fn entry_counts_only_shared_memory_it_uses() {
    let module = module(NVCC);
    let bytes = |name| module.entry(name).expect("entry").static_shared_bytes();
    assert_eq!(bytes("_Z6stridePKfPfi"), 128);
    assert_eq!(bytes("_Z7genericPKdPdj"), 256);
    assert_eq!(bytes("spare_user"), 400);
    let gpu = Gpu::new(device());
    let output = u32s(&gpu, &[0]);
    gpu.launch(&module, "spare_user", &Launch::linear(1, 1), &Args::new().ptr(output)).expect("runs");
    assert_eq!(read_u32s(&gpu, output, 1), [7]);
}

#[test]
fn the_last_block_publishes_the_sum() {
    let module = module(GRID);
    for gpu in devices() {
        let blocks = 77_u32;
        let data = u32s(&gpu, &vec![0; blocks as usize + 2]);
        // The counter wraps to zero by itself, so a second launch works as well.
        for launches in 1..=2 {
            let launch = Launch::linear(blocks, 64);
            gpu.launch(&module, "last_block", &launch, &Args::new().ptr(data)).expect("runs");
            assert_eq!(read_u32s(&gpu, data, 2), [blocks * (blocks - 1) / 2, launches]);
        }
    }
}

#[test]
fn blocks_spin_at_a_grid_barrier() {
    let module = module(GRID);
    for gpu in devices() {
        let blocks = 150_u32;
        let count = u32s(&gpu, &[0]);
        let data = u32s(&gpu, &vec![0; blocks as usize * 4]);
        let args = Args::new().ptr(count).ptr(data);
        let stats = gpu.launch(&module, "grid_barrier", &Launch::linear(blocks, 40), &args);
        assert!(stats.expect("runs").preemptions > 0);
        let mut values: Vec<u32> = (0..blocks).collect();
        for round in 0..3 {
            let start = round * blocks as usize;
            let got = read_u32s(&gpu, data + start as u64 * 4, blocks as usize);
            assert_eq!(got, values, "round {round}");
            let next = |i: usize| values[i] + values[(i + 1) % blocks as usize];
            values = (0..blocks as usize).map(next).collect();
        }
        assert_eq!(read_u32s(&gpu, data + 3 * u64::from(blocks) * 4, blocks as usize), values);
        assert_eq!(read_u32s(&gpu, count, 1), [blocks * 3]);
    }
}

#[test]
fn a_spin_lock_between_warps_and_blocks_excludes() {
    let module = module(GRID);
    for gpu in devices() {
        let (lock, count) = (u32s(&gpu, &[0]), u32s(&gpu, &[0]));
        let args = Args::new().ptr(lock).ptr(count);
        gpu.launch(&module, "spin_lock", &Launch::linear(25, 128), &args).expect("runs");
        assert_eq!(read_u32s(&gpu, count, 1), [100]);
    }
}

#[test]
fn look_back_computes_prefix_sums() {
    let module = module(GRID);
    for gpu in devices() {
        let blocks = 200_u32;
        let state = u64s(&gpu, &vec![0; blocks as usize]);
        let args = Args::new().ptr(state).ptr(state);
        gpu.launch(&module, "look_back", &Launch::linear(blocks, 32), &args).expect("runs");
        let words = read_u32s(&gpu, state, blocks as usize * 2);
        for (index, pair) in words.chunks(2).enumerate() {
            let index = index as u32;
            assert_eq!(pair, [index * (index + 1) / 2, 1]);
        }
    }
}

#[test]
fn a_warp_waits_for_another_in_shared_memory() {
    let module = module(GRID);
    for gpu in devices() {
        let result = u32s(&gpu, &[0]);
        let args = Args::new().ptr(result);
        gpu.launch(&module, "warp_flag", &Launch::linear(2, 64), &args).expect("runs");
        assert_eq!(read_u32s(&gpu, result, 1), [42]);
    }
}

fn collatz(number: u32) -> u32 {
    let (mut value, mut steps) = (number, 0);
    while value != 1 {
        if value % 2 == 0 {
            value /= 2;
        } else {
            value = value * 3 + 1;
            steps += if value < 16 { 100 } else { 0 };
        }
        steps += 1;
    }
    steps
}

#[test]
fn nested_branches_in_loops_of_different_length() {
    let module = module(FLOW);
    for gpu in devices() {
        let out = u32s(&gpu, &[0; 2048]);
        let launch = Launch::linear(1, 256);
        gpu.launch(&module, "collatz", &launch, &Args::new().ptr(out)).expect("runs");
        let got = read_u32s(&gpu, out, 256);
        let expected: Vec<u32> = (1..=256).map(collatz).collect();
        assert_eq!(got, expected);
        assert_eq!(read_u32s(&gpu, out + 4096, 1), [u32::MAX], "all lanes join behind the loop");
    }
}

#[test]
fn returned_threads_do_not_hold_up_a_barrier() {
    let module = module(FLOW);
    for gpu in devices() {
        for length in [128_u32, 100, 64, 33, 1, 0] {
            let out = u32s(&gpu, &[0; 128]);
            let args = Args::new().ptr(out).u32(length);
            gpu.launch(&module, "early_exit", &Launch::linear(1, 128), &args).expect("runs");
            let sum = (0..length).sum::<u32>();
            let expected = |thread: u32| match thread {
                _ if thread < length => sum,
                _ if thread % 2 == 1 => 7777,
                _ => 0,
            };
            assert_eq!(read_u32s(&gpu, out, 128), (0..128).map(expected).collect::<Vec<_>>());
        }
    }
}

#[test]
fn functions_are_called_with_parameters_in_memory() {
    let gpu = Gpu::new(device());
    let out = u32s(&gpu, &[9; 32]);
    gpu.launch(&module(FLOW), "calls", &Launch::linear(1, 32), &Args::new().ptr(out)).expect("runs");
    let expected = |lane: u32| match lane {
        0..=3 => 10_u32.pow(lane) + 20_000 + 78 + 1000,
        4..=7 => 5 + 78 + 1000,
        _ => 0,
    };
    assert_eq!(read_u32s(&gpu, out, 32), (0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn blocks_and_grids_have_three_dimensions() {
    let module = module(FLOW);
    for gpu in devices() {
        let (grid, block) = ([3_u32, 2, 2], [5_u32, 3, 4]);
        let total = 12 * 60;
        let out = u32s(&gpu, &vec![0; total]);
        let launch = Launch::new(grid, block);
        let stats = gpu.launch(&module, "places", &launch, &Args::new().ptr(out)).expect("runs");
        let got = read_u32s(&gpu, out, total);
        let mut expected = Vec::new();
        for (bz, by, bx) in triples(grid) {
            for (tz, ty, tx) in triples(block) {
                let thread = tx << 16 | ty << 8 | tz;
                expected.push(thread + (((bx * 100 + by) * 10 + bz) << 20));
            }
        }
        assert_eq!(got, expected);
        assert_eq!(stats.warps, 24);
        assert_eq!(stats.thread_instructions * 64, stats.warp_instructions * 60 * 32);
    }
}

fn triples([x, y, z]: [u32; 3]) -> impl Iterator<Item = (u32, u32, u32)> {
    let planes = (0..z).flat_map(move |z| (0..y).map(move |y| (z, y)));
    planes.flat_map(move |(z, y)| (0..x).map(move |x| (z, y, x)))
}

#[test]
fn initial_values_hold_addresses_of_variables() {
    let gpu = Gpu::new(device());
    let out = u32s(&gpu, &[0; 2]);
    gpu.launch(&module(FLOW), "follow", &Launch::linear(1, 1), &Args::new().ptr(out)).expect("runs");
    assert_eq!(read_u32s(&gpu, out, 2), [100, 2]);
}

#[test]
fn launches_on_one_device_run_side_by_side() {
    let (gpu, module) = (Gpu::new(device()), module(SEQUENTIAL));
    std::thread::scope(|scope| {
        for value in 1..=4_u32 {
            let (gpu, module) = (&gpu, &module);
            scope.spawn(move || {
                for _ in 0..5 {
                    let (input, output) = (u32s(gpu, &[value; 4096]), u32s(gpu, &[0; 16]));
                    let launch = Launch::linear(16, 256).with_dynamic_shared(1024);
                    let args = Args::new().ptr(input).u64(4096).ptr(output);
                    gpu.launch(module, "sequential_sum_u32", &launch, &args).expect("runs");
                    assert_eq!(read_u32s(gpu, output, 16), [value * 256; 16]);
                    gpu.free(input).expect("live");
                    gpu.free(output).expect("live");
                }
            });
        }
    });
    assert_eq!(gpu.memory_in_use(), 0);
}

fn last_block(ptx: &str) -> (Vec<HazardKind>, bool) {
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let values: Vec<u32> = (0..1000).map(|i| i * i).collect();
    let (input, partials) = (u32s(&gpu, &values), u32s(&gpu, &[0; 3]));
    let (counter, output) = (u32s(&gpu, &[0]), u32s(&gpu, &[0]));
    let args = Args::new().ptr(input).u64(1000).ptr(partials).ptr(counter).ptr(output);
    let (launch, hazards) = (Launch::linear(3, 64).with_dynamic_shared(64 * 4), Hazards::new());
    let entry = "single_pass_last_block_sum_i32";
    gpu.launch_observed(&module(ptx), entry, &launch, &args, &hazards.launch()).expect("runs");
    let kinds = hazards.findings().iter().map(|finding| finding.kind).collect();
    (kinds, read_u32s(&gpu, output, 1)[0] == values.iter().sum::<u32>())
}

/// cuda_std declares 16 bytes of dynamic shared memory; the flag and the launch's memory follow them.
#[test]
fn sized_extern_shared_array_overlaps_statics() {
    let (kinds, right) = last_block(NVVM_LAST_BLOCK);
    assert!(kinds.contains(&HazardKind::SizedExternal), "{kinds:?}");
    assert!(!right, "the array lies over the flag");
    let mended = NVVM_LAST_BLOCK.replace("_Zcuda_std_dyn_shared[16];", "_Zcuda_std_dyn_shared[];");
    assert_ne!(mended, NVVM_LAST_BLOCK);
    assert_eq!(last_block(&mended), (Vec::new(), true));
}

/// A barrier duplicated into both arms of a divergent branch: not all threads reach either copy.
#[test]
fn barriers_that_rust_cuda_has_copied_are_faults() {
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let values: Vec<u32> = (0..1000).collect();
    let (input, output) = (u32s(&gpu, &values), u32s(&gpu, &[0; 8]));
    let (partials, counter) = (u32s(&gpu, &[0; 8]), u32s(&gpu, &[0; 2]));
    let open = |ptx: &str| module(&ptx.replace("_dyn_shared[16];", "_dyn_shared[];"));

    let args = Args::new().ptr(input).u64(1000).ptr(partials).ptr(counter).ptr(output);
    let launch = Launch::linear(2, 64).with_dynamic_shared(64 * 4);
    let error = gpu.launch(&open(NVVM_COOPERATIVE), "cooperative_sum_i32", &launch, &args).unwrap_err();
    assert!(error.to_string().contains("barrier 0 in divergent flow"), "{error}");
    let args = Args::new().ptr(input).u64(1000).ptr(output);
    let launch = Launch::linear(8, 64).with_dynamic_shared(64 * 4).with_cluster([8, 1, 1]);
    let error = gpu.launch(&open(NVVM_CLUSTER), "cluster_sum_i32", &launch, &args).unwrap_err();
    assert!(error.to_string().contains("barrier.cluster.arrive in divergent flow"), "{error}");
}

#[test]
fn corrected_barriers_run_with_both_compilers() {
    let gpu = Gpu::new(device());
    let values: Vec<u32> = (0..1000).collect();
    let sum: u32 = values.iter().sum();
    for [cooperative, cluster, last_block_of] in MENDED {
        let (input, output) = (u32s(&gpu, &values), u32s(&gpu, &[0; 8]));
        let (partials, counter) = (u32s(&gpu, &[0; 8]), u32s(&gpu, &[0; 2]));
        let args = Args::new().ptr(input).u64(1000).ptr(partials).ptr(counter).ptr(output);
        let launch = Launch::linear(2, 64).with_dynamic_shared(64 * 4);
        gpu.launch(&module(cooperative), "cooperative_sum_i32", &launch, &args).expect("runs");
        assert_eq!(read_u32s(&gpu, output, 1), [sum]);

        let output = u32s(&gpu, &[0; 8]);
        let args = Args::new().ptr(input).u64(1000).ptr(output);
        let launch = Launch::linear(8, 64).with_dynamic_shared(64 * 4).with_cluster([8, 1, 1]);
        gpu.launch(&module(cluster), "cluster_sum_i32", &launch, &args).expect("runs");
        assert_eq!(read_u32s(&gpu, output, 1), [sum]);

        assert_eq!(last_block(last_block_of), (Vec::new(), true));
    }
}

/// `printf` as CUDA C compiles it: arguments in local memory, each aligned to its size.
#[test]
fn kernels_print_as_c_does() {
    let ptx = r#"
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 format[FORMAT];
.global .align 1 .b8 word[WORD];
.visible .entry k(.param .u64 pointer)
{
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f64 %fd<2>;
    .local .align 8 .b8 depot[96];
    ld.param.u64 %rd0, [pointer];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 33;
    @%p0 bra END;
    mov.u64 %rd1, depot;
    neg.s32 %r1, %r0;
    st.local.u32 [%rd1], %r1;
    st.local.u32 [%rd1+4], 77;
    st.local.u32 [%rd1+8], 0xbeef;
    mov.u64 %rd2, 18446744073709551615;
    st.local.u64 [%rd1+16], %rd2;
    st.local.u64 [%rd1+24], %rd2;
    mov.f64 %fd0, 0d400921FB54442D18;
    st.local.f64 [%rd1+32], %fd0;
    st.local.f64 [%rd1+40], %fd0;
    st.local.u32 [%rd1+48], 65;
    mov.u64 %rd3, word;
    cvta.global.u64 %rd3, %rd3;
    st.local.u64 [%rd1+56], %rd3;
    mov.u64 %rd4, 4096;
    st.local.u64 [%rd1+64], %rd4;
    st.local.u64 [%rd1+72], 0;
    cvta.local.u64 %rd1, %rd1;
    mov.u64 %rd5, format;
    cvta.global.u64 %rd5, %rd5;
    {
    .param .b64 first; .param .b64 second; .param .b32 returned;
    st.param.b64 [first], %rd5;
    st.param.b64 [second], %rd1;
    call.uni (returned), vprintf, (first, second);
    ld.param.b32 %r2, [returned];
    }
    st.global.u32 [%rd0], %r2;
END:
    ret;
}"#;
    let text = |text: &str| {
        let bytes: Vec<String> = text.bytes().chain([0]).map(|byte| byte.to_string()).collect();
        format!("{}] = {{{}}}", bytes.len(), bytes.join(", "))
    };
    let ptx = ptx
        .replace("FORMAT]", &text("%d|%5u|%-4x|%llu|%lld|%.2f|%08.3e|%c|%s|%%|%p|%g\n"))
        .replace("WORD]", &text("wörd"));
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let data = u32s(&gpu, &[0; 1]);
    gpu.launch(&module(&ptx), "k", &Launch::linear(2, 64), &Args::new().ptr(data)).expect("runs");
    let line = "-33|   77|beef|18446744073709551615|-1|3.14|3.142e+00|A|wörd|%|0x1000|0\n";
    assert_eq!(String::from_utf8(gpu.take_printed()).expect("text"), line.repeat(2));
    assert_eq!(read_u32s(&gpu, data, 1), [11]);
    assert!(gpu.take_printed().is_empty());
    // An invalid format address is an error like that of any load.
    let nowhere =
        ptx.replace("mov.u64 %rd5, format;\n    cvta.global.u64 %rd5, %rd5;", "mov.u64 %rd5, 8;");
    let error = gpu.launch(&module(&nowhere), "k", &Launch::linear(1, 64), &Args::new().ptr(data));
    let text = error.expect_err("nothing is there").to_string();
    assert!(text.contains("load of 1 bytes at global address 0x8 is out of bounds"), "{text}");
}
