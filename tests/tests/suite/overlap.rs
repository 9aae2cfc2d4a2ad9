//! Kernels with many results, launched so that they overlap with the launch before, in every order of
//! the blocks' steps: with the kernels' own PTX, and without the waits, which must be detected.
//! hand_over.rs covers kernels with a single result.

use warpfold_abi::{form, segments::BLOCK};
use warpfold_sim::{Args, Config, Exploration, ExploreError, Explored, Gpu, Launch, Module};
use warpfold_tests::library_ptx;

/// The instruction that waits for completion of the launches before.
const WAIT: &str = "griddepcontrol.wait;";
/// Number of elements that a launch may read. All elements of launch k have the value k + 1.
const ELEMENTS: u64 = 4096;
const LIMIT: u64 = 200;
const BYTES: u64 = 256;

struct Case {
    file: &'static str,
    kernel: &'static str,
    blocks: u32,
    threads: u32,
    results: u64,
    len: u64,
    /// Bytes of the result for this many elements, each equal to 2.
    result: fn(u64) -> Vec<u8>,
    arguments: fn(&Memory, u64) -> Args,
}

struct Memory {
    input: u64,
    offsets: u64,
    starts: u64,
    slots: u64,
    output: u64,
}

/// Adds the last parameters: the form of the results, and the delta degrees of freedom.
fn formed(args: Args) -> Args {
    args.u64(form::OUTPUT).u64(0)
}

fn rows(rows: u64, len: u64, share: u64, memory: &Memory, input: u64) -> Args {
    let shape = Args::new().ptr(input).u64(rows).u64(len).u64(len);
    formed(shape.u64(share).u64(32).ptr(memory.slots).ptr(memory.output))
}

fn axis(len: u64, width: u64, [share, across]: [u64; 2], memory: &Memory, input: u64) -> Args {
    let shape = Args::new().ptr(input).u64(1).u64(0).u64(len).u64(width).u64(width);
    formed(shape.u64(share).u64(across).ptr(memory.slots).ptr(memory.output))
}

/// Returns the arguments for a reduction of two axes to one result. The slower axis has length 2.
fn view([units, unit]: [u64; 2], share: u64, memory: &Memory, input: u64) -> Args {
    // Axes with results, their strides, and the strides of the results.
    let args = (0..2 + 3 + 3).fold(Args::new().ptr(input).u64(1), |args, _| args.u64(1));
    let (len, threads) = (units / 2, 32 * share);
    let args = args.u64(len).u64(1).u64(unit).u64(len * unit).u64(len * unit);
    // Reduced axes, for one result per block.
    let args = args.u64(units / threads).u64(units % threads).u64(1).u64(1);
    formed(args.u64(share).ptr(memory.slots).ptr(memory.output))
}

fn top(rows: u64, len: u64, share: u64, memory: &Memory, input: u64) -> Args {
    let shape = Args::new().ptr(input).u64(rows).u64(len).u64(1).u64(share).u64(32);
    shape.ptr(memory.slots).ptr(memory.output)
}

fn sum(len: u64) -> Vec<u8> {
    (2.0 * len as f32).to_le_bytes().into()
}

fn first(_len: u64) -> Vec<u8> {
    [0, u64::from(2.0_f32.to_bits())].into_iter().flat_map(u64::to_le_bytes).collect()
}

const ROWS: &str = "reducer_rows_sum_f32";
const AXIS: &str = "reducer_axis_sum_f32";
const VIEW: &str = "reducer_view_sum_f32";
const TOP: &str = "reducer_top_largest_f32";

/// A case per kernel. Its blocks pass on at most one value at a time, because with several there are too
/// many executions to explore.
const CASES: &[Case] = &[
    Case {
        file: ROWS,
        kernel: "grid",
        blocks: 2,
        threads: 32,
        results: 1,
        len: 256,
        result: sum,
        arguments: |memory, input| rows(1, 256, 2, memory, input),
    },
    Case {
        file: ROWS,
        kernel: "warp",
        blocks: 1,
        threads: 32,
        results: 2,
        len: 130,
        result: sum,
        arguments: |memory, input| rows(2, 130, 1, memory, input),
    },
    Case {
        file: ROWS,
        kernel: "groups",
        blocks: 1,
        threads: 32,
        results: 3,
        len: 8,
        result: sum,
        arguments: |memory, input| rows(3, 8, 2, memory, input),
    },
    Case {
        file: ROWS,
        kernel: "elements",
        blocks: 1,
        threads: 32,
        results: 3,
        len: 5,
        result: sum,
        arguments: |memory, input| rows(3, 5, 2, memory, input),
    },
    Case {
        file: AXIS,
        kernel: "packs",
        blocks: 1,
        threads: 32,
        results: 4,
        len: 300,
        result: sum,
        arguments: |memory, input| axis(300, 4, [1, 1], memory, input),
    },
    Case {
        file: AXIS,
        kernel: "spaced",
        blocks: 1,
        threads: 32,
        results: 3,
        len: 300,
        result: sum,
        arguments: |memory, input| axis(300, 3, [1, 1], memory, input),
    },
    Case {
        file: AXIS,
        kernel: "singles",
        blocks: 2,
        threads: 32,
        results: 1,
        len: 300,
        result: sum,
        arguments: |memory, input| axis(300, 1, [2, 1], memory, input),
    },
    Case {
        file: AXIS,
        kernel: "lanes",
        blocks: 1,
        threads: 32,
        results: 3,
        len: 7,
        result: sum,
        arguments: |memory, input| axis(7, 3, [1, 1], memory, input),
    },
    Case {
        file: VIEW,
        kernel: "groups",
        blocks: 2,
        threads: 32,
        results: 1,
        len: 600,
        result: sum,
        arguments: |memory, input| view([150, 4], 2, memory, input),
    },
    Case {
        file: VIEW,
        kernel: "elements",
        blocks: 1,
        threads: 32,
        results: 1,
        len: 300,
        result: sum,
        arguments: |memory, input| view([300, 1], 1, memory, input),
    },
    Case {
        file: TOP,
        kernel: "grid",
        blocks: 2,
        threads: 32,
        results: 1,
        len: 256,
        result: first,
        arguments: |memory, input| top(1, 256, 2, memory, input),
    },
    Case {
        file: TOP,
        kernel: "warp",
        blocks: 2,
        threads: 32,
        results: 2,
        len: 130,
        result: first,
        arguments: |memory, input| top(2, 130, 1, memory, input),
    },
    Case {
        file: "reducer_segments_sum_f32",
        kernel: "path",
        blocks: 2,
        threads: BLOCK,
        results: 1,
        len: 3000,
        result: sum,
        arguments: |memory, input| {
            let segments = Args::new().ptr(input).u64(3000).u64(1).ptr(memory.offsets).u64(1).u64(0);
            let segments = segments.ptr(memory.starts).u64(2).u64(1);
            formed(segments.ptr(memory.slots).u64(4).ptr(memory.output))
        },
    },
];

impl Case {
    fn entry(&self) -> String {
        format!("{}_{}", self.file, self.kernel)
    }

    fn memory(gpu: &Gpu) -> Memory {
        let new = |bytes: &[u8]| {
            let address = gpu.alloc(bytes.len() as u64).unwrap();
            gpu.write(address, bytes).unwrap();
            address
        };
        let input: Vec<u8> = [1.0_f32, 2.0]
            .into_iter()
            .flat_map(|value| vec![value; ELEMENTS as usize])
            .flat_map(f32::to_le_bytes)
            .collect();
        let offsets: Vec<u8> = [0_u32, 3000].into_iter().flat_map(u32::to_le_bytes).collect();
        let starts: Vec<u8> = [0_u64, 0, 1].into_iter().flat_map(u64::to_le_bytes).collect();
        let none = [0; BYTES as usize];
        Memory {
            input: new(&input),
            offsets: new(&offsets),
            starts: new(&starts),
            slots: new(&none),
            output: new(&none),
        }
    }

    /// Checks the results after both launches: the results of the second one must remain.
    fn check(&self, gpu: &Gpu, memory: &Memory) -> Result<(), String> {
        let read = |address: u64, bytes: u64| {
            let mut read = vec![0; bytes as usize];
            gpu.read(address, &mut read).unwrap();
            read
        };
        let expected = (self.result)(self.len);
        let results = read(memory.output, expected.len() as u64 * self.results);
        for (at, result) in results.chunks(expected.len()).enumerate() {
            if result != expected {
                return Err(format!("result {at} is {result:?}"));
            }
        }
        if read(memory.slots, BYTES).iter().any(|&byte| byte != 0) {
            return Err("the slots are not empty for the next launch".to_owned());
        }
        Ok(())
    }

    fn explore(&self, text: &str) -> Result<Explored, ExploreError> {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let gpu = Gpu::new(Config { step_limit: 1_000_000, ..Config::default() });
        let memory = Self::memory(&gpu);
        let shape = Launch::linear(self.blocks, self.threads);
        let launches =
            [0, 1].map(|launch| (self.arguments)(&memory, memory.input + launch * 4 * ELEMENTS));
        let mut exploration = Exploration::new(&gpu);
        for arguments in &launches {
            exploration = exploration.launch_overlapping(&module, &self.entry(), &shape, arguments)?;
        }
        exploration.with_limit(LIMIT).run(|gpu| self.check(gpu, &memory))
    }
}

#[test]
fn launches_that_overlap_leave_the_results_of_the_last() {
    for case in CASES {
        match case.explore(&library_ptx(case.file)) {
            Ok(explored) => println!("{}: {} executions", case.entry(), explored.executions),
            // Too many executions: eight warps meet at barriers, or a key and an index take three words.
            Err(ExploreError::TooMany { limit }) if case.threads > 32 || case.file == TOP => {
                println!("{}: the first {limit} executions", case.entry());
            }
            Err(error) => panic!("{}: {error}", case.entry()),
        }
    }
}

#[test]
fn overlapping_launches_without_the_wait_fail() {
    for case in CASES {
        let text = library_ptx(case.file);
        let start = text.find(&format!(".entry {}(", case.entry())).unwrap();
        let end = text[start + 1..].find(".entry ").map_or(text.len(), |next| start + 1 + next);
        let waits: Vec<_> = text[start..end].match_indices(WAIT).map(|(at, _)| start + at).collect();
        assert!(!waits.is_empty(), "{}", case.entry());
        for at in waits {
            let changed = [&text[..at], &text[at + WAIT.len()..]].concat();
            let explored = case.explore(&changed);
            assert!(
                matches!(explored, Err(ExploreError::Wrong { .. })),
                "{} without a wait: {explored:?}",
                case.entry()
            );
        }
    }
}
