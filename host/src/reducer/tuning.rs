//! Which kernel, block and grid a reduction of so many bytes takes.
//!
//! Measured choices come in tables by operation and type, one file per architecture, which the library
//! carries along; `WARPFOLD_TUNING` names another file. What no table says, [`Choice::generic`] does.

use std::{
    array, env, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Arch, DeviceInfo, Dtype, Error, Kind, Op, Result};

/// Environment variable that names a file of choices to take instead of the library's own.
pub const TUNING: &str = "WARPFOLD_TUNING";

/// The format of the files that this version reads.
pub const FORMAT: u32 = 1;

/// The files that the library carries along, with their names.
const EMBEDDED: &[(&str, &str)] = &[("sm_90.json", include_str!("../../../warpfold/tuning/sm_90.json"))];

/// Which of the reducer's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelKind {
    /// Vector loads into registers.
    Grid,
    /// Bulk copies into shared memory, from compute capability 9.0 on.
    Bulk,
}

impl KernelKind {
    /// Every one.
    pub const ALL: &[Self] = &[Self::Grid, Self::Bulk];

    /// The name that PTX symbols and JSON have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Bulk => "bulk",
        }
    }

    /// The block sizes that it takes.
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
            Self::Bulk => Arch::new(9, 0),
        }
    }
}

/// How many blocks, at most: fewer where not so many are resident or have work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// So many.
    Total(u32),
    /// So many for each multiprocessor.
    PerMultiprocessor(u32),
}

/// A kernel and the shape of its launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Which kernel.
    pub kernel: KernelKind,
    /// Threads of a block.
    pub block: u32,
    /// How many blocks.
    pub blocks: Blocks,
}

/// Most that [`Blocks`] may say, far above what any GPU holds.
const MOST_BLOCKS: u32 = 1 << 16;

impl Choice {
    /// The choice where nothing was measured: one block while the others would cost more than they read,
    /// then as many as keep the memory busy.
    pub fn generic(bytes: u64, info: &DeviceInfo) -> Self {
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
        } else if bytes < 4 * GIB || info.arch < KernelKind::Bulk.min_arch() {
            Self::WITHOUT_BULK
        } else {
            Self { kernel: KernelKind::Bulk, block: 256, blocks: Blocks::PerMultiprocessor(2) }
        }
    }

    /// In place of a bulk kernel that is not there.
    pub(super) const WITHOUT_BULK: Self =
        Self { kernel: KernelKind::Grid, block: 512, blocks: Blocks::PerMultiprocessor(4) };

    /// Refuses what no launch can have, with what is given and what is allowed.
    pub(super) fn check(self, arch: Arch) -> Result<(), String> {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bracket {
    /// Bytes of the largest input; none for the last bracket, which has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
    /// Which kernel.
    pub kernel: KernelKind,
    /// Threads of a block.
    pub block: u32,
    /// How many blocks.
    pub blocks: Blocks,
}

impl Bracket {
    /// A bracket that ends at a size, or has no end.
    pub fn new(up_to: Option<u64>, choice: Choice) -> Self {
        let Choice { kernel, block, blocks } = choice;
        Self { up_to, kernel, block, blocks }
    }

    /// Its choice.
    pub fn choice(self) -> Choice {
        let Self { kernel, block, blocks, .. } = self;
        Choice { kernel, block, blocks }
    }
}

/// The brackets of an operation and type, in order of their sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The operation.
    #[serde(deserialize_with = "named")]
    pub op: Op,
    /// Type of the elements.
    #[serde(deserialize_with = "named")]
    pub dtype: Dtype,
    /// The choices.
    pub brackets: Vec<Bracket>,
}

/// A file of choices, and what they were measured on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningFile {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the GPU.
    pub gpu: String,
    /// Its architecture.
    #[serde(deserialize_with = "named")]
    pub arch: Arch,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Version of the driver's CUDA interface, as in `13.0`.
    pub driver: String,
    /// What was run to measure.
    pub command: String,
    /// The choices; the generic one for what is not among them.
    pub tables: Vec<Table>,
}

/// Reads a name as the command line does.
fn named<'de, D: Deserializer<'de>, T: FromStr<Err = Error>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl TuningFile {
    /// Reads and checks the text of a file.
    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.format != FORMAT {
            return Err(format!("format is {}; this version reads {FORMAT}", file.format));
        }
        for (at, table) in file.tables.iter().enumerate() {
            let Table { op, dtype, .. } = *table;
            if file.tables[..at].iter().any(|other| (other.op, other.dtype) == (op, dtype)) {
                return Err(format!("{op} of {dtype} is there twice"));
            }
            table.check(file.arch).map_err(|reason| format!("{op} of {dtype}: {reason}"))?;
        }
        Ok(file)
    }

    /// Refuses a file of another device.
    fn require(&self, info: &DeviceInfo) -> Result<(), String> {
        let was = (self.gpu.as_str(), self.arch, self.multiprocessors);
        let is = (info.name.as_str(), info.arch, info.multiprocessors);
        if was == is {
            return Ok(());
        }
        let named =
            |(name, arch, count): (&str, Arch, u32)| format!("{name} ({arch}, {count} multiprocessors)");
        Err(format!("it was measured on {}; this is {}", named(was), named(is)))
    }
}

impl Table {
    fn check(&self, arch: Arch) -> Result<(), String> {
        let Some((last, others)) = self.brackets.split_last() else {
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
        self.brackets.iter().try_for_each(|bracket| bracket.choice().check(arch))
    }
}

const OPS: usize = Op::ALL.len();
const DTYPES: usize = Dtype::ALL.len();

/// One of something for each operation and type.
#[derive(Debug, Clone)]
pub(super) struct PerPair<T>([[T; DTYPES]; OPS]);

impl<T: Default> Default for PerPair<T> {
    fn default() -> Self {
        Self(array::from_fn(|_| array::from_fn(|_| T::default())))
    }
}

impl<T> PerPair<T> {
    pub(super) fn get(&self, op: Op, dtype: Dtype) -> &T {
        &self.0[op as usize][dtype as usize]
    }

    fn get_mut(&mut self, op: Op, dtype: Dtype) -> &mut T {
        &mut self.0[op as usize][dtype as usize]
    }
}

/// The choices of a device.
#[derive(Debug, Clone, Default)]
pub struct Tuning {
    brackets: PerPair<Vec<Bracket>>,
    warning: Option<String>,
}

impl Tuning {
    /// [`Choice::generic`] for everything.
    pub fn generic() -> Self {
        Self::default()
    }

    /// One choice for everything. Where the device or the PTX has no bulk kernel, grid kernels run
    /// instead.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a choice that no kernel has.
    pub fn fixed(choice: Choice) -> Result<Self> {
        let refused = |reason| Error::Mismatch { what: "choice", reason };
        choice.check(choice.kernel.min_arch()).map_err(refused)?;
        let mut tuning = Self::generic();
        for (op, dtype) in pairs() {
            tuning.brackets.get_mut(op, dtype).push(Bracket::new(None, choice));
        }
        Ok(tuning)
    }

    /// The choices for a device: those of the file that `WARPFOLD_TUNING` names, else those that the
    /// library carries along for the architecture, else the generic ones.
    pub fn of(info: &DeviceInfo) -> Self {
        let path = env::var_os(TUNING).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self::with_file(path.as_deref(), info)
    }

    /// The choices of a file, where one is given; without it, or where it cannot be taken, the library's
    /// own. [`warning`](Self::warning) then says why.
    pub fn with_file(path: Option<&Path>, info: &DeviceInfo) -> Self {
        match path.map(|path| Self::read(path, info)) {
            Some(Ok(tuning)) => tuning,
            Some(Err(error)) => {
                let warning = format!("{error}; the built-in choices are used");
                Self { warning: Some(warning), ..Self::built_in(info) }
            }
            None => Self::built_in(info),
        }
    }

    /// The choices of a file.
    ///
    /// # Errors
    /// [`Error::BadInput`] when it cannot be read, says what cannot be, or was measured on another
    /// device.
    pub fn read(path: &Path, info: &DeviceInfo) -> Result<Self> {
        let refused = |reason| Error::BadInput { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        let file = TuningFile::parse(&text).map_err(refused)?;
        file.require(info).map_err(refused)?;
        Ok(Self::from(&file))
    }

    /// Those that the library carries along. Another GPU of the same architecture takes them too: most
    /// are counted per multiprocessor, and no grid is larger than what is resident. The simulator, where
    /// nothing was measured, does not.
    fn built_in(info: &DeviceInfo) -> Self {
        let files = EMBEDDED.iter().filter_map(|(_, text)| TuningFile::parse(text).ok());
        let mut of_arch = files.filter(|file| info.kind == Kind::Cuda && file.arch == info.arch);
        of_arch.next().map_or_else(Self::generic, |file| Self::from(&file))
    }

    /// Why a file that was named was not taken.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The choice for an input of so many bytes.
    pub fn choice(&self, op: Op, dtype: Dtype, bytes: u64, info: &DeviceInfo) -> Choice {
        let brackets = self.brackets.get(op, dtype);
        let fits = |bracket: &&Bracket| bracket.up_to.is_none_or(|up_to| bytes <= up_to);
        let found = brackets.iter().find(fits);
        found.map_or_else(|| Choice::generic(bytes, info), |bracket| bracket.choice())
    }
}

impl From<&TuningFile> for Tuning {
    fn from(file: &TuningFile) -> Self {
        let mut tuning = Self::generic();
        for Table { op, dtype, brackets } in &file.tables {
            tuning.brackets.get_mut(*op, *dtype).clone_from(brackets);
        }
        tuning
    }
}

fn pairs() -> impl Iterator<Item = (Op, Dtype)> {
    Op::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing_info;

    fn example() -> TuningFile {
        let grid = |up_to, block, blocks| Bracket { up_to, kernel: KernelKind::Grid, block, blocks };
        let large =
            Choice { kernel: KernelKind::Bulk, block: 256, blocks: Blocks::PerMultiprocessor(2) };
        let info = testing_info();
        let brackets = vec![
            grid(Some(16_384), 512, Blocks::Total(1)),
            grid(Some(1 << 26), 1024, Blocks::PerMultiprocessor(2)),
            Bracket::new(None, large),
        ];
        TuningFile {
            format: FORMAT,
            gpu: info.name,
            arch: info.arch,
            multiprocessors: info.multiprocessors,
            driver: "13.0".to_owned(),
            command: "cargo xtask tune".to_owned(),
            tables: vec![Table { op: Op::Sum, dtype: Dtype::F32, brackets }],
        }
    }

    fn json(file: &TuningFile) -> String {
        serde_json::to_string_pretty(file).unwrap()
    }

    /// What is said of a file with one part of its text replaced.
    fn warning(from: &str, to: &str) -> String {
        let text = json(&example());
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "{from} is not in {text}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuning.json");
        fs::write(&path, changed).unwrap();
        let tuning = Tuning::with_file(Some(&path), &testing_info());
        let warning = tuning.warning().expect(to).to_owned();
        assert!(warning.contains("tuning.json") && warning.contains("built-in"), "{warning}");
        assert_eq!(warning.lines().count(), 1, "{warning}");
        // Nothing of the file is taken.
        let choice = tuning.choice(Op::Sum, Dtype::F32, 1 << 20, &testing_info());
        assert_eq!(choice, Choice::generic(1 << 20, &testing_info()));
        warning
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let file = example();
        assert_eq!(TuningFile::parse(&json(&file)).unwrap(), file);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuning.json");
        fs::write(&path, json(&file)).unwrap();
        let info = testing_info();
        let tuning = Tuning::with_file(Some(&path), &info);
        assert_eq!(tuning.warning(), None);
        let choice = |op, bytes| tuning.choice(op, Dtype::F32, bytes, &info);
        assert_eq!(choice(Op::Sum, 16_384).blocks, Blocks::Total(1));
        assert_eq!((choice(Op::Sum, 16_385).block, choice(Op::Sum, 1 << 26).block), (1024, 1024));
        assert_eq!(choice(Op::Sum, u64::MAX).kernel, KernelKind::Bulk);
        assert_eq!(choice(Op::Max, 1 << 20), Choice::generic(1 << 20, &info));
    }

    #[test]
    fn what_is_damaged_or_cannot_be_is_left_out_with_a_warning() {
        let says = |from: &str, to: &str, part: &str| {
            let warning = warning(from, to);
            assert!(warning.contains(part), "{from} -> {to}: {warning}");
        };
        says("{", "", "expected");
        says("\"format\": 1", "\"format\": 2", "format is 2");
        says("\"format\": 1", "\"format\": -1", "invalid value");
        says("\"gpu\"", "\"cpu\"", "unknown field");
        says("PTX simulator", "NVIDIA H100", "measured on NVIDIA H100 (sm_90");
        says("sm_90", "sm_80", "the bulk kernel needs sm_90; this is sm_80");
        says("sm_90", "sm_100", "measured on PTX simulator (sm_100");
        says("sm_90", "ninety", "arch `ninety` is not of the form");
        says("\"multiprocessors\": 8", "\"multiprocessors\": 9", "9 multiprocessors");
        says(
            "\"block\": 512",
            "\"block\": 7",
            "block is 7; the grid kernel takes [128, 256, 512, 1024]",
        );
        says("\"block\": 256", "\"block\": 1024", "block is 1024; the bulk kernel takes [256, 512]");
        says("\"total\": 1", "\"total\": 0", "0 blocks");
        says("\"total\": 1", "\"total\": 100000", "100000 blocks");
        says("\"total\": 1", "\"total\": -1", "invalid value");
        says("\"total\": 1", "\"some\": 1", "unknown variant");
        says("\"up_to\": 16384,", "", "up_to is missing");
        says("\"up_to\": 16384", "\"up_to\": 0", "up_to is 0; it must be above 0");
        says("\"up_to\": 67108864", "\"up_to\": 16384", "up_to is 16384; it must be above 16384");
        says("\"kernel\": \"bulk\"", "\"up_to\": 99999999, \"kernel\": \"bulk\"", "the last bracket");
        says("\"kernel\": \"grid\"", "\"kernel\": \"gird\"", "unknown variant");
        says("\"sum\"", "\"product\"", "unknown operation `product`");
        says("\"f32\"", "\"i16\"", "unknown type `i16`");
        let mut twice = example();
        twice.tables.push(twice.tables[0].clone());
        assert!(TuningFile::parse(&json(&twice)).unwrap_err().contains("sum of f32 is there twice"));
        let mut none = example();
        none.tables[0].brackets.clear();
        assert!(TuningFile::parse(&json(&none)).unwrap_err().contains("no brackets"));
        let absent = Tuning::with_file(Some(Path::new("/no/such/file.json")), &testing_info());
        assert!(absent.warning().unwrap().contains("/no/such/file.json"));
    }

    #[test]
    fn the_files_that_come_along_are_right() {
        for (name, text) in EMBEDDED {
            let file = TuningFile::parse(text).unwrap_or_else(|reason| panic!("{name}: {reason}"));
            assert_eq!(format!("{}.json", file.arch), *name);
            let info = DeviceInfo { kind: Kind::Cuda, arch: file.arch, ..testing_info() };
            let tuning = Tuning::built_in(&info);
            assert_eq!(tuning.warning(), None);
            for Table { op, dtype, brackets } in &file.tables {
                assert_eq!(tuning.brackets.get(*op, *dtype), brackets);
            }
        }
    }

    #[test]
    fn any_device_has_a_generic_choice() {
        for arch in [Arch::OLDEST, Arch::new(9, 0), Arch::new(12, 0)] {
            let info = DeviceInfo { kind: Kind::Cuda, arch, ..testing_info() };
            let mut last = None;
            for bytes in (0..40).map(|log| 1_u64 << log).chain([0, u64::MAX]) {
                let choice = Choice::generic(bytes, &info);
                assert_eq!(choice.check(arch), Ok(()), "{bytes} on {arch}");
                last = Some(choice.kernel);
            }
            let bulk = arch >= Arch::new(9, 0);
            assert_eq!(last, Some(if bulk { KernelKind::Bulk } else { KernelKind::Grid }));
        }
        assert_eq!(Choice::generic(32 << 10, &testing_info()).blocks, Blocks::Total(1));
        assert_eq!(Choice::generic((32 << 10) + 1, &testing_info()).blocks, Blocks::Total(16));
    }

    #[test]
    fn a_fixed_choice_is_for_everything_and_must_be_possible() {
        let choice = Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::Total(7) };
        let tuning = Tuning::fixed(choice).unwrap();
        for (op, dtype) in pairs() {
            assert_eq!(tuning.choice(op, dtype, 1, &testing_info()), choice);
        }
        for wrong in [Choice { block: 64, ..choice }, Choice { blocks: Blocks::Total(0), ..choice }] {
            assert!(matches!(Tuning::fixed(wrong), Err(Error::Mismatch { what: "choice", .. })));
        }
    }
}
