//! An error of several lines, one per finding or missing requirement.

use std::fmt;

/// Several findings that end a command, shown one per line.
#[derive(Debug)]
pub struct Failure(Vec<String>);

impl Failure {
    pub fn new(lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(lines.into_iter().map(Into::into).collect())
    }

    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Failure {}
