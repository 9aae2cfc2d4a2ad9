//! Tuning: the kernel, block and grid of a reduction, by the size of its input.
//!
//! Measured choices are in tables by operation and type, one file per architecture, which are built into
//! the library. `WARPFOLD_TUNING` names another file. Cases without a table use [`Choice::generic`].

use std::{
    env,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use warpfold::internal;

use crate::{Arch, DeviceInfo, Dtype, Error, Kind, Op, Result, input, shortened};

pub use warpfold::internal::{Blocks, Bracket, Choice, KernelKind};

/// The environment variable that names a tuning file to use instead of the built-in one.
pub const TUNING: &str = "WARPFOLD_TUNING";

/// The file format that this version reads.
pub const FORMAT: u32 = 1;

/// The choices for an operation and type, by ranges of input size in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub op: Op,
    pub dtype: Dtype,
    pub brackets: Vec<Bracket>,
}

/// A tuning file: choices, and the system on which they were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningFile {
    pub format: u32,
    pub gpu: String,
    pub arch: Arch,
    pub multiprocessors: u32,
    /// Version of the driver's CUDA interface, as in `13.0`.
    pub driver: String,
    /// The command that measured the choices.
    pub command: String,
    /// Choices by operation and type. Cases without a table use the generic choice.
    pub tables: Vec<Table>,
}

impl TuningFile {
    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.format != FORMAT {
            return Err(format!("format is {}; this version reads {FORMAT}", file.format));
        }
        for (at, table) in file.tables.iter().enumerate() {
            let Table { op, dtype, .. } = *table;
            if file.tables[..at].iter().any(|other| (other.op, other.dtype) == (op, dtype)) {
                return Err(format!("{op} of {dtype} has two tables; keep one"));
            }
            internal::check(&table.brackets, file.arch)
                .map_err(|reason| format!("{op} of {dtype}: {reason}"))?;
        }
        Ok(file)
    }

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

#[derive(Debug, Clone, Default)]
pub struct Tuning {
    launches: internal::Tuning,
    warning: Option<String>,
}

impl Tuning {
    pub fn generic() -> Self {
        Self::default()
    }

    /// Returns a tuning with one choice for everything. If the device or the PTX has no bulk kernel,
    /// grid kernels run instead.
    pub fn fixed(choice: Choice) -> Result<Self> {
        Ok(Self { launches: internal::Tuning::fixed(choice)?, warning: None })
    }

    /// Returns the tuning for a device: the file that `WARPFOLD_TUNING` names, otherwise the
    /// architecture's built-in one, otherwise the generic one.
    pub fn of(info: &DeviceInfo) -> Self {
        let path = env::var_os(TUNING).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self::with_file(path.as_deref(), info)
    }

    /// Returns the tuning of a file, if given. Otherwise, or if the file cannot be used, returns the
    /// built-in tuning; [`warning`](Self::warning) then gives the reason.
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

    /// Reads a tuning file. Fails if it contains invalid values or was measured on another device.
    pub fn read(path: &Path, info: &DeviceInfo) -> Result<Self> {
        let refused = |reason: String| Error::BadInput {
            path: path.to_owned(),
            reason: shortened(&reason).into_owned(),
        };
        let text = input::text(path, input::MAX_TEXT).map_err(refused)?;
        let file = TuningFile::parse(&text).map_err(refused)?;
        file.require(info).map_err(refused)?;
        Ok(Self::from(&file))
    }

    /// Returns the built-in tuning; for the simulator, where nothing was measured, the generic one.
    fn built_in(info: &DeviceInfo) -> Self {
        let launches = match info.kind {
            Kind::Cuda => internal::Tuning::built_in(info.arch),
            Kind::Sim => internal::Tuning::generic(),
        };
        Self { launches, warning: None }
    }

    pub(super) fn launches(&self) -> &internal::Tuning {
        &self.launches
    }

    /// Returns the reason why a named file was not used.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    pub fn choice(&self, op: Op, dtype: Dtype, bytes: u64, info: &DeviceInfo) -> Choice {
        self.launches.choice(op.library(), dtype, bytes, info.arch)
    }
}

impl From<&TuningFile> for Tuning {
    fn from(file: &TuningFile) -> Self {
        let launches = file.tables.iter().fold(internal::Tuning::generic(), |launches, table| {
            let Table { op, dtype, brackets } = table.clone();
            launches.with((op.library(), dtype), brackets.into())
        });
        Self { launches, warning: None }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let choice = tuning.choice(Op::Sum, Dtype::F32, 1 << 20, &testing_info());
        assert_eq!(choice, Choice::generic(1 << 20, testing_info().arch));
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
        assert_eq!(choice(Op::Max, 1 << 20), Choice::generic(1 << 20, info.arch));
    }

    #[test]
    fn invalid_tuning_files_are_ignored_with_a_warning() {
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
        says("\"f32\"", "\"i24\"", "unknown variant `i24`");
        let mut twice = example();
        twice.tables.push(twice.tables[0].clone());
        assert!(TuningFile::parse(&json(&twice)).unwrap_err().contains("sum of f32 has two tables"));
        let mut none = example();
        none.tables[0].brackets.clear();
        assert!(TuningFile::parse(&json(&none)).unwrap_err().contains("no brackets"));
        let absent = Tuning::with_file(Some(Path::new("/no/such/file.json")), &testing_info());
        assert!(absent.warning().unwrap().contains("/no/such/file.json"));
    }

    /// Compares with the choices of the library, which has its own parser for tuning files.
    #[test]
    fn the_librarys_choices_are_those_of_its_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../warpfold/tuning");
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let file = TuningFile::parse(&fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(path.file_stem().unwrap().to_str().unwrap(), file.arch.to_string());
            let info = DeviceInfo { kind: Kind::Cuda, arch: file.arch, ..testing_info() };
            let tuning = Tuning::built_in(&info);
            assert_eq!(tuning.warning(), None);
            for Table { op, dtype, brackets } in &file.tables {
                for bracket in brackets {
                    let bytes = bracket.up_to.unwrap_or(u64::MAX);
                    assert_eq!(tuning.choice(*op, *dtype, bytes, &info), bracket.choice());
                }
            }
        }
    }
}
