//! Reading of regular files.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The size limit of a text that a command reads (a tuning, results, counters of another program).
pub const MAX_TEXT: u64 = 16 << 20;

/// The size limit of a PTX file, which is that of the simulator.
pub const MAX_PTX: u64 = 64 << 20;

/// Reads a text file of at most `most` bytes.
pub fn text(path: &Path, most: u64) -> Result<String, String> {
    let file = open(path)?;
    let mut text = String::new();
    // This also bounds a file that grows during the read.
    file.take(most + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > most {
        return Err(format!("has more than {most} bytes; allowed are {most}"));
    }
    Ok(text)
}

/// Opens a regular file. Other kinds may be endless, or block until another process writes.
pub fn open(path: &Path) -> Result<File, String> {
    let is_file = |found: fs::Metadata| match found {
        found if found.is_file() => Ok(()),
        found if found.is_dir() => Err("is a folder; name a file in it".to_owned()),
        _ => Err("is a pipe or a device; write its data to a file".to_owned()),
    };
    let said = |error: io::Error| error.to_string();
    // Checked before opening, because opening a pipe without a writer would block.
    is_file(fs::metadata(path).map_err(said)?)?;
    let file = File::open(path).map_err(said)?;
    is_file(file.metadata().map_err(said)?)?;
    Ok(file)
}
