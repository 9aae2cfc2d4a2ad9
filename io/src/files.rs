//! Atomic writes of output files.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Replaces a file's content in one step: a concurrent reader sees the old or the new text, and if the
/// write fails, on a full disk for example, the old file stays. Symbolic links are followed. Devices and
/// pipes are written to directly.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let failed = || format!("{} cannot be written", path.display());
    let written = match special(path) {
        true => fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut to| to.write_all(content.as_ref())),
        false => renamed(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), content.as_ref()),
    };
    written.with_context(failed)
}

/// Checks that a file could be written at a path now, without changing an existing file.
pub fn require_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if special(path) { Ok(()) } else { temporary(path).map(drop) }
}

/// Returns whether a path is neither a file nor a folder.
fn special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn renamed(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = temporary(path)?;
    file.write_all(content)?;
    // The data must reach the disk before the rename.
    file.as_file().sync_all()?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// Creates a temporary file next to its target, with the target's mode; deleted unless persisted.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".writing-");
    let old = fs::metadata(path).ok();
    #[cfg(unix)]
    {
        // The umask applies, as to any new file.
        let new = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        builder.permissions(new);
    }
    let file = builder.tempfile_in(folder(path))?;
    if let Some(old) = old {
        file.as_file().set_permissions(old.permissions())?;
    }
    Ok(file)
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, "first").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("a.json", &link).unwrap();
        replace(&link, "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(folder.path()), ["a.json", "link"]);
    }

    /// Runs this test again in a process with a file-size limit, to simulate a full disk.
    #[test]
    fn failed_write_keeps_the_old_file() {
        const PATH: &str = "WARPFOLD_TEST_REPLACED";
        if let Some(path) = std::env::var_os(PATH) {
            let refused = format!("{:#}", replace(Path::new(&path), vec![b'x'; 1 << 20]).unwrap_err());
            assert!(refused.contains("old.json cannot be written: File too large"), "{refused}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.json");
        fs::write(&path, "old").unwrap();
        let test = "files::tests::failed_write_keeps_the_old_file";
        // Past the limit the system sends a signal unless it is ignored.
        let script = format!("trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact {test}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(PATH, &path);
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(fs::read_to_string(&path).unwrap() == "old", "the old file is gone");
        assert_eq!(names(folder.path()), ["old.json"]);
    }

    #[test]
    fn device_files_are_written_in_place() {
        let refused = format!("{:#}", replace(Path::new("/dev/full"), "x").unwrap_err());
        assert_eq!(refused, "/dev/full cannot be written: No space left on device (os error 28)");
        replace(Path::new("/dev/null"), "x").unwrap();
        require_writable(Path::new("/dev/null")).unwrap();
        assert!(special(Path::new("/dev/null")) && special(Path::new("/dev/full")));
        for path in ["/no/such/folder/x", "/"] {
            assert!(replace(Path::new(path), "x").is_err());
            assert!(require_writable(Path::new(path)).is_err());
        }
    }
}
