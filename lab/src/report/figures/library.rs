//! The library's benches: the kernels' times by both compilers, and PyTorch's.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
};

use super::{Figure, Table};
use crate::report::{
    format::{digits, or_dash},
    library::{BENCHES, Bench, Case, Measured},
    results::{Results, Set},
};

const BESIDE: [&str; 4] = ["rust-cuda µs", "× rustc", "PyTorch µs", "× PyTorch"];

struct Row<'a> {
    identity: &'a [String],
    n: Option<u64>,
    /// The case by rustc.
    own: Option<&'a Case>,
    rust_cuda: Option<&'a Case>,
    /// From the same run as `own`.
    torch: Option<&'a Case>,
}

pub(super) fn tables(results: &Results) -> impl Iterator<Item = Figure> {
    BENCHES.iter().filter_map(|bench| figure(results, bench))
}

fn figure(results: &Results, bench: &'static Bench) -> Option<Figure> {
    let (rows, sources) = rows(files(results, bench));
    (!rows.is_empty()).then(|| Figure {
        id: format!("library-{}", bench.stem),
        title: bench.title.to_owned(),
        lead: lead(bench, &rows),
        pictures: None,
        tables: split(bench, &rows),
        sources,
    })
}

/// Returns a bench's files: rustc's before rust-cuda's, the newest first, and on one day the one with
/// the most cases first, so that as many cases as possible are from one run.
fn files<'a>(results: &'a Results, bench: &Bench) -> Vec<(&'a Set, &'a Measured)> {
    let measured = results.sets.iter().filter_map(|set| Some((set, set.library.as_ref()?)));
    let mut files: Vec<_> = measured.filter(|(_, measured)| measured.bench.stem == bench.stem).collect();
    let day = |set: &'a Set| set.date().and_then(|date| date.split('T').next());
    files.sort_by_key(|(set, measured)| {
        (measured.by_rust_cuda, Reverse((day(set), measured.cases.len(), set.date())), &set.file)
    });
    files
}

/// Returns every case once, from the first file that has it, and the files used. Cases of equal size are
/// adjacent.
fn rows<'a>(files: Vec<(&'a Set, &'a Measured)>) -> (Vec<Row<'a>>, Vec<String>) {
    let (mut rows, mut sources) = (Vec::<Row<'a>>::new(), Vec::new());
    let mut places = HashMap::new();
    for (set, measured) in files {
        let mut has_part = false;
        let torch: HashMap<&[String], &Case> =
            cases(measured, true).map(|case| (case.identity.as_slice(), case)).collect();
        for case in cases(measured, false) {
            let identity = case.identity.as_slice();
            let row = match places.entry(identity) {
                Entry::Occupied(place) => &mut rows[*place.get()],
                Entry::Vacant(place) => {
                    place.insert(rows.len());
                    rows.push(Row { identity, n: case.n, own: None, rust_cuda: None, torch: None });
                    rows.last_mut().expect("a row was pushed")
                }
            };
            let of = if measured.by_rust_cuda { &mut row.rust_cuda } else { &mut row.own };
            if of.is_some() {
                continue;
            }
            *of = Some(case);
            has_part = true;
            if !measured.by_rust_cuda {
                row.torch = torch.get(identity).copied();
            }
        }
        sources.extend(has_part.then(|| set.name()));
    }
    let mut sizes = HashMap::new();
    for row in &rows {
        let next = sizes.len();
        sizes.entry(row.n).or_insert(next);
    }
    rows.sort_by_key(|row| sizes.get(&row.n).copied());
    (rows, sources)
}

fn cases(measured: &Measured, by_torch: bool) -> impl Iterator<Item = &Case> {
    measured.cases.iter().filter(move |case| case.by_torch == by_torch)
}

impl Row<'_> {
    fn over_rustc(&self) -> Option<f64> {
        Some(self.rust_cuda?.us / self.own?.us)
    }

    /// Returns the speed-up over PyTorch.
    fn over_torch(&self) -> Option<f64> {
        Some(self.torch?.us / self.own?.us)
    }

    fn is_behind(&self) -> bool {
        self.over_torch().is_some_and(|over| over < 1.0)
    }

    fn cells(&self, bench: &Bench) -> Vec<String> {
        let us = |case: Option<&Case>| or_dash(case, |case| digits(case.us));
        let ratio = |ratio: Option<f64>| or_dash(ratio, |ratio| format!("{ratio:.3}"));
        let own = self.own;
        let mut cells = self.identity.iter().skip(bench.split.into()).cloned().collect::<Vec<_>>();
        cells.extend([us(own), or_dash(own, |own| digits(own.gbps))]);
        cells.extend(bench.of_sum.map(|_| ratio(own.and_then(|own| own.of_sum))));
        let also = |at: usize| own.and_then(|own| own.also.get(at).copied().flatten());
        cells.extend((0..bench.also.len()).map(|at| or_dash(also(at), digits)));
        cells.extend([us(self.rust_cuda), ratio(self.over_rustc())]);
        cells.extend([us(self.torch), ratio(self.over_torch())]);
        cells
    }
}

fn heads(bench: &Bench) -> Vec<&'static str> {
    let columns = bench.columns.iter().skip(bench.split.into()).map(|column| column.head);
    let of_sum = bench.of_sum.iter().map(|(head, _)| *head);
    let also = bench.also.iter().map(|(head, _)| *head);
    columns.chain(["µs", "GB/s"]).chain(of_sum).chain(also).chain(BESIDE).collect()
}

fn lead(bench: &Bench, rows: &[Row<'_>]) -> String {
    let mut lead = format!("{} {} cases.", bench.lead, rows.len());
    let mut ratios: Vec<f64> = rows.iter().filter_map(Row::over_rustc).collect();
    ratios.sort_by(f64::total_cmp);
    if let (Some(middle), Some(most)) = (ratios.get(ratios.len() / 2), ratios.last()) {
        lead += &format!(
            " × rustc: rust-cuda's median over rustc's, of two runs, which says little below some 10 µs, \
             where the host's calls take the time; in {} cases it is {middle:.3} in the middle and \
             {most:.3} at most.",
            ratios.len()
        );
    }
    let beside = rows.iter().filter(|row| row.over_torch().is_some()).count();
    let behind = rows.iter().filter(|row| row.is_behind()).count();
    if beside > 0 {
        lead += &format!(
            " × PyTorch: how many times as fast as PyTorch in the same run the library is; marked where it \
             is behind, in {behind} of {beside} cases."
        );
    }
    lead
}

fn split(bench: &Bench, rows: &[Row<'_>]) -> Vec<Table> {
    let heads = heads(bench);
    let names = bench.columns.len() - usize::from(bench.split);
    let (mut tables, mut places) = (Vec::<Table>::new(), HashMap::new());
    for row in rows {
        let name = row.identity.first().filter(|_| bench.split).map_or("All cases", String::as_str);
        let place = *places.entry(name).or_insert_with(|| {
            tables.push(Table { open: tables.is_empty(), ..Table::new(name, &heads, names) });
            tables.len() - 1
        });
        let pushed = tables[place].push(row.cells(bench));
        if row.is_behind() {
            pushed.marked = vec![heads.len() - 1];
        }
    }
    tables.iter_mut().for_each(Table::drop_empty);
    tables
}
