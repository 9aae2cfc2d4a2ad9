//! Elements on several devices.

use std::{fmt, thread};

use super::Group;
use crate::{Buffer, Error, Plain, Result};

/// Elements that are distributed over the devices of a [`Group`], from [`Group::upload`] or
/// [`Group::sharded`]: a buffer on each, of any length, in the order of the devices. They never change.
pub struct Sharded<T> {
    group: Group,
    parts: Box<[Buffer<T>]>,
}

impl Group {
    /// Copies elements to the devices, about the same number to each, and waits for the copies.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Driver`] if a copy fails.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Sharded<T>> {
        // A multiple of 16 elements, and so of 16 bytes, gives all parts the same alignment.
        let share = values.len().div_ceil(self.members().len()).next_multiple_of(16);
        let part = |rank: usize| {
            let [start, end] = [rank, rank + 1].map(|rank| (rank * share).min(values.len()));
            &values[start..end]
        };
        let uploaded: Result<Vec<Buffer<T>>> = thread::scope(|scope| {
            let copies: Vec<_> = self
                .devices()
                .enumerate()
                .map(|(rank, device)| scope.spawn(move || device.upload(part(rank))))
                .collect();
            let done = copies.into_iter().map(|copy| copy.join().expect("a copy does not panic"));
            done.collect()
        });
        self.sharded(uploaded?)
    }

    /// Returns existing buffers, one on each device, as elements of the group.
    ///
    /// # Errors
    /// [`Error::Group`] unless there is one buffer for each device; [`Error::OtherDevice`] for a buffer
    /// that is not on the device of its position.
    pub fn sharded<T: Plain>(&self, parts: Vec<Buffer<T>>) -> Result<Sharded<T>> {
        let (given, needed) = (parts.len(), self.members().len());
        if given != needed {
            let reason = format!(
                "{given} buffers are given for {needed} devices; give one for each, even if it is empty"
            );
            return Err(Error::Group { reason });
        }
        for (device, part) in self.devices().zip(&parts) {
            device.require("buffer", part.device())?;
        }
        Ok(Sharded { group: self.clone(), parts: parts.into() })
    }
}

impl<T> Clone for Sharded<T> {
    /// Returns another handle of the same elements.
    fn clone(&self) -> Self {
        Self { group: self.group.clone(), parts: self.parts.clone() }
    }
}

impl<T: Plain> Sharded<T> {
    /// Returns the group of the elements.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns the elements of each device, in the order of the devices.
    pub fn parts(&self) -> &[Buffer<T>] {
        &self.parts
    }

    /// Returns the number of elements on all devices.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Plain> fmt::Debug for Sharded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<usize> = self.parts.iter().map(Buffer::len).collect();
        f.debug_struct("Sharded").field("lengths", &lengths).finish_non_exhaustive()
    }
}
