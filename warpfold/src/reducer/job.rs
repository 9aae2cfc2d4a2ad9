//! The operations and the elements of a task.

use std::{fmt, sync::Arc};

use warpfold_abi::reducer::{SLOT_BYTES, WIDE_SLOT_BYTES};

use super::loaded::{LargestBlocks, Loaded};
use crate::{
    Buffer, Device, Error, Plain, Result,
    geometry::{Extent, MAX_ELEMENTS},
    input::buffer::MOST_TOGETHER,
    names::{Dtype, Form, Op, OpKind},
    op::{expression::Expression, fused::Parts},
};

pub(crate) type Codes = [Option<Code>; MOST_TOGETHER];

/// The operation of a reduction, which selects its kernels.
#[derive(Clone)]
pub enum Code {
    BuiltIn(Op, Dtype),
    Expression(Arc<Expression>),
    Custom(Arc<Loaded>),
    /// Several operations in one launch. In a task, each has its own [`Code`], too.
    Fused(Parts),
}

impl Code {
    pub(crate) fn element_bytes(&self) -> u64 {
        match self {
            Self::BuiltIn(_, dtype) => dtype.size() as u64,
            Self::Expression(expression) => expression.dtype.size() as u64,
            Self::Custom(loaded) => loaded.facts.element_bytes,
            Self::Fused(parts) => parts.dtype.size() as u64,
        }
    }

    /// Returns the bytes of a result, without padding.
    pub(crate) fn result_bytes(&self) -> usize {
        match self {
            Self::BuiltIn(op, dtype) => op.result_bytes(*dtype),
            Self::Expression(expression) => expression.dtype.sum().size(),
            Self::Custom(loaded) => loaded.facts.output_bytes as usize,
            Self::Fused(_) => unreachable!("each part has its own result"),
        }
    }

    /// Returns the distance in bytes between the results of rows.
    pub(crate) fn row_result_bytes(&self) -> usize {
        match self {
            // An index and an element are padded.
            Self::BuiltIn(..) => self.result_bytes().next_power_of_two(),
            Self::Expression(_) | Self::Custom(_) | Self::Fused(_) => self.result_bytes(),
        }
    }

    pub(crate) fn form(&self) -> Form {
        match self {
            Self::BuiltIn(op, _) => op.form,
            Self::Expression(_) | Self::Custom(_) | Self::Fused(_) => Form::OUTPUT,
        }
    }

    pub(crate) fn require_device(&self, device: &Device) -> Result<()> {
        match self {
            Self::BuiltIn(..) | Self::Expression(_) | Self::Fused(_) => Ok(()),
            Self::Custom(loaded) => device.require("operation", loaded.device()),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::BuiltIn(op, _) => op.name(),
            Self::Expression(_) => "expression",
            Self::Custom(loaded) => loaded.name,
            Self::Fused(_) => "operation among several",
        }
    }

    /// Returns the operation and type whose measured tuning applies: for a program's own operation,
    /// which was not measured, a sum.
    pub(crate) fn tuning_proxy(&self) -> (Op, Dtype) {
        match *self {
            Self::BuiltIn(op, dtype) => (op, dtype),
            Self::Expression(ref expression) => (OpKind::Sum.plain(), expression.dtype),
            Self::Custom(_) => (OpKind::Sum.plain(), Dtype::F32),
            Self::Fused(parts) => (OpKind::Sum.plain(), parts.dtype),
        }
    }

    pub(crate) fn largest_blocks(&self) -> LargestBlocks {
        match self {
            Self::BuiltIn(..) if self.is_wide() => LargestBlocks::WIDE,
            Self::Fused(_) => LargestBlocks::WIDE,
            Self::BuiltIn(..) | Self::Expression(_) => LargestBlocks::FULL,
            Self::Custom(loaded) => loaded.largest,
        }
    }

    /// Returns whether the value of an element depends on its index.
    pub(crate) fn is_indexed(&self) -> bool {
        match self {
            Self::BuiltIn(op, _) => op.has_places(),
            Self::Expression(_) | Self::Fused(_) => false,
            Self::Custom(loaded) => loaded.facts.indexed != 0,
        }
    }

    pub(crate) fn is_zero_when_empty(&self) -> bool {
        matches!(self, Self::BuiltIn(op, _) if op.is_zero_when_empty())
    }

    /// Returns the maximum number of elements of a running reduction, if the operation has a limit of
    /// its own.
    pub(crate) fn most_running(&self) -> Option<u64> {
        matches!(self, Self::BuiltIn(op, _) if op.is_binned()).then_some(MAX_ELEMENTS)
    }

    pub(crate) fn slot_bytes(&self) -> u64 {
        if self.is_wide() { WIDE_SLOT_BYTES } else { SLOT_BYTES }
    }

    pub(crate) fn is_wide(&self) -> bool {
        match *self {
            Self::BuiltIn(op, dtype) => op.is_wide(dtype),
            Self::Expression(_) | Self::Custom(_) => false,
            Self::Fused(_) => true,
        }
    }

    /// Returns the PTX of a kernel of an expression or of several operations, with these; `None` for PTX
    /// of another kernel.
    ///
    /// # Panics
    /// For an operation whose kernel is used as it is.
    pub(crate) fn insert_into(&self, ptx: &str) -> Option<String> {
        match self {
            Self::Expression(expression) => expression.insert_into(ptx),
            Self::Fused(parts) => parts.choose_in(ptx),
            Self::BuiltIn(..) | Self::Custom(_) => unreachable!("{self} inserts nothing"),
        }
    }

    /// Returns whether both [insert](Self::insert_into) the same text into kernels.
    pub(crate) fn inserts_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Expression(one), Self::Expression(other)) => one == other,
            (Self::Fused(one), Self::Fused(other)) => one == other,
            _ => false,
        }
    }

    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self, Self::BuiltIn(..) | Self::Fused(_))
    }

    pub(crate) fn launches_when_empty(&self) -> bool {
        !self.is_built_in()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(op, dtype) => write!(f, "{op} of {dtype}"),
            Self::Expression(expression) => write!(f, "{expression}"),
            Self::Custom(loaded) => {
                let (bytes, result_bytes) = (self.element_bytes(), self.result_bytes());
                write!(f, "{} of {bytes} bytes, with results of {result_bytes}", loaded.name)
            }
            Self::Fused(parts) => write!(f, "tuple of {}", parts.dtype),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(op, dtype) => write!(f, "{op}_{dtype}"),
            Self::Expression(expression) => write!(f, "{}_{}", expression.op, expression.dtype),
            Self::Custom(loaded) => f.write_str(loaded.name),
            Self::Fused(parts) => parts.fmt(f),
        }
    }
}

/// A range of elements in device memory, and the operation that reduces them.
#[derive(Debug, Clone)]
pub(crate) struct ElementRange {
    pub(crate) code: Code,
    pub(crate) n: u64,
    /// The address of the first element, aligned as [`Buffer`] requires.
    pub(crate) address: u64,
}

impl ElementRange {
    pub(crate) fn of<T: Plain>(code: Code, buffer: &Buffer<T>, device: &Device) -> Result<Self> {
        Self::within(code, buffer, 0, buffer.len(), device)
    }

    pub(crate) fn within<T: Plain>(
        code: Code,
        buffer: &Buffer<T>,
        offset: usize,
        n: usize,
        device: &Device,
    ) -> Result<Self> {
        device.require("buffer", buffer.device())?;
        code.require_device(device)?;
        let address = buffer.as_device_ptr() + (offset * size_of::<T>()) as u64;
        let range = Self { code, n: n as u64, address };
        range.check()?;
        Ok(range)
    }

    pub(crate) fn check(&self) -> Result<()> {
        require_few(self.n)
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent::of(self.address, self.n, self.code.element_bytes())
    }

    /// Returns the bytes of the elements, at most 2^41.
    pub(crate) fn bytes(&self) -> u64 {
        self.n * self.code.element_bytes()
    }
}

pub(crate) fn require_few(n: u64) -> Result<()> {
    if n > MAX_ELEMENTS {
        return Err(Error::TooManyElements { n, most: MAX_ELEMENTS });
    }
    Ok(())
}

/// The state that a launch continues, or the launch's place in a [meeting](warpfold_abi::meeting).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningState {
    /// The number of earlier elements.
    pub(crate) before: u64,
    /// The address of the running state, which the launch updates:
    /// [`CARRIED_BYTES`](warpfold_abi::reducer::CARRIED_BYTES) bytes, 8-aligned; 0 for none.
    pub(crate) address: u64,
    pub(crate) meeting: Option<Place>,
}

/// A launch's place in a [meeting](warpfold_abi::meeting).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) meeting: u64,
    /// The index of the launch's partial result in the meeting.
    pub(crate) rank: u32,
    /// The number of partial results in the meeting after all launches have arrived.
    pub(crate) members: u32,
    pub(crate) arrivals: u64,
    pub(crate) result: u64,
    /// Address and length of an array of byte offsets, from `result` to each further copy of the result.
    pub(crate) others: (u64, u32),
}

impl Place {
    pub(crate) const NONE: Self =
        Self { meeting: 0, rank: 0, members: 0, arrivals: 0, result: 0, others: (0, 0) };
}

/// A reduction by a built-in operation, with the operation and the element type as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The operation.
    pub op: Op,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The number of elements.
    pub n: u64,
    /// The address of the first element: a multiple of the element size.
    pub address: u64,
}

impl From<&Job> for ElementRange {
    fn from(&Job { op, dtype, n, address }: &Job) -> Self {
        Self { code: Code::BuiltIn(op, dtype), n, address }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(dtype: Dtype, n: u64) -> ElementRange {
        ElementRange { code: Code::BuiltIn(OpKind::Sum.plain(), dtype), n, address: 0 }
    }

    #[test]
    fn too_many_elements_are_refused_with_the_limit() {
        assert!(range(Dtype::I8, MAX_ELEMENTS).check().is_ok());
        let message = range(Dtype::I8, MAX_ELEMENTS + 1).check().unwrap_err().to_string();
        assert!(message.contains("34359738369") && message.contains("34359738368"), "{message}");
    }

    #[test]
    fn bytes_are_elements_times_size() {
        assert_eq!((range(Dtype::I8, 7).bytes(), range(Dtype::F16, 7).bytes()), (7, 14));
        assert_eq!(range(Dtype::F64, MAX_ELEMENTS).bytes(), 1 << 38);
    }
}
