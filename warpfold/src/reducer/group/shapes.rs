//! Reductions of inputs whose kernels have no partial results to exchange. Rows, axes, segments and runs
//! of keys are whole on each device. The host combines the devices' results of pairs and intervals. A
//! second search combines those of top-k.

use std::iter;

use bytemuck::Zeroable;

use super::{Group, Sharded};
use crate::{
    ByKey, Element, Error, Key, Located, Outcome, Output, Outputs, Plain, Result, Segments, Within,
    element::sealed::Element as _,
    geometry::elements_of,
    input::{
        Enqueue,
        filtered::{WithinPart, WithinTask},
        pairs::{PartWords, sum_of_parts},
    },
    names::{PairOp, WithinOp},
    op::{Interval, PairOperation, RowsOperation, TopK},
    reducer::{Reducer, plan::Plan},
};

impl Group {
    pub(super) fn reduce_rows<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        values: &Sharded<T>,
        len: usize,
    ) -> Result<Vec<O::Left>> {
        self.require(values)?;
        // All inputs are checked before the first launch.
        let rows: Vec<_> = values.parts().iter().map(|part| part.rows(len)).collect::<Result<_>>()?;
        self.reduce_each(op, &rows, |rows| rows.count())
    }

    pub(super) fn reduce_segments<T: Element, O: RowsOperation<T>>(
        &self,
        op: O,
        segments: &[Segments<T>],
    ) -> Result<Vec<O::Left>> {
        let (given, needed) = (segments.len(), self.members().len());
        if given != needed {
            let reason = format!(
                "segments of {given} devices are given for {needed} devices; give those of each, even \
                 if there are none"
            );
            return Err(Error::Group { reason });
        }
        for (device, segments) in iter::zip(self.devices(), segments) {
            device.require("segments", segments.buffer().device())?;
        }
        self.reduce_each(op, segments, |segments| segments.count())
    }

    pub(super) fn reduce_axis<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        values: &Sharded<T>,
        shape: &[usize],
        axis: usize,
    ) -> Result<Vec<O::Left>> {
        self.require(values)?;
        let inner = elements_of(shape).unwrap_or(usize::MAX);
        let arrays = values.parts().iter().map(|part| {
            let all = [&[part.len().checked_div(inner).unwrap_or_default()], shape].concat();
            part.axis(&all, axis.saturating_add(1))
        });
        let arrays: Vec<_> = arrays.collect::<Result<_>>()?;
        self.reduce_each(op, &arrays, |array| array.count())
    }

    pub(super) fn reduce_by_key<K: Key, T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        keys: &Sharded<K>,
        values: &Sharded<T>,
    ) -> Result<Vec<ByKey<K, O::Left>>> {
        self.require(keys)?;
        self.require(values)?;
        let mut last: Option<(usize, K)> = None;
        for (rank, keys) in keys.parts().iter().enumerate().filter(|(_, keys)| !keys.is_empty()) {
            let end = |at: usize| Ok(keys.slice(at..at + 1)?.download()?[0]);
            let (first_key, last_key) = (end(0)?, end(keys.len() - 1)?);
            if let Some((before, _)) =
                last.filter(|(_, key)| bytemuck::bytes_of(key) == bytemuck::bytes_of(&first_key))
            {
                let reason = format!(
                    "the run of key {first_key:?} has values on device {before} and on device {rank}; \
                     store each run on one device"
                );
                return Err(Error::Runs { reason });
            }
            last = Some((rank, last_key));
        }
        let each = iter::zip(self.reducers(), iter::zip(keys.parts(), values.parts()));
        each.map(|(reducer, (keys, values))| reducer.reduce(op, values.by_key(keys))).collect()
    }

    pub(super) fn reduce_pair<T: Element, O: PairOperation>(
        &self,
        _op: O,
        a: &Sharded<T>,
        b: &Sharded<T>,
    ) -> Result<T::Sum> {
        let op = O::op(T::DTYPE);
        if let Some(part) = op.part() {
            let parts = self.results_of_pairs::<T, PartWords>(part, a, b)?;
            return Ok(sum_of_parts(parts.into_iter()).0);
        }
        let results = self.results_of_pairs::<T, T::Sum>(op, a, b)?;
        Ok(results.into_iter().fold(T::Sum::zeroed(), T::Sum::ADD))
    }

    fn results_of_pairs<T: Element, R: Plain>(
        &self,
        op: PairOp,
        a: &Sharded<T>,
        b: &Sharded<T>,
    ) -> Result<Vec<R>> {
        self.require(a)?;
        self.require(b)?;
        let parts = iter::zip(self.devices(), iter::zip(a.parts(), b.parts()));
        self.run_each(parts.map(|(device, (a, b))| Plan::of_pairs(op, [a, b], device)))
    }

    pub(super) fn reduce_within<T: Element>(
        &self,
        range: impl Interval<T>,
        values: &Sharded<T>,
    ) -> Result<Within<T::Sum>> {
        if let Some(part) = range.op().part() {
            let parts = self.results_within(part, &range, values, WithinPart::default)?;
            return Ok(Within::of_parts(&parts));
        }
        let results =
            self.results_within::<T, Within<T::Sum>>(range.op(), &range, values, Within::none)?;
        Ok(results.into_iter().fold(Within::none(), Within::and))
    }

    fn results_within<T: Element, R: Outcome>(
        &self,
        op: WithinOp,
        range: &impl Interval<T>,
        values: &Sharded<T>,
        none: fn() -> R,
    ) -> Result<Vec<R>> {
        self.require(values)?;
        let plans = iter::zip(self.devices(), values.parts()).map(|(device, part)| {
            let task = WithinTask::of(op, range.bounds(), part, device)?;
            Ok(Plan::of_interval(task, part, |results| R::from_words(results.get(0)), none))
        });
        self.run_each(plans)
    }

    pub(super) fn top_k_rows<T: Element, O: TopK>(
        &self,
        op: O,
        values: &Sharded<T>,
        len: usize,
    ) -> Result<Vec<Located<T>>> {
        self.require(values)?;
        let rows: Vec<_> = values.parts().iter().map(|part| part.rows(len)).collect::<Result<_>>()?;
        self.reduce_each(op, &rows, |rows| rows.count() * op.k())
    }

    pub(super) fn top_k<T: Element, O: TopK>(
        &self,
        op: O,
        values: &Sharded<T>,
    ) -> Result<Vec<Located<T>>> {
        self.require(values)?;
        let mut under_way = Vec::new();
        for (member, part) in iter::zip(self.members(), values.parts()) {
            under_way.push(member.reducer.on(&member.stream).reduce(op, part)?);
        }
        let mut before = 0;
        let mut candidates: Vec<Located<T>> = Vec::new();
        for (found, part) in iter::zip(under_way, values.parts()) {
            let found = found.wait()?;
            let among_all = |found: Located<T>| Located { index: before + found.index, ..found };
            candidates.extend(found.into_iter().map(among_all));
            before += part.len() as u64;
        }
        self.members()[0].reducer.first_of(op, &candidates)
    }

    fn reduce_each<O: Copy, I: Enqueue<O, Left = Outputs<R>>, R: Outcome>(
        &self,
        op: O,
        inputs: impl IntoIterator<Item = I>,
        count: impl Fn(&I) -> usize,
    ) -> Result<Vec<R>> {
        let mut outputs: Vec<Outputs<R>> = Vec::new();
        for (member, input) in iter::zip(self.members(), inputs) {
            let mut output = member.reducer.device().outputs(count(&input))?;
            member.reducer.on(&member.stream).reduce_into(op, input, &mut output)?;
            outputs.push(output);
        }
        let results: Vec<Vec<R>> = outputs.iter().map(Outputs::read).collect::<Result<_>>()?;
        Ok(results.concat())
    }

    fn run_each<'p, R: Outcome>(
        &self,
        plans: impl Iterator<Item = Result<Plan<'p, R>>>,
    ) -> Result<Vec<R>> {
        let mut outputs: Vec<Output<R>> = Vec::new();
        for (member, plan) in iter::zip(self.members(), plans) {
            let (plan, mut output) = (plan?, member.reducer.device().output()?);
            member.reducer.on(&member.stream).leave(&plan, &mut output)?;
            outputs.push(output);
        }
        outputs.iter().map(Output::read).collect()
    }
}

impl Reducer {
    pub(super) fn first_of<T: Element, O: TopK>(
        &self,
        op: O,
        candidates: &[Located<T>],
    ) -> Result<Vec<Located<T>>> {
        // Candidates are in the order of the parts, so the first of equal ones has the lowest index.
        let values: Vec<T> = candidates.iter().map(|candidate| candidate.value).collect();
        let found = self.reduce(op, &self.device().upload(&values)?)?;
        Ok(found.into_iter().map(|found| candidates[found.index as usize]).collect())
    }
}
