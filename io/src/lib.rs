//! Shared parts of the command lines: text that is escaped for terminals, files that are read up to a
//! limit or replaced whole, NumPy's `.npy`, and tables.

#[cfg(feature = "cli")]
pub mod files;
pub mod npy;
mod output;
mod read;
#[cfg(feature = "cli")]
pub mod table;
mod visible;

#[cfg(feature = "cli")]
pub use output::usage;
pub use output::{Output, stdout};
pub use read::{MAX_PTX, MAX_TEXT, open, text};
pub use visible::{shortened, visible};
