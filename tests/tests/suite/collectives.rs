//! Each collective of `warpfold-device`, for each element type and blocks of any size, against a loop.
//! All threads' results are checked, not only that of the thread that uses it in a kernel.

use bytemuck::Pod;
use warpfold_suite::{Scalar, device::Geometry};
use warpfold_tests::{
    device, for_each_type,
    probing::{launch, memory, poisoned, values},
};

const FILE: &str = "testing_collectives";

/// Less than a warp, whole warps, and a last warp of one lane, of a few and of all but one.
const BLOCKS: [u32; 8] = [1, 31, 32, 33, 64, 100, 1000, 1024];
const GRIDS: [u32; 3] = [1, 2, 7];

fn elements(threads: usize) -> Vec<i64> {
    (0..threads as i64).map(|i| (i * 7919 + 13) % 23 + 1).collect()
}

trait Small: Scalar + Pod {
    const NAME: &'static str;
    fn of(value: i64) -> Self;
}

macro_rules! small {
    ($($ty:ident)*) => {$(
        impl Small for $ty {
            const NAME: &'static str = stringify!($ty);
            fn of(value: i64) -> Self {
                value as $ty
            }
        }
    )*};
}

small!(i32 u32 i64 u64 f32 f64);

for_each_type!(warps blocks clusters grids last_blocks);

fn assert_array<T: Small>(output: &[T], k: usize, what: &str, expected: impl Fn(usize) -> i64) {
    let threads = output.len();
    for (thread, &found) in output.iter().enumerate() {
        assert_eq!(
            found,
            T::of(expected(thread)),
            "{what} (array {k}) of {}, thread {thread} of {threads}",
            T::NAME
        );
    }
}

fn group(thread: usize, block: usize, size: usize) -> std::ops::Range<usize> {
    let start = thread / block * block;
    let first = start + (thread - start) / size * size;
    first..(first + size).min(start + block)
}

mod generic {
    use super::*;

    pub(super) fn warps<T: Small>() {
        for block in BLOCKS {
            let (grid, input) = (2, elements(2 * block as usize));
            let output = run::<T>("of_warp", Geometry::linear(grid, block, 0), &input, 7);
            let warp = |thread| group(thread, block as usize, 32);
            let sum = |range: std::ops::Range<usize>| input[range].iter().sum::<i64>();
            let expected: [(&str, &dyn Fn(usize) -> i64); 7] = [
                ("sum", &|t| sum(warp(t))),
                ("minimum", &|t| *input[warp(t)].iter().min().unwrap()),
                ("inclusive scan", &|t| sum(warp(t).start..t + 1)),
                ("exclusive scan", &|t| sum(warp(t).start..t)),
                ("lane 0", &|t| input[warp(t).start]),
                ("four of a thread", &|t| 4 * input[t]),
                ("three of a thread", &|t| 3 * input[t]),
            ];
            assert_all(&output, &expected, &format!("block {block}"));
        }
    }

    pub(super) fn blocks<T: Small>() {
        for block in BLOCKS {
            let input = elements(2 * block as usize);
            let output = run::<T>("of_block", Geometry::linear(2, block, 0), &input, 6);
            let whole = |thread| group(thread, block as usize, block as usize);
            let sum = |range: std::ops::Range<usize>| input[range].iter().sum::<i64>();
            let largest = |t: usize| {
                if t % (block as usize) < 32 { *input[whole(t)].iter().max().unwrap() } else { input[t] }
            };
            let expected: [(&str, &dyn Fn(usize) -> i64); 6] = [
                ("sum", &|t| sum(whole(t))),
                ("maximum in the first warp", &largest),
                ("inclusive scan", &|t| sum(whole(t).start..t + 1)),
                ("exclusive scan", &|t| sum(whole(t).start..t)),
                ("whole block", &|t| sum(whole(t))),
                ("last thread", &|t| input[whole(t).end - 1]),
            ];
            assert_all(&output, &expected, &format!("block {block}"));
        }
    }

    pub(super) fn clusters<T: Small>() {
        for (cluster, block) in [(1, 33), (2, 64), (8, 100), (8, 256)] {
            let of_cluster = (cluster * block) as usize;
            let input = elements(3 * of_cluster);
            let geometry = Geometry { cluster, ..Geometry::linear(3 * cluster, block, 0) };
            let output = run::<T>("of_cluster", geometry, &input, 5);
            let whole = |thread| group(thread, of_cluster, of_cluster);
            let sum = |range: std::ops::Range<usize>| input[range].iter().sum::<i64>();
            let expected: [(&str, &dyn Fn(usize) -> i64); 5] = [
                ("sum", &|t| sum(whole(t))),
                ("inclusive scan", &|t| sum(whole(t).start..t + 1)),
                ("exclusive scan", &|t| sum(whole(t).start..t)),
                ("whole cluster", &|t| sum(whole(t))),
                ("last block", &|t| input[whole(t).end - block as usize]),
            ];
            assert_all(&output, &expected, &format!("{cluster} blocks of {block}"));
        }
    }

    pub(super) fn grids<T: Small>() {
        for (grid, block) in GRIDS.into_iter().flat_map(|grid| [33, 256].map(|block| (grid, block))) {
            let input = elements((grid * block) as usize);
            let (from, to) = (memory(&cast::<T>(&input)), poisoned::<T>(5 * input.len()));
            let (partials, counter) = (poisoned::<T>(grid as usize), memory(&[0_u32]));
            let geometry = Geometry { cooperative: true, ..Geometry::linear(grid, block, 0) };
            let all = [from.address(), partials.address(), counter.address(), to.address()];
            // The counter is not reset in between: the barrier works from either state of the counter.
            for _ in 0..2 {
                launch(FILE, &entry::<T>("of_grid"), geometry, all);
                let sum = |range: std::ops::Range<usize>| input[range].iter().sum::<i64>();
                let expected: [(&str, &dyn Fn(usize) -> i64); 5] = [
                    ("sum", &|_| sum(0..input.len())),
                    ("inclusive scan", &|t| sum(0..t + 1)),
                    ("exclusive scan", &|t| sum(0..t)),
                    ("whole grid", &|_| sum(0..input.len())),
                    ("last block", &|_| input[input.len() - block as usize]),
                ];
                assert_all(&values::<T>(&to), &expected, &format!("{grid} blocks of {block}"));
            }
        }
    }

    pub(super) fn last_blocks<T: Small>() {
        for (grid, block) in GRIDS.into_iter().flat_map(|grid| BLOCKS.map(|block| (grid, block))) {
            let input = elements((grid * block) as usize);
            let (from, to) = (memory(&cast::<T>(&input)), poisoned::<T>(1));
            let (partials, counter) = (poisoned::<T>(grid as usize), memory(&[0_u32]));
            let all = [from.address(), partials.address(), counter.address(), to.address()];
            for _ in 0..2 {
                launch(FILE, &entry::<T>("once"), Geometry::linear(grid, block, 0), all);
                let sum = T::of(input.iter().sum());
                assert_eq!(values::<T>(&to), [sum], "{grid} blocks of {block} {}", T::NAME);
            }
        }
    }

    fn entry<T: Small>(what: &str) -> String {
        format!("{FILE}_{what}_{}", T::NAME)
    }

    fn cast<T: Small>(input: &[i64]) -> Vec<T> {
        input.iter().map(|&value| T::of(value)).collect()
    }

    fn run<T: Small>(what: &str, geometry: Geometry, input: &[i64], arrays: usize) -> Vec<T> {
        let (from, to) = (memory(&cast::<T>(input)), poisoned::<T>(arrays * input.len()));
        launch(FILE, &entry::<T>(what), geometry, [from.address(), to.address()]);
        values(&to)
    }

    fn assert_all<T: Small>(output: &[T], expected: &[(&str, &dyn Fn(usize) -> i64)], launch: &str) {
        let threads = output.len() / expected.len();
        for (k, (what, expected)) in expected.iter().enumerate() {
            assert_array(&output[k * threads..][..threads], k, &format!("{what}, {launch}"), expected);
        }
    }
}

/// Returns a and b of a·x + b, the composition of x ↦ 3x + value for the values in order.
fn composed(values: &[u32]) -> (u32, u32) {
    values.iter().fold((1, 0), |(a, b): (u32, u32), &value| {
        (a.wrapping_mul(3), b.wrapping_mul(3).wrapping_add(value))
    })
}

#[test]
fn custom_operations_keep_order_and_reduce_several_values() {
    for block in BLOCKS {
        let input: Vec<u32> =
            elements(2 * block as usize).into_iter().map(|value| value as u32).collect();
        let (from, to) = (memory(&input), poisoned::<u32>(7 * input.len()));
        launch(
            FILE,
            "testing_collectives_own",
            Geometry::linear(2, block, 0),
            [from.address(), to.address()],
        );
        let output = values::<u32>(&to);
        let found = |k: usize, thread: usize| output[k * input.len() + thread];
        for thread in 0..input.len() {
            let warp = group(thread, block as usize, 32);
            let whole = group(thread, block as usize, block as usize);
            let of_warp = composed(&input[warp.start..=thread]);
            let before = composed(&input[whole.start..thread]);
            let elements = &input[whole];
            let expected = [
                of_warp.0,
                of_warp.1,
                before.0,
                before.1,
                elements.iter().sum(),
                *elements.iter().min().unwrap(),
                *elements.iter().max().unwrap(),
            ];
            for (k, expected) in expected.into_iter().enumerate() {
                assert_eq!(found(k, thread), expected, "array {k}, thread {thread}, block {block}");
            }
        }
    }
}

#[test]
fn votes_count_only_existing_threads() {
    for block in BLOCKS {
        for odd in
            [|_| true, |_| false, |thread: usize| thread.is_multiple_of(3), |thread: usize| thread != 0]
        {
            let threads = 2 * block as usize;
            let input: Vec<u32> = (0..threads).map(|thread| odd(thread).into()).collect();
            let (from, to) = (memory(&input), poisoned::<u32>(6 * threads));
            launch(
                FILE,
                "testing_collectives_votes",
                Geometry::linear(2, block, 0),
                [from.address(), to.address()],
            );
            let output = values::<u32>(&to);
            for thread in 0..threads {
                let (warp, whole) =
                    (group(thread, block as usize, 32), group(thread, block as usize, block as usize));
                let ballot = warp.clone().filter(|&t| odd(t)).map(|t| 1_u32 << (t - warp.start)).sum();
                let expected = [
                    warp.clone().all(odd).into(),
                    warp.clone().any(odd).into(),
                    ballot,
                    whole.clone().all(odd).into(),
                    whole.clone().any(odd).into(),
                    whole.clone().filter(|&t| odd(t)).count() as u32,
                ];
                for (k, expected) in expected.into_iter().enumerate() {
                    assert_eq!(
                        output[k * threads + thread],
                        expected,
                        "array {k}, thread {thread}, block {block}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_device_under_test_has_clusters() {
    // The tests above would fail without clusters, not be skipped.
    assert!(device().info().arch >= "sm_90".parse().unwrap());
}
