//! The PTX files of the library: their names and their kernels.

use warpfold_abi::{
    Arguments, Parameter,
    arguments::{
        CheckOffsets, CountRuns, FindTiles, ReduceAxis, ReduceBuffers, ReduceContinued, ReduceCounted,
        ReduceCut, ReducePair, ReduceRows, ReduceSegments, ReduceTop, ReduceView, ReduceWithin,
        SelectTop, SortTop, WriteRuns,
    },
    runs, top,
};
use warpfold_ptx::Arch;

use crate::{
    geometry::shared_bytes,
    names::{
        AxisKernel, Dtype, Form, KernelKind, MapOp, Op, OpKind, PairKernel, PairOp, RowsKernel, TopOp,
        ViewKernel, WithinOp,
    },
};

/// A PTX file. A kernel is loaded alone, from the text of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelFile {
    /// Reductions by an operation. Some types share a file, which [`KernelFile::of`] returns.
    Reduction(Family, Op, Dtype),
    /// Reductions of the values of an expression, which the host inserts.
    Mapped(Family, MapOp, Dtype),
    /// Several reductions of the same rows. The host chooses which of them are compiled.
    Fused(Dtype),
    /// Reductions of pairs of elements.
    Pairs(PairOp, Dtype),
    /// Sums of the elements inside an interval.
    Within(WithinOp, Dtype),
    /// Top-k searches for a small k.
    Top(TopOp, Dtype),
    /// Top-k searches for any k. The field is n for elements of 2^n bytes.
    AnyTop(u32),
    /// Searches for runs of equal keys. The field is n for keys of 2^n bytes.
    Runs(u32),
    /// The check of segment offsets, and the division of segments into tiles.
    Offsets,
}

/// The input of a [`KernelFile::Reduction`] or [`KernelFile::Mapped`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// All elements of a buffer.
    Buffer,
    /// The first elements of a buffer. Their number is read from device memory.
    Counted,
    /// A buffer whose result is combined with that of earlier launches.
    Continued,
    /// All elements of several buffers.
    Buffers,
    /// The rows of a matrix.
    Rows,
    /// An axis that is not the last one of its array.
    Axis,
    /// Some axes of a strided view.
    View,
    /// Segments described by offsets.
    Segments,
}

/// A kernel of a file.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Suffix of the entry's name, which is `<file>_<name>`.
    pub name: &'static str,
    /// The oldest architecture for which the kernel exists.
    pub min_arch: Arch,
    pub(crate) parameters: &'static [Parameter],
    /// Block sizes whose occupancy is queried when the kernel is loaded.
    pub(crate) blocks: &'static [u32],
    pub(crate) shared_bytes: u32,
}

pub(crate) const MAX_BLOCK_SIZES: usize = 4;

const _: () = assert!(KernelKind::Grid.block_sizes().len() <= MAX_BLOCK_SIZES);
const _: () = assert!(KernelKind::Bulk.block_sizes().len() <= MAX_BLOCK_SIZES);

impl Kernel {
    const fn new(name: &'static str, parameters: &'static [Parameter]) -> Self {
        Self { name, parameters, blocks: &[], shared_bytes: 0, min_arch: Arch::OLDEST }
    }

    pub(crate) fn entry(&self, file: &str) -> String {
        format!("{file}_{}", self.name)
    }

    fn of_kind(kind: KernelKind, parameters: &'static [Parameter]) -> Self {
        Self {
            blocks: kind.block_sizes(),
            shared_bytes: shared_bytes(kind),
            min_arch: kind.min_arch(),
            ..Self::new(kind.name(), parameters)
        }
    }
}

/// A kernel of a [`KernelFile::AnyTop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnyTopKernel {
    Select,
    Sort,
    Merge,
    Short,
}

impl AnyTopKernel {
    /// Returns the threads of a block of the selections.
    pub(crate) const fn block(self) -> u32 {
        match self {
            Self::Short => top::NARROW_BLOCK,
            Self::Select | Self::Sort | Self::Merge => top::SELECT_BLOCK,
        }
    }
}

impl Family {
    /// All families.
    pub const ALL: [Self; 8] = [
        Self::Buffer,
        Self::Counted,
        Self::Continued,
        Self::Buffers,
        Self::Rows,
        Self::Axis,
        Self::View,
        Self::Segments,
    ];

    /// Returns the start of the file names, before operation and type.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Buffer => "reducer_",
            Self::Counted => "reducer_counted_",
            Self::Continued => "reducer_continued_",
            Self::Buffers => "reducer_buffers_",
            Self::Rows => "reducer_rows_",
            Self::Axis => "reducer_axis_",
            Self::View => "reducer_view_",
            Self::Segments => "reducer_segments_",
        }
    }

    /// Returns the kernels, in the order of their indices.
    pub fn kernels(self) -> Vec<Kernel> {
        let grid = |parameters| vec![Kernel::of_kind(KernelKind::Grid, parameters)];
        match self {
            Self::Buffer => {
                let kernel = |&kind| Kernel::of_kind(kind, ReduceCut::<()>::PARAMETERS);
                KernelKind::ALL.iter().map(kernel).collect()
            }
            Self::Counted => grid(ReduceCounted::<()>::PARAMETERS),
            Self::Continued => grid(ReduceContinued::<()>::PARAMETERS),
            Self::Buffers => grid(ReduceBuffers::<()>::PARAMETERS),
            Self::Rows => named(RowsKernel::ALL, RowsKernel::name, ReduceRows::<()>::PARAMETERS),
            Self::Axis => named(AxisKernel::ALL, AxisKernel::name, ReduceAxis::<()>::PARAMETERS),
            Self::View => named(ViewKernel::ALL, ViewKernel::name, ReduceView::<()>::PARAMETERS),
            Self::Segments => vec![Kernel::new("path", ReduceSegments::<()>::PARAMETERS)],
        }
    }
}

fn named<K: Copy>(
    kernels: &[K],
    name: fn(K) -> &'static str,
    parameters: &'static [Parameter],
) -> Vec<Kernel> {
    kernels.iter().map(|&kernel| Kernel::new(name(kernel), parameters)).collect()
}

/// Returns the operation and the type whose kernels compute the same bits. Types that differ only in
/// signedness share kernels if the sign does not matter.
fn sharing(op: Op, dtype: Dtype) -> (Op, Dtype) {
    match op.kind {
        OpKind::BitAnd | OpKind::BitOr | OpKind::BitXor | OpKind::CountNonZero => (op, dtype.unsigned()),
        OpKind::SumOfMagnitudes if dtype.is_unsigned() => (OpKind::Sum.plain(), dtype),
        _ => (op, dtype),
    }
}

/// Sizes of elements and keys: 1, 2, 4 and 8 bytes.
const SIZES: u32 = 4;

const DTYPES: usize = Dtype::ALL.len();

impl KernelFile {
    /// One more than the largest [`index`](Self::index).
    pub(crate) const INDICES: usize = Self::Offsets.index() + 1;

    /// Returns every file.
    pub fn all() -> impl Iterator<Item = Self> {
        let families = |(op, dtype)| Family::ALL.map(|family| Self::Reduction(family, op, dtype));
        let has_own = |&(op, dtype): &(Op, Dtype)| sharing(op, dtype) == (op, dtype);
        let tops = |&op| Dtype::ALL.iter().map(move |&dtype| Self::Top(op, dtype));
        let mapped = |&op| {
            let families = move |&dtype| Family::ALL.map(|family| Self::Mapped(family, op, dtype));
            Dtype::ALL.iter().flat_map(families)
        };
        Op::pairs()
            .filter(has_own)
            .flat_map(families)
            .chain(MapOp::ALL.iter().flat_map(mapped))
            .chain(Dtype::ALL.iter().map(|&dtype| Self::Fused(dtype)))
            .chain(PairOp::pairs().map(|(op, dtype)| Self::Pairs(op, dtype)))
            .chain(WithinOp::pairs().map(|(op, dtype)| Self::Within(op, dtype)))
            .chain(TopOp::ALL.iter().flat_map(tops))
            .chain((0..SIZES).map(Self::AnyTop))
            .chain((0..SIZES).map(Self::Runs))
            .chain([Self::Offsets])
    }

    /// Returns the file of a reduction.
    pub fn of(family: Family, op: Op, dtype: Dtype) -> Self {
        let has_forms = !matches!(family, Family::Counted | Family::Continued);
        assert!(has_forms || op.form == Form::OUTPUT, "{op} in {:?}", op.form);
        let (op, dtype) = sharing(Op { form: Form::OUTPUT, ..op }, dtype);
        Self::Reduction(family, op, dtype)
    }

    pub(crate) const fn of_runs(key_bytes: u32) -> Self {
        Self::Runs(key_bytes.ilog2())
    }

    pub(crate) const fn of_any_top(element_bytes: u32) -> Self {
        Self::AnyTop(element_bytes.ilog2())
    }

    pub(crate) const fn index(self) -> usize {
        const MAPPED: usize = Family::ALL.len() * Op::INDICES * DTYPES;
        const FUSED: usize = MAPPED + Family::ALL.len() * MapOp::ALL.len() * DTYPES;
        const PAIRS: usize = FUSED + DTYPES;
        const WITHIN: usize = PAIRS + PairOp::ALL.len() * DTYPES;
        const TOP: usize = WITHIN + WithinOp::ALL.len() * DTYPES;
        const ANY_TOP: usize = TOP + TopOp::ALL.len() * DTYPES;
        const RUNS: usize = ANY_TOP + SIZES as usize;
        match self {
            Self::Reduction(family, op, dtype) => {
                (family as usize * Op::INDICES + op.index()) * DTYPES + dtype as usize
            }
            Self::Mapped(family, op, dtype) => {
                MAPPED + (family as usize * MapOp::ALL.len() + op as usize) * DTYPES + dtype as usize
            }
            Self::Fused(dtype) => FUSED + dtype as usize,
            Self::Pairs(op, dtype) => PAIRS + op as usize * DTYPES + dtype as usize,
            Self::Within(op, dtype) => WITHIN + op as usize * DTYPES + dtype as usize,
            Self::Top(op, dtype) => TOP + op as usize * DTYPES + dtype as usize,
            Self::AnyTop(size) => ANY_TOP + size as usize,
            Self::Runs(size) => RUNS + size as usize,
            Self::Offsets => RUNS + SIZES as usize,
        }
    }

    /// Returns the name of the file, which is a prefix of the names of its entries.
    pub fn name(self) -> String {
        match self {
            Self::Reduction(family, op, dtype) => format!("{}{op}_{dtype}", family.prefix()),
            Self::Mapped(family, op, dtype) => format!("{}{op}_{dtype}", family.prefix()),
            Self::Fused(dtype) => format!("reducer_fused_{dtype}"),
            Self::Pairs(op, dtype) => format!("reducer_pair_{op}_{dtype}"),
            Self::Within(op, dtype) => format!("reducer_within_{op}_{dtype}"),
            Self::Top(op, dtype) => format!("reducer_top_{op}_{dtype}"),
            Self::AnyTop(size) => format!("reducer_top_any_u{}", 8 << size),
            Self::Runs(size) => format!("reducer_runs_u{}", 8 << size),
            Self::Offsets => "reducer_offsets".to_owned(),
        }
    }

    /// Returns the kernels, in the order of their indices.
    pub fn kernels(self) -> Vec<Kernel> {
        match self {
            Self::Reduction(family, ..) | Self::Mapped(family, ..) => family.kernels(),
            // A buffer is a single row, whose launch depends on the first kernel's occupancy.
            Self::Fused(_) => vec![
                Kernel::of_kind(KernelKind::Grid, ReduceRows::<()>::PARAMETERS),
                Kernel::new(RowsKernel::Warp.name(), ReduceRows::<()>::PARAMETERS),
            ],
            // Both kernels have the block sizes and shared memory of the grid kernel.
            Self::Pairs(..) => {
                let grid = Kernel::of_kind(KernelKind::Grid, ReducePair::<()>::PARAMETERS);
                let kernel = |kernel: &PairKernel| Kernel { name: kernel.name(), ..grid };
                PairKernel::ALL.iter().map(kernel).collect()
            }
            Self::Within(..) => {
                vec![Kernel::of_kind(KernelKind::Grid, ReduceWithin::<()>::PARAMETERS)]
            }
            Self::Top(..) => {
                let kernels = &[RowsKernel::Grid, RowsKernel::Warp];
                named(kernels, RowsKernel::name, ReduceTop::<()>::PARAMETERS)
            }
            Self::AnyTop(_) => {
                let select = Kernel {
                    blocks: &[top::SELECT_BLOCK],
                    ..Kernel::new("select", SelectTop::<()>::PARAMETERS)
                };
                let sort = Kernel::new("sort", SortTop::PARAMETERS);
                let short = Kernel::new("short", SelectTop::<()>::PARAMETERS);
                vec![select, sort, Kernel { name: "merge", ..sort }, short]
            }
            Self::Runs(_) => {
                let kernels =
                    [("count", CountRuns::<()>::PARAMETERS), ("write", WriteRuns::<()>::PARAMETERS)];
                let kernel = |(name, parameters)| Kernel {
                    blocks: &[runs::BLOCK],
                    ..Kernel::new(name, parameters)
                };
                kernels.map(kernel).to_vec()
            }
            Self::Offsets => vec![
                Kernel::new("check", CheckOffsets::PARAMETERS),
                Kernel::new("tiles", FindTiles::PARAMETERS),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_file_has_a_name_and_an_index_of_its_own() {
        let files = || KernelFile::all();
        assert_eq!(files().map(KernelFile::name).collect::<HashSet<_>>().len(), files().count());
        let indices: HashSet<_> = files().map(KernelFile::index).collect();
        assert_eq!(indices.len(), files().count());
        assert_eq!(indices.iter().max(), Some(&(KernelFile::INDICES - 1)));
        assert_eq!(KernelFile::of_runs(8).name(), "reducer_runs_u64");
    }
}
