//! Reading of whole files up to a maximum size.

use std::{fs::File, io::Read, path::Path};

use anyhow::{Context, Result, ensure};

const MAGIC_BYTES: u64 = 4;

/// Reads a file, a pipe or a device. `most` returns the maximum size, given the first four bytes.
/// Reading stops past that size, even if the input is endless.
pub(crate) fn read(path: &Path, most: impl FnOnce(&[u8]) -> u64) -> Result<Vec<u8>> {
    let name = path.display();
    let failed = || format!("{name} cannot be read");
    let mut file = File::open(path).with_context(failed)?;
    let mut bytes = Vec::new();
    file.by_ref().take(MAGIC_BYTES).read_to_end(&mut bytes).with_context(failed)?;
    let most = most(&bytes);
    file.take(most + 1 - bytes.len() as u64).read_to_end(&mut bytes).with_context(failed)?;
    ensure!(bytes.len() as u64 <= most, "{name} has more than {most} bytes; allowed are {most}");
    Ok(bytes)
}

/// Reads a UTF-8 text as [`read`] does.
pub(crate) fn text(path: &Path, most: u64) -> Result<String> {
    let text = String::from_utf8(read(path, |_| most)?);
    text.with_context(|| format!("{} is not UTF-8 text", path.display()))
}
