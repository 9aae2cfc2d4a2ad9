//! The library's benches: the kernels' times by both compilers, and PyTorch's.

use std::cmp::Reverse;

use super::{
    benches::{BENCHES, Bench},
    figure::*,
};

/// The measurements of a case: by rustc, by rust-cuda, and by PyTorch in the same run as rustc's.
#[derive(Default)]
struct Measured<'a> {
    identity: Vec<String>,
    own: Option<&'a Case>,
    rust_cuda: Option<&'a Case>,
    torch: Option<&'a Case>,
    us: &'static str,
}

pub(super) fn figures(results: &Results) -> impl Iterator<Item = Figure> {
    BENCHES.iter().filter_map(|bench| figure(results, bench))
}

/// Returns a bench's files: rustc's before rust-cuda's, the newest first, and on the same day the one
/// with the most cases first, so that as many cases as possible are from one run.
fn files<'a>(results: &'a Results, bench: &Bench) -> Vec<&'a Set> {
    let is_of = |set: &&Set| Bench::of_file(&set.file).is_ok_and(|other| other.stem == bench.stem);
    let mut files: Vec<&Set> = results.sets.iter().filter(is_of).collect();
    files.sort_by_key(|set| {
        (is_rust_cuda(set), Reverse((set.day(), set.cases.len(), set.date())), &set.file)
    });
    files
}

fn is_rust_cuda(set: &Set) -> bool {
    set.file.ends_with(".rust-cuda.jsonl")
}

/// Returns every case once, from the first file that has it, and the files used. Cases of equal size are
/// adjacent.
fn rows<'a>(results: &'a Results, bench: &Bench) -> (Vec<Measured<'a>>, Vec<&'a Set>) {
    let (mut rows, mut sets) = (Vec::<Measured<'a>>::new(), Vec::<&Set>::new());
    let identity = |case: &Case| bench.identity(case).unwrap_or_default();
    for set in files(results, bench) {
        let (torch, own): (Vec<&Case>, Vec<&Case>) = set.cases.iter().partition(|case| case.is_torch());
        let torch: Vec<_> = torch.into_iter().map(|case| (identity(case), case)).collect();
        for case in own {
            let identity = identity(case);
            let at = rows.iter().position(|row| row.identity == identity).unwrap_or_else(|| {
                rows.push(Measured { identity: identity.clone(), us: bench.us, ..Measured::default() });
                rows.len() - 1
            });
            let row = &mut rows[at];
            let of = if is_rust_cuda(set) { &mut row.rust_cuda } else { &mut row.own };
            if of.is_some() {
                continue;
            }
            *of = Some(case);
            if !is_rust_cuda(set) {
                // If PyTorch was measured several times, the last measurement is shown.
                row.torch = torch.iter().rfind(|(other, _)| *other == identity).map(|(_, case)| *case);
            }
            if sets.last().is_none_or(|last| !std::ptr::eq(*last, set)) {
                sets.push(set);
            }
        }
    }
    let size = |row: &Measured<'_>| row.own.or(row.rust_cuda).and_then(|case| case.whole("n"));
    let sizes = in_order(rows.iter().map(size));
    rows.sort_by_key(|row| sizes.iter().position(|n| *n == size(row)));
    (rows, sets)
}

impl Measured<'_> {
    fn us(&self, case: Option<&Case>) -> Option<f64> {
        case.and_then(|case| case.number(self.us))
    }

    fn own(&self, field: &str) -> Option<f64> {
        self.own.and_then(|own| own.number(field))
    }

    fn over_rustc(&self) -> Option<f64> {
        Some(self.us(self.rust_cuda)? / self.us(self.own)?)
    }

    fn over_torch(&self) -> Option<f64> {
        Some(self.us(self.torch)? / self.us(self.own)?)
    }

    fn table(&self, bench: &Bench) -> &str {
        self.identity.first().filter(|_| bench.split).map_or("All cases", String::as_str)
    }

    fn is_behind(&self) -> bool {
        self.over_torch().is_some_and(|over| over < 1.0)
    }
}

fn figure(results: &Results, bench: &Bench) -> Option<Figure> {
    let (rows, sets) = rows(results, bench);
    let mut lead = format!("{} {} cases.", bench.lead, rows.len());
    let mut ratios: Vec<f64> = rows.iter().filter_map(Measured::over_rustc).collect();
    ratios.sort_by(f64::total_cmp);
    if let (Some(middle), Some(most), all) = (ratios.get(ratios.len() / 2), ratios.last(), ratios.len())
    {
        lead += &format!(
            " × rustc: rust-cuda's median over rustc's, of two runs, which says little below some 10 µs, \
             where the host's calls take the time; in {all} cases it is {middle:.3} in the middle and \
             {most:.3} at most."
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
    let names = in_order(rows.iter().map(|row| row.table(bench)));
    let mut tables: Vec<Table> = names
        .iter()
        .map(|of| {
            let mine =
                rows.iter().filter(|row| row.table(bench) == *of).map(|row| cells(bench, row)).collect();
            Table { name: (*of).to_owned(), open: false, head: heads(bench), rows: mine }.without_empty()
        })
        .collect();
    tables.first_mut()?.open = true;
    Some(Figure::new(format!("library-{}", bench.stem), bench.title, lead, tables, &sets))
}

fn heads(bench: &Bench) -> Vec<String> {
    let columns = bench.columns.iter().skip(bench.split.into()).map(|(head, _)| *head);
    let others = bench.of_sum.iter().chain(bench.also).map(|(head, _)| *head);
    let beside = ["rust-cuda µs", "× rustc", "PyTorch µs", "× PyTorch"];
    columns.chain(["µs", "GB/s"]).chain(others).chain(beside).map(str::to_owned).collect()
}

fn cells(bench: &Bench, row: &Measured<'_>) -> Vec<String> {
    let mut cells = row.identity[usize::from(bench.split)..].to_vec();
    cells.extend([bench.us, "gb_per_s"].map(|field| or_dash(row.own(field), digits)));
    cells.extend(bench.of_sum.map(|(_, field)| or_dash(row.own(field), fixed::<3>)));
    cells.extend(bench.also.iter().map(|(_, field)| or_dash(row.own(field), digits)));
    cells.extend([or_dash(row.us(row.rust_cuda), digits), or_dash(row.over_rustc(), fixed::<3>)]);
    cells.push(or_dash(row.us(row.torch), digits));
    cells.push(marked(or_dash(row.over_torch(), fixed::<3>), row.is_behind()));
    cells
}
