//! PTX text, for tools that run it and for tools that only inspect it.
//!
//! [`parameters`] returns the parameters that an entry declares, and [`with_entry_only`] the text of one
//! entry.
//! [`words`] yields the text as written, such as `ld.global.v4.b32`, for tools that must accept unknown
//! instructions. [`syntax`] groups words into variables, functions and statements. [`tokens`] yields
//! tokens for a parser, with the values of numbers. [`Arch`] is a GPU architecture such as `sm_90`.
//!
//! ```
//! use warpfold_ptx::{Declared, parameters, words};
//!
//! let ptx = ".visible .entry fill(.param .u64 .ptr .align 4 output, .param .u32 n) { ret; }";
//! let output = Declared { size: 8, pointer: true };
//! let n = Declared { size: 4, pointer: false };
//! assert_eq!(parameters(ptx, "fill"), Some(vec![output, n]));
//!
//! let first: Vec<&str> = words(ptx).take(3).map(|word| word.unwrap().text).collect();
//! assert_eq!(first, [".visible", ".entry", "fill"]);
//! ```
//!
//! Time and memory are linear in the length of any text.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arch;
mod entries;
mod parameters;
pub mod syntax;
mod token;
mod words;

pub use arch::{Arch, BadArch};
pub use entries::with_entry_only;
pub use parameters::{Declared, parameters};
pub use token::{NoToken, Token, Tokens, decimal_len, tokens};
pub use words::{Endless, Word, Words, words};

/// Runs the README's examples as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
