//! The pieces of the data that have one result each: all elements, the elements along axes, or segments.

use std::ops::Range;

use anyhow::{Context, Result, bail};

use crate::{
    input::{Column, Key, Runs},
    statistic::Statistic,
};

/// The maximum number of results of empty pieces, which the size of the file does not limit.
const MOST_OF_NONE: usize = 1 << 20;

pub(crate) enum Cut {
    Whole {
        elements: u64,
        /// The number of elements and nulls.
        rows: u64,
    },
    /// The elements along some axes of an array, one piece for each position on the other axes.
    Axes {
        /// The axes in ascending order.
        axes: Vec<usize>,
        others: Vec<usize>,
        len: u64,
    },
    Segments {
        /// The first element of each segment, and the end of the last.
        bounds: Vec<u64>,
        /// `bounds` counted in rows, nulls included; `None` if there are no nulls.
        rows: Option<Vec<u64>>,
        /// The key of each piece; `None` if pieces are numbered.
        keys: Option<Vec<Key>>,
    },
}

pub(crate) struct Pieces(Cut);

impl Pieces {
    pub(crate) fn whole(elements: u64, nulls: u64) -> Self {
        Self(Cut::Whole { elements, rows: elements + nulls })
    }

    /// Creates the pieces along axes of an array. Negative axes count from the last.
    pub(crate) fn along(given: &[i64], column: &Column) -> Result<Self> {
        if column.nulls.is_some() {
            bail!("--axis does not support a column with nulls; leave it out");
        }
        let shape = &column.shape[..];
        let dimensions = shape.len() as i64;
        if dimensions == 0 {
            bail!("--axis does not support an array without dimensions; leave it out");
        }
        let mut axes = Vec::new();
        for &axis in given {
            if !(-dimensions..dimensions).contains(&axis) {
                let allowed = match dimensions {
                    1 => "0, and -1 for the same".to_owned(),
                    _ => format!("0 to {}, and -1 to -{dimensions} from the last", dimensions - 1),
                };
                bail!("--axis {axis} of {dimensions} dimensions; allowed are {allowed}");
            }
            axes.push(axis.rem_euclid(dimensions) as usize);
        }
        axes.sort_unstable();
        if let Some(pair) = axes.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("--axis names axis {} twice; give each once", pair[0]);
        }
        let lens = |of: &dyn Fn(&usize) -> bool| -> Vec<usize> {
            (0..shape.len()).filter(of).map(|axis| shape[axis]).collect()
        };
        let others = lens(&|axis| !axes.contains(axis));
        let product = |lens: &[usize]| match lens.contains(&0) {
            true => Some(0),
            false => lens.iter().try_fold(1_usize, |product, &len| product.checked_mul(len)),
        };
        let len =
            product(&lens(&|axis| axes.contains(axis))).context("the shape has too many elements")?;
        let results = product(&others).context("the shape has too many results")?;
        if len == 0 && results > MOST_OF_NONE {
            bail!(
                "the shape {shape:?} has {results} results without elements; allowed are {MOST_OF_NONE}"
            );
        }
        Ok(Self(Cut::Axes { axes, others, len: len as u64 }))
    }

    /// Creates one piece per run of keys; each element has one key.
    pub(crate) fn by_keys(runs: Runs, column: &Column) -> Self {
        let Runs { keys, ends, .. } = runs;
        let bounds = [0].into_iter().chain(ends).collect();
        Self::segments(bounds, column, Some(keys))
    }

    pub(crate) fn by_offsets(offsets: &Column, rows: u64, column: &Column) -> Result<Self> {
        let shape = &offsets.shape;
        let bounds = match offsets.integers() {
            Some(bounds) if shape.len() == 1 && offsets.nulls.is_none() => bounds,
            _ => bail!(
                "the offsets have type {} and shape {shape:?}; give integers of one dimension without \
                 nulls",
                offsets.data.dtype()
            ),
        };
        let inside = |offset: i128| {
            let bound = u64::try_from(offset).ok().filter(|&bound| bound <= rows);
            bound.with_context(|| {
                format!("offset {offset} into {rows} elements; allowed are 0 to {rows}")
            })
        };
        let bounds: Vec<u64> = bounds.map(inside).collect::<Result<_>>()?;
        if bounds.is_empty() {
            bail!("0 offsets; give one more than there are segments");
        }
        if let Some(segment) = bounds.windows(2).position(|ends| ends[0] > ends[1]) {
            let ends = &bounds[segment..segment + 2];
            bail!(
                "segment {segment} is from {} to {}; give offsets that never descend",
                ends[0],
                ends[1]
            );
        }
        Ok(Self::segments(bounds, column, None))
    }

    /// Creates the segments between row bounds, which must be ascending.
    fn segments(rows: Vec<u64>, column: &Column, keys: Option<Vec<Key>>) -> Self {
        let Some(nulls) = &column.nulls else {
            return Self(Cut::Segments { bounds: rows, rows: None, keys });
        };
        let (mut row, mut element) = (0, 0);
        let element_of = |&next: &u64| {
            let part = nulls.slice(row as usize, (next - row) as usize);
            element += (part.len() - part.null_count()) as u64;
            row = next;
            element
        };
        let bounds = rows.iter().map(element_of).collect();
        Self(Cut::Segments { bounds, rows: Some(rows), keys })
    }

    pub(crate) fn cut(&self) -> &Cut {
        &self.0
    }

    pub(crate) fn count(&self) -> usize {
        match &self.0 {
            Cut::Whole { .. } => 1,
            // `along` has checked that the product does not overflow.
            Cut::Axes { others, .. } => others.iter().fold(1, |count, &len| count.saturating_mul(len)),
            Cut::Segments { bounds, .. } => bounds.len() - 1,
        }
    }

    pub(crate) fn elements(&self, piece: usize) -> u64 {
        match &self.0 {
            Cut::Whole { elements, .. } => *elements,
            Cut::Axes { len, .. } => *len,
            Cut::Segments { bounds, .. } => bounds[piece + 1] - bounds[piece],
        }
    }

    pub(crate) fn rows(&self, piece: usize) -> Range<u64> {
        match &self.0 {
            Cut::Whole { rows, .. } => 0..*rows,
            Cut::Axes { len, .. } => 0..*len,
            Cut::Segments { bounds, rows, .. } => {
                let rows = rows.as_ref().unwrap_or(bounds);
                rows[piece]..rows[piece + 1]
            }
        }
    }

    pub(crate) fn nulls(&self, piece: usize) -> u64 {
        let rows = self.rows(piece);
        rows.end - rows.start - self.elements(piece)
    }

    pub(crate) fn require_values(&self, op: Statistic) -> Result<()> {
        let empty = (0..self.count()).find(|&piece| self.elements(piece) == 0);
        match empty.filter(|_| !op.has_value_of_none()) {
            Some(piece) => bail!(
                "result {piece} has no elements, for which {op} has no value; leave --out out, and take \
                 --json, where the value is null"
            ),
            None => Ok(()),
        }
    }
}
