//! PTX text, for tools that run it and for tools that only inspect it.
//!
//! Most programs need two functions. [`parameters`] returns what an entry declares. [`words`] yields the
//! text as the compiler wrote it, such as `ld.global.v4.b32`, for tools that accept any instruction,
//! known or not. [`tokens`] yields what a parser reads, with the values of numbers.
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
//! Time and memory are linear in the length of the text, whatever its contents.

#![forbid(unsafe_code)]

mod parameters;
mod token;
mod words;

pub use parameters::{Declared, parameters};
pub use token::{NoToken, Token, Tokens, tokens};
pub use words::{Endless, Word, Words, words};

/// The program of the readme compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
