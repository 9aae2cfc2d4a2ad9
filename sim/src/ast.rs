//! The syntax of a module; names and text are borrowed from the source.

use crate::lexer::Failure;
use crate::memory::Space;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    U16x2,
    S16x2,
    F32,
    F64,
    Pred,
}

impl Type {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::Bf16x2,
            "u16x2" => Self::U16x2,
            "s16x2" => Self::S16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "pred" => Self::Pred,
            _ => return None,
        })
    }

    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B8 | Self::U8 | Self::S8 => 8,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 16,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 => 32,
            Self::F16x2 | Self::Bf16x2 | Self::U16x2 | Self::S16x2 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
            Self::B128 => 128,
        }
    }

    pub(crate) const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F16x2 | Self::Bf16x2 | Self::F32 | Self::F64)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ast<'s> {
    pub(crate) version: (u32, u32),
    pub(crate) target: &'s str,
    pub(crate) files: Vec<(u32, &'s str)>,
    pub(crate) variables: Vec<Variable<'s>>,
    pub(crate) functions: Vec<Function<'s>>,
    pub(crate) strings: Vec<(&'s str, String)>,
    pub(crate) debug_abbrev: DebugSection<'s>,
    pub(crate) debug_info: DebugSection<'s>,
}

#[derive(Debug, Default)]
pub(crate) struct DebugSection<'s> {
    pub(crate) bytes: Vec<u8>,
    /// Eight-byte references to labels, each with its position in `bytes`.
    pub(crate) labels: Vec<(usize, &'s str)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Variable<'s> {
    pub(crate) space: Space,
    pub(crate) name: &'s str,
    pub(crate) align: u32,
    /// Size in bytes; 0 for an array without a length.
    pub(crate) bytes: u64,
    pub(crate) external: bool,
    /// True for `.weak` and `.common`, which permit another declaration of the same name.
    pub(crate) weak: bool,
    pub(crate) init: Vec<u8>,
    pub(crate) relocations: Vec<Relocation<'s>>,
    pub(crate) offset: u32,
}

/// A variable's address in the initial value of another variable.
#[derive(Debug, Clone)]
pub(crate) struct Relocation<'s> {
    pub(crate) at: usize,
    pub(crate) symbol: &'s str,
    pub(crate) addend: i64,
    pub(crate) generic: bool,
}

#[derive(Debug)]
pub(crate) struct Function<'s> {
    pub(crate) name: &'s str,
    pub(crate) entry: bool,
    pub(crate) external: bool,
    pub(crate) returns: Vec<Formal<'s>>,
    pub(crate) params: Vec<Formal<'s>>,
    pub(crate) max_threads: Option<[u32; 3]>,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) cluster: ClusterDirectives,
    /// Statements of the body; `None` for a declaration, and empty if `broken` is set.
    pub(crate) body: Option<Vec<Statement<'s>>>,
    pub(crate) broken: Option<Failure>,
    /// Set if the body has an `alloca`, which `ret` frees.
    pub(crate) allocates: bool,
    /// Byte offset of the directive in the PTX text; `offset` is the byte offset of the function's name.
    pub(crate) start: u32,
    pub(crate) offset: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClusterDirectives {
    /// Set by `.explicitcluster`: a launch must state the cluster's shape unless `shape` states it.
    pub(crate) explicit: bool,
    pub(crate) shape: Option<[u32; 3]>,
    pub(crate) most_blocks: Option<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct Formal<'s> {
    pub(crate) name: &'s str,
    pub(crate) align: u32,
    pub(crate) bytes: u32,
    /// Passed in a register (`.reg`) instead of `.param` memory.
    pub(crate) register: bool,
}

/// A `.callprototype`: the signature of functions that are called by address.
#[derive(Debug)]
pub(crate) struct Prototype<'s> {
    pub(crate) name: &'s str,
    pub(crate) returns: Vec<Formal<'s>>,
    pub(crate) params: Vec<Formal<'s>>,
}

#[derive(Debug)]
pub(crate) enum Statement<'s> {
    Open,
    Close,
    Label(&'s str, u32),
    /// `.reg .ty name` or `.reg .ty name<count>`.
    Registers {
        ty: Type,
        name: &'s str,
        count: Option<u32>,
        offset: u32,
    },
    Variable(Variable<'s>),
    Location(SourceLocation<'s>),
    Targets {
        name: &'s str,
        labels: Vec<&'s str>,
    },
    Prototype(Prototype<'s>),
    CallTargets {
        name: &'s str,
        functions: Vec<&'s str>,
    },
    Instruction(Instruction<'s>),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceLocation<'s> {
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) function: Option<&'s str>,
    pub(crate) inlined_at: Option<(u32, u32, u32)>,
    /// The comment on the same line, if it holds a chain of inlined calls.
    pub(crate) comment: Option<&'s str>,
}

#[derive(Debug)]
pub(crate) struct Instruction<'s> {
    pub(crate) guard: Option<(&'s str, bool)>,
    pub(crate) opcode: &'s str,
    pub(crate) modifiers: Vec<&'s str>,
    pub(crate) operands: Vec<Operand<'s>>,
    /// Byte range of the instruction in the PTX text, without the semicolon.
    pub(crate) span: (u32, u32),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'s> {
    /// A name. For a vector special register, such as `%tid.x`, also its component.
    Name(&'s str, Option<&'s str>),
    /// `name+4` outside brackets.
    Offset(&'s str, i64),
    Int(i64),
    Single(u32),
    Double(u64),
    Not(&'s str),
    /// A pair of destinations, `d|p`.
    Pair(Box<Operand<'s>>, Box<Operand<'s>>),
    /// `{a, b}` and `(a, b)`
    List(Vec<Operand<'s>>),
    /// An address, written `[base+offset]`.
    Address {
        base: Option<&'s str>,
        offset: i64,
    },
    /// A position in a tensor or texture, written `[base, {x, y}]`.
    Located {
        base: &'s str,
        at: Vec<Operand<'s>>,
    },
    /// An ignored destination, `_`.
    Sink,
}
