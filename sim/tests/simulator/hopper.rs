//! Whole kernels with asynchronous copies, mbarriers and clusters.

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Config, Gpu, Launch};

const NVCC: &str = include_str!("../ptx/hopper_nvcc.ptx");
const HOPPER: &str = include_str!("../ptx/hopper.ptx");

fn devices() -> Vec<Gpu> {
    let with = |threads, quantum| Gpu::new(Config { threads, quantum, ..device() });
    vec![with(Some(1), 4096), with(Some(4), 4096), with(Some(1), 1), with(Some(3), 17)]
}

fn values(length: u64) -> Vec<u32> {
    (0..length).map(|i| (i as u32).wrapping_mul(2_654_435_761)).collect()
}

fn sum(values: &[u32]) -> u32 {
    values.iter().copied().fold(0, u32::wrapping_add)
}

fn reduced(gpu: &Gpu, entry: &str, (grid, results): (u32, u32), values: &[u32], skip: usize) -> u32 {
    let (input, output) = (u32s(gpu, values), u32s(gpu, &vec![9; results as usize]));
    let count = (values.len() - skip) as u64;
    let args = Args::new().ptr(input + skip as u64 * 4).u64(count).ptr(output);
    let launch = Launch::linear(grid, 256).with_dynamic_shared(1024);
    gpu.launch(&module(NVCC), entry, &launch, &args).unwrap_or_else(|error| panic!("{error}"));
    let total = sum(&read_u32s(gpu, output, results as usize));
    gpu.free(input).expect("live");
    gpu.free(output).expect("live");
    total
}

#[test]
fn bulk_copies_stage_a_reduction() {
    for gpu in devices() {
        for length in [0, 1, 3, 31, 255, 2047, 2048, 2049, 20_000, 50_001] {
            for (blocks, skip) in [(1, 0), (3, 1), (4, 3)] {
                let values = values(length + skip as u64);
                let got = reduced(&gpu, "bulk_copy_sum_u32", (blocks, blocks), &values, skip);
                assert_eq!(got, sum(&values[skip..]), "{length} values behind {skip}, {blocks} blocks");
            }
        }
    }
}

#[test]
fn clusters_reduce_in_their_first_blocks_memory() {
    for gpu in devices() {
        for length in [0, 1, 31, 2048, 4099, 50_001] {
            for clusters in [1, 3] {
                let values = values(length);
                let got = reduced(&gpu, "cluster_sum_u32", (clusters * 8, clusters), &values, 0);
                assert_eq!(got, sum(&values), "{length} values, {clusters} clusters");
            }
        }
    }
    assert_eq!(
        module(NVCC).entry("cluster_sum_u32").expect("entry").required_cluster(),
        Some([8, 1, 1])
    );
}

#[test]
fn a_producer_and_a_consumer_share_a_ring() {
    for gpu in devices() {
        for tiles in [0_u32, 1, 2, 3, 9, 64] {
            let values = values(u64::from(tiles) * 32);
            let (input, out) = (u32s(&gpu, &values), u32s(&gpu, &[9; 32]));
            let args = Args::new().ptr(input).u32(tiles).ptr(out);
            let stats = gpu.launch(&module(HOPPER), "pipeline", &Launch::linear(1, 64), &args);
            let stats = stats.unwrap_or_else(|error| panic!("{error}"));
            let lane =
                |lane: usize| sum(&values.iter().copied().skip(lane).step_by(32).collect::<Vec<_>>());
            assert_eq!(read_u32s(&gpu, out, 32), (0..32).map(lane).collect::<Vec<_>>(), "{tiles} tiles");
            // Waiting warps are suspended; they do not spin.
            assert!(stats.warp_instructions < 60 + u64::from(tiles) * 40, "{stats:?}");
        }
    }
}

#[test]
fn read_without_wait_returns_old_contents() {
    for gpu in devices() {
        let (input, out) = (u32s(&gpu, &[77, 88, 0, 0]), u32s(&gpu, &[9; 4]));
        let args = Args::new().ptr(input).ptr(out);
        gpu.launch(&module(HOPPER), "stale", &Launch::linear(1, 1), &args).expect("runs");
        assert_eq!(read_u32s(&gpu, out, 4), [0, 77, 0, 88]);
    }
}

#[test]
fn try_wait_fails_when_nothing_else_progresses() {
    let run = |tries| {
        let gpu = Gpu::new(device());
        let out = u32s(&gpu, &[9]);
        let args = Args::new().ptr(out).u32(tries);
        gpu.launch(&module(HOPPER), "impatient", &Launch::linear(1, 1), &args)
            .map(|_| read_u32s(&gpu, out, 1))
            .map_err(|error| error.to_string())
    };
    assert_eq!(run(100), Ok(vec![1]));
    // A wait that never succeeds is a deadlock. It is found without running until the step limit.
    let error = run(1_000_000).expect_err("a deadlock");
    assert!(error.contains("`mbarrier.try_wait.parity.shared::cta.b64 %p0, [barrier], 0`"), "{error}");
    assert!(
        error.ends_with(
            "deadlock: every live warp of the block waits at a barrier: \
             mbarrier at shared address 0x0 lacks 1 arrivals and 0 bytes, warps 0"
        ),
        "{error}"
    );
}

#[test]
fn blocks_know_their_cluster() {
    for gpu in devices() {
        let out = u32s(&gpu, &[9; 8 * 4 * 6]);
        let launch = Launch::new([4, 6, 1], [1, 1, 1]).with_cluster([2, 3, 1]);
        gpu.launch(&module(HOPPER), "places", &launch, &Args::new().ptr(out)).expect("runs");
        let got = read_u32s(&gpu, out, 8 * 4 * 6);
        for (index, words) in got.chunks(8).enumerate() {
            let (x, y) = (index as u32 % 4, index as u32 / 4);
            let rank = x % 2 + y % 3 * 2;
            assert_eq!(words, [x / 2, y / 3, x % 2, y % 3, rank, 2, 6, 1], "block {index}");
        }
        let launch = Launch::new([4, 1, 1], [1, 1, 1]);
        gpu.launch(&module(HOPPER), "places", &launch, &Args::new().ptr(out)).expect("runs");
        assert_eq!(read_u32s(&gpu, out + 96, 8), [3, 0, 0, 0, 0, 4, 1, 0]);
    }
}

#[test]
fn neighbours_in_a_cluster_write_each_others_memory() {
    for gpu in devices() {
        for (clusters, size) in [(1, 1), (3, 2), (2, 8)] {
            let blocks = clusters * size;
            let out = u32s(&gpu, &vec![9; (blocks * 32 * 4) as usize]);
            let launch = Launch::linear(blocks, 32).with_cluster([size, 1, 1]);
            let stats =
                gpu.launch(&module(HOPPER), "ring", &launch, &Args::new().ptr(out)).expect("runs");
            assert_eq!((stats.blocks, stats.warps), (blocks.into(), blocks.into()));
            let got = read_u32s(&gpu, out, (blocks * 32 * 4) as usize);
            for (index, words) in got.chunks(4).enumerate() {
                let (block, thread) = (index as u32 / 32, index as u32 % 32);
                let rank = block % size;
                let before = block - rank + (rank + size - 1) % size;
                let value = before * 1000 + thread;
                assert_eq!(words, [value, value, value + 1, rank], "block {block}, thread {thread}");
            }
        }
    }
}

#[test]
fn broadcast_reaches_all_blocks_of_a_cluster() {
    for gpu in devices() {
        for size in [1_u32, 2, 5, 8] {
            let values = values(16);
            let (input, out) = (u32s(&gpu, &values), u32s(&gpu, &[9; 16]));
            let args = Args::new().ptr(input).ptr(out);
            let launch = Launch::linear(size, 16).with_cluster([size, 1, 1]);
            gpu.launch(&module(HOPPER), "broadcast", &launch, &args)
                .unwrap_or_else(|error| panic!("{error}"));
            let ranks = size * (size - 1) / 2;
            let expected: Vec<u32> =
                values.iter().map(|value| value.wrapping_mul(size).wrapping_add(ranks)).collect();
            assert_eq!(read_u32s(&gpu, out, 16), expected, "{size} blocks");
        }
    }
}

#[test]
fn threads_of_other_blocks_arrive_and_store() {
    for gpu in devices() {
        for (size, threads) in [(1_u32, 32), (4, 40), (8, 64)] {
            let count = size * threads;
            let out = u32s(&gpu, &vec![9; count as usize]);
            let launch =
                Launch::linear(size, threads).with_cluster([size, 1, 1]).with_dynamic_shared(count * 4);
            gpu.launch(&module(HOPPER), "arrivals", &launch, &Args::new().ptr(out))
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read_u32s(&gpu, out, count as usize), (0..count).collect::<Vec<_>>());
        }
    }
}

#[test]
fn single_threaded_runs_are_repeatable() {
    let run = || {
        let gpu = Gpu::new(Config { threads: Some(1), quantum: 13, ..device() });
        let values = values(20_000);
        let (input, output) = (u32s(&gpu, &values), u32s(&gpu, &[0; 3]));
        let args = Args::new().ptr(input).u64(20_000).ptr(output);
        let launch = Launch::linear(3, 256);
        gpu.launch(&module(NVCC), "bulk_copy_sum_u32", &launch, &args).expect("runs")
    };
    assert_eq!(run(), run());
}
