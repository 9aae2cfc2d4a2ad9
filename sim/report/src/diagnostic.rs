//! A finding with everything that is reported about it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warpfold_sim::{Fault, Finding, Location, Site, demangled, readable};

use crate::rules::{Level, Rule};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// Path of the file, as it was passed to the compiler.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

/// An instruction of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Role of the instruction in the finding.
    pub part: String,
    /// The user's source line, if the PTX has line information.
    pub user: Option<Spot>,
    /// All source lines of the instruction: the innermost first, then its callers.
    pub chain: Vec<Spot>,
    /// Line of the PTX text, from 1.
    pub ptx_line: u32,
    pub instruction: String,
    pub block: [u32; 3],
    pub thread: [u32; 3],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The name of the finding's [`Rule`].
    pub rule: String,
    /// The kernel's name in PTX; empty for an operation of the host.
    pub kernel: String,
    /// Description of the finding and of its memory.
    pub message: String,
    /// The whole finding in one line of text, which begins with the user's source line.
    pub line: String,
    /// The instruction at which the finding was detected, and related instructions.
    pub places: Vec<Place>,
    pub count: u64,
}

fn spot(location: &Location) -> Spot {
    Spot { file: location.file.to_string(), line: location.line, column: location.column }
}

impl Place {
    fn of(part: &str, site: &Site) -> Self {
        let places = |location: &Arc<Location>| location.places().map(spot).collect();
        Self {
            part: part.to_owned(),
            user: site.location.as_ref().map(|location| spot(location.user())),
            chain: site.location.as_ref().map(places).unwrap_or_default(),
            ptx_line: site.line,
            instruction: site.text.clone(),
            block: site.block,
            thread: site.thread,
        }
    }
}

impl Diagnostic {
    #[must_use]
    pub fn of_finding(finding: &Finding) -> Self {
        let mut message =
            format!("{} at {} address {:#x}", finding.kind, finding.space, finding.address);
        if let Some(buffer) = &finding.buffer {
            message += &format!(", {buffer}");
        }
        let parts = [
            ("this access", &finding.access),
            ("the earlier access", &finding.other),
            ("an acquire fence is missing after this read", &finding.unfenced),
        ];
        let place =
            |(part, site): (&str, &Option<Site>)| site.as_ref().map(|site| Place::of(part, site));
        Self {
            rule: Rule::of_hazard(finding.kind).id.to_owned(),
            kernel: finding.kernel.clone(),
            message,
            line: finding.to_string(),
            places: parts.into_iter().filter_map(place).collect(),
            count: finding.count,
        }
    }

    #[must_use]
    pub fn of_fault(fault: &Fault) -> Self {
        Self {
            rule: Rule::of_fault(&fault.kind).id.to_owned(),
            kernel: fault.kernel.clone(),
            message: fault.kind.to_string(),
            line: fault.to_string(),
            places: vec![Place::of("this instruction", &Site::from(fault))],
            count: 1,
        }
    }

    /// Creates the diagnostic of a kernel whose result depends on the order of threads. `text` describes
    /// the result.
    #[must_use]
    pub fn of_order(kernel: &str, text: &str) -> Self {
        Self {
            rule: Rule::of_order().id.to_owned(),
            kernel: kernel.to_owned(),
            message: text.to_owned(),
            line: format!("kernel `{}`: {text}", readable(kernel)),
            places: Vec::new(),
            count: 1,
        }
    }

    #[must_use]
    pub fn kind(&self) -> &'static Rule {
        Rule::called(&self.rule).unwrap_or_else(|| Rule::of_order())
    }

    /// Returns the kernel's name in its source.
    #[must_use]
    pub fn name(&self) -> String {
        demangled(&self.kernel).unwrap_or_else(|| self.kernel.clone())
    }

    /// Returns the finding as it is printed.
    #[must_use]
    pub fn text(&self) -> String {
        match self.kind().level {
            Level::Error => format!("{} [{}]", self.line, self.rule),
            Level::Warning => format!("{} [{}, a warning]", self.line, self.rule),
        }
    }
}
