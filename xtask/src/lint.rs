//! `cargo xtask lint`: checks that the compiler's lints do not have.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::{check_features, check_nvvm, check_text, public_api};

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Parts to check [default: all]
    pub what: Vec<What>,
    /// Wrap comments that are too wide, and rewrite the lists of public items
    #[arg(long)]
    pub fix: bool,
    /// Folder of a cuda_std crate for nvvm [default: nvvm/cuda_std_signatures, which has only its
    /// signatures]
    #[arg(long, value_name = "PATH")]
    pub cuda_std: Option<PathBuf>,
}

/// A part of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// Links of documents, the book's table of contents, the width and style of comments, and the
    /// statements that mutations change
    Text,
    /// The lists of public items in docs/public-api
    Api,
    /// The published packages with no features, with each feature alone, and with all features
    Features,
    /// The kernels for the nvvm code generator, against the signatures of cuda_std
    Nvvm,
}

/// Runs the command. Exits 1 at the first part that finds something.
pub fn run(args: &Args) -> Result<ExitCode> {
    let all = <What as clap::ValueEnum>::value_variants();
    for what in if args.what.is_empty() { all } else { &args.what } {
        let passed = match what {
            What::Text => check_text::check(args.fix)?,
            What::Api => public_api::check(args.fix)?,
            What::Features => check_features::check()?,
            What::Nvvm => check_nvvm::check_kernels(args.cuda_std.as_deref()).map(|()| true)?,
        };
        if !passed {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
