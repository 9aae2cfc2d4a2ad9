//! Which kernel, block and grid a reduction takes, by the number of its bytes.
//!
//! Measured choices come in tables by operation and type, one file per architecture, which the build
//! script makes Rust of. What no table says, [`Choice::generic`] does.

use std::{borrow::Cow, sync::OnceLock};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    arch::Arch,
    names::{Dtype, KernelKind, Op, PerPair},
};

/// What a launch is fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The architecture that was measured.
    pub arch: Arch,
    /// How many streaming multiprocessors it has.
    pub multiprocessors: u32,
    /// Most threads resident on one multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Most blocks resident on one multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Bytes of the L2 cache; 0 where there is none.
    pub l2_bytes: u64,
}

#[cfg(test)]
impl Shape {
    /// That of an H200.
    pub(crate) const H200: Self = Self {
        arch: Arch::HOPPER,
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        l2_bytes: 60 << 20,
    };
}

impl Shape {
    /// Blocks of this many threads that fill the device once, by threads alone.
    pub fn resident_blocks(self, block: u32) -> u32 {
        let per_multiprocessor =
            (self.threads_per_multiprocessor / block).clamp(1, self.blocks_per_multiprocessor.max(1));
        self.multiprocessors * per_multiprocessor
    }
}

impl KernelKind {
    /// The block sizes that it takes, in threads.
    pub const fn block_sizes(self) -> &'static [u32] {
        match self {
            Self::Grid => &[128, 256, 512, 1024],
            Self::Bulk => &[256, 512],
        }
    }

    /// The oldest architecture that has it.
    pub const fn min_arch(self) -> Arch {
        match self {
            Self::Grid => Arch::OLDEST,
            Self::Bulk => Arch::HOPPER,
        }
    }
}

/// How many blocks, at most: fewer where fewer are resident or have work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Blocks {
    /// A number of the whole grid.
    Total(u32),
    /// A number for each multiprocessor.
    PerMultiprocessor(u32),
}

/// A kernel and the shape of its launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Which kernel is launched.
    pub kernel: KernelKind,
    /// Threads of a block.
    pub block: u32,
    /// How many blocks are launched.
    pub blocks: Blocks,
}

/// Most that [`Blocks`] may say, far above what any GPU holds.
const MOST_BLOCKS: u32 = 1 << 16;

impl Choice {
    /// The choice where nothing was measured: one block while the others would cost more than they read,
    /// then as many as keep the memory busy.
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

    /// For operations that are limited by instructions, of which the bulk kernel needs fewest. Of `f16`
    /// two blocks have room for what their threads keep.
    const fn by_instructions(dtype: Dtype) -> Self {
        let blocks = if matches!(dtype, Dtype::F16) { 2 } else { 1 };
        Self { kernel: KernelKind::Bulk, block: 512, blocks: Blocks::PerMultiprocessor(blocks) }
    }

    /// In place of a bulk kernel that is not there.
    pub(crate) const WITHOUT_BULK: Self =
        Self { kernel: KernelKind::Grid, block: 512, blocks: Blocks::PerMultiprocessor(4) };

    /// About as many threads, in blocks of `block` threads.
    pub(crate) fn in_blocks_of(self, block: u32) -> Self {
        let more = (self.block / block).max(1);
        let blocks = match self.blocks {
            Blocks::Total(count) => Blocks::Total(count * more),
            Blocks::PerMultiprocessor(count) => Blocks::PerMultiprocessor(count * more),
        };
        Self { block, blocks, ..self }
    }

    /// Refuses what no launch on an architecture can have.
    ///
    /// # Errors
    /// What is given and what is allowed, in one line.
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

/// The choice for inputs up to a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Bracket {
    /// Bytes of the largest input; none for the last bracket, which has no end.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub up_to: Option<u64>,
    /// Which kernel is launched.
    pub kernel: KernelKind,
    /// Threads of a block.
    pub block: u32,
    /// How many blocks are launched.
    pub blocks: Blocks,
}

impl Bracket {
    /// A bracket that ends at a size in bytes, or has no end.
    pub fn new(up_to: Option<u64>, choice: Choice) -> Self {
        let Choice { kernel, block, blocks } = choice;
        Self { up_to, kernel, block, blocks }
    }

    /// Returns the choice of this row.
    pub fn choice(self) -> Choice {
        let Self { kernel, block, blocks, .. } = self;
        Choice { kernel, block, blocks }
    }
}

/// Refuses brackets that leave a size out, have one twice, or choose what an architecture cannot launch.
///
/// # Errors
/// What is given and what is allowed, in one line.
pub fn check(brackets: &[Bracket], arch: Arch) -> Result<(), String> {
    let Some((last, others)) = brackets.split_last() else {
        return Err("there are no brackets; leave the table out".to_owned());
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

/// What was measured on a GPU of an architecture.
struct Measured {
    arch: Arch,
    tables: &'static [(&'static str, &'static str, &'static [Bracket])],
}

/// What the library carries along.
static BUILT_IN: &[Measured] = include!(concat!(env!("OUT_DIR"), "/tuning.rs"));

/// The choices of a device.
#[derive(Debug, Clone, Default)]
pub struct Tuning(PerPair<Cow<'static, [Bracket]>>);

impl Tuning {
    /// Returns a tuning that has [`Choice::generic`] for everything.
    pub fn generic() -> Self {
        Self::default()
    }

    /// One choice for everything. Where the device or the PTX has no bulk kernel, grid kernels run
    /// instead.
    ///
    /// # Errors
    /// [`Error::Choice`] for a choice that no kernel has.
    pub fn fixed(choice: Choice) -> Result<Self> {
        choice.check(choice.kernel.min_arch()).map_err(|reason| Error::Choice { reason })?;
        let bracket = Bracket::new(None, choice);
        Ok(Op::pairs().fold(Self::generic(), |tuning, pair| tuning.with(pair, vec![bracket].into())))
    }

    /// The same choices but for one operation and type, whose brackets [`check`] has accepted.
    #[must_use]
    pub fn with(mut self, (op, dtype): (Op, Dtype), brackets: Cow<'static, [Bracket]>) -> Self {
        *self.0.get_mut(op, dtype) = brackets;
        self
    }

    /// The choices that the library carries along for an architecture. Every GPU of it takes them: most
    /// are counted per multiprocessor, and no grid is larger than what is resident.
    pub fn built_in(arch: Arch) -> Self {
        static TUNINGS: OnceLock<Vec<(Arch, Tuning)>> = OnceLock::new();
        let tunings =
            TUNINGS.get_or_init(|| BUILT_IN.iter().map(|file| (file.arch, Self::from(file))).collect());
        let found = tunings.iter().find(|(measured, _)| *measured == arch);
        found.map_or_else(Self::generic, |(_, tuning)| tuning.clone())
    }

    /// The choice for an input of `bytes` bytes. Where nothing was measured of a type, what was measured
    /// of [another](Dtype::measured_as) of its size is taken.
    pub fn choice(&self, op: Op, dtype: Dtype, bytes: u64, arch: Arch) -> Choice {
        // From more bytes on instructions are the limit, and not the time that blocks take to meet.
        const BY_INSTRUCTIONS_ABOVE: u64 = 64 << 20;
        if op.has_products() && bytes > BY_INSTRUCTIONS_ABOVE {
            return Choice::by_instructions(dtype);
        }
        let fits = |bracket: &&Bracket| bracket.up_to.is_none_or(|up_to| bytes <= up_to);
        let measured = |dtype| self.0.get(op.measured_as(), dtype).iter().find(fits);
        let found = measured(dtype).or_else(|| measured(dtype.measured_as()));
        found.map_or_else(|| Choice::generic(bytes, arch), |bracket| bracket.choice())
    }
}

impl From<&Measured> for Tuning {
    fn from(file: &Measured) -> Self {
        let mut tuning = Self::generic();
        for &(op, dtype, brackets) in file.tables {
            // The test below finds a name that nothing has.
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
    fn the_tables_that_come_along_are_complete_and_possible() {
        assert!(!BUILT_IN.is_empty());
        for Measured { arch, tables } in BUILT_IN {
            let tuning = Tuning::built_in(*arch);
            let pairs = Op::pairs()
                .filter(|(op, dtype)| (op.measured_as(), dtype.measured_as()) == (*op, *dtype));
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
    fn brackets_that_cannot_be_are_refused_with_what_is_allowed() {
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
    fn a_type_that_was_not_measured_has_the_choices_of_another_of_its_size() {
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

    /// The sizes at which the next choice begins, and both sides of each.
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

    /// Of an H200, which holds 2 048 threads and 32 blocks on each of 132 multiprocessors.
    #[test]
    fn blocks_are_resident_as_threads_and_the_devices_limit_allow() {
        let shape = Shape::H200;
        let resident = [32, 64, 128, 512, 768, 1024].map(|block| shape.resident_blocks(block));
        assert_eq!(resident, [132 * 32, 132 * 32, 132 * 16, 132 * 4, 132 * 2, 132 * 2]);
        let small = Shape { threads_per_multiprocessor: 512, blocks_per_multiprocessor: 0, ..shape };
        assert_eq!(small.resident_blocks(1024), 132, "what does not fit is one, which a launch refuses");
    }

    #[test]
    fn a_fixed_choice_is_for_everything_and_must_be_possible() {
        let choice = Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::Total(7) };
        let tuning = Tuning::fixed(choice).unwrap();
        assert!(Op::pairs().all(|(op, dtype)| tuning.choice(op, dtype, 1, HOPPER) == choice));
        for wrong in [Choice { block: 64, ..choice }, Choice { blocks: Blocks::Total(0), ..choice }] {
            assert!(matches!(Tuning::fixed(wrong), Err(Error::Choice { .. })));
        }
    }
}
