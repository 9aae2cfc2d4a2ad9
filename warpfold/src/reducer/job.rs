//! What is reduced how, and what comes out.

use crate::{
    Buffer, Device, Element, Error, Result,
    geometry::{Extent, MAX_ELEMENTS},
    names::{Dtype, Op},
};

/// An operation on elements in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The operation.
    pub op: Op,
    /// Type of the elements.
    pub dtype: Dtype,
    /// How many there are.
    pub n: u64,
    /// Where the first one is: a multiple of their size.
    pub address: u64,
}

impl Job {
    /// That of a buffer's elements, which must be on `device` and not too many.
    pub(crate) fn of<T: Element>(op: Op, buffer: &Buffer<T>, device: &Device) -> Result<Self> {
        device.require("buffer", buffer.device())?;
        let (n, address) = (buffer.len() as u64, buffer.as_device_ptr());
        let job = Self { op, dtype: T::DTYPE, n, address };
        job.check()?;
        Ok(job)
    }

    /// Refuses more elements than a reduction takes.
    ///
    /// # Errors
    /// [`Error::TooManyElements`]
    pub(crate) fn check(&self) -> Result<()> {
        if self.n > MAX_ELEMENTS {
            return Err(Error::TooManyElements { n: self.n, most: MAX_ELEMENTS });
        }
        Ok(())
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent::of(self.address, self.n, self.dtype.size() as u64)
    }

    /// Bytes of the elements; at most 2^38.
    pub(crate) fn bytes(&self) -> u64 {
        self.n * self.dtype.size() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_elements_are_refused_with_the_limit() {
        let job = |n| Job { op: Op::Sum, dtype: Dtype::I8, n, address: 0 };
        assert!(job(MAX_ELEMENTS).check().is_ok());
        let message = job(MAX_ELEMENTS + 1).check().unwrap_err().to_string();
        assert!(message.contains("34359738369") && message.contains("34359738368"), "{message}");
    }

    #[test]
    fn the_bytes_are_those_of_all_elements() {
        let job = |dtype, n| Job { op: Op::Max, dtype, n, address: 0 };
        assert_eq!((job(Dtype::I8, 7).bytes(), job(Dtype::F16, 7).bytes()), (7, 14));
        assert_eq!(job(Dtype::F64, MAX_ELEMENTS).bytes(), 1 << 38);
    }
}
