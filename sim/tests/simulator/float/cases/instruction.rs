//! Instructions: operation, types and modifiers.

use super::accuracy::Accuracy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ty {
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    Pred,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) fraction: u32,
    pub(crate) exponent: u32,
}

impl Shape {
    pub(crate) const fn bits(self) -> u32 {
        self.fraction + self.exponent + 1
    }

    pub(crate) const fn sign(self) -> u64 {
        1 << (self.bits() - 1)
    }

    pub(crate) const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    pub(crate) const fn bias(self) -> i64 {
        (1 << (self.exponent - 1)) - 1
    }

    pub(crate) const fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }
}

impl Ty {
    pub(crate) const INTEGERS: [Self; 8] =
        [Self::U8, Self::S8, Self::U16, Self::S16, Self::U32, Self::S32, Self::U64, Self::S64];
    pub(crate) const FLOATS: [Self; 4] = [Self::F16, Self::Bf16, Self::F32, Self::F64];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F16x2 => "f16x2",
            Self::Bf16 => "bf16",
            Self::Bf16x2 => "bf16x2",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::U8 => "u8",
            Self::S8 => "s8",
            Self::U16 => "u16",
            Self::S16 => "s16",
            Self::U32 => "u32",
            Self::S32 => "s32",
            Self::U64 => "u64",
            Self::S64 => "s64",
            Self::Pred => "pred",
        }
    }

    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::U8 | Self::S8 => 8,
            Self::F16 | Self::Bf16 | Self::U16 | Self::S16 => 16,
            Self::F16x2 | Self::Bf16x2 | Self::F32 | Self::U32 | Self::S32 => 32,
            Self::F64 | Self::U64 | Self::S64 => 64,
        }
    }

    pub(crate) const fn register(self) -> u32 {
        match self.bits() {
            8 => 16,
            bits => bits,
        }
    }

    pub(crate) const fn shape(self) -> Option<Shape> {
        match self {
            Self::F16 | Self::F16x2 => Some(Shape { fraction: 10, exponent: 5 }),
            Self::Bf16 | Self::Bf16x2 => Some(Shape { fraction: 7, exponent: 8 }),
            Self::F32 => Some(Shape { fraction: 23, exponent: 8 }),
            Self::F64 => Some(Shape { fraction: 52, exponent: 11 }),
            _ => None,
        }
    }

    pub(crate) const fn half(self) -> Option<Self> {
        match self {
            Self::F16x2 => Some(Self::F16),
            Self::Bf16x2 => Some(Self::Bf16),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Rcp,
    Sqrt,
    Min,
    Max,
    Abs,
    Neg,
    CopySign,
    /// The first operand if the third is not negative, else the second.
    Select,
    Compare(&'static str),
    Property(&'static str),
    Convert,
    /// Two f32 values packed into the halves of a word, the first in the upper half.
    Pack,
    Rsqrt,
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Round {
    pub(crate) const ALL: [Self; 4] = [Self::Nearest, Self::Zero, Self::Down, Self::Up];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nearest => "rn",
            Self::Zero => "rz",
            Self::Down => "rm",
            Self::Up => "rp",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) round: Round,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    /// `.NaN`: a NaN takes precedence over a number.
    pub(crate) nan: bool,
    /// `.xorsign.abs`: operates on magnitudes; the result has the product's sign.
    pub(crate) xorsign: bool,
    pub(crate) integral: bool,
}

impl Mode {
    pub(crate) const PLAIN: Self = Self {
        round: Round::Nearest,
        ftz: false,
        sat: false,
        relu: false,
        nan: false,
        xorsign: false,
        integral: false,
    };
}

#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    pub(crate) text: String,
    pub(crate) operation: Operation,
    pub(crate) from: Ty,
    pub(crate) to: Ty,
    pub(crate) arity: usize,
    pub(crate) mode: Mode,
    pub(crate) accuracy: Accuracy,
}
