//! Ratios of the times of Rust kernels and their CUDA C twins.

use crate::contest::Ratio;

use super::figure::*;

/// Limit for the ratio of a Rust kernel's time to its twin's.
const LIMIT: f64 = 1.02;

/// Sizes at which kernels are judged. Other sizes are in the table.
pub(super) const JUDGED: [u64; 2] = [1 << 26, 1 << 28];

/// The judged sizes, and a smaller one at which moves and other types were measured too.
const SIZES: [u64; 3] = [1 << 22, JUDGED[0], JUDGED[1]];

/// Widest range of the axis. Values outside are written at its ends.
const WIDEST: (f64, f64) = (0.90, 1.10);

/// Styles by size, from light to dark. rust-cuda's mark is the same shape, hollow.
const STYLES: [(&str, Shape, Shape); 3] = [
    ("size-1", Shape::DIAMOND, Shape::LOZENGE),
    ("size-2", Shape::SQUARE, Shape::FRAME),
    ("size-3", Shape::CIRCLE, Shape::RING),
];

pub(super) fn sums(results: &Results) -> Option<Figure> {
    let choice = results.choose(|p| p.has_twin() && p.is_sum() && p.is_reduction());
    let library =
        results.choose_reducer(|p| p.is_sum() && !p.graph && p.is_rust() && p.over_cub.is_some());
    figure("ratio", "Rust over CUDA C, f32 sums", &JUDGED, [choice, library], |p| p.variant.clone())
}

pub(super) fn others(results: &Results) -> Option<Figure> {
    // The reducer has no twin: a ratio to a twin in a results file is ignored.
    let choice = results.choose(|p| p.has_twin() && !p.is_reducer() && !p.is_sum());
    let title = "Rust over CUDA C, other types and operations";
    let name = |point: &Point| {
        let stride = or_empty(point.stride, |stride| format!("stride {stride}"));
        let op = point.op.clone().unwrap_or(stride);
        format!("{} {op} {}", point.variant, point.dtype).replace("  ", " ")
    };
    figure("ratio-others", title, &SIZES, [choice, Choice::default()], name)
}

/// Returns the ratio that a kernel is judged by: to its twin, or to CUB for the library, which has no
/// twin.
fn over(point: &Point) -> Option<Ratio> {
    if point.is_reducer() { point.over_cub } else { point.over_cuda_c }
}

fn against(point: &Point) -> &'static str {
    if point.is_reducer() { "CUB" } else { "CUDA C" }
}

fn generator(nvvm: bool) -> &'static str {
    if nvvm { "rust-cuda" } else { "rustc" }
}

fn style(sizes: &[u64], n: u64, nvvm: bool) -> (&'static str, Shape) {
    let at = sizes.iter().position(|size| *size == n).unwrap_or(0);
    let (class, filled, hollow) = STYLES[at % STYLES.len()];
    if nvvm { ("nvvm", hollow) } else { (class, filled) }
}

fn figure(
    id: &str,
    title: &str,
    wanted: &[u64],
    [choice, library]: [Choice<'_>; 2],
    name: impl Fn(&Point) -> String,
) -> Option<Figure> {
    let many = wanted.len() > JUDGED.len();
    let all = choice.sizes();
    let judged: Vec<u64> = all.iter().copied().filter(|n| wanted.contains(n)).collect();
    // If no judged size was measured, the three largest sizes are shown.
    let sizes = if judged.is_empty() { all[all.len().saturating_sub(3)..].to_vec() } else { judged };
    let shown = [&choice, &library].map(|choice| choice.only(|p| sizes.contains(&p.n)));
    let [mut rows, mut of_library] = [0, 1].map(|at| rows(&shown[at], &sizes, many, &name));
    let lead = lead(&shown[0], many, &name)?;
    let library_lead = or_empty(of_library.first_mut(), |first| {
        first.heading = Some("The library, over CUB".to_owned());
        " The reducer has no twin: its time is held against CUB's, which took turns with it.".to_owned()
    });
    rows.extend(of_library);
    let generators = distinct(shown[0].points.iter().map(|point| point.is_nvvm()));
    let legend = sizes.iter().flat_map(|n| generators.iter().map(move |nvvm| (*n, *nvvm)));
    let legend = legend
        .map(|(n, nvvm)| (style(&sizes, n, nvvm), format!("{}, n = {}", generator(nvvm), count(n))));
    let picture = Bars {
        x: "time of Rust over time of CUDA C (less is better)",
        scale: Some(scale(&shown[0].and(&shown[1]), many)),
        dense: many,
        rules: vec![(1.0, "1.00".to_owned()), (LIMIT, format!("{LIMIT:.2}"))],
        legend: legend.collect(),
        rows,
    };
    let all = choice.and(&library);
    let tables = vec![table(&all, name)];
    Some(Figure::new(id, title, lead + &library_lead, tables, &all.sets).with(&picture))
}

fn table(choice: &Choice<'_>, name: impl Fn(&Point) -> String) -> Table {
    let ratios = choice.points.iter().filter_map(|point| Some((*point, over(point)?)));
    let table = Table::of("Ratios at all sizes", &ratios.collect::<Vec<(&Point, Ratio)>>()).columns(&[
        ("<kernel", &|(p, _)| name(p)),
        ("<Rust by", &|(p, _)| generator(p.is_nvvm()).to_owned()),
        ("<over", &|(p, _)| against(p).to_owned()),
        ("n", &|(p, _)| count(p.n)),
        ("Rust µs", &|(p, _)| digits(p.median)),
        ("ratio", &|(_, ratio)| marked(fixed::<3>(ratio.median), ratio.median > LIMIT)),
        ("first quartile", &|(_, ratio)| fixed::<3>(ratio.q1)),
        ("third quartile", &|(_, ratio)| fixed::<3>(ratio.q3)),
        ("nvvm / llvm", &|(p, _)| or_dash(p.over_llvm, |ratio| fixed::<3>(ratio.median))),
    ]);
    table.without_empty()
}

/// Returns a row per kernel, with both code generators' marks. With many kernels there are no whiskers,
/// and each code generator has one line.
fn rows(choice: &Choice<'_>, sizes: &[u64], many: bool, name: impl Fn(&Point) -> String) -> Vec<Row> {
    let row = |(row, mut mine): (String, Choice<'_>)| {
        mine.points.sort_by_key(|point| (point.n, point.is_nvvm()));
        let ratios = mine.points.iter().filter_map(|point| Some((*point, over(point)?)));
        let mark = |(at, (point, Ratio { median, q1, q3 })): (usize, (&Point, Ratio))| {
            let (class, shape) = style(sizes, point.n, point.is_nvvm());
            let (by, n, us) = (generator(point.is_nvvm()), count(point.n), digits(point.median));
            let against = against(point);
            Mark {
                series: by_generator(point, row.clone()),
                class,
                shape: Some(shape),
                at: median,
                line: if many { point.is_nvvm().into() } else { at },
                whisker: (!many).then_some((q1, q3)),
                tip: format!(
                    "{row} by {by}, n = {n}\n{median:.3} × the time of {against}\n\
                     middle half {q1:.3} to {q3:.3}\n{us} µs"
                ),
            }
        };
        Row { marks: ratios.enumerate().map(mark).collect(), name: row, ..Row::default() }
    };
    choice.by(name).into_iter().map(row).collect()
}

fn by_generator(point: &Point, name: String) -> String {
    if point.is_nvvm() { format!("{name}, {}", generator(true)) } else { name }
}

fn scale(choice: &Choice<'_>, medians: bool) -> Scale {
    let ends = |ratio: Ratio| if medians { [ratio.median; 2] } else { [ratio.q1, ratio.q3] };
    let ends: Vec<f64> = choice.points.iter().filter_map(|point| over(point)).flat_map(ends).collect();
    let least = ends.iter().map(|end| end - 0.005).fold(0.97, f64::min);
    let most = ends.iter().map(|end| end + 0.005).fold(1.04, f64::max);
    Scale { steps: Steps::Linear, from: least.max(WIDEST.0), to: most.min(WIDEST.1) }
}

fn lead(choice: &Choice<'_>, many: bool, name: impl Fn(&Point) -> String) -> Option<String> {
    let ratio = |point: &Point| point.over_cuda_c.map_or(0.0, |ratio| ratio.median);
    let within = |nvvm: bool| {
        let mine = choice.only(|point| point.is_nvvm() == nvvm).points;
        let within = mine.iter().filter(|point| ratio(point) <= LIMIT).count();
        (!mine.is_empty()).then(|| format!("{within} of {} medians by {}", mine.len(), generator(nvvm)))
    };
    let within = join([false, true].into_iter().filter_map(within), " and ");
    let worst = choice.points.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let (largest, who, n) = (ratio(worst), by_generator(worst, name(worst)), count(worst.n));
    let half = if many { "the table has" } else { "lines span" };
    Some(format!(
        "{within} are at most {LIMIT:.2}; the largest is {largest:.4}, {who} at {n} elements. The ratio is \
         taken round by round, each time of the Rust kernel over that of its twin; {half} the middle half of \
         the rounds."
    ))
}

/// Formats a variant's name, with a note if its sums are of i32.
pub(super) fn named(id: &str, choice: &Choice<'_>) -> String {
    let integers = choice.find(|point| point.dtype != "f32").is_some();
    format!("`{id}`{}", if integers { " (i32)" } else { "" })
}

/// Returns every kernel by rust-cuda, with ratios to its CUDA C twin and to rustc's kernel, the worst
/// first. Sizes are those of [`JUDGED`] or, without any of them, the kernel's largest size.
pub(super) fn codegen(results: &Results) -> Block<'_> {
    let kernels = results.choose(|p| {
        let usual = p.is_sum() && p.is_reduction() || p.op.is_none() && p.dtype == "f32";
        p.is_nvvm() && !p.graph && !p.single && usual
    });
    let all = kernels.and(&results.choose_reducer(|p| p.is_sum() && p.is_nvvm() && !p.graph));
    let row = |(id, mine): (&str, Choice<'_>)| {
        let judged = mine.find(|point| JUDGED.contains(&point.n)).is_some();
        let largest = mine.sizes().last().copied().unwrap_or_default();
        let sizes = if judged { JUDGED.map(Some) } else { [Some(largest), None] };
        let worst = |n, of: fn(&Point) -> Option<Ratio>| {
            let here = mine.points.iter().filter(|point| Some(point.n) == n);
            here.filter_map(|point| Some(of(point)?.median)).reduce(f64::max)
        };
        let at = if judged { String::new() } else { format!(" at {}", shown(largest)) };
        let ratios =
            [sizes.map(|n| worst(n, |p| p.over_cuda_c)), sizes.map(|n| worst(n, |p| p.over_llvm))];
        (named(id, &mine) + &at, ratios)
    };
    type Compared = (String, [[Option<f64>; 2]; 2]);
    let mut rows: Vec<Compared> = all.by(|p| p.variant.as_str()).into_iter().map(row).collect();
    let most = |ratios: &[Option<f64>; 2]| ratios.iter().flatten().copied().reduce(f64::max);
    let worst = |(_, [twin, llvm]): &Compared| most(twin).or(most(llvm)).unwrap_or(0.0);
    rows.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    let cell = |ratio: Option<f64>| or_dash(ratio, |ratio| marked(fixed::<3>(ratio), ratio > LIMIT));
    let sizes = JUDGED.map(shown);
    let heads = ["CUDA C", "llvm"].map(|over| format!("nvvm / {over}, {}", sizes[0]));
    let table = Table::of("", &rows).columns(&[
        ("<variant", &|(name, _)| name.clone()),
        (&heads[0], &|(_, ratios)| cell(ratios[0][0])),
        (&sizes[1], &|(_, ratios)| cell(ratios[0][1])),
        (&heads[1], &|(_, ratios)| cell(ratios[1][0])),
        (&sizes[1], &|(_, ratios)| cell(ratios[1][1])),
    ]);
    let twins: Vec<f64> = rows.iter().filter_map(|(_, [twin, _])| most(twin)).collect();
    let within = twins.iter().filter(|ratio| **ratio <= LIMIT).count();
    let text = format!(
        "{within} of {} kernels take by rust-cuda at most {LIMIT:.2} times the time of their CUDA C twin; \
         **bold** is what takes more. f32 sums and moves of f32, medians of the ratios of rounds, the \
         largest of a variant's strides or shapes; the worst first. The reducer has no twin.",
        twins.len()
    );
    Block::new(text, table, all.sets)
}

/// Returns the smallest and the largest ratios of sums to their twins, by size and code generator.
pub(super) fn twins(results: &Results) -> Block<'_> {
    let wanted = |p: &Point| p.is_sum() && p.is_reduction() && p.is_rust() && !p.graph;
    let choice = results.choose(|p| wanted(p) && SIZES.contains(&p.n));
    let mut ratios = choice.only(|p| p.over_cuda_c.is_some());
    let ratio = |p: &Point| p.over_cuda_c.map_or(0.0, |ratio| ratio.median);
    ratios
        .points
        .sort_by(|a, b| (a.n, a.is_nvvm()).cmp(&(b.n, b.is_nvvm())).then(ratio(a).total_cmp(&ratio(b))));
    let groups = ratios.by(|p| (p.n, p.is_nvvm()));
    let ends =
        groups.iter().filter_map(|(_, all)| Some((*all.points.first()?, *all.points.last()?, all)));
    let table = Table::of("", &ends.collect::<Vec<_>>()).columns(&[
        ("<n", &|(first, ..)| shown(first.n)),
        ("<by", &|(first, ..)| generator(first.is_nvvm()).to_owned()),
        ("ratios", &|(.., all)| all.points.len().to_string()),
        ("from", &|(first, ..)| fixed::<3>(ratio(first))),
        ("to", &|(_, last, _)| fixed::<3>(ratio(last))),
        ("<who is at the ends", &|(first, last, _)| format!("`{}`; `{}`", first.variant, last.variant)),
    ]);
    Block::new("", table, choice.sets)
}
