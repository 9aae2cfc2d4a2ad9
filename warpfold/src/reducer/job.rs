//! What is reduced how, and what comes out.

use std::{fmt, sync::Arc};

use warpfold_abi::reducer::{SLOT_BYTES, WIDE_SLOT_BYTES};

use super::loaded::{LargestBlocks, Loaded};
use crate::{
    Buffer, Device, Error, Plain, Result,
    geometry::{Extent, MAX_ELEMENTS},
    input::buffer::MOST_TOGETHER,
    names::{Dtype, Op, OpKind},
};

/// The operations of a task.
pub(crate) type Codes = [Option<Code>; MOST_TOGETHER];

/// Whose kernels a reduction takes.
#[derive(Clone)]
pub enum Code {
    /// Those of an operation and type of the library's, which the reducer loads.
    BuiltIn(Op, Dtype),
    /// Those that a program has brought and loaded.
    Custom(Arc<Loaded>),
}

impl Code {
    /// Bytes of an element.
    pub(crate) fn element_bytes(&self) -> u64 {
        match self {
            Self::BuiltIn(_, dtype) => dtype.size() as u64,
            Self::Custom(loaded) => loaded.element_bytes(),
        }
    }

    /// Bytes of a result, without those that fill up its place.
    pub(crate) fn result_bytes(&self) -> usize {
        match self {
            Self::BuiltIn(op, dtype) => op.result_bytes(*dtype),
            Self::Custom(loaded) => loaded.output_bytes(),
        }
    }

    /// Refuses kernels that another device has loaded.
    pub(crate) fn require_device(&self, device: &Device) -> Result<()> {
        match self {
            Self::BuiltIn(..) => Ok(()),
            Self::Custom(loaded) => device.require("operation", loaded.device()),
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::BuiltIn(op, _) => op.name(),
            Self::Custom(loaded) => loaded.name(),
        }
    }

    /// The operation and type by whose measurements its launches are chosen. Those of a program's own
    /// are none that were measured; they read as much.
    pub(crate) fn measured_as(&self) -> (Op, Dtype) {
        match *self {
            Self::BuiltIn(op, dtype) => (op, dtype),
            Self::Custom(_) => (OpKind::Sum.plain(), Dtype::F32),
        }
    }

    /// Most threads of its kernels' blocks.
    pub(crate) fn largest_blocks(&self) -> LargestBlocks {
        match self {
            Self::BuiltIn(..) if self.is_wide() => LargestBlocks::WIDE,
            Self::BuiltIn(..) => LargestBlocks::FULL,
            Self::Custom(loaded) => loaded.largest,
        }
    }

    /// Whether what it makes of elements depends on their indices.
    pub(crate) fn is_indexed(&self) -> bool {
        match self {
            Self::BuiltIn(op, _) => op.has_places(),
            Self::Custom(loaded) => loaded.is_indexed(),
        }
    }

    /// Whether zeros are its result of no elements.
    pub(crate) fn is_zero_of_none(&self) -> bool {
        matches!(self, Self::BuiltIn(op, _) if op.is_zero_of_none())
    }

    /// Most elements that come piece by piece, where there is a bound of its own.
    pub(crate) fn most_running(&self) -> Option<u64> {
        matches!(self, Self::BuiltIn(op, _) if op.is_binned()).then_some(MAX_ELEMENTS)
    }

    /// Bytes of device memory that a block's partial result takes on its way.
    pub(crate) fn slot_bytes(&self) -> u64 {
        if self.is_wide() { WIDE_SLOT_BYTES } else { SLOT_BYTES }
    }

    /// Whether it is [wide](warpfold_abi::reducer::is_wide).
    pub(crate) fn is_wide(&self) -> bool {
        matches!(*self, Self::BuiltIn(op, dtype) if op.is_wide(dtype))
    }

    /// Whether the library has its kernels.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self, Self::BuiltIn(..))
    }

    /// Whether its kernels have to be asked for the result of no elements.
    pub(crate) fn reduces_none(&self) -> bool {
        !self.is_built_in()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(op, dtype) => write!(f, "{op} of {dtype}"),
            Self::Custom(loaded) => {
                let (name, bytes) = (loaded.name(), loaded.element_bytes());
                write!(f, "{name} of {bytes} bytes, with results of {}", loaded.output_bytes())
            }
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(op, dtype) => write!(f, "{op}_{dtype}"),
            Self::Custom(loaded) => f.write_str(loaded.name()),
        }
    }
}

/// Elements in device memory, and what reduces them.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) code: Code,
    /// How many there are.
    pub(crate) n: u64,
    /// Where the first one is: a multiple of what [`Buffer`] says.
    pub(crate) address: u64,
}

impl Span {
    /// A buffer's elements, which must be on `device` and not too many.
    pub(crate) fn of<T: Plain>(code: Code, buffer: &Buffer<T>, device: &Device) -> Result<Self> {
        Self::within(code, buffer, 0, buffer.len(), device)
    }

    /// `n` elements of a buffer from the element `offset` on, likewise.
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
        let span = Self { code, n: n as u64, address };
        span.check()?;
        Ok(span)
    }

    /// Refuses more elements than a reduction takes.
    ///
    /// # Errors
    /// [`Error::TooManyElements`]
    pub(crate) fn check(&self) -> Result<()> {
        require_few(self.n)
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent::of(self.address, self.n, self.code.element_bytes())
    }

    /// Bytes of the elements; at most 2^41.
    pub(crate) fn bytes(&self) -> u64 {
        self.n * self.code.element_bytes()
    }
}

/// Refuses more elements than a reduction takes.
///
/// # Errors
/// [`Error::TooManyElements`]
pub(crate) fn require_few(n: u64) -> Result<()> {
    if n > MAX_ELEMENTS {
        return Err(Error::TooManyElements { n, most: MAX_ELEMENTS });
    }
    Ok(())
}

/// What a launch finds that was made of the elements before its own, or is made meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried {
    /// How many elements came before.
    pub(crate) before: u64,
    /// Where that is which was made of them, and where that of all is left:
    /// [`CARRIED_BYTES`](warpfold_abi::reducer::CARRIED_BYTES), 8-aligned; 0 for nowhere.
    pub(crate) address: u64,
    /// Where it meets the launches of other devices, if it does.
    pub(crate) meeting: Option<Place>,
}

/// A launch's place in a [meeting](warpfold_abi::meeting).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The address of the meeting.
    pub(crate) meeting: u64,
    /// Which cell is the launch's.
    pub(crate) rank: u32,
    /// How many cells have a value in the end.
    pub(crate) members: u32,
    /// How many launches arrive.
    pub(crate) arrivals: u64,
    /// Where the result goes.
    pub(crate) result: u64,
    /// Where the distances of further places for it are, and how many.
    pub(crate) others: (u64, u32),
}

impl Place {
    /// Of a launch that meets nobody.
    pub(crate) const NONE: Self =
        Self { meeting: 0, rank: 0, members: 0, arrivals: 0, result: 0, others: (0, 0) };
}

/// A reduction by an operation of the library's, as the suite names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The operation that is done.
    pub op: Op,
    /// Type of the elements.
    pub dtype: Dtype,
    /// How many there are.
    pub n: u64,
    /// Where the first one is: a multiple of their size.
    pub address: u64,
}

impl From<&Job> for Span {
    fn from(&Job { op, dtype, n, address }: &Job) -> Self {
        Self { code: Code::BuiltIn(op, dtype), n, address }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(dtype: Dtype, n: u64) -> Span {
        Span { code: Code::BuiltIn(OpKind::Sum.plain(), dtype), n, address: 0 }
    }

    #[test]
    fn too_many_elements_are_refused_with_the_limit() {
        assert!(span(Dtype::I8, MAX_ELEMENTS).check().is_ok());
        let message = span(Dtype::I8, MAX_ELEMENTS + 1).check().unwrap_err().to_string();
        assert!(message.contains("34359738369") && message.contains("34359738368"), "{message}");
    }

    #[test]
    fn the_bytes_are_those_of_all_elements() {
        assert_eq!((span(Dtype::I8, 7).bytes(), span(Dtype::F16, 7).bytes()), (7, 14));
        assert_eq!(span(Dtype::F64, MAX_ELEMENTS).bytes(), 1 << 38);
    }
}
