//! Reductions of a world by kernels that have no partial results to combine: each rank gathers the
//! results of all ranks and combines them on the host.

use std::any::type_name;

use bytemuck::Zeroable;

use super::world::{Distributed, MOST_BYTES, World, other_version, short};
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

    fn results_of_pairs<T: Element, R: Plain>(
        &self,
        op: PairOp,
        what: &str,
        a: &Distributed<T>,
        b: &Distributed<T>,
    ) -> Result<Vec<R>> {
        let own = self
            .require(a)
            .and_then(|()| self.require(b))
            .and_then(|()| Plan::of_pairs(op, [a.part(), b.part()], self.reducer().device()))
            .and_then(|plan| self.reducer().run::<R>(plan))
            .map(|result| bytemuck::bytes_of(&result).to_vec());
        let gathered = self.gather_bytes(&mut self.state(), what, own)?;
        gathered.iter().map(|result| read(result)).collect()
    }

    pub(super) fn reduce_within<T: Element>(
        &self,
        range: impl Interval<T>,
        values: &Distributed<T>,
    ) -> Result<Within<T::Sum>> {
        let (op, bounds) = (range.op(), range.bounds());
        let place = if op.part().is_some() { " everywhere" } else { "" };
        let what = format!("the interval {bounds:?} of {}{place}", short(type_name::<T>()));
        let checked = self.require(values);
        if let Some(part) = op.part() {
            let (reducer, values) = (self.reducer(), values.part());
            let decode = |results: HostResults<'_>| WithinPart::from_words(results.get(0));
            let own = checked
                .and_then(|()| WithinTask::of(part, bounds, values, reducer.device()))
                .and_then(|task| {
                    reducer.run(Plan::of_interval(task, values, decode, WithinPart::default))
                })
                .map(|part| bytemuck::bytes_of(&part).to_vec());
            let gathered = self.gather_bytes(&mut self.state(), &what, own)?;
            let parts: Vec<WithinPart> =
                gathered.iter().map(|part| read(part)).collect::<Result<_>>()?;
            require_parts::<T::Sum>(parts.iter().map(|&[_, ref sum @ ..]| *sum))?;
            return Ok(Within::of_parts(&parts));
        }
        let own = checked
            .and_then(|()| self.reducer().reduce(op::Sum, values.part().filter(bounds)))
            .map(|Within { count, sum, rest }| {
                [bytemuck::bytes_of(&count), bytemuck::bytes_of(&rest), bytemuck::bytes_of(&sum)]
                    .concat()
            });
        let gathered = self.gather_bytes(&mut self.state(), &what, own)?;
        gathered.iter().try_fold(Within::none(), |all: Within<T::Sum>, result| {
            let word =
                |bytes| <[u8]>::split_at_checked(bytes, size_of::<u64>()).ok_or_else(other_version);
            let (count, bytes) = word(result)?;
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
        let what = format!("{}({}) of {}", short(type_name::<O>()), op.k(), short(type_name::<T>()));
        let mut state = self.state();
        let bytes = size_of::<u64>() + size_of::<T>();
        // A message has room for this number of results. All ranks send as many messages, also those
        // with fewer elements.
        let most = MOST_BYTES / bytes;
        let messages = (op.k() as u64).min(values.len()).div_ceil(most as u64).max(1);
        let (mut own, mut candidates) = (found, vec![Vec::new(); self.size() as usize]);
        for _ in 0..messages {
            let (part, rest) = match own {
                Ok(mut found) => {
                    let rest = found.split_off(found.len().min(most));
                    let words = |found: Located<T>| {
                        let index = values.before() + found.index;
                        [bytemuck::bytes_of(&index), bytemuck::bytes_of(&found.value)].concat()
                    };
                    (Ok(found.into_iter().flat_map(words).collect()), rest)
                }
                Err(error) => (Err(error), Vec::new()),
            };
            own = Ok(rest);
            let gathered = self.gather_bytes(&mut state, &what, part)?;
            for (result, candidates) in gathered.iter().zip(&mut candidates) {
                for found in result.chunks(bytes) {
                    let (index, value) =
                        found.split_at_checked(size_of::<u64>()).ok_or_else(other_version)?;
                    candidates.push(Located::<T> { index: read(index)?, value: read(value)? });
                }
            }
        }
        drop(state);
        self.reducer().first_of(op, &candidates.concat())
    }
}

fn require_parts<S: Element>(parts: impl Iterator<Item = PartWords>) -> Result<()> {
    if are_parts::<S>(parts) { Ok(()) } else { Err(other_version()) }
}

fn read<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<T> {
    bytemuck::try_pod_read_unaligned(bytes).map_err(|_| other_version())
}
