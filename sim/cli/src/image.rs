//! PTX in files: as text, in fat binaries, in programs.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, elf, read::elf::FileHeader};
use warpfold_sim::ptx;
use warpfold_sim_driver::fatbin;

/// Where nvcc puts fat binaries in a program, one behind the other.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];

/// The texts of PTX in a file, none of which is newer than what is known.
pub(crate) fn texts(path: &Path) -> Result<Vec<String>> {
    let texts = all_texts(path)?;
    if let Some(newer) = texts.iter().find_map(|text| ptx::Newer::of(text)) {
        bail!("{} is {newer}: compile it by an older compiler", path.display());
    }
    Ok(texts)
}

fn all_texts(path: &Path) -> Result<Vec<String>> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("{name} cannot be read"))?;
    if bytes.starts_with(b"\x7fELF") {
        return of_program(&bytes).with_context(|| name.to_string());
    }
    if bytes.starts_with(&fatbin::MAGIC) {
        return Ok(vec![fatbin::ptx(&bytes, fatbin::NEWEST_TARGET).with_context(|| name.to_string())?]);
    }
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("{name} is no PTX, no fat binary and no program: its bytes are no text");
    };
    Ok(vec![text])
}

fn of_program(bytes: &[u8]) -> Result<Vec<String>> {
    let machine = elf::FileHeader64::<object::Endianness>::parse(bytes)
        .map(|head| head.e_machine.get(object::Endianness::Little));
    if machine == Ok(elf::EM_CUDA) {
        bail!("this is machine code of a GPU; give the PTX that it was made from, as by nvcc -ptx");
    }
    let file = object::File::parse(bytes).context("this is no program that can be read")?;
    let mut texts = Vec::new();
    let mut refused = None;
    for section in SECTIONS.iter().filter_map(|name| file.section_by_name(name)) {
        let data = section.data().context("a section of the program cannot be read")?;
        for fat in fatbin::each(data) {
            // Those that link others are empty.
            if fatbin::is_empty(fat) {
                continue;
            }
            // Those of libraries may have machine code alone beside others that have PTX.
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
            eprintln!("warpfold-sim: some kernels of the program are left out: {reason}");
            Ok(texts)
        }
        (false, None) => Ok(texts),
    }
}
