//! The folder of one code generator and architecture: written whole, read while it is written.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::fingerprint::Fingerprint;
use crate::{files, workspace};

/// Name of the fingerprint, beside the PTX that it is of.
const FINGERPRINT: &str = "fingerprint.txt";

/// Where the PTX of one code generator and architecture is kept, or a part of it.
#[derive(Debug)]
pub(crate) struct Output {
    folder: PathBuf,
    /// The name of the fingerprint.
    fingerprint: String,
    files: Files,
}

/// Which files of the folder.
#[derive(Debug)]
enum Files {
    All,
    Of(HashSet<String>),
    Without(HashSet<String>),
}

/// A finished file: name and content.
pub(crate) type Made = (String, String);

impl Output {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder, fingerprint: FINGERPRINT.to_owned(), files: Files::All }
    }

    /// These files of it, with a fingerprint that is called after them.
    pub(crate) fn of(folder: &Path, name: &str, files: HashSet<String>) -> Self {
        let fingerprint = format!("{name}-{FINGERPRINT}");
        Self { folder: folder.to_owned(), fingerprint, files: Files::Of(files) }
    }

    /// All files of it but these.
    pub(crate) fn without(folder: &Path, files: HashSet<String>) -> Self {
        Self { files: Files::Without(files), ..Self::at(folder.to_owned()) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The PTX files that are there.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| is_ptx(path) && self.has(path)).collect();
        files.sort();
        files
    }

    fn has(&self, path: &Path) -> bool {
        match &self.files {
            Files::All => true,
            Files::Of(files) => files.contains(&name(path)),
            Files::Without(files) => !files.contains(&name(path)),
        }
    }

    /// Why what is there does not serve, if it does not. The inputs must be the same, and the files
    /// those that were written: none edited, missing or added.
    pub(crate) fn stale(&self, inputs: &Fingerprint) -> Option<String> {
        let Ok(text) = fs::read_to_string(self.folder.join(&self.fingerprint)) else {
            return Some("nothing built yet".to_owned());
        };
        let mut now = inputs.clone();
        for path in self.files() {
            let content = fs::read(&path).unwrap_or_default();
            add_file(&mut now, &name(&path), &content);
        }
        now.difference(&Fingerprint::from_text(&text))
    }

    /// Why one of the files does not serve, if it does not; for builds that make each file from inputs
    /// of its own.
    pub(crate) fn stale_file(&self, name: &str, inputs: &Fingerprint) -> Option<String> {
        let Ok(text) = fs::read_to_string(self.folder.join(&self.fingerprint)) else {
            return Some("nothing built yet".to_owned());
        };
        let Ok(content) = fs::read(self.folder.join(name)) else {
            return Some(format!("{name} is not there"));
        };
        let mut now = inputs.clone();
        add_file(&mut now, name, &content);
        now.change(&Fingerprint::from_text(&text))
    }

    /// Takes the right to write.
    pub(crate) fn lock(&self) -> Result<File> {
        // Hidden: whoever lists the architectures does not see it.
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        workspace::lock(&self.folder.with_file_name(format!(".{name}.lock")))
    }

    /// Puts the files in place of what was there. Each replaces its predecessor in one step, so that
    /// who reads meanwhile gets the old or the new one; the fingerprint comes last, so that a build
    /// that was cut short counts as none.
    pub(crate) fn replace(&self, made: &[Made], inputs: &Fingerprint) -> Result<()> {
        let failed = || format!("{} cannot be written", self.folder.display());
        fs::create_dir_all(&self.folder).with_context(failed)?;
        let mut fingerprint = inputs.clone();
        // Gone before the first change, for the same reason.
        let _ = fs::remove_file(self.folder.join(&self.fingerprint));
        for (name, content) in made {
            files::replace(&self.folder.join(name), content)?;
            add_file(&mut fingerprint, name, content.as_bytes());
        }
        for path in self.files() {
            if !made.iter().any(|(kept, _)| *kept == name(&path)) {
                fs::remove_file(&path).with_context(failed)?;
            }
        }
        files::replace(&self.folder.join(&self.fingerprint), fingerprint.to_text())
    }
}

fn add_file(fingerprint: &mut Fingerprint, name: &str, content: &[u8]) {
    fingerprint.add(&format!("output {name}"), content);
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_ptx(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "ptx")
}
