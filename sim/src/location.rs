//! Source locations that PTX was compiled from, with the chain of inlined calls.

use std::fmt;
use std::iter;
use std::sync::Arc;

use crate::names::readable;

/// Maximum depth of a chain of calls; outer locations are dropped.
pub(crate) const MAX_DEPTH: usize = 64;

/// A location in the source that the PTX was compiled from.
///
/// It is the innermost location: for a function that was inlined or called,
/// [`inlined_at`](Self::inlined_at) is the location of the call, and so on up to the kernel itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// Path of the source file.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
    /// Name of the inlined or called function, as it is in the PTX, if the compiler states it.
    pub function: Option<Arc<str>>,
    /// Location of the call.
    pub inlined_at: Option<Arc<Location>>,
}

impl Location {
    /// Returns the locations of the chain, from this one outward.
    pub fn places(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |place| place.inlined_at.as_deref())
    }

    /// Returns the innermost location that, by its path, is not in a library of a compiler, a toolkit or
    /// a registry; the outermost location if all are in libraries.
    #[must_use]
    pub fn user(&self) -> &Self {
        self.places().find(|place| !is_of_a_library(&place.file)).unwrap_or_else(|| self.outermost())
    }

    /// Returns the outermost location, which is in the kernel.
    #[must_use]
    pub fn outermost(&self) -> &Self {
        self.places().last().unwrap_or(self)
    }

    /// Displays the rest of the chain: the locations inlined into [`user`](Self::user), then its
    /// callers.
    pub(crate) fn around(&self) -> Around<'_> {
        Around(self)
    }

    pub(crate) fn depth(&self) -> usize {
        self.places().count()
    }

    pub(crate) fn here(&self) -> Here<'_> {
        Here(self)
    }
}

/// Displays the user's line first, then the locations inlined into it, then its callers.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.user().here(), self.around())
    }
}

pub(crate) struct Here<'a>(&'a Location);

impl fmt::Display for Here<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { file, line, column, .. } = self.0;
        write!(f, "{file}:{line}")?;
        if *column != 0 { write!(f, ":{column}") } else { Ok(()) }
    }
}

pub(crate) struct Around<'a>(&'a Location);

impl fmt::Display for Around<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.0.user();
        let mut inner = self.0.places().take_while(|place| !std::ptr::eq(*place, user)).peekable();
        if inner.peek().is_some() {
            f.write_str(", through ")?;
            listed(f, inner)?;
        }
        if let Some(function) = &user.function {
            write!(f, ", in `{}`", readable(function))?;
        }
        let mut outer = user.places().skip(1).peekable();
        if outer.peek().is_some() {
            f.write_str(", called at ")?;
            listed(f, outer)?;
        }
        Ok(())
    }
}

fn listed<'a>(f: &mut fmt::Formatter<'_>, places: impl Iterator<Item = &'a Location>) -> fmt::Result {
    for (number, place) in places.enumerate() {
        write!(f, "{}{}", if number == 0 { "" } else { ", at " }, place.here())?;
    }
    Ok(())
}

/// Returns whether a file belongs to a compiler, a CUDA toolkit or a registry package.
fn is_of_a_library(path: &str) -> bool {
    let parts = || path.split(['/', '\\']);
    let has = |wanted: &str| parts().any(|part| part == wanted);
    let of_rust = path.starts_with("/rustc/") || has("rustlib") || has(".cargo");
    let of_a_toolkit =
        |part: &str| part.starts_with("cuda") || part.starts_with("cu1") || part == "targets";
    of_rust
        // For example `/usr/local/cuda-13.0/targets/x86_64-linux/include/…` and
        // `nvidia/cu13/bin/../include/…`.
        || has("include") && parts().any(of_a_toolkit)
        || has("cooperative_groups")
        // The layouts of the wheel `nvidia-cuda-cccl` and of CCCL's own repository.
        || ["cub", "thrust", "libcudacxx", "cccl"].iter().any(|name| has(name) && has("include"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, line: u32, function: Option<&str>, outer: Option<Location>) -> Location {
        let (file, function) = (file.into(), function.map(Into::into));
        Location { file, line, column: 3, function, inlined_at: outer.map(Arc::new) }
    }

    #[test]
    fn user_line_is_shown_first() {
        let kernel = at("/home/me/a.cu", 30, None, None);
        assert_eq!(kernel.to_string(), "/home/me/a.cu:30:3");
        let helper = at("/home/me/b.cuh", 7, Some("_Z5outerPKfi"), Some(kernel));
        let said = "/home/me/b.cuh:7:3, in `outer(float const*, int)`, called at /home/me/a.cu:30:3";
        assert_eq!(helper.to_string(), said);
        let header = "/usr/local/cuda-13.0/targets/x86_64-linux/include/sm_60_atomic_functions.hpp";
        let atomic = at(header, 105, Some("atomicAdd"), Some(helper));
        assert_eq!(atomic.user().line, 7);
        let said = format!(
            "/home/me/b.cuh:7:3, through {header}:105:3, in `outer(float const*, int)`, called at \
             /home/me/a.cu:30:3"
        );
        assert_eq!(atomic.to_string(), said);
        // Without a user location, the outermost one is shown.
        let only = at("/rustc/0123/library/core/src/ptr.rs", 1, None, Some(at(header, 2, None, None)));
        assert_eq!(only.user().line, 2);
    }

    #[test]
    fn libraries_are_known_by_their_paths() {
        for path in [
            "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/num/mod.rs",
            "/home/me/.rustup/toolchains/x/lib/rustlib/src/rust/library/core/src/iter/range.rs",
            "/home/me/.cargo/registry/src/index/half-2.4.1/src/lib.rs",
            "/home/me/.cargo/git/checkouts/rust-cuda/946c91f/crates/cuda_std/src/thread.rs",
            "/usr/local/cuda/include/cooperative_groups.h",
            "/x/nvidia/cu13/bin/../include/cuda_device_runtime_api.h",
            "/x/cccl/include/cub/block/block_reduce.cuh",
        ] {
            assert!(is_of_a_library(path), "{path}");
        }
        for path in ["a.cu", "/home/me/cuda/src/a.cu", "/home/me/include/a.cuh", "kernels/src/lib.rs"] {
            assert!(!is_of_a_library(path), "{path}");
        }
    }
}
