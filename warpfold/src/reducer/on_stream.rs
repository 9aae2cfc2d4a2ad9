//! Reductions on a stream, which the host does not wait for.

use super::{Input, Pending, Reducer};
use crate::{Device, Result, Stream};

/// The reductions of a [`Reducer`] on a [`Stream`], from [`Reducer::on`]. Each returns at once.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let values = device.upload(&[3.0_f32, -1.0, 7.5])?;
/// let largest = reducer.on(&stream).reduce(op::ArgMax, &values)?;
/// // Meanwhile the host goes on.
/// let largest = largest.wait()?.expect("there are elements");
/// assert_eq!((largest.index, largest.value), (2, 7.5));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// The elements and whatever else the device uses are kept until it has finished, and released by a
/// later call of the reducer, or with it.
#[derive(Debug, Clone, Copy)]
pub struct OnStream<'a> {
    pub(super) reducer: &'a Reducer,
    pub(super) stream: &'a Stream,
}

impl<'a> OnStream<'a> {
    pub(super) fn new(reducer: &'a Reducer, stream: &'a Stream) -> Self {
        Self { reducer, stream }
    }

    /// Enqueues [`Reducer::reduce`].
    ///
    /// # Errors
    /// As [`Reducer::reduce`], and [`Error::OtherDevice`](crate::Error::OtherDevice) for the stream of
    /// another device.
    pub fn reduce<O, I: Input<O>>(self, op: O, input: I) -> Result<Pending<I::Output>> {
        self.submit(input.plan(op, self.device()?)?)
    }

    /// Enqueues [`Reducer::reduce`], and leaves the result in device memory: in an
    /// [`Output`](crate::Output) where there is one, in [`Outputs`](crate::Outputs) where there may be
    /// several.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let matrix = device.upload(&[1_i8, 2, 3, 10, 20, 30])?;
    /// let (mut sum, mut largest) = (device.output()?, device.outputs(2)?);
    /// reducer.on(&stream).reduce_into(op::Sum, &matrix, &mut sum)?;
    /// reducer.on(&stream).reduce_into(op::Max, matrix.rows(3)?, &mut largest)?;
    /// assert_eq!((sum.read()?, largest.read()?), (66, vec![3, 30]));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); [`Error::OtherDevice`](crate::Error::OtherDevice) for an output of
    /// another device; [`Error::NoElements`](crate::Error::NoElements) of no elements, unless their
    /// result is 0; and the error of the input's shape for outputs that are not as many as the results.
    pub fn reduce_into<O, I: Input<O>>(self, op: O, input: I, output: &mut I::Left) -> Result<()> {
        self.leave(&input.plan(op, self.device()?)?, output)
    }

    /// Returns the device, to which the stream must belong.
    pub(super) fn device(self) -> Result<&'a Device> {
        let device = self.reducer.device();
        device.require("stream", self.stream.device())?;
        Ok(device)
    }
}
