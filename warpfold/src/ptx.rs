//! PTX of the reducer's kernels: embedded in the library, in a developer's folder, or given by the test
//! suite.

use std::{
    borrow::Cow,
    env,
    error::Error as StdError,
    ffi::OsString,
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use warpfold_ptx::{Arch, with_entry_only};

use crate::{
    Error, Result,
    archive::{Archive, Damaged},
    kernel_file::Kernel,
    names::KernelKind,
    signature,
};

/// Environment variable with a folder of PTX that replaces the embedded one during work on the kernels:
/// `<folder>/<code generator>/<architecture>/<name>.ptx`.
const PTX_DIR: &str = "WARPFOLD_PTX_DIR";

const CODEGEN: &str = "WARPFOLD_CODEGEN";

const DEFAULT_CODEGEN: &str = "llvm";

/// The contents of a PTX file.
#[derive(Debug, Clone)]
pub struct Ptx {
    /// The name in error messages.
    pub origin: String,
    /// The PTX.
    pub text: Cow<'static, str>,
    /// The architecture that it was compiled for.
    pub arch: Arch,
}

impl Ptx {
    /// Returns the PTX of one kernel only, or all of it if it is in a form that cannot be divided.
    pub(crate) fn with_entry_only(&self, entry: &str) -> Self {
        let text = with_entry_only(&self.text, entry);
        let text = text.map_or_else(|| self.text.clone(), Cow::Owned);
        Self { origin: self.origin.clone(), text, arch: self.arch }
    }

    /// Returns the PTX with the registers per thread limited to those available to blocks of this size.
    /// Limiting the number of registers itself (`.maxnreg`) is no alternative: ptxas then uses all of
    /// them and spills, although it needs fewer registers without a limit.
    pub(crate) fn for_blocks_of(&self, threads: u32) -> Self {
        self.with_directives(&format!(".maxntid {threads}"))
    }

    /// Returns the PTX with the registers per thread limited to those available if `blocks` blocks of
    /// this size are resident on a multiprocessor.
    pub(crate) fn for_resident_blocks_of(&self, threads: u32, blocks: u32) -> Self {
        self.with_directives(&format!(".maxntid {threads}\n.minnctapersm {blocks}"))
    }

    fn with_directives(&self, directives: &str) -> Self {
        // The body of each kernel begins with a brace on its own line.
        let text = self.text.replace("\n{", &format!("\n{directives}\n{{"));
        Self { origin: self.origin.clone(), text: text.into(), arch: self.arch }
    }

    /// Returns the kernels that exist on an architecture; their entry names begin with `name`. Checks
    /// their declared parameters, before the driver compiles anything.
    pub(crate) fn kernels(&self, kernels: Vec<Kernel>, name: &str, arch: Arch) -> Result<Vec<Kernel>> {
        let there = kernels.into_iter().filter(|kernel| kernel.min_arch <= arch);
        there
            .map(|kernel| {
                signature::check(self, &kernel.entry(name), kernel.parameters).map(|()| kernel)
            })
            .collect()
    }
}

/// A function that finds the PTX of a name such as `reducer_sum_f32` for a device's architecture.
pub type Find = dyn Fn(&str, Arch) -> Result<Ptx, Cause> + Send + Sync;

/// The source of kernels.
#[derive(Clone)]
pub enum PtxSource {
    /// The archives in the library.
    Embedded,
    /// A folder with one folder per architecture.
    Folder(PathBuf),
    /// A function given by the caller.
    Given(Arc<Find>),
}

impl PtxSource {
    /// Returns the folder that the environment names, or the embedded archives.
    pub fn from_environment() -> Self {
        Self::of(env::var_os(PTX_DIR), env::var_os(CODEGEN))
    }

    /// Interprets the values of [`PTX_DIR`] and [`CODEGEN`]; an empty value counts as unset.
    fn of(root: Option<OsString>, codegen: Option<OsString>) -> Self {
        let named = |value: Option<OsString>| value.filter(|value| !value.is_empty());
        let codegen = named(codegen).unwrap_or_else(|| DEFAULT_CODEGEN.into());
        named(root).map_or(Self::Embedded, |root| Self::Folder(PathBuf::from(root).join(codegen)))
    }

    pub(crate) fn find(&self, name: &str, device: Arch) -> Result<Ptx> {
        match self {
            Self::Embedded => embedded(name, device),
            Self::Folder(root) => in_folder(root, name, device),
            Self::Given(find) => find(name, device).map_err(|source| missing(name, device, source)),
        }
    }
}

impl fmt::Debug for PtxSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("Embedded"),
            Self::Folder(root) => f.debug_tuple("Folder").field(root).finish(),
            Self::Given(_) => f.write_str("Given"),
        }
    }
}

type Cause = Box<dyn StdError + Send + Sync>;

fn missing(name: &str, device: Arch, source: Cause) -> Error {
    Error::PtxMissing { name: name.to_owned(), device: device.capability(), source }
}

macro_rules! archives {
    ($count:literal: $($name:literal)*) => {
        /// The names of the embedded archives and of their files in `ptx/`. A text is in the first
        /// archive whose name, followed by `_`, is a prefix of the text's name; the last archive,
        /// `reducer`, has the texts for buffers.
        pub const ARCHIVES: [&str; $count] = [$($name),*];

        static BYTES: [&[u8]; $count] = [$(include_bytes!(concat!("../ptx/", $name, ".ptx.zst"))),*];
    };
}

// The archives are separate files, so that git does not store all of them again after a change to one.
archives! {
    12:
    "reducer_axis" "reducer_buffers" "reducer_continued" "reducer_counted" "reducer_fused" "reducer_pair" "reducer_rows" "reducer_segments"
    "reducer_top" "reducer_view" "reducer_within" "reducer"
}

/// Returns the index in [`ARCHIVES`] of the archive that contains the text of this name.
pub fn archive_of(text: &str) -> usize {
    let is_of = |name: &&str| text.strip_prefix(*name).is_some_and(|rest| rest.starts_with('_'));
    ARCHIVES.iter().position(is_of).unwrap_or(ARCHIVES.len() - 1)
}

/// The embedded archives. Each is opened once, because its index has hundreds of lines.
static OPENED: [OnceLock<Result<Archive<'static>, Damaged>>; BYTES.len()] =
    [const { OnceLock::new() }; BYTES.len()];

fn archive(which: usize) -> Result<&'static Archive<'static>, Damaged> {
    OPENED[which].get_or_init(|| Archive::open(BYTES[which])).as_ref().map_err(Clone::clone)
}

/// The architecture of the embedded texts. [`for_oldest`] derives the texts for older devices.
pub const ARCH: Arch = Arch::HOPPER;

fn embedded(name: &str, device: Arch) -> Result<Ptx> {
    let missing = |source| missing(name, device, source);
    let arch = if device.runs(ARCH) { ARCH } else { Arch::OLDEST };
    if !device.runs(arch) {
        return Err(missing("the embedded PTX is for sm_80 and newer".into()));
    }
    let found = archive(archive_of(name)).and_then(|archive| archive.text(name));
    let text = found.map_err(|damaged| missing(damaged.into()))?;
    let text = text.ok_or_else(|| missing("the library embeds no PTX of this name".into()))?;
    let text = if arch == ARCH { text } else { for_oldest(&text) };
    Ok(Ptx { origin: format!("{name}.ptx for {arch}"), text: text.into(), arch })
}

/// Returns an embedded text for [`Arch::OLDEST`]: without its bulk kernel, and without the instructions
/// for overlapping launches. Nothing else that the compiler emits for the kernels needs
/// [`Arch::HOPPER`].
pub fn for_oldest(text: &str) -> String {
    const ENTRY: &str = ".visible .entry ";
    let bulk = format!("_{}(", KernelKind::Bulk.name());
    let mut oldest = String::with_capacity(text.len());
    let mut in_bulk = false;
    for line in text.split_inclusive('\n') {
        if let Some(entry) = line.strip_prefix(ENTRY) {
            in_bulk = entry.trim_end().ends_with(&bulk);
        }
        oldest.push_str(match line {
            _ if in_bulk => continue,
            line if line.starts_with("griddepcontrol.") => continue,
            ".version 8.0\n" => ".version 7.8\n",
            ".target sm_90\n" => ".target sm_80\n",
            line => line,
        });
    }
    oldest
}

fn in_folder(root: &Path, name: &str, device: Arch) -> Result<Ptx> {
    let missing = |source| missing(name, device, source);
    let folders = fs::read_dir(root).map_err(|error| missing(at(root, &error)))?;
    let arch_of = |folder: &Path| -> Option<Arch> { folder.file_name()?.to_str()?.parse().ok() };
    let newest = folders
        .filter_map(|folder| Some(folder.ok()?.path()))
        .filter_map(|folder| Some((arch_of(&folder)?, folder.join(name).with_extension("ptx"))))
        .filter(|(arch, path)| device.runs(*arch) && path.is_file())
        .max_by_key(|(arch, _)| *arch);
    let (arch, path) = newest.ok_or_else(|| {
        missing(format!("no PTX file that the device can run is under {}", root.display()).into())
    })?;
    let text = read(&path, MAX_BYTES).map_err(|error| missing(at(&path, &error)))?;
    Ok(Ptx { origin: path.display().to_string(), text: text.into(), arch })
}

/// Maximum size of a PTX file in bytes. The reducer's files have about 0.1 MB.
const MAX_BYTES: u64 = 64 << 20;

fn read(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

fn at(path: &Path, error: &std::io::Error) -> Cause {
    format!("{}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeSet, HashMap},
        sync::LazyLock,
    };

    use super::*;
    use crate::{
        kernel_file::{Family, KernelFile},
        names::{Dtype, Op, OpKind},
        op::{expression, fused},
    };

    fn find(source: &PtxSource, op: Op, dtype: Dtype, device: Arch) -> Result<Ptx> {
        source.find(&KernelFile::Reduction(Family::Buffer, op, dtype).name(), device)
    }

    /// All embedded texts by name. Each frame is decompressed once, instead of once per text.
    static TEXTS: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
        (0..BYTES.len()).flat_map(|at| archive(at).unwrap().texts().unwrap()).collect()
    });

    #[test]
    fn archive_of_finds_every_embedded_text() {
        for (which, archive_name) in ARCHIVES.iter().enumerate() {
            let mut names = archive(which).unwrap().names();
            assert!(names.all(|name| archive_of(name) == which), "{archive_name}");
        }
        assert_eq!(ARCHIVES[archive_of("reducer_rows_sum_f32")], "reducer_rows");
        assert_eq!(ARCHIVES[archive_of("reducer_sum_f32")], "reducer");
    }

    #[test]
    fn every_file_is_embedded_with_the_abis_parameters() {
        let arch_for =
            |major| PtxSource::Embedded.find("reducer_sum_f32", Arch::new(major, 0)).unwrap().arch;
        assert_eq!([8, 9, 12].map(arch_for), [Arch::OLDEST, ARCH, ARCH]);
        for file in KernelFile::all() {
            let name = file.name();
            let text = TEXTS.get(&*name).unwrap_or_else(|| panic!("{name} is not there"));
            for (arch, text) in [(ARCH, text.clone()), (Arch::OLDEST, for_oldest(text))] {
                let ptx = Ptx { origin: name.clone(), text: text.into(), arch };
                assert!(!ptx.kernels(file.kernels(), &name, arch).unwrap().is_empty());
            }
        }
        assert_eq!(TEXTS.len(), KernelFile::all().count());
    }

    #[test]
    fn only_mapped_kernels_have_places_for_expressions() {
        for file in KernelFile::all() {
            let text = &TEXTS[&*file.name()];
            for entry in text.split(".visible .entry ").skip(1) {
                let is_mapped = matches!(file, KernelFile::Mapped(..));
                assert_eq!(entry.contains(expression::MARK), is_mapped, "{}", file.name());
            }
        }
    }

    #[test]
    fn fused_kernels_have_the_parts_of_all_operations() {
        for file in KernelFile::all() {
            let text = &TEXTS[&*file.name()];
            let KernelFile::Fused(dtype) = file else {
                assert!(!text.contains(fused::MARK), "{}", file.name());
                continue;
            };
            for kernel in file.kernels() {
                let entry = kernel.entry(&file.name());
                let text = &with_entry_only(text, &entry).unwrap();
                let there = text.split(fused::MARK).skip(1).map(|rest| {
                    let bit = rest.split([' ', ';']).nth(1).unwrap();
                    bit.parse::<u32>().unwrap()
                });
                let there: BTreeSet<u32> = there.collect();
                let parts = Op::all().filter_map(|op| fused::part(op, dtype));
                assert_eq!(there, parts.map(|(bit, _)| bit).collect(), "{entry}");
                let (bits, oldest): (Vec<u32>, String) = (there.into_iter().collect(), for_oldest(text));
                for (pair, text) in bits.windows(2).zip([text, &oldest].into_iter().cycle()) {
                    let parts = fused::Parts::of(pair.iter().copied(), dtype).unwrap();
                    let chosen = parts.choose_in(text).unwrap();
                    let what = format!("{entry} {pair:?}");
                    assert!(chosen.lines().count() < text.lines().count() * 4 / 5, "{what}");
                    assert!(!chosen.contains(fused::MARK), "{what}");
                    let there =
                        |suffix| chosen.lines().filter_map(move |line| line.strip_suffix(suffix));
                    let labels: BTreeSet<&str> = there(":").chain(there(": .branchtargets")).collect();
                    let targets =
                        chosen.split_whitespace().filter_map(|word| word.strip_suffix([',', ';']));
                    for target in targets.filter(|target| target.starts_with('$')) {
                        assert!(labels.contains(target), "{what}: {target}");
                    }
                }
            }
        }
    }

    #[test]
    fn for_oldest_removes_bulk_kernels_and_sm_90_instructions() {
        for (name, text) in &*TEXTS {
            let oldest = for_oldest(text);
            assert!(oldest.contains("\n.version 7.8\n.target sm_80\n"), "{name}");
            for newer in ["griddepcontrol", "mbarrier", "bulk", "cluster", "fence.proxy"] {
                assert!(!oldest.contains(newer), "{name}: {newer}");
            }
            let entries = |text: &str| text.matches(".visible .entry ").count();
            let bulk = text.matches("_bulk(").count();
            assert_eq!(entries(&oldest), entries(text) - bulk, "{name}");
        }
    }

    #[test]
    fn embedded_texts_have_no_comments_or_debug_sections() {
        for (name, text) in &*TEXTS {
            let (first, rest) = text.split_once('\n').unwrap();
            assert!(first.starts_with("// rustc "), "{name}: {first}");
            for left_out in ["//", ".loc", ".file", ".section", "/*"] {
                assert!(!rest.contains(left_out), "{name} has {left_out}");
            }
        }
    }

    #[test]
    fn embedded_ptx_is_missing_below_sm_80() {
        let error =
            find(&PtxSource::Embedded, OpKind::Sum.plain(), Dtype::F32, Arch::new(7, 5)).unwrap_err();
        assert!(error.to_string().contains("reducer_sum_f32 for sm_75"), "{error}");
        assert!(error.source().unwrap().to_string().contains("sm_80"), "{error:?}");
    }

    #[test]
    fn folder_source_picks_the_newest_supported_file() {
        let folder = env::temp_dir().join(format!("warpfold-ptx-{}", std::process::id()));
        for arch in ["sm_80", "sm_90", "sm_100", "sm_120a", "notes"] {
            fs::create_dir_all(folder.join(arch)).unwrap();
            fs::write(folder.join(arch).join("reducer_sum_f32.ptx"), arch).unwrap();
        }
        let source = PtxSource::Folder(folder.clone());
        let found = |op, device| find(&source, op, Dtype::F32, device);
        assert_eq!(found(OpKind::Sum.plain(), Arch::HOPPER).unwrap().text, "sm_90");
        assert_eq!(found(OpKind::Sum.plain(), Arch::new(8, 6)).unwrap().text, "sm_80");
        assert_eq!(found(OpKind::Sum.plain(), Arch::new(12, 0)).unwrap().text, "sm_120a");
        assert_eq!(found(OpKind::Sum.plain(), Arch::new(12, 1)).unwrap().text, "sm_100");
        let error = found(OpKind::Max.plain(), Arch::HOPPER).unwrap_err();
        let reason = error.source().unwrap().to_string();
        assert!(reason.contains(&*folder.to_string_lossy()), "{error:?}");
        fs::remove_dir_all(&folder).unwrap();
        assert!(found(OpKind::Sum.plain(), Arch::HOPPER).is_err());
    }

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let path = env::temp_dir().join(format!("warpfold-ptx-{}.ptx", std::process::id()));
        fs::write(&path, "12345").unwrap();
        let (longer, whole) = (read(&path, 6).unwrap(), read(&path, 5).unwrap());
        let refused = read(&path, 4).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert_eq!((&*longer, &*whole, &*refused), ("12345", "12345", "it has more than 4 bytes"));
        // The limit is above twice the largest file of the reducer, to leave room for a developer's
        // additions.
        let largest = TEXTS.values().map(|text| text.len() as u64).max().unwrap();
        assert!(2 * largest < MAX_BYTES && MAX_BYTES < 1 << 30, "{largest}");
    }

    #[test]
    fn a_folder_is_named_by_the_environment() {
        let of = |root: &str, codegen: Option<&str>| {
            format!("{:?}", PtxSource::of(Some(root.into()), codegen.map(Into::into)))
        };
        assert_eq!(of("a", None), "Folder(\"a/llvm\")");
        assert_eq!(of("a", Some("")), "Folder(\"a/llvm\")");
        assert_eq!(of("a", Some("nvvm")), "Folder(\"a/nvvm\")");
        assert_eq!(of("", Some("nvvm")), "Embedded");
        assert!(matches!(PtxSource::of(None, None), PtxSource::Embedded));
    }

    #[test]
    fn given_source_returns_the_functions_text_or_error() {
        let given: Arc<Find> = Arc::new(|name, arch| match name {
            "reducer_sum_f32" => Ok(Ptx { origin: name.to_owned(), text: "mine".into(), arch }),
            _ => Err("not today".into()),
        });
        let source = PtxSource::Given(given);
        assert_eq!(find(&source, OpKind::Sum.plain(), Dtype::F32, Arch::HOPPER).unwrap().text, "mine");
        let error = find(&source, OpKind::Max.plain(), Dtype::F32, Arch::HOPPER).unwrap_err();
        assert_eq!(error.source().unwrap().to_string(), "not today");
    }
}
