//! The cases of a comparison: work that several contenders do on the same input.

use anyhow::{Result, bail};
use warpfold_suite::{
    Dtype, Op,
    catalogue::{Access, Geometry, VARIANTS, Variant, Work},
    memory::{Pattern, STRIDES},
};

use super::sizes::{Sizes, show};
use crate::elements::SEED;

/// Maximum number of elements for kernels of one thread: 33 ms on an H200.
const SINGLE_THREAD: u64 = 1 << 20;

/// Maximum number of moved elements, which the host generates and compares one by one.
const MOVED: u64 = 1 << 28;

/// Maximum size of a strided copy's input in bytes, unless the reductions have a larger input.
const STRIDED_INPUT: u64 = 4 << 30;

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) dtype: Dtype,
    pub(super) work: Task,
    pub(super) variants: Vec<&'static Variant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Task {
    Reduce { op: Op, n: u64 },
    Move(Pattern),
}

impl Case {
    pub(super) fn input_len(&self) -> u64 {
        match self.work {
            Task::Reduce { n, .. } => n,
            Task::Move(pattern) => pattern.input_len(),
        }
    }

    pub(super) fn n(&self) -> u64 {
        match self.work {
            Task::Reduce { n, .. } => n,
            Task::Move(pattern) => pattern.output_len(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.input_len().saturating_mul(self.dtype.size() as u64)
    }

    pub(super) fn room(&self) -> u64 {
        match self.work {
            Task::Reduce { .. } => 0,
            Task::Move(pattern) => pattern.output_len() * self.dtype.size() as u64,
        }
    }

    pub(super) fn useful_bytes(&self) -> u64 {
        match self.work {
            Task::Reduce { .. } => self.bytes(),
            Task::Move(pattern) => pattern.useful_bytes(self.dtype),
        }
    }

    pub(super) fn op(&self) -> Option<Op> {
        match self.work {
            Task::Reduce { op, .. } => Some(op),
            Task::Move(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// Only these variants; if empty, all.
    pub(super) variants: &'a [&'static Variant],
    pub(super) dtypes: &'a [Dtype],
    pub(super) ops: &'a [Op],
    pub(super) sizes: &'a Sizes,
    pub(super) moves: bool,
}

impl Wanted<'_> {
    /// Returns the cases by type and size, and a line for each omission.
    pub(super) fn cases(&self) -> Result<(Vec<Case>, Vec<String>)> {
        let variants = self.kernels()?;
        let mut notes = Vec::new();
        let mut cases = Vec::new();
        for &dtype in self.dtypes {
            let takers: Vec<&'static Variant> =
                variants.iter().copied().filter(|variant| variant.dtypes.contains(&dtype)).collect();
            for &n in &self.sizes.0 {
                for &op in self.ops {
                    cases.extend(reduce(dtype, op, n, &takers, &mut notes));
                }
                cases.extend(moves(dtype, n, &takers, self.largest_input(dtype), &mut notes));
            }
        }
        if cases.is_empty() {
            bail!(
                "nothing to compare: none of these variants has these types and operations at these sizes"
            );
        }
        notes.dedup();
        Ok((cases, notes))
    }

    fn kernels(&self) -> Result<Vec<&'static Variant>> {
        if let Some(other) = self.variants.iter().find(|variant| !variant.has_ptx()) {
            bail!("{} is not a kernel and has no twin to compare with; leave it out", other.id);
        }
        if !self.variants.is_empty() {
            return Ok(self.variants.to_vec());
        }
        let compared = |v: &&Variant| v.has_ptx() && (self.moves || is_reduction(v));
        Ok(VARIANTS.iter().filter(compared).collect())
    }

    fn largest_input(&self, dtype: Dtype) -> u64 {
        self.sizes.largest().max(STRIDED_INPUT / dtype.size() as u64)
    }
}

/// Returns whether the variant reduces elements on the GPU.
fn is_reduction(variant: &Variant) -> bool {
    matches!(variant.work, Work::Reduction(_) | Work::Reducer)
}

fn reduce(
    dtype: Dtype,
    op: Op,
    n: u64,
    takers: &[&'static Variant],
    notes: &mut Vec<String>,
) -> Option<Case> {
    let has = |variant: &&&'static Variant| is_reduction(variant) && variant.ops.contains(&op);
    let mut variants: Vec<&'static Variant> = takers.iter().filter(has).copied().collect();
    variants.retain(|variant| {
        let single = variant.shape().is_some_and(|shape| shape.geometry == Geometry::SingleThread);
        if single && n > SINGLE_THREAD {
            let most = show(SINGLE_THREAD);
            note(notes, format!("{}: left out above {most} elements: it has one thread", variant.id));
        }
        !single || n <= SINGLE_THREAD
    });
    (!variants.is_empty()).then_some(Case { dtype, work: Task::Reduce { op, n }, variants })
}

pub(super) fn needs_twins(cases: &[Case]) -> bool {
    cases.iter().flat_map(|case| &case.variants).any(|variant| variant.has_kernel())
}

/// Groups kernels that move elements in the same pattern into one case.
fn moves(
    dtype: Dtype,
    n: u64,
    takers: &[&'static Variant],
    largest: u64,
    notes: &mut Vec<String>,
) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for &variant in takers {
        let strides: &[u64] = match variant.work {
            Work::Copy { access: Access::Strided } => &STRIDES,
            Work::Copy { access: Access::Random } | Work::Transpose => &[1],
            _ => continue,
        };
        if n > MOVED {
            note(notes, format!("{}: left out above {} elements", variant.id, show(MOVED)));
            continue;
        }
        for &stride in strides {
            let pattern = Pattern::of(variant, n, stride, SEED).expect("it moves elements");
            if pattern.input_len() > largest {
                let most = show(largest);
                note(notes, format!("{}: strides that need over {most} elements left out", variant.id));
                continue;
            }
            let work = Task::Move(pattern);
            match cases.iter_mut().find(|case| case.work == work) {
                Some(case) => case.variants.push(variant),
                None => cases.push(Case { dtype, work, variants: vec![variant] }),
            }
        }
    }
    cases
}

fn note(notes: &mut Vec<String>, line: String) {
    if !notes.contains(&line) {
        notes.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_suite::catalogue;

    fn wanted<'a>(variants: &'a [&'static Variant], sizes: &'a Sizes) -> Wanted<'a> {
        Wanted { variants, dtypes: &[Dtype::F32], ops: &[Op::Sum], sizes, moves: false }
    }

    fn of(ids: &[&str]) -> Vec<&'static Variant> {
        ids.iter().map(|id| catalogue::find(id).unwrap()).collect()
    }

    #[test]
    fn reductions_of_a_size_are_one_case() {
        let sizes = "2^20..2^21".parse().unwrap();
        let (cases, notes) = wanted(&[], &sizes).cases().unwrap();
        assert_eq!(cases.len(), 2);
        let ids = |case: &Case| case.variants.iter().map(|v| v.id).collect::<Vec<_>>();
        assert!(ids(&cases[0]).contains(&"serial") && !ids(&cases[1]).contains(&"serial"));
        // redux has no f32, and the others are not reductions.
        for id in ["redux", "cpu_serial", "transfer_pinned", "copy_strided"] {
            assert!(!ids(&cases[0]).contains(&id), "{id}");
        }
        assert_eq!(notes, ["serial: left out above 2^20 elements: it has one thread"]);
        assert_eq!((cases[1].bytes(), cases[1].useful_bytes(), cases[1].room()), (8 << 20, 8 << 20, 0));
    }

    #[test]
    fn the_reducer_is_compared_as_a_reduction_in_every_type() {
        let sizes = "2^20".parse().unwrap();
        let (variants, ops) = (of(&["reducer"]), [Op::Sum, Op::ArgMin]);
        let all = Wanted { ops: &ops, dtypes: Dtype::ALL, ..wanted(&variants, &sizes) };
        assert_eq!(all.cases().unwrap().0.len(), ops.len() * Dtype::ALL.len());
        assert!(!needs_twins(&all.cases().unwrap().0));
        // By default other variants are compared too, except for an operation that only the reducer has.
        let default = Wanted { ops: &ops, ..wanted(&[], &sizes) }.cases().unwrap().0;
        let ids = |case: &Case| case.variants.iter().map(|v| v.id).collect::<Vec<_>>();
        assert!(ids(&default[0]).contains(&"reducer") && ids(&default[0]).len() > 10);
        assert_eq!(ids(&default[1]), ["reducer"]);
        assert!(needs_twins(&default));
    }

    #[test]
    fn transposes_are_one_case_and_every_stride_its_own() {
        let variants = of(&["copy_strided", "copy_random", "transpose_naive", "transpose_padded"]);
        let sizes = "2^20".parse().unwrap();
        let (cases, notes) = wanted(&variants, &sizes).cases().unwrap();
        assert_eq!(cases.len(), STRIDES.len() + 2);
        assert_eq!(cases.last().unwrap().variants.len(), 2);
        assert!(notes.is_empty());
        let last_stride = &cases[STRIDES.len() - 1];
        assert_eq!((last_stride.n(), last_stride.input_len()), (1 << 20, ((1 << 20) - 1) * 64 + 1));
        assert_eq!(last_stride.room(), 4 << 20);
        assert!(last_stride.op().is_none());

        // Strides whose input would be too large are omitted and noted.
        let sizes = "2^26,2^29".parse().unwrap();
        let (cases, notes) = wanted(&of(&["copy_strided"]), &sizes).cases().unwrap();
        assert_eq!(cases.len(), 5);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn variants_without_a_comparison_are_refused() {
        let sizes = "2^20".parse().unwrap();
        let refused = |ids: &[&str]| wanted(&of(ids), &sizes).cases().unwrap_err().to_string();
        assert_eq!(
            refused(&["cpu_serial"]),
            "cpu_serial is not a kernel and has no twin to compare with; leave it out"
        );
        assert!(refused(&["redux"]).starts_with("nothing to compare: "));
    }
}
