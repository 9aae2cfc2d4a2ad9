//! `warpfold-sim ls`

use std::{io::Write, path::PathBuf};

use anyhow::{Context, Result};
use warpfold_sim::{Entry, Module, demangled};

use crate::{Done, image};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// PTX text, a fat binary, or a program that contains one
    file: PathBuf,
}

fn parameters(entry: &Entry) -> String {
    let each = entry.params().iter().map(|param| format!("{} bytes", param.size));
    match each.collect::<Vec<_>>().as_slice() {
        [] => "no parameters".to_owned(),
        each => format!("({})", each.join(", ")),
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Done> {
    for text in image::texts(&args.file)? {
        let module = Module::parse_each(&text)
            .with_context(|| format!("{} cannot be read as PTX", args.file.display()))?;
        let (major, minor) = module.version();
        writeln!(out, "PTX {major}.{minor} for {}", module.target())?;
        let named = |name: &str| match demangled(name) {
            None => name.to_owned(),
            Some(plain) => format!("{name} = {plain}"),
        };
        for entry in module.entries() {
            write!(out, "  {} {}", named(entry.name()), parameters(entry))?;
            match entry.static_shared_bytes() {
                0 => writeln!(out)?,
                bytes => writeln!(out, ", {bytes} bytes of shared memory")?,
            }
        }
        for broken in module.broken().filter(|broken| broken.is_entry()) {
            writeln!(out, "  {} does not run: {}", named(broken.name()), broken.error())?;
        }
    }
    Ok(Done::Right)
}
