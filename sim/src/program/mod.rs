//! The decoded form of an entry that the executor runs.

mod asynchronous;
mod call;
mod matrix;
mod texture;

use std::sync::Arc;

use crate::ast::Type;
use crate::explore::Order;
use crate::lanes::{AluFn, CompareFn};
use crate::module::InstructionInfo;

pub(crate) use asynchronous::{
    AsyncOp, Bytes, CopyOp, GroupOp, MbarrierKind, MbarrierOp, Place, Signal, SlotOrRow,
};

pub(crate) use call::{Activated, Call, ConditionCall, HeapCall, Part};
pub(crate) use matrix::{
    Element, Fragment, Held, MatrixMove, MatrixOp, Product, Role, RowsMove, Shape, Spread, Summing,
};
pub(crate) use texture::{Geometry, Outside, Property, SurfaceAccess, TextureAction, TextureOp};

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// Bytes of shared memory that are reserved for the system, which cooperative groups use, where an entry
/// asks for them.
pub(crate) const RESERVED_SHARED: u32 = 1024;

/// An entry that was decoded.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) code: Vec<Inst>,
    /// Text and place of each instruction.
    pub(crate) info: Vec<InstructionInfo>,
    /// Whether an instruction at which lanes or warps meet can be reached from
    /// each instruction.
    pub(crate) meets: Vec<bool>,
    /// Whether it reads a clock.
    pub(crate) timed: bool,
    pub(crate) accesses: Vec<Access>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) shuffles: Vec<ShuffleOp>,
    pub(crate) asynchronous: Vec<AsyncOp>,
    pub(crate) prints: Vec<Print>,
    pub(crate) condition_calls: Vec<ConditionCall>,
    pub(crate) heap_calls: Vec<HeapCall>,
    pub(crate) matrices: Vec<MatrixOp>,
    pub(crate) textures: Vec<TextureOp>,
    pub(crate) tables: Vec<Vec<u32>>,
    pub(crate) calls: Vec<Call>,
    /// The functions that are called and not expanded in place.
    pub(crate) functions: Vec<Activated>,
    /// The row of [`Init::Frame`], if there are such.
    pub(crate) frame: Option<u16>,
    pub(crate) rows: RowPlan,
    pub(crate) static_shared: u32,
    /// The shared variables that it uses, by their addresses.
    pub(crate) shared_arrays: Arc<[SharedArray]>,
    /// Address of an external shared array that has a size and so is a static one.
    pub(crate) sized_external: Option<u32>,
    pub(crate) local_bytes: u32,
}

/// A variable in shared memory.
#[derive(Debug, Clone)]
pub(crate) struct SharedArray {
    pub(crate) name: Arc<str>,
    pub(crate) start: u32,
    /// None of one that is as long as the launch says.
    pub(crate) bytes: Option<u32>,
}

/// A call of `vprintf`: offsets in local memory of the format's address, of that of its arguments, and
/// of the result; from where the activation begins, if there is a row that says where that is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Print {
    pub(crate) frame: Option<u16>,
    pub(crate) format: u32,
    pub(crate) arguments: u32,
    pub(crate) result: Option<u32>,
}

/// How many register rows a warp has, and what the constant ones hold.
#[derive(Debug, Default, Clone)]
pub(crate) struct RowPlan {
    pub(crate) words: u16,
    pub(crate) doubles: u16,
    pub(crate) predicates: u16,
    pub(crate) inits: Vec<(u16, Init)>,
}

/// Contents of a row that no instruction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Init {
    Word(u32),
    Double(u64),
    /// A 32-bit special register.
    Special(Special),
    /// A 64-bit special register.
    Special64(Special),
    /// A special register that is a predicate.
    SpecialPredicate(Special),
    /// The address of a global variable of the module, plus an offset.
    Global(u32, i64),
    /// Where the activation of a function begins in local memory; calls change it.
    Frame,
    /// Nothing: a row for what an instruction holds while it is executed.
    Scratch,
}

/// Special registers that stay the same while a block runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    /// The cluster's place in the grid of clusters, and that grid's shape.
    ClusterId(u8),
    ClusterCount(u8),
    /// The block's place in its cluster, and the cluster's shape.
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
    /// With what is reserved.
    AggregateShared,
    /// An offset in shared memory that is reserved for the system, from where that begins.
    Reserved(u32),
    ReservedCapacity,
    /// The halves of the address of what a cooperative launch's barrier works on.
    WorkspaceHigh,
    WorkspaceLow,
    Zero,
}

/// Which lanes a `%lanemask_*` register names, relative to its own.
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

/// Predicate row that is true in every lane; guards of instructions without one.
pub(crate) const TRUE: u16 = 0;
/// Predicate row that holds the carry flag of the extended-precision instructions.
pub(crate) const CARRY: u16 = 1;
/// Predicate rows before those of the program.
pub(crate) const FIXED_PREDICATES: u16 = 2;
/// Branch without a point where its ways meet again.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// An instruction: an operation under a guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) guard: u16,
    /// Whether it is the first one of its basic block: only there do ways meet.
    pub(crate) leads: bool,
    /// What negates the guard (`@!p`): all lanes, or none.
    pub(crate) invert: u32,
}

/// Row numbers of an instruction; which file each belongs to is up to the
/// operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Operands {
    pub(crate) d: u16,
    /// The second destination, of those that have two.
    pub(crate) e: u16,
    pub(crate) a: u16,
    pub(crate) b: u16,
    pub(crate) c: u16,
    /// A constant of the operation: a rounding mode, a truth table.
    pub(crate) imm: u32,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Anything that computes registers from registers, lane by lane.
    Alu {
        f: AluFn,
        o: Operands,
    },
    /// `setp`: predicates `d` and `e` from a comparison and predicate `c`.
    Compare {
        f: CompareFn,
        o: Operands,
        join: Join,
    },
    /// `set`: the constant where a comparison holds, else 0.
    Set {
        f: CompareFn,
        o: Operands,
        join: Join,
    },
    /// A load, store or atomic of the access table.
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
    /// A call of a function that is not expanded in place, of the table of calls.
    Call(u32),
    /// The end of such a function's activation.
    Return,
    /// Ends the launch, as `trap` does or a failed assertion.
    /// A call of `vprintf`, by its place in the program.
    Print(u32),
    /// A call of `malloc` or `free`, likewise.
    Heap(u32),
    /// A call of `cudaGraphSetConditional`, likewise.
    Condition(u32),
    Trap {
        assertion: bool,
    },
    Barrier(u32),
    /// The instructions `barrier.cluster.arrive` and `.wait`.
    ClusterBarrier {
        wait: bool,
    },
    /// An mbarrier operation or asynchronous copy of its table.
    Async(u32),
    WarpBarrier {
        mask: u16,
    },
    /// An instruction on a texture or surface of its table.
    Texture(u32),
    /// An operation on matrices of its table.
    Matrix(u32),
    Shuffle(u32),
    Vote {
        kind: Vote,
        d: u16,
        a: u16,
        negate: bool,
        mask: u16,
    },
    /// `match.any` and `match.all` on rows of 32 or 64 bits.
    Match {
        all: bool,
        wide: bool,
        d: u16,
        p: Option<u16>,
        a: u16,
        mask: u16,
    },
    Reduce {
        kind: WarpReduce,
        d: u16,
        a: u16,
        mask: u16,
    },
    Elect {
        d: Option<u16>,
        p: u16,
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
    /// A fence; `sc` for one of those that have an order of their own.
    Fence {
        order: Order,
        sc: bool,
    },
    /// The instructions `griddepcontrol.wait` and `.launch_dependents`.
    GridDependency {
        wait: bool,
    },
    Sleep,
    Nop,
}

/// How a comparison's result joins a predicate operand, in the low bits of
/// [`Op::Compare`].
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

/// A register row that data moves to or from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// `_`, a destination that drops its value.
    Sink,
    /// A 32-bit row; a 16-bit register keeps its upper half zero.
    Word(u16),
    Half(u16),
    Double(u16),
}

/// Where a memory operand's base address comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Absolute,
    Word(u16),
    Double(u16),
}

/// Ordering of a memory operation as far as the simulator tells it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    Weak,
    /// Relaxed or volatile: may watch another thread.
    Relaxed,
    Acquire,
    Release,
}

/// An access to memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) at: Place,
    /// Type of an element; `.s8` and `.s16` loads extend their sign.
    pub(crate) ty: Type,
    /// Elements of a vector access, else 1.
    pub(crate) count: u8,
    pub(crate) data: [Slot; 4],
    pub(crate) strength: Strength,
    /// The same as an exploration needs it.
    pub(crate) order: Order,
    pub(crate) atomic: Option<AtomicOp>,
    /// The destinations of `atom`, none for `red`; the comparison's second operand.
    pub(crate) results: Option<[Slot; 4]>,
    pub(crate) swap: Slot,
}

/// The change that an atomic makes.
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
    /// Of 128 bits, in halves: the operands are the first two slots of the data, and for a comparison
    /// what is put there the other two.
    WideExchange,
    WideCompareSwap,
}

impl AtomicOp {
    /// Whether locks are taken so.
    pub(crate) const fn may_lock(self) -> bool {
        matches!(self, Self::Exchange | Self::CompareSwap | Self::WideExchange | Self::WideCompareSwap)
    }
}

/// A value that a block barrier needs from the register file or the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Constant(u32),
    Row(u16),
}

/// A barrier of the block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Barrier {
    pub(crate) kind: BarrierOp,
    /// Whether the lanes of a warp execute it together.
    pub(crate) aligned: bool,
    pub(crate) id: Scalar,
    pub(crate) threads: Option<Scalar>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierOp {
    Sync,
    Arrive,
    /// Reduces predicate `p`; `d` is a word row for the count and else a predicate.
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

/// The instruction `shfl.sync`, decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShuffleOp {
    pub(crate) mode: ShuffleMode,
    pub(crate) d: Option<u16>,
    pub(crate) p: Option<u16>,
    pub(crate) a: u16,
    pub(crate) b: u16,
    pub(crate) c: u16,
    pub(crate) mask: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

impl Program {
    /// Whether it reads a special register of some kind.
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
    /// Whether it is about shared memory that is reserved.
    pub(crate) const fn is_reserved(self) -> bool {
        matches!(self, Self::Reserved(_) | Self::ReservedCapacity | Self::AggregateShared)
    }

    /// Whether it is about what a cooperative launch's barrier works on.
    pub(crate) const fn is_workspace(self) -> bool {
        matches!(self, Self::WorkspaceHigh | Self::WorkspaceLow)
    }

    /// Whether the value differs from block to block.
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

impl Op {
    /// Whether lanes of a warp, or warps of a block, must meet to execute it; or may in the function
    /// that it calls.
    pub(crate) const fn converges(&self) -> bool {
        matches!(
            self,
            Self::Barrier(_)
                | Self::Call(_)
                | Self::Matrix(_)
                | Self::ClusterBarrier { .. }
                | Self::WarpBarrier { .. }
                | Self::Shuffle(_)
                | Self::Vote { .. }
                | Self::Match { .. }
                | Self::Reduce { .. }
                | Self::Elect { .. }
        )
    }
}
