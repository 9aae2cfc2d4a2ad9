//! Reductions of what lies on a group's devices in whole pieces, each of which one device reduces.

use std::iter;

use super::{Group, Sharded};
use crate::{
    Element, Error, Located, Outcome, Outputs, Plain, Result, Segments,
    op::{RowsOperation, TopK},
};

impl Group {
    /// The result of any [operation](crate::op) of every row of `len` elements, of which each device has
    /// whole ones.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and [`Error::Rows`] for rows of 0 elements, and for a length that
    /// does not divide the number of a device's elements.
    pub fn reduce_rows<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        values: &Sharded<T>,
        len: usize,
    ) -> Result<Vec<O::Left>> {
        self.require(values)?;
        // All are checked before the first launch.
        let rows: Vec<_> = values.parts().iter().map(|part| part.rows(len)).collect::<Result<_>>()?;
        let mut under_way = Vec::new();
        for (member, rows) in iter::zip(self.members(), &rows) {
            let device = member.reducer.device();
            let mut results = device.outputs::<O::Left>(rows.count())?;
            member.reducer.on(&member.stream).reduce_rows_into(op, rows, &mut results)?;
            under_way.push(results);
        }
        read_all(&under_way)
    }

    /// The result of any [operation](crate::op) of every segment, of which each device has whole ones:
    /// [`Segments`] that the [reducer](Self::reducers) of each has made, in the order of the devices.
    ///
    /// # Errors
    /// [`Error::Group`] where they are not as many as the devices, [`Error::OtherDevice`] for segments
    /// that are not on the device of their place; those of
    /// [`Reducer::reduce_segments`](crate::Reducer::reduce_segments).
    pub fn reduce_segments<T: Element, O: RowsOperation<T>>(
        &self,
        op: O,
        segments: &[Segments<T>],
    ) -> Result<Vec<O::Left>> {
        let (given, needed) = (segments.len(), self.members().len());
        if given != needed {
            let reason =
                format!("segments of {given} devices for {needed}; give those of each, also none");
            return Err(Error::Group { reason });
        }
        for (device, segments) in iter::zip(self.devices(), segments) {
            device.require("segments", segments.buffer().device())?;
        }
        let mut under_way = Vec::new();
        for (member, segments) in iter::zip(self.members(), segments) {
            let device = member.reducer.device();
            let mut results = device.outputs::<O::Left>(segments.count())?;
            member.reducer.on(&member.stream).reduce_segments_into(op, segments, &mut results)?;
            under_way.push(results);
        }
        read_all(&under_way)
    }

    /// The elements of all devices that come first, with their indices among all: as
    /// [`Reducer::top_k`](crate::Reducer::top_k) of a buffer with all of them.
    ///
    /// Each device finds its own, and the first one those among them.
    ///
    /// # Errors
    /// [`Error::Group`] for elements of another group; those of
    /// [`Reducer::top_k`](crate::Reducer::top_k).
    pub fn top_k<T: Element, O: TopK>(&self, op: O, values: &Sharded<T>) -> Result<Vec<Located<T>>> {
        self.require(values)?;
        let mut under_way = Vec::new();
        for (member, part) in iter::zip(self.members(), values.parts()) {
            under_way.push(member.reducer.on(&member.stream).top_k(op, part)?);
        }
        let mut before = 0;
        let mut candidates: Vec<Located<T>> = Vec::new();
        for (found, part) in iter::zip(under_way, values.parts()) {
            let found = found.wait()?;
            let among_all = |found: Located<T>| Located { index: before + found.index, ..found };
            candidates.extend(found.into_iter().map(among_all));
            before += part.len() as u64;
        }
        // Of equal ones the first index comes first: on a device, and so of all.
        let values: Vec<T> = candidates.iter().map(|candidate| candidate.value).collect();
        let first = &self.members()[0].reducer;
        let found = first.top_k(op, &first.device().upload(&values)?)?;
        Ok(found.into_iter().map(|found| candidates[found.index as usize]).collect())
    }
}

/// The results of all devices, one behind the other.
fn read_all<R: Outcome>(each: &[Outputs<R>]) -> Result<Vec<R>> {
    let results: Vec<Vec<R>> = each.iter().map(Outputs::read).collect::<Result<_>>()?;
    Ok(results.concat())
}
