//! PTX in files: as text, in fat binaries, in programs.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSection, elf, read::elf::FileHeader};
use warpfold_io::{MAX_PTX, say};
use warpfold_sim::ptx;
use warpfold_sim_driver::{fatbin, host_room};

use crate::file;

/// Sections in which nvcc stores fat binaries.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];
const ELF: &[u8] = b"\x7fELF";
/// Approximate bytes of memory that a byte of PTX takes while it is parsed.
const PARSED: u64 = 50;

/// Returns the PTX texts of a file for targets that are supported. A text file has at most [`MAX_PTX`]
/// bytes, a fat binary or a program at most [`fatbin::MOST_BYTES`].
pub(crate) fn texts(path: &Path) -> Result<Vec<String>> {
    let texts = all_texts(path)?;
    let bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
    let (needed, room) = (bytes.saturating_mul(PARSED), host_room());
    ensure!(
        needed <= room,
        "{} has {bytes} bytes of PTX, which take about {needed} bytes of memory; {room} are left",
        path.display()
    );
    if let Some(newer) = texts.iter().find_map(|text| ptx::Newer::of(text)) {
        bail!("{} is {newer}; compile it with an older compiler", path.display());
    }
    Ok(texts)
}

fn all_texts(path: &Path) -> Result<Vec<String>> {
    let name = path.display();
    let is_binary = |bytes: &[u8]| bytes.starts_with(ELF) || bytes.starts_with(&fatbin::MAGIC);
    let most = |start: &[u8]| if is_binary(start) { fatbin::MOST_BYTES as u64 } else { MAX_PTX };
    let bytes = file::read(path, most)?;
    if bytes.starts_with(ELF) {
        return of_program(&bytes).with_context(|| name.to_string());
    }
    if bytes.starts_with(&fatbin::MAGIC) {
        return Ok(vec![fatbin::ptx(&bytes, fatbin::NEWEST_TARGET).with_context(|| name.to_string())?]);
    }
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("{name} is not PTX, a fat binary or a program: its bytes are not text");
    };
    Ok(vec![text])
}

fn of_program(bytes: &[u8]) -> Result<Vec<String>> {
    let machine = elf::FileHeader64::<object::Endianness>::parse(bytes)
        .map(|head| head.e_machine.get(object::Endianness::Little));
    if machine == Ok(elf::EM_CUDA) {
        bail!("the file is GPU machine code; give the PTX it was made from, as written by nvcc -ptx");
    }
    let file = object::File::parse(bytes).context("the program cannot be read")?;
    let mut texts = Vec::new();
    let mut refused = None;
    for section in SECTIONS.iter().filter_map(|name| file.section_by_name(name)) {
        let data = section.data().context("a section of the program cannot be read")?;
        for fat in fatbin::each(data) {
            // Linking device code produces empty fat binaries.
            if fatbin::is_empty(fat) {
                continue;
            }
            // Libraries may have fat binaries of machine code only, in addition to others with PTX.
            match fatbin::ptx(fat, fatbin::NEWEST_TARGET) {
                Ok(text) => texts.push(text),
                Err(fatbin::FatError::Corrupt) => return Err(fatbin::FatError::Corrupt.into()),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
    }
    match (texts.is_empty(), refused) {
        (true, Some(reason)) => Err(reason.into()),
        (true, None) => bail!("the program has no kernels: it has no section {}", SECTIONS[0]),
        (false, Some(reason)) => {
            say!("warpfold-sim: some kernels of the program are left out: {reason}");
            Ok(texts)
        }
        (false, None) => Ok(texts),
    }
}
