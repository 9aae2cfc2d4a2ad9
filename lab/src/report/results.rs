//! A machine's results in a folder: one file of JSON lines per set.

use std::{collections::HashSet, fs, path::Path};

use anyhow::{Context, Error, Result, bail, ensure};
use warpfold_suite::{input, shortened};

use super::{
    groups::Groups,
    library::{self, Measured},
    lines::{self, Code, Line, Point},
};
use crate::compare::timed::record::Machine;

/// Files with the rules' launches for an unmeasured card, and with the same card's tuning table, in a
/// machine's folder.
const TABLES: [&str; 2] = ["experiments/compare-untuned.jsonl", "experiments/compare-tuned.jsonl"];

/// Limit on the results of a folder, several times those of a machine.
const MAX_RESULTS: usize = 50_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Set {
    pub(super) file: String,
    /// The first line; `None` if it is missing.
    pub(super) machine: Option<Machine>,
    pub(super) compared: bool,
    pub(super) points: Vec<Point>,
    /// Times of rows of matrices, which are different work from a buffer of as many elements.
    pub(super) rows: Vec<Point>,
    pub(super) inputs: Vec<Point>,
    pub(super) codes: Vec<Code>,
    pub(super) library: Option<Measured>,
}

#[derive(Debug, Clone)]
pub(super) struct Results {
    pub(super) sets: Vec<Set>,
    /// The reducer without and with a tuning table, if both were measured.
    pub(super) tables: Option<[Set; 2]>,
    /// Sums on several GPUs of such a machine, if measured.
    pub(super) groups: Option<Groups>,
    /// Number of wrong results, which are not shown.
    pub(super) wrong: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Choice<'a> {
    pub(super) points: Vec<&'a Point>,
    /// Dated sets first, then those with the most points.
    pub(super) sets: Vec<&'a Set>,
}

impl Set {
    pub(super) fn date(&self) -> Option<&str> {
        self.machine.as_ref().map(|machine| machine.date.as_str()).filter(|date| !date.is_empty())
    }

    pub(super) fn name(&self) -> String {
        // Machine code does not depend on the day.
        if self.date().is_none() && self.lines() == self.codes.len() {
            return self.file.clone();
        }
        let day = self.date().and_then(|date| date.split('T').next());
        format!("{}, {}", self.file, day.unwrap_or("without a date"))
    }

    pub(super) fn lines(&self) -> usize {
        let library = self.library.as_ref().map_or(0, |measured| measured.cases.len());
        self.points.len() + self.rows.len() + self.inputs.len() + self.codes.len() + library
    }

    fn is_reducers(&self) -> bool {
        let mut suite = self.points.iter().filter(|point| point.place() != usize::MAX).peekable();
        suite.peek().is_some() && suite.all(|point| point.is_reducer())
    }
}

impl Results {
    /// Reads a folder, including its folder of library benches. A folder whose only entry is one folder
    /// of results stands for that.
    ///
    /// # Errors
    /// No results, results of several machines, or lines that cannot be parsed.
    pub(super) fn read(folder: &Path, shown: &str) -> Result<Self> {
        let (mut files, folders) = entries(folder, shown)?;
        if folders.iter().any(|folder| folder == library::FOLDER) {
            let (benches, _) =
                entries(&folder.join(library::FOLDER), &format!("{shown}/{}", library::FOLDER))?;
            files.extend(benches.iter().map(|file| format!("{}/{file}", library::FOLDER)));
        }
        if files.is_empty() {
            return match folders.as_slice() {
                [] => bail!("no results in {shown}: a set is a file of JSON lines, <set>.jsonl"),
                [only] => Self::read(&folder.join(only), &format!("{shown}/{only}")),
                several => bail!(
                    "{shown} has results of several machines: {}; --results names the folder of one",
                    several.join(", ")
                ),
            };
        }
        let read = |file: &str| {
            let path = format!("{shown}/{file}");
            let text = input::text(&folder.join(file), input::MAX_TEXT).map_err(Error::msg);
            text.with_context(|| format!("{path} cannot be read")).map(|text| (path, text))
        };
        let mut results = Self { sets: Vec::new(), tables: None, groups: None, wrong: 0 };
        if TABLES.iter().all(|file| folder.join(file).is_file()) {
            let of = |file: &str| -> Result<Set> {
                let (path, text) = read(file)?;
                Ok(set(file.to_owned(), &path, &text)?.0)
            };
            results.tables = Some([of(TABLES[0])?, of(TABLES[1])?]);
        }
        for file in files {
            let (path, text) = read(&file)?;
            let (set, wrong) =
                match file.strip_prefix(library::FOLDER).and_then(|rest| rest.strip_prefix('/')) {
                    Some(name) => (library_set(&file, name, &path, &text)?, 0),
                    None => set(file, &path, &text)?,
                };
            results.sets.push(set);
            results.wrong += wrong;
            let lines: usize = results.sets.iter().map(Set::lines).sum();
            ensure!(
                lines <= MAX_RESULTS,
                "{shown} holds more than {MAX_RESULTS} results; take some out"
            );
        }
        results.one_machine(shown)?;
        results.groups = Groups::read(folder, shown, results.gpu().as_deref())?;
        Ok(results)
    }

    /// Returns the sets with a date, and machine code; the docs are generated from these.
    pub(super) fn dated(&self) -> Self {
        let sets = self.sets.iter().filter(|set| set.date().is_some() || !set.codes.is_empty());
        let dated = |tables: &[Set; 2]| tables.iter().all(|set| set.date().is_some());
        let tables = self.tables.clone().filter(dated);
        let groups = self.groups.clone().filter(|groups| groups.set.date().is_some());
        Self { sets: sets.cloned().collect(), tables, groups, wrong: self.wrong }
    }

    pub(super) fn newest<T>(&self, of: impl Fn(&Machine) -> Option<T>) -> Option<T> {
        let mut machines: Vec<&Machine> = self.sets.iter().filter_map(|s| s.machine.as_ref()).collect();
        machines.sort_by(|a, b| b.date.cmp(&a.date));
        machines.into_iter().find_map(of)
    }

    /// Returns the GPU's name; `None` if there is only machine code.
    pub(super) fn gpu(&self) -> Option<String> {
        let named = |set: &Set| gpus(set).into_iter().next();
        self.sets.iter().find_map(named)
    }

    /// Returns the memory's peak in GB/s, from a machine line or else from the percentages.
    pub(super) fn peak(&self) -> Option<f64> {
        self.newest(|machine| machine.peak_gbps).or_else(|| {
            let implied = |point: &Point| {
                let (gbps, percent) = (point.gbps?, point.percent?);
                // A small percentage has too few digits to divide by.
                (percent > 20.0).then_some(gbps * 100.0 / percent)
            };
            self.sets.iter().flat_map(|set| &set.points).find_map(implied)
        })
    }

    /// Selects points, of times taken in turns if there are any, else of single runs. All points of a
    /// case are from one set, a dated one if possible and then the one with the most wanted points, so
    /// that compared times were measured together.
    ///
    /// Sets with the reducer as the only variant of the suite are excluded: beside the variants, the
    /// time measured with them is shown.
    pub(super) fn choose(&self, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        self.choose_among(|set| !set.is_reducers(), wanted)
    }

    pub(super) fn choose_reducer(&self, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        self.choose_among(|_| true, |point| point.is_reducer() && !point.single && wanted(point))
    }

    fn choose_among(&self, among: impl Fn(&Set) -> bool, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        let count = |set: &Set| set.points.iter().filter(|point| wanted(point)).count();
        let mut sets: Vec<&Set> = self.sets.iter().filter(|set| among(set) && count(set) > 0).collect();
        sets.sort_by_key(|set| {
            std::cmp::Reverse((set.compared, set.date().is_some(), count(set), set.date()))
        });
        let compared = sets.first().is_some_and(|set| set.compared);
        sets.retain(|set| set.compared == compared);
        let (mut choice, mut seen) = (Choice::default(), HashSet::new());
        for set in sets {
            let new = |point: &&Point| !seen.contains(&point.case());
            let points: Vec<&Point> =
                set.points.iter().filter(|point| wanted(point)).filter(new).collect();
            seen.extend(points.iter().map(|point| point.case()));
            if !points.is_empty() {
                choice.points.extend(points);
                choice.sets.push(set);
            }
        }
        choice.points.sort_by_key(|point| (point.place(), point.n, point.stride));
        choice
    }

    pub(super) fn choose_runs(&self, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        self.choose(|point| point.single && wanted(point))
    }

    fn one_machine(&self, shown: &str) -> Result<()> {
        let cpu = |set: &Set| {
            set.machine
                .as_ref()
                .map(|m| m.cpu.clone())
                .filter(|cpu| !cpu.is_empty())
                .into_iter()
                .collect()
        };
        for names in [&gpus as &dyn Fn(&Set) -> Vec<String>, &cpu] {
            let mut first: Option<(String, &str)> = None;
            for set in self.sets.iter().chain(self.tables.iter().flatten()) {
                for name in names(set) {
                    let (known, file) = first.get_or_insert_with(|| (name.clone(), &set.file));
                    ensure!(
                        *known == name,
                        "{shown} mixes results of several machines: {} ({file}) and {} ({}); a folder is \
                         of one",
                        shortened(known),
                        shortened(&name),
                        set.file
                    );
                }
            }
        }
        Ok(())
    }
}

fn gpus(set: &Set) -> Vec<String> {
    let machine = set.machine.as_ref().map(|machine| machine.gpu.clone());
    let mut names: Vec<String> = machine.into_iter().filter(|name| !name.is_empty()).collect();
    names.extend(set.points.iter().filter_map(|point| point.gpu.clone()));
    names.extend(set.library.iter().flat_map(|measured| &measured.cases).map(|case| case.gpu.clone()));
    names.dedup();
    names
}

fn entries(folder: &Path, shown: &str) -> Result<(Vec<String>, Vec<String>)> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    let listed = fs::read_dir(folder).with_context(|| {
        format!("no results: {shown} cannot be read; --results names another folder")
    })?;
    for entry in listed {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        match path.extension().is_some_and(|extension| extension == "jsonl") {
            true => files.push(name.to_owned()),
            false if path.is_dir() => folders.push(name.to_owned()),
            false => {}
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

fn set(file: String, path: &str, text: &str) -> Result<(Set, usize)> {
    let mut set = Set { file, ..Set::default() };
    let mut wrong = 0;
    for (number, line) in numbered(text) {
        match understood(lines::read(line), path, number)? {
            Line::Machine(_) if number > 1 => {
                bail!("{path} line {number}: a machine in the middle: two sets in one file")
            }
            Line::Machine(machine) => set.machine = Some(*machine),
            Line::Point { ok: false, .. } => wrong += 1,
            Line::Point { compared, point, .. } => {
                set.compared |= compared;
                let Some(point) = point else { continue };
                let kind = match &*point {
                    point if point.inputs.is_some() => &mut set.inputs,
                    point if point.is_of_rows() => &mut set.rows,
                    _ => &mut set.points,
                };
                kind.push(*point);
            }
            Line::Code(code) => set.codes.push(*code),
        }
    }
    require_results(set.lines() + wrong, path)?;
    Ok((set, wrong))
}

fn library_set(file: &str, name: &str, path: &str, text: &str) -> Result<Set> {
    let mut measured = Measured::named(name).with_context(|| path.to_owned())?;
    let mut machine = None;
    for (number, line) in numbered(text) {
        match machine {
            None => machine = Some(understood(library::machine(line), path, number)?),
            Some(_) => {
                let case = library::case(measured.bench, line);
                measured.cases.push(understood(case, path, number)?);
            }
        }
    }
    require_results(measured.cases.len(), path)?;
    Ok(Set { file: file.to_owned(), machine, library: Some(measured), ..Set::default() })
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(at, line)| (at + 1, line))
}

/// Adds the place to an error, which is shortened to one line.
fn understood<T>(read: Result<T>, path: &str, number: usize) -> Result<T> {
    let read = read.map_err(|error| Error::msg(shortened(&format!("{error:#}")).into_owned()));
    read.with_context(|| format!("{path} line {number}"))
}

fn require_results(count: usize, path: &str) -> Result<()> {
    ensure!(count > 0, "{path} holds no results; measure the set again or remove the file");
    Ok(())
}
