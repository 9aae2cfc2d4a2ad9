//! Elements of one type, on the host and on the device. Each contest uses a prefix of them.

#[cfg(test)]
use warpfold_suite::Value;
use warpfold_suite::{
    Buffer, Data, Device, Dtype, Op, Result,
    reference::{Expected, marked},
};

pub(crate) const SEED: u64 = 1;

/// The elements of one operation at a time, generated and uploaded at its first use.
pub(crate) struct Elements {
    device: Device,
    dtype: Dtype,
    n: usize,
    held: Option<Held>,
}

struct Held {
    op: Op,
    data: Data,
    buffer: Buffer,
}

impl Elements {
    pub(crate) fn new(device: &Device, dtype: Dtype, n: usize) -> Self {
        Self { device: device.clone(), dtype, n, held: None }
    }

    /// Returns a sort key that makes operations with the same elements adjacent.
    pub(crate) fn order(op: Op) -> bool {
        !Data::drawn_alike(Dtype::F64, Op::Sum, op)
    }

    /// Runs `work` on the first `n` elements, with a marker for the operation as the last one.
    pub(crate) fn marked<T>(
        &mut self,
        (op, n): (Op, u64),
        work: impl FnOnce(Expected, Buffer) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let Held { data, buffer, .. } = self.held(op)?;
        marked((op, n), data, buffer, work)
    }

    /// Returns all elements without a marker, for kernels that only move them.
    pub(crate) fn plain(&mut self) -> Result<(&Data, &Buffer)> {
        let op = self.held.as_ref().map_or(Op::Sum, |held| held.op);
        let Held { data, buffer, .. } = self.held(op)?;
        Ok((data, buffer))
    }

    fn held(&mut self, op: Op) -> Result<&mut Held> {
        let held = match self.held.take() {
            Some(held) if Data::drawn_alike(self.dtype, held.op, op) => held,
            other => {
                // Frees the earlier elements first, because memory may not suffice for both.
                drop(other);
                let data = Data::drawn(op, self.dtype, self.n, SEED);
                let buffer = self.device.upload(&data)?;
                Held { op, data, buffer }
            }
        };
        Ok(self.held.insert(held))
    }
}

/// Asserts that wrong kernels are detected at each of `depths`: with the least and the greatest sum that
/// `n` generated elements may have and, for small `n`, with the elements that are generated.
#[cfg(test)]
pub(crate) fn assert_tells(op: Op, dtype: Dtype, n: u64, depths: &[u64], what: &str) {
    const FEW: u64 = 1 << 17;
    let mut expected = Expected::extremes_of_marked(op, dtype, n);
    if n <= FEW {
        let mut data = Data::drawn(op, dtype, n as usize, SEED);
        expected.push(Expected::mark(op, &mut data, n as usize).unwrap());
    }
    for depth in depths {
        for expected in &expected {
            let blind = expected.blind_to(*depth);
            assert_eq!(blind, None, "{what}: {op} of {n} {dtype} at {depth}: {expected:?}");
        }
        // A wrong result is below or above both extremes, and thus never equals a sum between them.
        if let [least, greatest, ..] = expected[..] {
            let side = |of: &Expected, value: Value| value.to_f64() < of.value.to_f64();
            for planted in least.planted().iter().filter(|one| one.what != "drops the last element") {
                assert_eq!(side(&least, planted.value), side(&greatest, planted.value), "{planted:?}");
            }
        }
    }
}
