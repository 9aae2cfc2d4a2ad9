//! The choice of kernel, block size and grid size by the number of bytes.
//!
//! Measured choices are tables by operation and type, in one file per architecture, from which the build
//! script generates Rust. Without a table, [`Choice::generic`] applies.

use std::{borrow::Cow, sync::OnceLock};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use warpfold_ptx::Arch;

use crate::{
    Error, Result,
    names::{Dtype, KernelKind, Op, PerPair},
};

/// The device properties that launches depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The architecture.
    pub arch: Arch,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Maximum number of resident threads per multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Maximum number of resident blocks per multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Size of the L2 cache in bytes; 0 if there is none.
    pub l2_bytes: u64,
}

#[cfg(test)]
impl Shape {
    pub(crate) const H200: Self = Self {
        arch: Arch::HOPPER,
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        l2_bytes: 60 << 20,
    };
}

impl Shape {
    /// Returns the number of resident blocks of `block` threads, limited only by the numbers of threads
    /// and blocks.
    pub fn resident_blocks(self, block: u32) -> u32 {
        let per_multiprocessor =
            (self.threads_per_multiprocessor / block).clamp(1, self.blocks_per_multiprocessor.max(1));
        self.multiprocessors * per_multiprocessor
    }
}

impl KernelKind {
    /// Returns the possible block sizes, in threads.
    pub const fn block_sizes(self) -> &'static [u32] {
        match self {
            Self::Grid => &[128, 256, 512, 1024],
            Self::Bulk => &[256, 512],
        }
    }

    /// Returns the oldest architecture that has the kernel.
    pub const fn min_arch(self) -> Arch {
        match self {
            Self::Grid => Arch::OLDEST,
            Self::Bulk => Arch::HOPPER,
        }
    }
}

/// An upper limit of the number of blocks. Launches have fewer blocks if fewer are resident or have
/// work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Blocks {
    /// Blocks of the whole grid.
    Total(u32),
    /// Blocks per multiprocessor.
    PerMultiprocessor(u32),
}

/// A kernel and the shape of its launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The kernel.
    pub kernel: KernelKind,
    /// Threads per block.
    pub block: u32,
    /// Number of blocks.
    pub blocks: Blocks,
}

/// Maximum number in [`Blocks`], far above the capacity of any GPU.
const MOST_BLOCKS: u32 = 1 << 16;

impl Choice {
    /// Returns the choice without measurements: one block for inputs so small that more blocks cost more
    /// time than they save, and otherwise enough blocks to keep the memory busy.
    pub fn generic(bytes: u64, arch: Arch) -> Self {
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        let grid = |block, blocks| Self { kernel: KernelKind::Grid, block, blocks };
        if bytes <= 32 * KIB {
            grid(512, Blocks::Total(1))
        } else if bytes <= 256 * KIB {
            grid(256, Blocks::Total(16))
        } else if bytes <= 64 * MIB {
            grid(512, Blocks::PerMultiprocessor(2))
        } else if bytes < 4 * GIB || arch < KernelKind::Bulk.min_arch() {
            Self::WITHOUT_BULK
        } else {
            Self { kernel: KernelKind::Bulk, block: 256, blocks: Blocks::PerMultiprocessor(2) }
        }
    }

    /// Returns the choice for operations limited by instructions: the bulk kernel, which needs the
    /// fewest. For `f16`, its registers allow two resident blocks per multiprocessor.
    const fn by_instructions(dtype: Dtype) -> Self {
        let blocks = if matches!(dtype, Dtype::F16) { 2 } else { 1 };
        Self { kernel: KernelKind::Bulk, block: 512, blocks: Blocks::PerMultiprocessor(blocks) }
    }

    /// The choice that replaces a bulk kernel where there is none.
    pub(crate) const WITHOUT_BULK: Self =
        Self { kernel: KernelKind::Grid, block: 512, blocks: Blocks::PerMultiprocessor(4) };

    /// Returns the choice changed to blocks of `block` threads, with about as many threads in all.
    pub(crate) fn in_blocks_of(self, block: u32) -> Self {
        let more = (self.block / block).max(1);
        let blocks = match self.blocks {
            Blocks::Total(count) => Blocks::Total(count * more),
            Blocks::PerMultiprocessor(count) => Blocks::PerMultiprocessor(count * more),
        };
        Self { block, blocks, ..self }
    }

    /// Checks that an architecture can launch the choice.
    ///
    /// # Errors
    /// The given value and the allowed ones, in one line.
    pub fn check(self, arch: Arch) -> Result<(), String> {
        let Self { kernel, block, blocks } = self;
        let (name, sizes) = (kernel.name(), kernel.block_sizes());
        if !sizes.contains(&block) {
            return Err(format!("block is {block}; the {name} kernel takes {sizes:?}"));
        }
        let (Blocks::Total(count) | Blocks::PerMultiprocessor(count)) = blocks;
        if !(1..=MOST_BLOCKS).contains(&count) {
            return Err(format!("{count} blocks; allowed are 1 to {MOST_BLOCKS}"));
        }
        if arch < kernel.min_arch() {
            return Err(format!("the {name} kernel needs {}; this is {arch}", kernel.min_arch()));
        }
        Ok(())
    }
}

/// The launch choice for inputs of up to a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Bracket {
    /// Size of the largest input in bytes; `None` in the last bracket, which is unlimited.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub up_to: Option<u64>,
    /// The kernel.
    pub kernel: KernelKind,
    /// Threads per block.
    pub block: u32,
    /// Number of blocks.
    pub blocks: Blocks,
}

impl Bracket {
    /// Returns a bracket up to a size in bytes, or an unlimited one.
    pub fn new(up_to: Option<u64>, choice: Choice) -> Self {
        let Choice { kernel, block, blocks } = choice;
        Self { up_to, kernel, block, blocks }
    }

    /// Returns the choice of the bracket.
    pub fn choice(self) -> Choice {
        let Self { kernel, block, blocks, .. } = self;
        Choice { kernel, block, blocks }
    }
}

/// Checks that brackets ascend, end with an unlimited one, and can be launched on an architecture.
///
/// # Errors
/// The given value and the allowed ones, in one line.
pub fn check(brackets: &[Bracket], arch: Arch) -> Result<(), String> {
    let Some((last, others)) = brackets.split_last() else {
        return Err("the table has no brackets; leave it out".to_owned());
    };
    if last.up_to.is_some() {
        return Err("the last bracket has an up_to; leave it out".to_owned());
    }
    let mut previous = 0;
    for bracket in others {
        match bracket.up_to {
            Some(up_to) if up_to > previous => previous = up_to,
            other => {
                let given = other.map_or_else(|| "missing".to_owned(), |up_to| up_to.to_string());
                return Err(format!("up_to is {given}; it must be above {previous}"));
            }
        }
    }
    brackets.iter().try_for_each(|bracket| bracket.choice().check(arch))
}

struct Measured {
    arch: Arch,
    tables: &'static [(&'static str, &'static str, &'static [Bracket])],
}

static BUILT_IN: &[Measured] = include!(concat!(env!("OUT_DIR"), "/tuning.rs"));

/// The launch choices of a device.
#[derive(Debug, Clone, Default)]
pub struct Tuning(PerPair<Cow<'static, [Bracket]>>);

impl Tuning {
    /// Returns a tuning with [`Choice::generic`] for every operation, type and size.
    pub fn generic() -> Self {
        Self::default()
    }

    /// Returns a tuning with one choice for every operation, type and size. A grid kernel replaces a
    /// bulk kernel that the device or the PTX does not have.
    ///
    /// # Errors
    /// [`Error::Choice`] for a choice that no kernel supports.
    pub fn fixed(choice: Choice) -> Result<Self> {
        choice.check(choice.kernel.min_arch()).map_err(|reason| Error::Choice { reason })?;
        let bracket = Bracket::new(None, choice);
        Ok(Op::pairs().fold(Self::generic(), |tuning, pair| tuning.with(pair, vec![bracket].into())))
    }

    /// Returns the tuning with other brackets, accepted by [`check`], for one operation and type.
    #[must_use]
    pub fn with(mut self, (op, dtype): (Op, Dtype), brackets: Cow<'static, [Bracket]>) -> Self {
        *self.0.get_mut(op, dtype) = brackets;
        self
    }

    /// Returns the built-in tuning of an architecture. It fits every GPU of the architecture: most
    /// numbers of blocks are per multiprocessor, and no grid exceeds the resident blocks.
    pub fn built_in(arch: Arch) -> Self {
        static TUNINGS: OnceLock<Vec<(Arch, Tuning)>> = OnceLock::new();
        let tunings =
            TUNINGS.get_or_init(|| BUILT_IN.iter().map(|file| (file.arch, Self::from(file))).collect());
        let found = tunings.iter().find(|(measured, _)| *measured == arch);
        found.map_or_else(Self::generic, |(_, tuning)| tuning.clone())
    }

    /// Returns the choice for an input of `bytes` bytes. A type that was not measured uses the choices
    /// of [another one](Dtype::tuning_proxy) of its size.
    pub fn choice(&self, op: Op, dtype: Dtype, bytes: u64, arch: Arch) -> Choice {
        // Above this size, instructions limit the speed. Below it, the time to combine the results of
        // blocks limits the speed.
        const BY_INSTRUCTIONS_ABOVE: u64 = 64 << 20;
        if op.has_products() && bytes > BY_INSTRUCTIONS_ABOVE {
            return Choice::by_instructions(dtype);
        }
        let fits = |bracket: &&Bracket| bracket.up_to.is_none_or(|up_to| bytes <= up_to);
        let measured = |dtype| self.0.get(op.tuning_proxy(), dtype).iter().find(fits);
        let found = measured(dtype).or_else(|| measured(dtype.tuning_proxy()));
        found.map_or_else(|| Choice::generic(bytes, arch), |bracket| bracket.choice())
    }
}

impl From<&Measured> for Tuning {
    fn from(file: &Measured) -> Self {
        let mut tuning = Self::generic();
        for &(op, dtype, brackets) in file.tables {
            // A test below detects unknown names.
            if let (Ok(op), Ok(dtype)) = (op.parse(), dtype.parse()) {
                tuning = tuning.with((op, dtype), brackets.into());
            }
        }
        tuning
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::OpKind;

    const HOPPER: Arch = Arch::HOPPER;

    fn grid(up_to: Option<u64>, block: u32, blocks: Blocks) -> Bracket {
        Bracket { up_to, kernel: KernelKind::Grid, block, blocks }
    }

    #[test]
    fn built_in_tables_are_complete_and_valid() {
        assert!(!BUILT_IN.is_empty());
        for Measured { arch, tables } in BUILT_IN {
            let tuning = Tuning::built_in(*arch);
            let pairs = Op::pairs()
                .filter(|(op, dtype)| (op.tuning_proxy(), dtype.tuning_proxy()) == (*op, *dtype));
            assert_eq!(tables.len(), pairs.clone().count(), "{arch}");
            for (op, dtype) in pairs {
                let mut named =
                    tables.iter().filter(|table| (table.0, table.1) == (op.name(), dtype.name()));
                let (_, _, brackets) = named.next().unwrap_or_else(|| panic!("no {op} of {dtype}"));
                assert!(named.next().is_none(), "{op} of {dtype} is there twice");
                assert_eq!(check(brackets, *arch), Ok(()), "{op} of {dtype}");
                assert_eq!(tuning.0.get(op, dtype).as_ref(), *brackets);
            }
        }
    }

    #[test]
    fn check_rejects_invalid_brackets() {
        let refused = |brackets: &[Bracket], part: &str| {
            let reason = check(brackets, HOPPER).expect_err(part);
            assert!(reason.contains(part), "{reason}");
        };
        let (one, rest) = (Blocks::Total(1), grid(None, 128, Blocks::Total(7)));
        assert_eq!(check(&[grid(Some(9), 128, one), rest], HOPPER), Ok(()));
        refused(&[], "no brackets");
        refused(&[grid(Some(9), 128, one)], "the last bracket has an up_to");
        refused(&[grid(None, 128, one), rest], "up_to is missing");
        refused(&[grid(Some(0), 128, one), rest], "up_to is 0; it must be above 0");
        refused(&[grid(Some(9), 128, one), grid(Some(9), 128, one), rest], "must be above 9");
        refused(&[grid(None, 7, one)], "block is 7; the grid kernel takes [128, 256, 512, 1024]");
        refused(&[grid(None, 128, Blocks::Total(0))], "0 blocks");
        refused(&[grid(None, 128, Blocks::PerMultiprocessor(100_000))], "100000 blocks");
        let bulk = Bracket { kernel: KernelKind::Bulk, ..grid(None, 256, one) };
        assert_eq!(check(&[bulk], HOPPER), Ok(()));
        let reason = check(&[bulk], Arch::OLDEST).unwrap_err();
        assert!(reason.contains("the bulk kernel needs sm_90; this is sm_80"), "{reason}");
    }

    #[test]
    fn a_size_finds_its_bracket() {
        let brackets =
            vec![grid(Some(16_384), 512, Blocks::Total(1)), grid(None, 1024, Blocks::Total(2))];
        let tuning = Tuning::generic().with((OpKind::Sum.plain(), Dtype::F32), brackets.into());
        let block = |bytes| tuning.choice(OpKind::Sum.plain(), Dtype::F32, bytes, HOPPER).block;
        assert_eq!((block(16_384), block(16_385), block(u64::MAX)), (512, 1024, 1024));
        let other = tuning.choice(OpKind::Max.plain(), Dtype::F32, 1 << 20, HOPPER);
        assert_eq!(other, Choice::generic(1 << 20, HOPPER));
    }

    #[test]
    fn unmeasured_type_uses_choices_of_a_type_of_its_size() {
        let one = |block| vec![grid(None, block, Blocks::Total(1))].into();
        let tuning = Tuning::generic().with((OpKind::Sum.plain(), Dtype::F16), one(512));
        let block =
            |tuning: &Tuning, dtype| tuning.choice(OpKind::BitXor.plain(), dtype, 1 << 20, HOPPER).block;
        assert_eq!([Dtype::I16, Dtype::U16].map(|dtype| block(&tuning, dtype)), [512; 2]);
        let tuning = tuning.with((OpKind::Sum.plain(), Dtype::I16), one(128));
        assert_eq!([Dtype::I16, Dtype::U16].map(|dtype| block(&tuning, dtype)), [128, 512]);
        let generic = Tuning::generic().choice(OpKind::Sum.plain(), Dtype::I16, 1 << 20, HOPPER);
        assert_eq!(generic, Choice::generic(1 << 20, HOPPER));
    }

    #[test]
    fn any_architecture_has_a_generic_choice() {
        for arch in [Arch::OLDEST, HOPPER, Arch::new(12, 0)] {
            let mut last = None;
            for bytes in (0..40).map(|log| 1_u64 << log).chain([0, u64::MAX]) {
                let choice = Choice::generic(bytes, arch);
                assert_eq!(choice.check(arch), Ok(()), "{bytes} on {arch}");
                last = Some(choice.kernel);
            }
            let bulk = arch >= HOPPER;
            assert_eq!(last, Some(if bulk { KernelKind::Bulk } else { KernelKind::Grid }));
        }
    }

    #[test]
    fn larger_inputs_have_more_blocks_where_nothing_was_measured() {
        let choice = |bytes, arch| {
            let Choice { kernel, block, blocks } = Choice::generic(bytes, arch);
            (kernel, block, blocks)
        };
        let grid = |block, blocks| (KernelKind::Grid, block, blocks);
        let bulk = (KernelKind::Bulk, 256, Blocks::PerMultiprocessor(2));
        let (one, few) = (grid(512, Blocks::Total(1)), grid(256, Blocks::Total(16)));
        let [some, many] = [2, 4].map(|blocks| grid(512, Blocks::PerMultiprocessor(blocks)));
        for (last, below, above) in [
            (32_768, one, few),
            (262_144, few, some),
            (67_108_864, some, many),
            (4_294_967_295, many, bulk),
        ] {
            assert_eq!((choice(last, HOPPER), choice(last + 1, HOPPER)), (below, above), "{last}");
        }
        assert_eq!(choice(1 << 38, Arch::new(8, 9)), many, "there is no bulk kernel");
    }

    #[test]
    fn resident_blocks_follow_thread_and_block_limits() {
        let shape = Shape::H200;
        let resident = [32, 64, 128, 512, 768, 1024].map(|block| shape.resident_blocks(block));
        assert_eq!(resident, [132 * 32, 132 * 32, 132 * 16, 132 * 4, 132 * 2, 132 * 2]);
        let small = Shape { threads_per_multiprocessor: 512, blocks_per_multiprocessor: 0, ..shape };
        assert_eq!(small.resident_blocks(1024), 132, "what does not fit is one, which a launch refuses");
    }

    #[test]
    fn fixed_choice_applies_everywhere_and_is_validated() {
        let choice = Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::Total(7) };
        let tuning = Tuning::fixed(choice).unwrap();
        assert!(Op::pairs().all(|(op, dtype)| tuning.choice(op, dtype, 1, HOPPER) == choice));
        for wrong in [Choice { block: 64, ..choice }, Choice { blocks: Blocks::Total(0), ..choice }] {
            assert!(matches!(Tuning::fixed(wrong), Err(Error::Choice { .. })));
        }
    }
}
