//! Caches the outputs of `ptxas` and `nvdisasm` by the PTX text and the programs' versions.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use warpfold_suite::Arch;

/// Part of the hash. Must be increased when the programs are called differently.
const FORMAT: u32 = 1;

const FILES: [&str; 2] = ["ptxas.txt", "nvdisasm.json"];

/// A folder of `<arch>/<label>-<hash>/`, each with the cubin and the programs' outputs.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) resources: String,
    pub(super) code: String,
}

impl Cache {
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn get(&self, arch: Arch, label: &str, key: &impl Hash) -> Option<Listing> {
        let place = self.place(arch, label, key);
        let [resources, code] = FILES.map(|name| fs::read_to_string(place.join(name)));
        Some(Listing { resources: resources.ok()?, code: code.ok()? })
    }

    /// Creates a working folder, which is deleted on drop unless it is passed to [`put`](Self::put).
    pub(super) fn work(&self, arch: Arch) -> Result<TempDir> {
        let parent = self.folder.join(arch.to_string());
        fs::create_dir_all(&parent)
            .and_then(|()| tempfile::Builder::new().prefix(".new-").tempdir_in(&parent))
            .with_context(|| format!("{} cannot be written", parent.display()))
    }

    pub(super) fn put(
        &self,
        work: TempDir,
        arch: Arch,
        label: &str,
        key: &impl Hash,
        listing: &Listing,
    ) -> Result<()> {
        let place = self.place(arch, label, key);
        let failed = || format!("{} cannot be written", place.display());
        for (name, text) in FILES.iter().zip([&listing.resources, &listing.code]) {
            fs::write(work.path().join(name), text).with_context(failed)?;
        }
        let siblings = siblings(&place, label);
        // A rename is atomic: concurrent readers find the whole folder or none. If another process was
        // faster, its folder has the same contents.
        match fs::rename(work.path(), &place) {
            Ok(()) => drop(work.keep()),
            Err(_) if place.is_dir() => {}
            Err(error) => return Err(error).with_context(failed),
        }
        for old in siblings.iter().filter(|old| **old != place) {
            let _ = fs::remove_dir_all(old);
        }
        Ok(())
    }

    fn place(&self, arch: Arch, label: &str, key: &impl Hash) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (FORMAT, key).hash(&mut hasher);
        self.folder.join(arch.to_string()).join(format!("{label}-{:016x}", hasher.finish()))
    }
}

fn siblings(place: &Path, label: &str) -> Vec<PathBuf> {
    let entries = place.parent().and_then(|parent| fs::read_dir(parent).ok());
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_label = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix(label).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_hash)
    };
    entries.into_iter().flatten().flatten().map(|entry| entry.path()).filter(has_label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder.join("sm_90")).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn entries_are_found_until_the_key_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let arch: Arch = "sm_90".parse().unwrap();
        let listing = |text: &str| Listing { resources: text.to_owned(), code: format!("{text} code") };
        let put = |label: &str, key: &str| {
            cache.put(cache.work(arch).unwrap(), arch, label, &key, &listing(key)).unwrap();
        };
        assert_eq!(cache.get(arch, "tree", &"a"), None);
        put("tree", "a");
        put("tree-fast", "a");
        assert_eq!(cache.get(arch, "tree", &"a"), Some(listing("a")));
        assert_eq!(cache.get(arch, "tree", &"b"), None);
        assert_eq!(cache.get("sm_80".parse().unwrap(), "tree", &"a"), None);

        // A label has one folder; a longer label with the same prefix is another label.
        put("tree", "b");
        assert_eq!(cache.get(arch, "tree", &"a"), None);
        assert_eq!(cache.get(arch, "tree", &"b"), Some(listing("b")));
        assert_eq!(cache.get(arch, "tree-fast", &"a"), Some(listing("a")));
        assert_eq!(names(folder.path()).len(), 2);

        // A second writer finds the same folder in place, and leaves no files.
        put("tree", "b");
        assert_eq!(names(folder.path()).len(), 2);

        // Failed work leaves no files. A folder with a missing file is not used.
        drop(cache.work(arch).unwrap());
        assert_eq!(names(folder.path()).len(), 2);
        let place = cache.place(arch, "tree", &"b");
        fs::remove_file(place.join(FILES[1])).unwrap();
        assert_eq!(cache.get(arch, "tree", &"b"), None);
    }
}
