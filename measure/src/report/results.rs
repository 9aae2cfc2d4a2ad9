//! A machine's results in a folder: one file of JSON lines per set.

use std::{cmp::Reverse, collections::HashSet, fs, path::Path};

use anyhow::{Context, Error, Result, bail, ensure};
use serde_json::Value;
use warpfold_suite::{input, shortened};

use super::{
    benches::{self, Bench},
    format::{code, distinct, in_order, join, markdown},
    record::{self, Case, Point, place},
};
use crate::compare::timed::record::Machine;

/// Folder of additional measurements. Blocks of the docs and figures show some of its files.
const EXPERIMENTS: &str = "experiments/";

/// Prefix of the files with sums on several GPUs of one host, which `scripts/gpu/scale.sh` measures.
const GROUP: &str = "experiments/group-";

/// Limit on the number of lines in a folder, several times those of one machine's results.
const MAX_RESULTS: usize = 50_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Set {
    pub(super) file: String,
    /// The machine line, which is the file's first; `None` if it is missing.
    pub(super) machine: Option<Machine>,
    /// True if the contenders alternated.
    pub(super) compared: bool,
    pub(super) points: Vec<Point>,
    pub(super) codes: Vec<Case>,
    /// Cases of the library's benches, or of groups of GPUs.
    pub(super) cases: Vec<Case>,
    /// Values of the bench's columns of each of the library's cases.
    identities: HashSet<Vec<String>>,
    /// Number of wrong results, which are not shown.
    wrong: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Results {
    pub(super) sets: Vec<Set>,
    pub(super) experiments: Vec<Set>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Choice<'a> {
    pub(super) points: Vec<&'a Point>,
    /// The sets of the points: dated ones first, then by decreasing number of points.
    pub(super) sets: Vec<&'a Set>,
}

impl Set {
    fn read(file: &str, path: &str, text: &str) -> Result<Self> {
        let mut set = Self { file: file.to_owned(), ..Self::default() };
        let is_library = file.starts_with(benches::FOLDER);
        let bench =
            is_library.then(|| Bench::of_file(file)).transpose().with_context(|| path.to_owned())?;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let added = record::parse(line).and_then(|line| set.add(line, at == 0, bench));
            let added = added.map_err(|error| Error::msg(shortened(&format!("{error:#}")).into_owned()));
            added.with_context(|| format!("{path} line {}", at + 1))?;
        }
        ensure!(
            set.lines() + set.wrong > 0,
            "{path} holds no results; measure the set again or remove the file"
        );
        Ok(set)
    }

    fn add(&mut self, line: Value, is_first: bool, bench: Option<&Bench>) -> Result<()> {
        let kind = line.get("kind").map(|kind| kind.as_str().unwrap_or_default());
        match kind {
            Some("machine") if is_first => self.machine = Some(record::machine(&line)?),
            _ if bench.is_some() && is_first => {
                bail!("is not a machine line, with which the file of a library bench must begin")
            }
            Some("machine") => bail!("is a machine line after the first line; split a file of two sets"),
            _ if self.file.starts_with(GROUP) => self.cases.push(Case(line)),
            _ if let Some(bench) = bench => {
                let case = Case(line);
                let identity = bench.identity(&case)?;
                ensure!(
                    case.is_torch() || self.identities.insert(identity.clone()),
                    "repeats the case {}, of which one would be shown; measure it once, or name what differs \
                     in the bench's columns",
                    identity.join(", ")
                );
                self.cases.push(case);
            }
            Some("time") => {
                self.compared = true;
                self.add_point(Point::read(&line, false)?);
            }
            Some(other) => bail!("has an unknown kind, `{other}`; allowed are machine and time"),
            None if line.get("compiler").is_some() => self.codes.push(Case::code(line)?),
            None if line.get("device").is_some() => self.add_point(Point::read(&line, true)?),
            None => bail!("has no kind, and is neither a run nor machine code"),
        }
        Ok(())
    }

    fn add_point(&mut self, point: Point) {
        self.wrong += usize::from(!point.ok);
        self.points.extend(Some(point).filter(|point| point.ok && point.time_us.is_some()));
    }

    pub(super) fn date(&self) -> Option<&str> {
        self.machine.as_ref().map(|machine| machine.date.as_str()).filter(|date| !date.is_empty())
    }

    pub(super) fn day(&self) -> Option<&str> {
        self.date().and_then(|date| date.split('T').next())
    }

    pub(super) fn name(&self) -> String {
        // Machine code does not depend on the day.
        if self.date().is_none() && self.lines() == self.codes.len() {
            return self.file.clone();
        }
        format!("{}, {}", self.file, self.day().unwrap_or("without a date"))
    }

    pub(super) fn command(&self) -> &str {
        self.machine.as_ref().map_or("", |machine| machine.command.as_str())
    }

    pub(super) fn lines(&self) -> usize {
        self.points.len() + self.codes.len() + self.cases.len()
    }

    fn gpus(&self) -> Vec<&str> {
        let machine = self.machine.iter().map(|machine| machine.gpu.as_str());
        let points = self.points.iter().filter_map(Point::gpu);
        let cases = self.cases.iter().filter_map(|case| case.text("device"));
        machine.chain(points).chain(cases).filter(|name| !name.is_empty()).collect()
    }

    /// Returns whether the only catalogue variant in this set is the reducer.
    fn is_reducers(&self) -> bool {
        let mut suite =
            self.points.iter().filter(|point| place(&point.variant) != usize::MAX).peekable();
        suite.peek().is_some() && suite.all(|point| point.is_reducer())
    }
}

impl Results {
    /// Reads a folder, including its folder of library benches. If the folder's only entry is a folder
    /// of results, reads that folder.
    pub(super) fn read(folder: &Path, shown: &str) -> Result<Self> {
        let entries = |within| entries(&folder.join(within)).unwrap_or_default();
        ensure!(folder.is_dir(), "no results: {shown} cannot be read; --results names another folder");
        let is_file = |name: &String| name.ends_with(".jsonl");
        let (mut files, mut folders): (Vec<String>, Vec<String>) =
            entries("").into_iter().partition(is_file);
        folders.retain(|name| folder.join(name).is_dir());
        let within = |place: &'static str| {
            entries(place).into_iter().filter(is_file).map(move |name| format!("{place}{name}"))
        };
        files.extend(within(benches::FOLDER));
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
            Set::read(file, &path, &text.with_context(|| format!("{path} cannot be read"))?)
        };
        let mut results = Self::default();
        for file in files {
            results.sets.push(read(&file)?);
            let lines: usize = results.sets.iter().map(Set::lines).sum();
            ensure!(
                lines <= MAX_RESULTS,
                "{shown} holds more than {MAX_RESULTS} results; take some out"
            );
        }
        let is_shown = |file: &String| file.starts_with(GROUP) || TABLES.contains(&file.as_str());
        for file in within(EXPERIMENTS).filter(is_shown) {
            results.experiments.push(read(&file)?);
        }
        results.require_one_machine(shown)?;
        Ok(results)
    }

    fn require_one_machine(&self, shown: &str) -> Result<()> {
        let tables = TABLES.iter().filter_map(|file| self.experiment(file));
        let sets: Vec<&Set> = self.sets.iter().chain(tables).collect();
        let gpus = sets.iter().flat_map(|set| set.gpus().into_iter().map(|gpu| (gpu, &set.file)));
        let cpus = sets.iter().filter_map(|set| Some((set.machine.as_ref()?.cpu.as_str(), &set.file)));
        let cpus = cpus.filter(|(cpu, _)| !cpu.is_empty());
        for mut names in [gpus.collect::<Vec<_>>(), cpus.collect()] {
            names.dedup_by_key(|(name, _)| *name);
            if let [(one, first), (other, second), ..] = names.as_slice() {
                bail!(
                    "{shown} mixes results of several machines: {} ({first}) and {} ({second}); a \
                     folder holds those of one",
                    shortened(one),
                    shortened(other)
                );
            }
        }
        Ok(())
    }

    /// Returns the sets with a date, and machine code. The docs are generated from these.
    pub(super) fn dated(mut self) -> Self {
        self.sets.retain(|set| set.date().is_some() || !set.codes.is_empty());
        self.experiments.retain(|set| set.date().is_some());
        self
    }

    pub(super) fn wrong(&self) -> usize {
        self.sets.iter().map(|set| set.wrong).sum()
    }

    pub(super) fn experiment(&self, file: &str) -> Option<&Set> {
        self.experiments.iter().find(|set| set.file == file)
    }

    /// Returns the newest set with sums on several GPUs of this machine's model.
    pub(super) fn group(&self) -> Option<&Set> {
        let several = |case: &Case| case.whole("devices").is_some_and(|devices| devices > 1);
        let sets = self.experiments.iter().filter(|set| set.file.starts_with(GROUP));
        let ours =
            sets.filter(|set| set.machine.as_ref().map(|machine| machine.gpu.as_str()) == self.gpu());
        ours.filter(|set| set.cases.iter().any(several)).max_by_key(|set| set.date())
    }

    pub(super) fn newest<T>(&self, of: impl Fn(&Machine) -> Option<T>) -> Option<T> {
        let mut machines: Vec<&Machine> =
            self.sets.iter().filter_map(|set| set.machine.as_ref()).collect();
        machines.sort_by_key(|machine| Reverse(&machine.date));
        machines.into_iter().find_map(of)
    }

    /// Returns the GPU's name; `None` if there is only machine code.
    pub(super) fn gpu(&self) -> Option<&str> {
        self.sets.iter().find_map(|set| set.gpus().first().copied())
    }

    /// Returns the memory's peak in GB/s: recorded, or else computed from a bandwidth and its
    /// percentage.
    pub(super) fn peak(&self) -> Option<f64> {
        // A small percentage has too few digits to divide by.
        let implied = |p: &Point| Some(100.0 * p.gbps? / p.percent.filter(|percent| *percent > 20.0)?);
        let points = || self.sets.iter().flat_map(|set| &set.points);
        self.newest(|machine| machine.peak_gbps).or_else(|| points().find_map(implied))
    }

    pub(super) fn peak_rule(&self, name: impl Fn(f64) -> String) -> Vec<(f64, String)> {
        self.peak().into_iter().map(|peak| (peak, name(peak))).collect()
    }

    /// Formats the sources of numbers: the GPU, the sets with their commands, and the driver.
    pub(super) fn source(&self, sets: &[&Set]) -> String {
        if sets.is_empty() {
            return String::new();
        }
        let said = sets.iter().map(|set| match set.command() {
            "" => markdown(&set.name()),
            command => format!("{}, {}", markdown(&set.name()), code(&short(command))),
        });
        let driver = self.newest(|machine| machine.driver.clone());
        let driver = driver.map(|driver| format!(", driver {}", markdown(&driver))).unwrap_or_default();
        format!("{}{driver}; {}.\n", markdown(self.gpu().unwrap_or_default()), join(said, "; "))
    }

    /// Selects points of comparisons if there are any, otherwise of single runs. All points of the same
    /// work are from one set, so that compared times were measured together: a dated set if possible,
    /// and then the one with the most wanted points.
    ///
    /// Sets with the reducer as the only variant of the suite are excluded. Next to other variants, the
    /// reducer's time is from their set.
    pub(super) fn choose(&self, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        self.choose_among(|set| !set.is_reducers(), wanted)
    }

    pub(super) fn choose_reducer(&self, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        self.choose_among(|_| true, |point| point.is_reducer() && !point.single && wanted(point))
    }

    pub(super) fn choose_runs(&self, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        self.choose(|point| point.single && wanted(point))
    }

    fn choose_among(&self, among: impl Fn(&Set) -> bool, wanted: impl Fn(&Point) -> bool) -> Choice<'_> {
        // Reductions of rows and comparisons by cache state are other work, and are excluded.
        let wanted = |point: &&Point| !point.is_of_rows() && point.inputs.is_none() && wanted(point);
        let count = |set: &Set| set.points.iter().filter(wanted).count();
        let mut sets: Vec<&Set> = self.sets.iter().filter(|set| among(set) && count(set) > 0).collect();
        sets.sort_by_key(|set| Reverse((set.compared, set.date().is_some(), count(set), set.date())));
        let compared = sets.first().is_some_and(|set| set.compared);
        let (mut choice, mut seen) = (Choice::default(), HashSet::new());
        for set in sets.into_iter().filter(|set| set.compared == compared) {
            let points = set.points.iter().filter(wanted);
            let points: Vec<&Point> = points.filter(|point| !seen.contains(&point.work())).collect();
            seen.extend(points.iter().map(|point| point.work()));
            choice.sets.extend((!points.is_empty()).then_some(set));
            choice.points.extend(points);
        }
        choice.points.sort_by_key(|point| (place(&point.variant), point.n, point.stride));
        choice
    }
}

impl<'a> Choice<'a> {
    pub(super) fn only(&self, wanted: impl Fn(&'a Point) -> bool) -> Self {
        let points = self.points.iter().copied().filter(|point| wanted(point)).collect();
        Self { points, sets: self.sets.clone() }
    }

    /// Splits the points by key, in the order in which the keys first appear.
    pub(super) fn by<K: PartialEq>(&self, key: impl Fn(&'a Point) -> K) -> Vec<(K, Self)> {
        let keys = in_order(self.points.iter().map(|point| key(point)));
        let part = |k| (self.only(|point| key(point) == k), k);
        keys.into_iter().map(part).map(|(part, k)| (k, part)).collect()
    }

    pub(super) fn at(&self, n: u64) -> Self {
        self.only(|point| point.n == n)
    }

    pub(super) fn sizes(&self) -> Vec<u64> {
        distinct(self.points.iter().map(|point| point.n))
    }

    pub(super) fn fastest(&self) -> Option<&'a Point> {
        self.points.iter().copied().min_by(|a, b| a.median.total_cmp(&b.median))
    }

    pub(super) fn slowest(&self) -> Option<&'a Point> {
        self.points.iter().copied().max_by(|a, b| a.median.total_cmp(&b.median))
    }

    pub(super) fn find(&self, wanted: impl Fn(&Point) -> bool) -> Option<&'a Point> {
        self.points.iter().copied().find(|point| wanted(point))
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        let points = [self.points.as_slice(), &other.points].concat();
        Self { points, sets: [self.sets.as_slice(), &other.sets].concat() }
    }
}

/// Comparisons of the reducer with its generic launches, and with those of this GPU's tuning table.
pub(super) const TABLES: [&str; 2] =
    ["experiments/compare-untuned.jsonl", "experiments/compare-tuned.jsonl"];

/// Shortens long lists in a command. The results file has the full command.
fn short(command: &str) -> String {
    let words = command.split(' ').map(|word| match word.split(',').collect::<Vec<_>>().as_slice() {
        [first, .., last] if word.len() > 40 => format!("{first},…,{last}"),
        _ => word.to_owned(),
    });
    join(words, " ")
}

fn entries(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let mut names: Vec<String> = entries.filter_map(Result::transpose).collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}
