//! Listings of counters beside source lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use warpfold_sim::{InstructionInfo, Location, Profile, Tally, demangled};

/// Lines between two lines with counters are listed if the two are at most this far apart.
pub const GAP: u32 = 6;
const MOST_SOURCE: u64 = 16 << 20;
/// Headings of the columns beside the source.
pub const HEAD: [&str; 2] = [
    "    warp   mean   div.   bar-  |    shared memory     |      global memory       |",
    "  instr.  lanes    br.  riers  |    req.   wavef. way |    req.    sect.   used  | atomics",
];
/// Meaning of the columns.
pub const LEGEND: &str = "\
warp instr.  instructions, once per warp           lanes  lanes of 32 whose predicate held, in the mean
div. br.     branches whose lanes part ways        barriers  arrivals of warps at block barriers
req.         requests: loads and stores of a warp  wavef.  passes over the banks; way: worst conflict
sect.        sectors of 32 bytes; used: the part   atomics  operations on global memory
             of their bytes that was asked for     inclusive: a call's line holds what it calls";

/// Returns the source lines with counters, each beside its [`columns`], and short gaps between them.
#[must_use]
pub fn listing(source: &str, lines: &BTreeMap<u32, Tally>) -> String {
    let mut text = String::new();
    let mut last: Option<u32> = None;
    let source: Vec<&str> = source.lines().collect();
    for &line in lines.keys() {
        let from = match last {
            Some(last) if line <= last + GAP => last + 1,
            _ => {
                if last.is_some() {
                    let _ = writeln!(text, "{:>width$}", "...", width = HEAD[1].len() + 7);
                }
                line.saturating_sub(1).max(1)
            }
        };
        for shown in from..=line {
            let of_line = lines.get(&shown).map_or_else(|| " ".repeat(HEAD[1].len()), columns);
            let code = source.get(shown as usize - 1).copied().unwrap_or_default();
            let _ = writeln!(text, "{}", format!("{of_line}{shown:>7}  {code}").trim_end());
        }
        last = Some(line);
    }
    text
}

/// Formats the counters of a line in columns as wide as those of [`HEAD`].
#[must_use]
pub fn columns(tally: &Tally) -> String {
    let number = |value: u64| if value == 0 { String::new() } else { value.to_string() };
    let (shared, global) = (tally.shared(), tally.global());
    let lanes = tally.mean_lanes().map_or(String::new(), |lanes| format!("{lanes:.2}"));
    let way = number(shared.degree.into());
    let used = global.efficiency().map_or(String::new(), |used| format!("{:.1}%", used * 100.0));
    let text = format!(
        "{:>8} {lanes:>6} {:>6} {:>6}  |{:>8} {:>8} {way:>3} |{:>8} {:>8} {used:>6}  |{:>8}",
        number(tally.warp_instructions),
        number(tally.divergent_branches),
        number(tally.block_barriers),
        number(shared.requests),
        number(shared.wavefronts),
        number(global.requests),
        number(global.sectors),
        number(tally.global_atomics.operations),
    );
    format!("{text:width$}", width = HEAD[1].len())
}

/// Counters of kernels, by source line.
#[derive(Debug, Default)]
pub struct Explanation {
    kernels: BTreeMap<String, Kernel>,
}

#[derive(Debug, Default)]
struct Kernel {
    launches: u64,
    total: Tally,
    /// Counters by file and line. An instruction counts once in each file of its call chain, at the
    /// innermost line in that file.
    files: BTreeMap<String, BTreeMap<u32, Tally>>,
    /// Counters of instructions without a line.
    elsewhere: Tally,
    /// Warp instructions by the file of their outermost caller; the kernel's own file has the most.
    begins: BTreeMap<String, u64>,
}

impl Explanation {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a launch of a kernel: its instructions and their counters.
    pub fn add(&mut self, kernel: &str, instructions: &[InstructionInfo], profile: &Profile) {
        let of = self.kernels.entry(kernel.to_owned()).or_default();
        of.launches += 1;
        for (info, &tally) in instructions.iter().zip(&profile.instructions) {
            of.total += tally;
            match &info.location {
                Some(location) if tally.warp_instructions > 0 => of.add(location, tally),
                _ => of.elsewhere += tally,
            }
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Returns the report as text, kernel by kernel, with the lines of source files that can be read.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, kernel) in &self.kernels {
            let plain = demangled(name).unwrap_or_else(|| name.clone());
            let launches = if kernel.launches == 1 { "launch" } else { "launches" };
            let _ = writeln!(text, "{plain}: {} {launches}", kernel.launches);
            kernel.write(&mut text);
            text.push('\n');
        }
        text.push_str(LEGEND);
        text.push('\n');
        text
    }
}

/// Reads a source file that the PTX names. A pipe or a device may be endless, so anything but a regular
/// file is read as empty; more than [`MOST_SOURCE`] bytes are an error.
fn source(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if fs::metadata(path)?.is_file() {
        fs::File::open(path)?.take(MOST_SOURCE + 1).read_to_string(&mut text)?;
    }
    if text.len() as u64 > MOST_SOURCE { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

impl Kernel {
    fn add(&mut self, location: &Location, tally: Tally) {
        let user = location.user();
        let mut seen: Vec<&str> = Vec::new();
        for place in user.places() {
            if !seen.contains(&&*place.file) {
                seen.push(&place.file);
                *self.files.entry(place.file.to_string()).or_default().entry(place.line).or_default() +=
                    tally;
            }
        }
        *self.begins.entry(location.outermost().file.to_string()).or_default() +=
            tally.warp_instructions;
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "{}\n{}   line  source", HEAD[0], HEAD[1]);
        let _ = writeln!(text, "{}         (all of it)", columns(&self.total));
        if self.elsewhere.warp_instructions > 0 {
            let _ = writeln!(text, "{}         (of no line)", columns(&self.elsewhere));
        }
        let own = self.begins.iter().max_by_key(|(_, count)| **count).map(|(file, _)| file.as_str());
        let others = self.files.keys().map(String::as_str).filter(|file| Some(*file) != own);
        for file in own.into_iter().chain(others) {
            let Some(lines) = self.files.get(file) else { continue };
            let source = source(Path::new(file)).unwrap_or_default();
            let _ = writeln!(text, "{file}");
            text.push_str(&listing(&source, lines));
        }
    }
}
