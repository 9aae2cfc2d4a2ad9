//! The output folder of one code generator and architecture. Files are replaced atomically, so that
//! readers may run concurrently with a build.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::fingerprint::Fingerprint;
use crate::{files, workspace};

const FINGERPRINT: &str = "fingerprint.txt";

/// The output folder of one code generator and architecture, or a subset of its files.
#[derive(Debug)]
pub(crate) struct Output {
    folder: PathBuf,
    fingerprint: String,
    files: Files,
}

#[derive(Debug)]
enum Files {
    All,
    Of(HashSet<String>),
    Without(HashSet<String>),
}

pub(crate) type Made = (String, String);

impl Output {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder, fingerprint: FINGERPRINT.to_owned(), files: Files::All }
    }

    /// Returns the part of `folder` that consists of `files`. Its fingerprint file is
    /// `{name}-fingerprint.txt`.
    pub(crate) fn of(folder: &Path, name: &str, files: HashSet<String>) -> Self {
        let fingerprint = format!("{name}-{FINGERPRINT}");
        Self { folder: folder.to_owned(), fingerprint, files: Files::Of(files) }
    }

    pub(crate) fn without(folder: &Path, files: HashSet<String>) -> Self {
        Self { files: Files::Without(files), ..Self::at(folder.to_owned()) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

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

    /// Returns why the output is stale, or `None` if it is up to date: the inputs must be the same, and
    /// no file may have been edited, removed or added since the build.
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

    /// Returns why the named file is stale, or `None` if it is up to date. This is for builds in which
    /// each file has its own inputs.
    pub(crate) fn stale_file(&self, name: &str, inputs: &Fingerprint) -> Option<String> {
        let Ok(text) = fs::read_to_string(self.folder.join(&self.fingerprint)) else {
            return Some("nothing built yet".to_owned());
        };
        let Ok(content) = fs::read(self.folder.join(name)) else {
            return Some(format!("{name} is missing"));
        };
        let mut now = inputs.clone();
        add_file(&mut now, name, &content);
        now.change(&Fingerprint::from_text(&text))
    }

    pub(crate) fn lock(&self) -> Result<File> {
        // The lock file is hidden, so that a listing of the architectures does not show it.
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        workspace::lock(&self.folder.with_file_name(format!(".{name}.{}.lock", self.fingerprint)))
    }

    /// Replaces the files of the previous build. Each is replaced atomically, so that a concurrent
    /// reader gets the old or the new one.
    pub(crate) fn replace(&self, made: &[Made], inputs: &Fingerprint) -> Result<()> {
        let failed = || format!("{} cannot be written", self.folder.display());
        fs::create_dir_all(&self.folder).with_context(failed)?;
        let mut fingerprint = inputs.clone();
        // Removed before the first change, so that the output of an interrupted build is stale.
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
