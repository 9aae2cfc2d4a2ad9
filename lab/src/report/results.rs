//! A machine's results, as they lie in a folder: a file of JSON lines per set.

use std::{collections::HashSet, fs, path::Path};

use anyhow::{Context, Error, Result, bail, ensure};
use warpfold_suite::{input, shortened};

use super::{
    groups::Groups,
    library::{self, Measured},
    lines::{self, Code, Line, Point},
};
use crate::compare::timed::record::Machine;

/// The files of what a card has that nobody has measured, and of the same with its table of launches,
/// where a machine's folder has them.
const TABLES: [&str; 2] = ["experiments/compare-untuned.jsonl", "experiments/compare-tuned.jsonl"];

/// Results of a folder, at most, several times what there is of a machine.
const MAX_RESULTS: usize = 50_000;

/// One file of results.
#[derive(Debug, Clone, Default)]
pub(super) struct Set {
    /// Its name, without the folder of the machine.
    pub(super) file: String,
    /// What its first line says; none where that is missing.
    pub(super) machine: Option<Machine>,
    /// Whether its times were taken in turns, beside peers.
    pub(super) compared: bool,
    /// Its times, but for those of rows.
    pub(super) points: Vec<Point>,
    /// Its times of the rows of matrices, which are other work than a buffer of as many elements.
    pub(super) rows: Vec<Point>,
    /// Its times for several states of the cache.
    pub(super) inputs: Vec<Point>,
    /// The machine code that it tells of.
    pub(super) codes: Vec<Code>,
    /// What a bench of the library measured, which is all that such a file has.
    pub(super) library: Option<Measured>,
}

/// What a folder holds, of one machine.
#[derive(Debug, Clone)]
pub(super) struct Results {
    /// The sets, by name.
    pub(super) sets: Vec<Set>,
    /// The reducer without a table of launches and with it, where both were measured.
    pub(super) tables: Option<[Set; 2]>,
    /// Sums of several GPUs of such a machine, where they were measured.
    pub(super) groups: Option<Groups>,
    /// Results that were wrong, which nothing shows.
    pub(super) wrong: usize,
}

/// Points that were chosen, and the sets that they are from.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice<'a> {
    /// In the order of the catalogue.
    pub(super) points: Vec<&'a Point>,
    /// From the one with the most points on.
    pub(super) sets: Vec<&'a Set>,
}

impl Set {
    /// When it was measured; none where it does not say.
    pub(super) fn date(&self) -> Option<&str> {
        self.machine.as_ref().map(|machine| machine.date.as_str()).filter(|date| !date.is_empty())
    }

    /// The file and the day, as a sentence names them.
    pub(super) fn name(&self) -> String {
        // Machine code is the same on any day.
        if self.date().is_none() && self.lines() == self.codes.len() {
            return self.file.clone();
        }
        let day = self.date().and_then(|date| date.split('T').next());
        format!("{}, {}", self.file, day.unwrap_or("without a date"))
    }

    /// How many results it has.
    pub(super) fn lines(&self) -> usize {
        let library = self.library.as_ref().map_or(0, |measured| measured.cases.len());
        self.points.len() + self.rows.len() + self.inputs.len() + self.codes.len() + library
    }

    /// Whether the reducer is all that it has of the suite.
    fn is_reducers(&self) -> bool {
        let mut suite = self.points.iter().filter(|point| point.place() != usize::MAX).peekable();
        suite.peek().is_some() && suite.all(|point| point.is_reducer())
    }
}

impl Results {
    /// Reads a folder, with its folder of the library's benches where it has one; a folder that holds
    /// none but a single folder of results stands for that.
    ///
    /// # Errors
    /// No results, results of several machines, and lines that are not understood.
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

    /// Those sets that say when and how they were measured. What is printed elsewhere is made of these.
    pub(super) fn dated(&self) -> Self {
        let sets = self.sets.iter().filter(|set| set.date().is_some() || !set.codes.is_empty());
        let dated = |tables: &[Set; 2]| tables.iter().all(|set| set.date().is_some());
        let tables = self.tables.clone().filter(dated);
        let groups = self.groups.clone().filter(|groups| groups.set.date().is_some());
        Self { sets: sets.cloned().collect(), tables, groups, wrong: self.wrong }
    }

    /// The newest machine line that has something.
    pub(super) fn newest<T>(&self, of: impl Fn(&Machine) -> Option<T>) -> Option<T> {
        let mut machines: Vec<&Machine> = self.sets.iter().filter_map(|s| s.machine.as_ref()).collect();
        machines.sort_by(|a, b| b.date.cmp(&a.date));
        machines.into_iter().find_map(of)
    }

    /// The GPU's name; none where there is machine code alone.
    pub(super) fn gpu(&self) -> Option<String> {
        let named = |set: &Set| gpus(set).into_iter().next();
        self.sets.iter().find_map(named)
    }

    /// The memory's peak in GB/s: as a machine line has it, else as the percentages imply.
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

    /// Points, of times taken in turns if there are any, else of single runs. All points of a case are
    /// from one set, the one with the most of those wanted, so that what stands side by side was
    /// measured side by side.
    ///
    /// Sets in which the reducer is the only one of the suite are no part of it: beside the variants
    /// there is the time that was taken beside them.
    pub(super) fn choose(&self, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        self.choose_among(|set| !set.is_reducers(), wanted)
    }

    /// Points of the reducer.
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

    /// As [`choose`](Self::choose), of single runs alone.
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

/// The GPUs that a set names.
fn gpus(set: &Set) -> Vec<String> {
    let machine = set.machine.as_ref().map(|machine| machine.gpu.clone());
    let mut names: Vec<String> = machine.into_iter().filter(|name| !name.is_empty()).collect();
    names.extend(set.points.iter().filter_map(|point| point.gpu.clone()));
    names.extend(set.library.iter().flat_map(|measured| &measured.cases).map(|case| case.gpu.clone()));
    names.dedup();
    names
}

/// Names of the sets and of the folders in a folder.
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

/// A file of a bench of the library's.
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

/// The lines that are not empty, by their numbers.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(at, line)| (at + 1, line))
}

/// What a line says; else what is wrong with it, in no more than a line, and where it is.
fn understood<T>(read: Result<T>, path: &str, number: usize) -> Result<T> {
    let read = read.map_err(|error| Error::msg(shortened(&format!("{error:#}")).into_owned()));
    read.with_context(|| format!("{path} line {number}"))
}

fn require_results(count: usize, path: &str) -> Result<()> {
    ensure!(count > 0, "{path} holds no results; measure the set again or remove the file");
    Ok(())
}
