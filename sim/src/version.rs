//! PTX versions of texts.

use std::fmt;

/// The newest PTX version that was tested, which CUDA 13.5 writes.
pub const NEWEST: (u32, u32) = (9, 5);

/// A PTX version newer than [`NEWEST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newer {
    version: (u32, u32),
}

impl Newer {
    /// Returns the version of a text if it is newer than [`NEWEST`]. Reads nothing but the `.version`
    /// directive, because the rest may have unknown forms.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let version = version_of(text).filter(|&version| version > NEWEST)?;
        Some(Self { version })
    }
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((major, minor), (known, also)) = (self.version, NEWEST);
        write!(f, "PTX {major}.{minor}; the newest supported version is {known}.{also}")
    }
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut words = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let line = words.find_map(|line| line.trim_start().strip_prefix(".version"))?;
    let (major, minor) = line.split_whitespace().next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Newer, version_of};

    #[test]
    fn version_is_found_after_comments() {
        assert_eq!(version_of("//\n// .version 1.0\n\n.version 8.4\n.target sm_90"), Some((8, 4)));
        assert_eq!(version_of(".version 7.8 .target sm_80"), Some((7, 8)));
        assert_eq!(version_of("no PTX"), None);
        let newer = Newer::of(".version 10.1\n").expect("newer").to_string();
        assert_eq!(newer, "PTX 10.1; the newest supported version is 9.5");
        assert_eq!(Newer::of(".version 9.5\n"), None);
    }
}
