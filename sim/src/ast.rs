//! The syntax of a module; names and text are borrowed from the source.

use crate::lexer::Failure;
use crate::memory::Space;

/// A type of PTX.
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
    /// The type that a modifier or directive names.
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

    /// Size in bits; a predicate has one.
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

    /// Size in bytes; a predicate counts as one.
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

/// A module that was parsed.
#[derive(Debug, Default)]
pub(crate) struct Ast<'s> {
    pub(crate) version: (u32, u32),
    pub(crate) target: &'s str,
    pub(crate) files: Vec<(u32, &'s str)>,
    pub(crate) variables: Vec<Variable<'s>>,
    pub(crate) functions: Vec<Function<'s>>,
    /// Strings of the debug sections by their label.
    pub(crate) strings: Vec<(&'s str, String)>,
    pub(crate) debug_abbrev: DebugSection<'s>,
    pub(crate) debug_info: DebugSection<'s>,
}

/// The bytes of a debug section.
#[derive(Debug, Default)]
pub(crate) struct DebugSection<'s> {
    pub(crate) bytes: Vec<u8>,
    /// Labels of eight bytes in it, each with where it stands.
    pub(crate) labels: Vec<(usize, &'s str)>,
}

/// A variable of any state space.
#[derive(Debug, Clone)]
pub(crate) struct Variable<'s> {
    pub(crate) space: Space,
    pub(crate) name: &'s str,
    pub(crate) align: u32,
    /// Bytes; 0 for an array without a length.
    pub(crate) bytes: u64,
    pub(crate) external: bool,
    /// Whether another declaration may have the same name (`.weak`, `.common`).
    pub(crate) weak: bool,
    pub(crate) init: Vec<u8>,
    /// Addresses to put into the initial bytes.
    pub(crate) relocations: Vec<Relocation<'s>>,
    pub(crate) offset: u32,
}

/// A variable's address within another one's initial value.
#[derive(Debug, Clone)]
pub(crate) struct Relocation<'s> {
    pub(crate) at: usize,
    pub(crate) symbol: &'s str,
    pub(crate) addend: i64,
    pub(crate) generic: bool,
}

/// A `.entry` or `.func`.
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
    /// None of a prototype, and nothing in it if the function is broken.
    pub(crate) body: Option<Vec<Statement<'s>>>,
    /// Why it cannot be parsed.
    pub(crate) broken: Option<Failure>,
    /// Where its directive is, and its name.
    pub(crate) start: u32,
    pub(crate) offset: u32,
}

/// What an entry says of its clusters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClusterDirectives {
    /// `.explicitcluster`: a launch must state the shape, unless the entry does.
    pub(crate) explicit: bool,
    /// The shape that `.reqnctapercluster` gives.
    pub(crate) shape: Option<[u32; 3]>,
    /// The number that `.maxclusterrank` gives.
    pub(crate) most_blocks: Option<u32>,
}

/// A formal parameter or return value.
#[derive(Debug, Clone)]
pub(crate) struct Formal<'s> {
    pub(crate) name: &'s str,
    pub(crate) align: u32,
    pub(crate) bytes: u32,
    /// Passed in a register (`.reg`) instead of `.param` memory.
    pub(crate) register: bool,
}

/// What functions have in common that are called by their address.
#[derive(Debug)]
pub(crate) struct Prototype<'s> {
    pub(crate) name: &'s str,
    pub(crate) returns: Vec<Formal<'s>>,
    pub(crate) params: Vec<Formal<'s>>,
}

/// A statement with the byte offset where it starts.
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
    /// `name: .branchtargets a, b;`
    Targets {
        name: &'s str,
        labels: Vec<&'s str>,
    },
    /// `name: .callprototype (…) _ (…);`
    Prototype(Prototype<'s>),
    /// `name: .calltargets f, g;`
    CallTargets {
        name: &'s str,
        functions: Vec<&'s str>,
    },
    Instruction(Instruction<'s>),
}

/// What a `.loc` directive says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceLocation<'s> {
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// Label of the function's name in the debug strings.
    pub(crate) function: Option<&'s str>,
    pub(crate) inlined_at: Option<(u32, u32, u32)>,
    /// What stands behind it on its line, where that is a comment with a chain of calls.
    pub(crate) comment: Option<&'s str>,
}

/// An instruction as it is written.
#[derive(Debug)]
pub(crate) struct Instruction<'s> {
    pub(crate) guard: Option<(&'s str, bool)>,
    pub(crate) opcode: &'s str,
    pub(crate) modifiers: Vec<&'s str>,
    pub(crate) operands: Vec<Operand<'s>>,
    /// Byte range of its text, without the semicolon.
    pub(crate) span: (u32, u32),
}

/// An operand as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'s> {
    /// A register, variable, label or function; `.x` of a vector special register.
    Name(&'s str, Option<&'s str>),
    /// `name+4` outside of brackets.
    Offset(&'s str, i64),
    Int(i64),
    Single(u32),
    Double(u64),
    /// A negated predicate, `!p`.
    Not(&'s str),
    /// `-%r` is no PTX; `d|p` is a pair of destinations.
    Pair(Box<Operand<'s>>, Box<Operand<'s>>),
    /// `{a, b}` and `(a, b)`
    List(Vec<Operand<'s>>),
    /// An address, written `[base+offset]`.
    Address {
        base: Option<&'s str>,
        offset: i64,
    },
    /// A place in a tensor or texture, written `[base, {x, y}]`.
    Located {
        base: &'s str,
        at: Vec<Operand<'s>>,
    },
    /// No destination, written `_`.
    Sink,
}
