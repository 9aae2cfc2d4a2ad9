//! The decoded form of an entry that the executor runs.

mod asynchronous;
mod call;
mod effect;
mod matrix;
mod texture;
mod warpgroup;

use std::sync::Arc;

use crate::ast::Type;
use crate::explore::Order;
use crate::lanes::{AluFn, CompareFn};
use crate::module::InstructionInfo;

pub(crate) use asynchronous::{
    AsyncOp, Bytes, CopyOp, GroupOp, MbarrierKind, MbarrierOp, Place, Signal, SlotOrRow, TensorOp,
};

pub(crate) use call::{Activated, Call, ConditionCall, HeapCall, Part, StackOp};
pub(crate) use effect::Effect;
pub(crate) use matrix::{
    Element, Fragment, Held, MatrixMove, MatrixOp, Product, Role, RowsMove, Shape, Sparsity, Spread,
    Summing,
};
pub(crate) use texture::{Geometry, Outside, Property, SurfaceAccess, TextureAction, TextureOp};
pub(crate) use warpgroup::{
    CHUNK, Described, GroupProduct, GroupShape, Layout, Multiplicand, WARPGROUP,
};

pub(crate) const LANES: usize = 32;

/// Maximum local memory of a thread, in bytes.
pub(crate) const MAX_LOCAL: u64 = 512 << 10;

/// Bytes of shared memory reserved for the system in an entry that refers to them, as cooperative groups
/// do.
pub(crate) const RESERVED_SHARED: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) code: Vec<Inst>,
    pub(crate) info: Vec<InstructionInfo>,
    /// For each instruction, whether one that requires convergence is reachable from it.
    pub(crate) meets: Vec<bool>,
    pub(crate) timed: bool,
    pub(crate) accesses: Vec<Access>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) asynchronous: Vec<AsyncOp>,
    pub(crate) prints: Vec<Print>,
    pub(crate) assertions: Vec<Assertion>,
    pub(crate) condition_calls: Vec<ConditionCall>,
    pub(crate) heap_calls: Vec<HeapCall>,
    pub(crate) matrices: Vec<MatrixOp>,
    pub(crate) textures: Vec<TextureOp>,
    pub(crate) tables: Vec<Vec<u32>>,
    pub(crate) calls: Vec<Call>,
    pub(crate) functions: Vec<Activated>,
    /// The register row of [`Init::Frame`], if the entry has a stack.
    pub(crate) frame: Option<u16>,
    /// Alignment of the stack frames of `functions`.
    pub(crate) frame_align: u32,
    pub(crate) rows: RowPlan,
    pub(crate) static_shared: u32,
    /// The shared variables in use, sorted by address.
    pub(crate) shared_arrays: Arc<[SharedArray]>,
    /// Address of an `.extern` shared array with a size, which is placed as a static one.
    pub(crate) sized_external: Option<u32>,
    pub(crate) local_bytes: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct SharedArray {
    pub(crate) name: Arc<str>,
    pub(crate) start: u32,
    /// `None` for an array whose length the launch determines.
    pub(crate) bytes: Option<u32>,
}

/// A call of `vprintf`. The fields are offsets in local memory of the format's address, of the
/// arguments' address and of the result. If `frame` is set, they are relative to the stack frame whose
/// start the register `frame` holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Print {
    pub(crate) frame: Option<u16>,
    pub(crate) format: u32,
    pub(crate) arguments: u32,
    pub(crate) result: Option<u32>,
}

/// A call of `__assertfail`: the offsets in local memory of the addresses of the message and the file,
/// of the line, and of the address of the function's name. `frame` is as in [`Print`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assertion {
    pub(crate) frame: Option<u16>,
    pub(crate) message: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) function: u32,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct RowPlan {
    pub(crate) words: u16,
    pub(crate) doubles: u16,
    pub(crate) predicates: u16,
    pub(crate) inits: Vec<(u16, Init)>,
}

/// Initial contents of a register row that no ordinary instruction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Init {
    Word(u32),
    Double(u64),
    Special(Special),
    Special64(Special),
    SpecialPredicate(Special),
    /// The address of a global variable of the module, plus an offset.
    Global(u32, i64),
    /// Start of the current function's stack frame in local memory; calls change it.
    Frame,
    /// Undefined: a temporary of an instruction.
    Scratch,
}

/// Special registers that are constant while a block runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    /// The cluster's coordinates in the grid of clusters, and that grid's shape.
    ClusterId(u8),
    ClusterCount(u8),
    /// The block's coordinates in its cluster, and the cluster's shape.
    PlaceInCluster(u8),
    ClusterShape(u8),
    RankInCluster,
    ClusterSize,
    IsExplicitCluster,
    LaneId,
    WarpId,
    NWarpId,
    SmId,
    NSmId,
    GridId,
    LaneMask(MaskRelation),
    DynamicShared,
    TotalShared,
    /// Total shared memory, including the reserved bytes.
    AggregateShared,
    /// An offset in reserved shared memory, from its start.
    Reserved(u32),
    ReservedCapacity,
    /// The halves of the address of a cooperative launch's grid barrier.
    WorkspaceHigh,
    WorkspaceLow,
    Zero,
}

/// Lanes in a `%lanemask_*` register, relative to the thread's own lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MaskRelation {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Special registers that change while a thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Clock,
    ClockHigh,
    GlobalNanoseconds,
    GlobalNanosecondsHigh,
}

/// The predicate that is true in every lane: the guard of instructions without a guard.
pub(crate) const TRUE: u16 = 0;
/// The predicate that holds the carry flag of the extended-precision instructions.
pub(crate) const CARRY: u16 = 1;
/// Number of reserved predicates: [`TRUE`] and [`CARRY`].
pub(crate) const FIXED_PREDICATES: u16 = 2;
/// The `join` of a branch without a reconvergence point.
pub(crate) const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) guard: u16,
    /// Set for the first instruction of a basic block; paths reconverge only at such instructions.
    pub(crate) leads: bool,
    /// XOR mask of the guard: all lanes for `@!p`, else none.
    pub(crate) invert: u32,
}

/// Register numbers of an instruction; the operation determines the register file of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Operands {
    pub(crate) d: u16,
    pub(crate) e: u16,
    pub(crate) a: u16,
    pub(crate) b: u16,
    pub(crate) c: u16,
    /// A constant of the operation, such as a rounding mode or a truth table.
    pub(crate) imm: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Any operation that computes registers from registers, lane by lane.
    Alu {
        f: AluFn,
        o: Operands,
    },
    /// `setp`: sets predicates `d` and `e` from a comparison, combined with predicate `c`.
    Compare {
        f: CompareFn,
        o: Operands,
        join: Join,
    },
    /// `set`: `imm` where a comparison holds, else 0.
    Set {
        f: CompareFn,
        o: Operands,
        join: Join,
    },
    /// A load; has the index in `Program::accesses`, as do stores and atomics.
    Load(u32),
    Store(u32),
    Atomic(u32),
    Branch {
        target: u32,
        join: u32,
    },
    BranchIndex {
        index: u16,
        table: u32,
        join: u32,
    },
    Exit,
    /// A call that is not expanded in place; index into the table of calls.
    Call(u32),
    Return,
    Stack(StackOp),
    /// A call of `vprintf`; index into the table of `vprintf` calls.
    Print(u32),
    /// A call of `malloc` or `free`; index into the table of heap calls.
    Heap(u32),
    /// A call of `cudaGraphSetConditional`; index into the table of these calls.
    Condition(u32),
    Trap,
    /// A call of `__assertfail`; index into the table of these calls, or `None` if it has other
    /// parameters.
    Assertion(Option<u32>),
    Barrier(u32),
    ClusterBarrier {
        wait: bool,
    },
    Async(u32),
    Texture(u32),
    Matrix(u32),
    /// An instruction that lanes execute together; `mask` is the register with each lane's member mask.
    Collective {
        kind: Collective,
        mask: u16,
    },
    ActiveMask {
        d: u16,
    },
    Timer {
        kind: Timer,
        wide: bool,
        d: u16,
    },
    /// A fence; `sc` for a sequentially consistent one.
    Fence {
        order: Order,
        sc: bool,
    },
    GridDependency {
        wait: bool,
    },
    Sleep,
    Nop,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Collective {
    /// `bar.warp.sync`
    Barrier,
    Shuffle(ShuffleOp),
    Vote {
        kind: Vote,
        d: u16,
        a: u16,
        negate: bool,
    },
    /// `match.any` and `match.all` on registers of 32 or 64 bits.
    Match {
        all: bool,
        wide: bool,
        d: u16,
        p: Option<u16>,
        a: u16,
    },
    Reduce {
        kind: WarpReduce,
        d: u16,
        a: u16,
    },
    Elect {
        d: Option<u16>,
        p: u16,
    },
}

/// The combination of a comparison's result with a predicate operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    None,
    And { negate: bool },
    Or { negate: bool },
    Xor { negate: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarpReduce {
    Add,
    Min,
    Max,
    MinSigned,
    MaxSigned,
    And,
    Or,
    Xor,
    /// `redux.sync.min.f32` and `.max.f32`, with `.abs` and `.NaN`.
    Float {
        max: bool,
        abs: bool,
        nan: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// `_`, a destination that discards its value.
    Sink,
    /// A 32-bit register, or (`Half`) a 16-bit register, whose upper half stays zero.
    Word(u16),
    Half(u16),
    Double(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Absolute,
    Word(u16),
    Double(u16),
}

/// The ordering of a memory operation, as far as execution distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    Weak,
    /// Relaxed or volatile; may be a spin loop's read of another thread's write.
    Relaxed,
    Acquire,
    Release,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) at: Place,
    /// Type of an element; `.s8` and `.s16` loads are sign-extended.
    pub(crate) ty: Type,
    /// Elements of a vector access, else 1.
    pub(crate) count: u8,
    pub(crate) data: [Slot; 4],
    pub(crate) strength: Strength,
    /// The ordering in an [`Exploration`](crate::Exploration), which models weak memory.
    pub(crate) order: Order,
    pub(crate) atomic: Option<AtomicOp>,
    /// The destinations of `atom`, `None` for `red`; `swap` is the second operand of a compare-and-swap.
    pub(crate) results: Option<[Slot; 4]>,
    pub(crate) swap: Slot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    /// 128-bit operations, in halves: the operand is in the first two slots of `Access::data`, and the
    /// new value of a compare-and-swap is in the other two.
    WideExchange,
    WideCompareSwap,
}

impl AtomicOp {
    /// Returns whether atomics with this operation exist for a type.
    pub(crate) const fn allows(self, ty: Type) -> bool {
        use Type::{B16, B32, B64, Bf16, Bf16x2, F16, F16x2, F32, F64, S32, S64, U32, U64};
        match self {
            Self::Add => matches!(ty, U32 | S32 | U64 | S64 | F32 | F64 | F16 | F16x2 | Bf16 | Bf16x2),
            Self::Min | Self::Max => matches!(ty, U32 | S32 | U64 | S64),
            Self::Inc | Self::Dec => matches!(ty, U32),
            Self::And | Self::Or | Self::Xor | Self::Exchange => matches!(ty, B32 | B64),
            Self::CompareSwap => matches!(ty, B16 | B32 | B64),
            Self::WideExchange | Self::WideCompareSwap => false,
        }
    }

    /// Returns whether the operation can acquire a lock.
    pub(crate) const fn may_lock(self) -> bool {
        matches!(self, Self::Exchange | Self::CompareSwap | Self::WideExchange | Self::WideCompareSwap)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Constant(u32),
    Row(u16),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Barrier {
    pub(crate) kind: BarrierOp,
    /// Set if all lanes of a warp must execute the barrier together.
    pub(crate) aligned: bool,
    pub(crate) id: Scalar,
    pub(crate) threads: Option<Scalar>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierOp {
    Sync,
    Arrive,
    /// Reduces predicate `p` into `d`, which is a 32-bit register for a count, else a predicate.
    Reduce {
        kind: BarrierReduce,
        p: u16,
        negate: bool,
        d: u16,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierReduce {
    Count,
    And,
    Or,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ShuffleOp {
    pub(crate) mode: ShuffleMode,
    pub(crate) d: Option<u16>,
    pub(crate) p: Option<u16>,
    pub(crate) a: u16,
    pub(crate) b: u16,
    pub(crate) c: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

impl Program {
    pub(crate) fn reads(&self, kind: impl Fn(Special) -> bool) -> bool {
        self.rows.inits.iter().any(|(_, init)| match *init {
            Init::Special(special) | Init::Special64(special) | Init::SpecialPredicate(special) => {
                kind(special)
            }
            Init::Word(_) | Init::Double(_) | Init::Global(..) | Init::Frame | Init::Scratch => false,
        })
    }
}

impl Special {
    pub(crate) const fn is_reserved(self) -> bool {
        matches!(self, Self::Reserved(_) | Self::ReservedCapacity | Self::AggregateShared)
    }

    /// Returns whether the register belongs to the grid barrier of a cooperative launch.
    pub(crate) const fn is_workspace(self) -> bool {
        matches!(self, Self::WorkspaceHigh | Self::WorkspaceLow)
    }

    pub(crate) const fn varies(self) -> bool {
        matches!(
            self,
            Self::Ctaid(_)
                | Self::SmId
                | Self::ClusterId(_)
                | Self::PlaceInCluster(_)
                | Self::RankInCluster
        )
    }
}
