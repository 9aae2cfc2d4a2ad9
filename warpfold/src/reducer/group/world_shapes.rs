//! Reductions of what ranks have by other kernels than those that meet: each rank's result by itself,
//! some bytes, and what is made of all of them, alike in each.

use std::{any::type_name, iter};

use bytemuck::Zeroable;

use super::world::{Distributed, World, other_version, short};
use crate::{
    Element, Located, Plain, Result, Within,
    element::sealed::{Element as _, Outcome as _},
    input::{
        filtered::{WithinPart, WithinTask},
        pairs::{PartWords, are_parts, sum_of_parts},
    },
    names::PairOp,
    op::{self, Interval, PairOperation, TopK},
    reducer::{HostResults, plan::Plan},
};

impl World {
    pub(super) fn reduce_pair<T: Element, O: PairOperation>(
        &self,
        _op: O,
        a: &Distributed<T>,
        b: &Distributed<T>,
    ) -> Result<T::Sum> {
        let what = format!("{} of {}", short(type_name::<O>()), short(type_name::<T>()));
        let op = O::op(T::DTYPE);
        if let Some(part) = op.part() {
            let parts = self.results_of_pairs::<T, PartWords>(part, &what, a, b)?;
            require_parts::<T::Sum>(parts.iter().copied())?;
            return Ok(sum_of_parts(parts.into_iter()).0);
        }
        let results = self.results_of_pairs::<T, T::Sum>(op, &what, a, b)?;
        Ok(results.into_iter().fold(T::Sum::zeroed(), T::Sum::ADD))
    }

    /// What the kernels of an operation leave in each rank.
    fn results_of_pairs<T: Element, R: Plain>(
        &self,
        op: PairOp,
        what: &str,
        a: &Distributed<T>,
        b: &Distributed<T>,
    ) -> Result<Vec<R>> {
        let given = iter::chain(self.require(a).err(), self.require(b).err())
            .next()
            .map_or(Ok(()), Err)
            .and_then(|()| Plan::of_pairs(op, [a.part(), b.part()], self.reducer().device()))
            .and_then(|plan| self.reducer().run::<R>(plan));
        let told = self.tell(
            &mut self.state(),
            what,
            given.map(|result| bytemuck::bytes_of(&result).to_vec()),
        )?;
        told.iter().map(|of_rank| read(of_rank)).collect()
    }

    pub(super) fn reduce_within<T: Element>(
        &self,
        range: impl Interval<T>,
        values: &Distributed<T>,
    ) -> Result<Within<T::Sum>> {
        let (op, bounds) = (range.op(), range.bounds());
        let place = if op.part().is_some() { " everywhere" } else { "" };
        let what = format!("the interval {bounds:?} of {}{place}", short(type_name::<T>()));
        let given = self.require(values);
        if let Some(part) = op.part() {
            let (reducer, values) = (self.reducer(), values.part());
            let given = given.and_then(|()| WithinTask::of(part, bounds, values, reducer.device()));
            let of_part = |job| {
                let decode = |results: HostResults<'_>| WithinPart::from_words(results.get(0));
                reducer.run(Plan::of_interval(job, values, decode, WithinPart::default))
            };
            let given = given.and_then(of_part);
            let given = given.map(|part| bytemuck::bytes_of(&part).to_vec());
            let told = self.tell(&mut self.state(), &what, given)?;
            let parts: Vec<WithinPart> =
                told.iter().map(|of_rank| read(of_rank)).collect::<Result<_>>()?;
            require_parts::<T::Sum>(parts.iter().map(|&[_, ref sum @ ..]| *sum))?;
            return Ok(Within::of_parts(&parts));
        }
        let given = given.and_then(|()| self.reducer().reduce(op::Sum, values.part().filter(bounds)));
        let given = given.map(|Within { count, sum, rest }| {
            [bytemuck::bytes_of(&count), bytemuck::bytes_of(&rest), bytemuck::bytes_of(&sum)].concat()
        });
        let told = self.tell(&mut self.state(), &what, given)?;
        told.iter().try_fold(Within::none(), |all: Within<T::Sum>, of_rank| {
            let word =
                |bytes| <[u8]>::split_at_checked(bytes, size_of::<u64>()).ok_or_else(other_version);
            let (count, bytes) = word(of_rank)?;
            let (rest, sum) = word(bytes)?;
            Ok(all.and(Within { count: read(count)?, sum: read(sum)?, rest: read(rest)? }))
        })
    }

    pub(super) fn top_k<T: Element, O: TopK>(
        &self,
        op: O,
        values: &Distributed<T>,
    ) -> Result<Vec<Located<T>>> {
        let found = self.require(values).and_then(|()| self.reducer().reduce(op, values.part()));
        let given = found.map(|found| {
            let bytes = |found: Located<T>| {
                let index = values.before() + found.index;
                [bytemuck::bytes_of(&index), bytemuck::bytes_of(&found.value)].concat()
            };
            found.into_iter().flat_map(bytes).collect()
        });
        let what = format!("{}({}) of {}", short(type_name::<O>()), op.k(), short(type_name::<T>()));
        let told = self.tell(&mut self.state(), &what, given)?;
        let mut candidates = Vec::new();
        for of_rank in told {
            for found in of_rank.chunks(size_of::<u64>() + size_of::<T>()) {
                let (index, value) =
                    found.split_at_checked(size_of::<u64>()).ok_or_else(other_version)?;
                candidates.push(Located::<T> { index: read(index)?, value: read(value)? });
            }
        }
        self.reducer().first_of(op, &candidates)
    }
}

/// Refuses what is no part of a sum in each rank.
fn require_parts<S: Element>(parts: impl Iterator<Item = PartWords>) -> Result<()> {
    if are_parts::<S>(parts) { Ok(()) } else { Err(other_version()) }
}

/// A value that a rank has told.
fn read<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<T> {
    bytemuck::try_pod_read_unaligned(bytes).map_err(|_| other_version())
}
