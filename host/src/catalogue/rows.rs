use warpfold_abi::ladder::CLUSTER_BLOCKS;

use super::{
    Access, Completion, Determinism, DynamicShared, Geometry, InBlock, Path, Preset, Shape, Variant,
    Work,
};
use crate::{Arch, Dtype, Op};

/// Operations whose result has the element type.
const VALUES: &[Op] = &[Op::Sum, Op::Min, Op::Max, Op::SumOfSquares];
const ALL: &[Dtype] = &[Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64, Dtype::F32, Dtype::F64];
/// All element types. A variant with this list has the first one as its default.
const EVERY: &[Dtype] = &[
    Dtype::I32,
    Dtype::U32,
    Dtype::I64,
    Dtype::U64,
    Dtype::F32,
    Dtype::F64,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::I8,
    Dtype::U8,
    Dtype::I16,
    Dtype::U16,
];
const _: () = assert!(EVERY.len() == Dtype::ALL.len());
/// Types that the hardware reduces over a warp in one instruction.
const WORDS: &[Dtype] = &[Dtype::I32, Dtype::U32];
/// One type of 4 bytes and one of 8: kernels that move elements depend only on the element size.
const SIZES: &[Dtype] = &[Dtype::F32, Dtype::F64];

/// One element per thread, a shared-memory tree, and relaunches until one value is left.
pub(super) const TREE: Shape = Shape {
    geometry: Geometry::PerThread(1),
    in_block: InBlock::Tree,
    completion: Completion::Relaunch,
    dynamic_shared: DynamicShared::ElementPerThread,
    cluster: 1,
};
/// Grid-stride loads, and a tree by warp-wide operations without dynamic shared memory.
const SHUFFLES: Shape =
    Shape { geometry: Geometry::GridStride, dynamic_shared: DynamicShared::None, ..TREE };

pub(super) const REDUCTION: Variant = Variant {
    id: "",
    summary: "",
    shows: "",
    work: Work::Reduction(TREE),
    ops: VALUES,
    dtypes: ALL,
    determinism: Determinism::PerGeometry,
    min_arch: Arch::OLDEST,
    presets: &[],
    sources: "",
};
const GRID_STRIDE: Variant =
    Variant { work: Work::Reduction(Shape { geometry: Geometry::GridStride, ..TREE }), ..REDUCTION };
const MEMORY: Variant =
    Variant { ops: &[], dtypes: SIZES, determinism: Determinism::PerInput, ..REDUCTION };

/// The run of write-up D in docs/sources.md.
const SEED_D: Preset = Preset {
    name: "seed-d",
    n: 10_000_000,
    dtype: Dtype::I32,
    below: 10,
    block: 256,
    grid: 32,
    iterations: 20,
};

/// Every variant: the CPU baselines, the reductions in the order of the ladder, the reducer, memory
/// access, and transfers.
pub const VARIANTS: &[Variant] = &[
    Variant {
        id: "cpu_serial",
        summary: "one CPU thread adds n values",
        shows: "the baseline",
        work: Work::Cpu { parallel: false },
        determinism: Determinism::PerInput,
        sources: "B, D, E",
        ..REDUCTION
    },
    Variant {
        id: "cpu_parallel",
        summary: "C CPU threads with n/C values each, then C partial results",
        shows: "the baseline on all cores",
        work: Work::Cpu { parallel: true },
        sources: "B",
        ..REDUCTION
    },
    Variant {
        id: "serial",
        summary: "one thread loops over all elements",
        shows: "the worst GPU kernel",
        work: Work::Reduction(Shape {
            geometry: Geometry::SingleThread,
            in_block: InBlock::Nothing,
            dynamic_shared: DynamicShared::None,
            ..TREE
        }),
        determinism: Determinism::PerInput,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "atomic_per_thread",
        summary: "grid-stride per thread, then one atomic per thread",
        shows: "contention on one address",
        work: Work::Reduction(Shape {
            geometry: Geometry::GridStride,
            in_block: InBlock::Nothing,
            completion: Completion::Atomic,
            dynamic_shared: DynamicShared::None,
            ..TREE
        }),
        determinism: Determinism::Unordered,
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "interleaved_modulo",
        summary: "shared-memory tree, threads whose index is a multiple of 2s add at distance s",
        shows: "warp divergence",
        sources: "A, B",
        ..REDUCTION
    },
    Variant {
        id: "interleaved_strided",
        summary: "the same tree with index 2st, so that the working threads are consecutive",
        shows: "shared-memory bank conflicts, without divergence",
        sources: "A, B",
        ..REDUCTION
    },
    Variant {
        id: "sequential",
        summary: "shared-memory tree, the lower half of the threads adds the upper half",
        shows: "a tree without divergence or bank conflicts",
        sources: "A, E",
        ..REDUCTION
    },
    Variant {
        id: "first_add",
        summary: "two elements combined during the load, then the sequential tree",
        shows: "idle threads put to work",
        work: Work::Reduction(Shape { geometry: Geometry::PerThread(2), ..TREE }),
        sources: "A",
        ..REDUCTION
    },
    Variant {
        id: "unroll_last_warp",
        summary: "the tree until one warp can finish without block barriers",
        shows: "fewer block barriers",
        sources: "A, E",
        ..REDUCTION
    },
    Variant {
        id: "unroll_full",
        summary: "the block size a compile-time constant, every step written out",
        shows: "no loop overhead",
        sources: "A, E",
        ..REDUCTION
    },
    Variant {
        id: "multi_level",
        summary: "block sums, then sums of block sums, launch after launch",
        shows: "the kernel launch as the global barrier",
        sources: "A, B",
        ..REDUCTION
    },
    Variant {
        id: "grid_stride",
        summary: "each thread combines many elements in a register, then the tree",
        shows: "cost-optimal work per thread",
        sources: "A, D",
        ..GRID_STRIDE
    },
    Variant {
        id: "atomic_blocks",
        summary: "grid_stride, then one atomic per block",
        shows: "one launch by one atomic per block",
        work: Work::Reduction(Shape {
            geometry: Geometry::GridStride,
            completion: Completion::Atomic,
            ..TREE
        }),
        determinism: Determinism::Unordered,
        presets: &[SEED_D],
        sources: "D",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_contiguous",
        summary: "every thread reduces a contiguous chunk, thread 0 the block",
        shows: "uncoalesced loads",
        work: Work::Reduction(Shape {
            geometry: Geometry::GridStride,
            in_block: InBlock::OneByOne,
            ..TREE
        }),
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_interleaved",
        summary: "coalesced grid-stride loads, thread 0 still reduces the block",
        shows: "coalescing",
        work: Work::Reduction(Shape {
            geometry: Geometry::GridStride,
            in_block: InBlock::OneByOne,
            ..TREE
        }),
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "two_pass_shared",
        summary: "coalesced loads and a shared-memory tree",
        shows: "the tree in place of a serial tail",
        sources: "E",
        ..GRID_STRIDE
    },
    Variant {
        id: "two_pass_warp_sync",
        summary: "coalesced loads, the last warp without block barriers",
        shows: "fewer block barriers",
        sources: "E",
        ..GRID_STRIDE
    },
    Variant {
        id: "two_pass_unrolled",
        summary: "coalesced loads, the block size a compile-time constant",
        shows: "no loop overhead",
        sources: "E",
        ..GRID_STRIDE
    },
    Variant {
        id: "single_pass_last_block",
        summary: "blocks publish partial results, the last one to finish reduces them",
        shows: "one launch: no second kernel, no memset",
        work: Work::Reduction(Shape {
            geometry: Geometry::GridStride,
            completion: Completion::LastBlock,
            ..TREE
        }),
        sources: "E",
        ..REDUCTION
    },
    Variant {
        id: "warp_shuffle",
        summary: "shared-memory tree down to 32 values, then xor shuffles",
        shows: "the last five steps without shared memory or block barriers",
        sources: "E",
        ..GRID_STRIDE
    },
    Variant {
        id: "shuffle_two_level",
        summary: "shuffles in each warp, one value per warp through shared memory, shuffles again",
        shows: "one block barrier, whatever the block",
        work: Work::Reduction(SHUFFLES),
        sources: "NVIDIA samples",
        ..GRID_STRIDE
    },
    Variant {
        id: "redux",
        summary: "each warp reduces its values in one instruction",
        shows: "the warp reduction of sm_80",
        dtypes: WORDS,
        work: Work::Reduction(SHUFFLES),
        sources: "NVIDIA samples",
        ..GRID_STRIDE
    },
    Variant {
        id: "cooperative",
        summary: "one cooperative launch with a barrier over the whole grid",
        shows: "a grid-wide barrier",
        work: Work::Reduction(Shape {
            geometry: Geometry::GridStride,
            completion: Completion::GridBarrier,
            ..TREE
        }),
        sources: "NVIDIA samples",
        ..REDUCTION
    },
    Variant {
        id: "vectorized",
        summary: "16-byte loads, four under way per thread",
        shows: "bandwidth",
        work: Work::Reduction(SHUFFLES),
        sources: "ours",
        ..GRID_STRIDE
    },
    Variant {
        id: "bulk_copy",
        summary: "bulk asynchronous copies into shared memory, completed on mbarriers",
        shows: "bandwidth without registers or threads spent on loads",
        work: Work::Reduction(SHUFFLES),
        min_arch: Arch::HOPPER,
        sources: "ours",
        ..REDUCTION
    },
    Variant {
        id: "cluster",
        summary: "partial results of a cluster's blocks meet in distributed shared memory",
        shows: "blocks that write each other's shared memory",
        work: Work::Reduction(Shape { geometry: Geometry::GridStride, cluster: CLUSTER_BLOCKS, ..TREE }),
        min_arch: Arch::HOPPER,
        sources: "ours",
        ..REDUCTION
    },
    Variant {
        id: "reducer",
        summary: "the library's reduction: balanced tiles, and partial results that wait in one word each",
        shows: "all of it in one launch, chosen by the size of the input",
        work: Work::Reducer,
        ops: Op::ALL,
        dtypes: EVERY,
        sources: "Merrill and Garland, ours",
        ..REDUCTION
    },
    Variant {
        id: "copy_strided",
        summary: "thread i reads element i times stride, and writes element i",
        shows: "the cost of uncoalesced access, as bandwidth against stride",
        work: Work::Copy { access: Access::Strided },
        sources: "C",
        ..MEMORY
    },
    Variant {
        id: "copy_random",
        summary: "thread i reads element p[i] of a random permutation p, and writes element i",
        shows: "the worst access pattern",
        work: Work::Copy { access: Access::Random },
        sources: "C",
        ..MEMORY
    },
    Variant {
        id: "transpose_naive",
        summary: "reads rows, writes columns",
        shows: "uncoalesced writes",
        work: Work::Transpose,
        sources: "C",
        ..MEMORY
    },
    Variant {
        id: "transpose_shared",
        summary: "a tile of 32 x 32 goes through shared memory",
        shows: "bank conflicts on the column read",
        work: Work::Transpose,
        sources: "C",
        ..MEMORY
    },
    Variant {
        id: "transpose_padded",
        summary: "a tile of 32 x 33 goes through shared memory",
        shows: "a tile without bank conflicts",
        work: Work::Transpose,
        sources: "C",
        ..MEMORY
    },
    Variant {
        id: "transfer_pageable",
        summary: "one copy from pageable host memory, then the reduction",
        shows: "the bus as the bottleneck",
        work: Work::Transfer { path: Path::Pageable },
        sources: "C",
        ..REDUCTION
    },
    Variant {
        id: "transfer_pinned",
        summary: "one copy from pinned host memory, then the reduction",
        shows: "what the copy through the driver's own buffer costs",
        work: Work::Transfer { path: Path::Pinned },
        sources: "C",
        ..REDUCTION
    },
    Variant {
        id: "transfer_overlapped",
        summary: "chunks on two streams, so that copies overlap with reductions",
        shows: "the reduction hidden behind the copy",
        work: Work::Transfer { path: Path::Overlapped },
        sources: "C",
        ..REDUCTION
    },
];
