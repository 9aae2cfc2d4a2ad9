//! Sums: bandwidth and time against the number of elements, and the ladder.

use warpfold_suite::catalogue::{self, Work};

use super::{
    figure::*,
    ratios::{JUDGED, named},
};

/// Number of elements up to which launching takes longer than reading.
const SMALL: u64 = 1 << 20;

/// Speed-up below which a step of the ladder is not worth noting.
const GAIN: f64 = 1.05;

/// If the fastest run took less than this part of the median, the GPU was still busy with earlier work
/// in that run, and did not wait for the host.
const UNWAITED: f64 = 0.75;

/// Exponents of the sizes in the table of the main results. Sizes that were not measured are omitted.
const ESSENTIAL: [u32; 9] = [10, 16, 20, 22, 24, 26, 28, 30, 32];

const LADDER: [u64; 4] = [1_000_003, 1 << 22, 1 << 26, 1 << 28];

/// Classes of curves, from the background to the foreground.
const ORDER: [&str; 8] = ["twins", "ghost", "empty", "torch", "cuda-c", "cub", "nvvm", "rust-second"];

fn is_wanted(p: &Point) -> bool {
    p.is_sum() && (p.is_reduction() || p.is_reducer() || ["cub", "torch", "empty"].contains(&&*p.peer))
}

/// Returns the fastest Rust variant over these points, by the product of its times.
fn fastest<'a>(choice: &Choice<'a>) -> Option<&'a str> {
    let variants = choice.only(Point::is_rust).by(|p| p.variant.as_str());
    // Products over fewer sizes are not comparable.
    let most = variants.iter().map(|(_, mine)| mine.points.len()).max()?.min(choice.sizes().len());
    let score = |mine: &Choice<'_>| mine.points.iter().map(|point| point.median.ln()).sum::<f64>();
    let complete = variants.into_iter().filter(|(_, mine)| mine.points.len() >= most);
    complete.min_by(|a, b| score(&a.1).total_cmp(&score(&b.1))).map(|(id, _)| id)
}

fn curves(choice: &Choice<'_>, best: &[&str], y: impl Fn(&Point) -> Option<f64>) -> Vec<Curve> {
    let curve = |((variant, peer), mine): ((&str, &str), Choice<'_>)| {
        let (class, shape, name) = style(variant, peer, best);
        let points = mine.points.iter().filter_map(|p| Some(Place::new(p.n, y(p)?, tip(p)))).collect();
        Curve { name, class, shape, points }
    };
    let groups = choice.by(|p| (p.variant.as_str(), p.peer.as_str()));
    let mut curves: Vec<Curve> = groups.into_iter().map(curve).collect();
    curves.sort_by_key(|curve| ORDER.iter().position(|class| *class == curve.class).unwrap_or(9));
    curves
}

fn style(variant: &str, peer: &str, best: &[&str]) -> (&'static str, Shape, String) {
    let (own, other) = (variant.to_owned(), peer_name(peer).to_owned());
    match (peer, best.iter().position(|id| *id == variant)) {
        ("rust-llvm", _) if variant == "reducer" => ("reducer", Shape::CIRCLE, own),
        ("cub", _) => ("cub", Shape::DIAMOND, other),
        ("torch", _) => ("torch", Shape::TRIANGLE, other),
        ("empty", _) => ("empty", Shape::RING, other),
        ("cuda-c", Some(0)) => ("cuda-c", Shape::SQUARE, "its CUDA C twin".to_owned()),
        ("cuda-c", _) => ("twins", Shape::DOT, own + " CUDA C"),
        ("rust-nvvm", Some(0)) => ("nvvm", Shape::RING, "it by rust-cuda".to_owned()),
        ("rust-nvvm", _) => ("twins", Shape::DOT, own + " rust-cuda"),
        (_, Some(0)) => ("rust", Shape::CIRCLE, own),
        (_, Some(1)) => ("rust-second", Shape::CIRCLE, own),
        _ => ("ghost", Shape::DOT, own),
    }
}

pub(super) fn bandwidth(results: &Results) -> Option<Figure> {
    let mut choice = results.choose(|p| is_wanted(p) && !p.graph && p.gbps.is_some());
    let sizes = choice.sizes();
    let (&largest, true) = (sizes.last()?, sizes.len() > 1) else { return None };
    let at_most = choice.at(largest);
    let mut best: Vec<&str> = fastest(&at_most).into_iter().collect();
    best.extend(fastest(&choice.only(|p| p.n <= SMALL)));
    best.dedup();
    let fastest = at_most.only(|p| p.variant == best[0] && p.is_rust()).fastest()?;
    let (n, variant, gbps) = (count(largest), &fastest.variant, digits(fastest.gbps?));
    let share = or_empty(fastest.percent, |percent| format!(", {} % of the peak", digits(percent)));
    let mut lead = format!(
        "At {n} elements {variant} reads {gbps} GB/s{share}. Small inputs are ruled by what launching costs, \
         large ones by how many bytes a kernel keeps under way; grey are all other variants, each with its \
         CUDA C twin, and itself by rust-cuda, as dots where they were measured."
    );
    let own = results.choose_reducer(|p| p.is_sum() && p.is_llvm() && !p.graph && p.gbps.is_some());
    if choice.find(Point::is_reducer).is_none() && !own.points.is_empty() {
        let files = join(own.sets.iter().map(|set| set.file.clone()), ", ");
        lead += &format!(" The reducer's times are of a run of their own ({files}).");
        choice = choice.and(&own);
    }
    let curves = curves(&choice, &best, |point| point.gbps);
    let picture = Curves {
        rules: results.peak_rule(peak_name),
        ..Curves::new("elements (f32 sum)", "GB/s", Steps::Linear, curves)
    };
    let tables = vec![times("Times and bandwidths", &choice)];
    let title = "Bandwidth against the number of elements";
    Some(Figure::new("bandwidth", title, lead, tables, &choice.sets).with(&picture))
}

pub(super) fn latency(results: &Results, graph: bool) -> Option<Figure> {
    let choice = results.choose(|p| is_wanted(p) && p.graph == graph && p.n <= SMALL);
    let sizes = choice.sizes();
    let (&largest, true) = (sizes.last()?, sizes.len() > 1) else { return None };
    let (n, best) = (count(largest), fastest(&choice)?);
    // Variants that take over ten times the best time would compress the scale.
    let fastest_at = |n: u64| choice.only(|p| p.n == n && p.peer != "empty").fastest();
    let slow = choice.only(|p| fastest_at(p.n).is_some_and(|best| p.median > 10.0 * best.median));
    let far = in_order(slow.points.iter().map(|point| point.variant.clone()));
    let near = curves(&choice.only(|p| !far.contains(&p.variant)), &[best], |p| Some(p.median));
    let picture = Curves::new("elements (f32 sum)", "µs", Steps::Tenfold, near);
    let (id, title, how) = match graph {
        false => ("latency", "Time of small sums", "launched one by one"),
        true => {
            ("latency-graph", "Time of small sums in a CUDA graph", "many launches in one CUDA graph")
        }
    };
    let floor = or_empty(choice.only(|p| p.peer == "empty").fastest(), |least| {
        let least = digits(least.median);
        format!(" A kernel that does nothing takes {least} µs or more: no time can be below.")
    });
    let beyond = or_empty((!far.is_empty()).then(|| far.join(", ")), |far| {
        format!(" Far slower, and in the table alone: {far}.")
    });
    let torch = torch_lead(&choice);
    let lead = format!(
        "Sums of up to {n} elements, {how}. {best} is the fastest of the suite over these \
         sizes.{floor}{beyond}{torch}"
    );
    Some(Figure::new(id, title, lead, vec![times("Times", &choice)], &choice.sets).with(&picture))
}

/// Explains why PyTorch's times of small sums vary. If the GPU is kept busy before the calls, PyTorch's
/// medians are as smooth as those of the other peers, so that the variation comes from the host.
pub(super) fn torch_lead(choice: &Choice<'_>) -> String {
    let by_host =
        choice.only(|p| p.peer == "torch" && !p.graph && p.fastest < UNWAITED * p.median).points;
    let first = by_host.iter().min_by_key(|point| point.n);
    or_empty(first.zip(by_host.iter().map(|point| point.n).max()), |(first, last)| {
        let (last, us, n) = (count(last), digits(first.fastest), count(first.n));
        format!(
            " PyTorch's times up to {last} elements are those of its calls on the host, which jump from one \
             moment to the next: the GPU waits between the events. Runs that found the GPU still busy, so \
             that nothing waited, took from {us} µs ({n} elements)."
        )
    })
}

pub(super) fn ladder(results: &Results) -> Option<Figure> {
    let choice = results
        .choose(|p| p.is_sum() && p.is_reduction() && p.is_llvm() && !p.graph && p.gbps.is_some());
    let n = choice.sizes().into_iter().max_by_key(|n| (choice.at(*n).points.len(), *n))?;
    let steps = choice.at(n);
    let [_, _, ..] = steps.points.as_slice() else { return None };
    let (slowest, best) = (steps.slowest()?, steps.fastest()?);
    let before = std::iter::once(None).chain(steps.points.iter().map(Some));
    let row = |(point, before): (&&Point, Option<&&Point>)| {
        let (gbps, variant) = (point.gbps.unwrap_or_default(), point.variant.clone());
        let factor = before.map(|before| (before.median / point.median, &before.variant));
        let faster = or_empty(factor, |(factor, id)| format!("\n{factor:.2} × as fast as {id}"));
        let (tip, class) =
            (tip(point) + &faster, if variant == best.variant { "rust" } else { "ghost" });
        Row {
            name: if point.dtype == "f32" {
                variant.clone()
            } else {
                format!("{variant} ({})", point.dtype)
            },
            marks: vec![Mark { series: variant, class, at: gbps, tip, ..Mark::default() }],
            value: digits(gbps),
            note: or_empty(factor, |(factor, _)| format!("×{factor:.2}")),
            strong: factor.is_some_and(|(factor, _)| factor >= GAIN),
            heading: None,
        }
    };
    let rows = steps.points.iter().zip(before).map(row).collect();
    let picture =
        Bars { x: "GB/s", rules: results.peak_rule(|_| "peak".to_owned()), rows, ..Bars::default() };
    let (from, to, factor) = (&slowest.variant, &best.variant, digits(slowest.median / best.median));
    let lead = format!(
        "The variants in the order in which they are taught. On the right, how many times as fast each is \
         as the one before it. From {from} to {to} it is a factor of {factor}."
    );
    let has_step = |point: &Point| steps.points.iter().any(|step| std::ptr::eq(*step, point));
    let sets: Vec<_> = results.sets.iter().filter(|set| set.points.iter().any(has_step)).collect();
    let tables = vec![times("Times and bandwidths", &steps)];
    let title = format!("The ladder at {} elements", count(n));
    Some(Figure::new("ladder", title, lead, tables, &sets).with(&picture))
}

pub(super) fn headline(results: &Results) -> Block<'_> {
    let choice = results.choose(|p| {
        let is_shown = p.is_reduction() || p.is_reducer() || p.peer == "cub" || p.peer == "torch";
        p.is_f32_sum() && !p.graph && !p.single && is_shown
    });
    type Row<'a> = (&'a Point, Choice<'a>);
    let row = |exponent: &u32| {
        let here = choice.at(1 << exponent);
        Some((here.only(Point::is_llvm).fastest()?, here))
    };
    let rows: Vec<Row<'_>> = ESSENTIAL.iter().filter_map(row).collect();
    // Kernels and CUB alternated, so that their ratio is taken by round.
    let times = |(best, here): &Row<'_>, peer: &str, ratio: fn(&Point, &Point) -> Option<f64>| {
        let other =
            here.find(|p| p.peer == peer && [best.variant.as_str(), "library"].contains(&&*p.variant));
        or_dash(other, |other| {
            let ratio = ratio(best, other).unwrap_or(other.median / best.median);
            format!("{} (×&nbsp;{ratio:.2})", digits(other.median))
        })
    };
    let table = Table::of("", &rows).columns(&[
        ("n", &|(best, _)| shown(best.n)),
        ("<Rust", &|(best, _)| format!("`{}`", best.variant)),
        ("µs", &|(best, _)| digits(best.median)),
        ("GB/s", &|(best, _)| or_dash(best.gbps, digits)),
        ("% of peak", &|(best, _)| or_dash(best.percent, fixed::<1>)),
        ("rust-cuda", &|row| times(row, "rust-nvvm", |_, p| Some(p.over_llvm?.median))),
        ("CUDA C twin", &|row| times(row, "cuda-c", |p, _| Some(1.0 / p.over_cuda_c?.median))),
        ("CUB", &|row| times(row, "cub", |p, _| p.times_cub())),
        ("PyTorch", &|row| times(row, "torch", |_, _| None)),
    ]);
    let text = "f32 sums, the fastest Rust variant of each size by rustc; microseconds, and how many times as \
                long the others take: the same variant by rust-cuda, its CUDA C twin, CUB, PyTorch.";
    Block::new(text, table, choice.sets)
}

/// Returns the table of single runs of all variants. Its last two columns are the times of both Rust
/// code generators over the CUDA C twin's, at the largest measured size of [`JUDGED`].
pub(super) fn variants(results: &Results) -> Block<'_> {
    let choice = results.choose_runs(|p| {
        p.is_sum() && LADDER.contains(&p.n) && (p.is_llvm() || p.peer == "cpu") && p.copy_us.is_none()
    });
    let has_twin = |p: &Point| p.is_sum() && p.is_reduction() && p.has_twin();
    let judged = results.choose(|p| has_twin(p) && JUDGED.contains(&p.n)).sizes();
    let twins = results.choose(|p| has_twin(p) && Some(&p.n) == judged.last());
    let mut head = vec!["<variant".to_owned()];
    head.extend(choice.sizes().into_iter().map(shown));
    head.extend(
        judged.last().into_iter().flat_map(|_| ["llvm / CUDA C", "nvvm / CUDA C"].map(str::to_owned)),
    );
    let is_shown = |work: &Work| matches!(work, Work::Reduction(_) | Work::Cpu { .. });
    let variants = catalogue::VARIANTS.iter().filter(|variant| is_shown(&variant.work));
    let rows = variants.map(|variant| choice.only(|p| p.variant == variant.id));
    let rows = rows.filter(|mine| !mine.points.is_empty()).map(|mine| {
        let id = &mine.points[0].variant;
        let percent = |p: &Point| or_empty(p.percent, |percent| format!(" ({percent:.1})"));
        let cell = |n| or_dash(mine.find(|p| p.n == n), |p| digits(p.median) + &percent(p));
        let ratio = |nvvm| {
            let point = twins.find(|p| p.variant == *id && p.is_nvvm() == nvvm);
            or_dash(point.and_then(|p| p.over_cuda_c), |ratio| fixed::<3>(ratio.median))
        };
        let mut row = vec![named(id, &mine)];
        row.extend(choice.sizes().into_iter().map(cell));
        row.extend(judged.last().into_iter().flat_map(|_| [false, true].map(ratio)));
        row
    });
    let table = Table { head, rows: rows.collect(), ..Table::default() };
    let beside = or_empty(judged.last(), |n| {
        let n = shown(*n);
        format!(
            " The last two columns are times over the CUDA C twin's at {n}, round by round, by rustc's code \
             generator and by rust-cuda's."
        )
    });
    let text = format!(
        "Medians in microseconds, and in parentheses the percentage of the memory's peak; kernels \
         compiled by rustc.{beside}"
    );
    Block::new(text, table, choice.and(&twins).sets)
}
