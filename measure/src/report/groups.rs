//! Sums on several GPUs of one host, each with as many elements as one GPU alone.

use super::figure::*;

/// Transports: the name in the file, the name in the figure, and the style. The best transport is last.
const WAYS: [(&str, &str, &str, Shape); 4] = [
    ("PyTorch", "PyTorch and NCCL", "torch", Shape::TRIANGLE),
    ("Nccl", "by NCCL", "cub", Shape::DIAMOND),
    ("Copies", "by copies", "nvvm", Shape::RING),
    ("Peers", "by stores", "rust", Shape::CIRCLE),
];

/// Times in microseconds for a number of elements per GPU.
struct Row {
    n: u64,
    alone: f64,
    each: [Option<f64>; WAYS.len()],
    /// Time per run of the transport `Peers` in a CUDA graph of many runs: on one device, and on all.
    recorded: [Option<f64>; 2],
}

/// Returns the times by size, with their set and its number of devices.
fn rows(results: &Results) -> Option<(&Set, u64, Vec<Row>)> {
    let set = results.group()?;
    // Files of sums on several GPUs also contain lines of tests.
    let cases = || {
        set.cases.iter().filter(|case| case.whole("devices").is_some() && case.number("us").is_some())
    };
    let devices = cases().filter_map(|case| case.whole("devices")).max()?;
    // Each case has the median of one round: take the mean of these medians.
    let time = |who: &str, devices, n, field| {
        let is_by = |case: &&Case| {
            let torch = case.text("implementation").and_then(|name| name.split(' ').next());
            case.text("way").or(torch) == Some(who)
        };
        let here = cases().filter(is_by).filter(|case| case.whole("devices") == Some(devices));
        let here = here.filter(|case| case.whole("n") == Some(n));
        let times: Vec<f64> = here.filter_map(|case| case.number(field)).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    };
    let row = |n| {
        Some(Row {
            n,
            alone: time("Peers", devices, n, "alone_us")?,
            each: WAYS.map(|(who, ..)| time(who, devices, n, "us")),
            recorded: [1, devices].map(|devices| time("Peers", devices, n, "recorded_us")),
        })
    };
    let sizes = distinct(cases().filter_map(|case| case.whole("n")));
    Some((set, devices, sizes.into_iter().filter_map(row).collect()))
}

/// Plots weak scaling: each GPU's share of a single GPU's speed.
pub(super) fn scaling(results: &Results) -> Option<Figure> {
    let (set, devices, rows) = rows(results)?;
    let (largest, true) = (rows.last()?, rows.len() > 1) else { return None };
    let curve = |name: &str, class, shape, times: &dyn Fn(&Row) -> Option<(f64, f64)>| {
        let place = |row: &Row| {
            let (alone, together) = times(row)?;
            let (n, share) = (count(row.n), 100.0 * alone / together);
            let (us, one) = (digits(together), digits(alone));
            let tip =
                format!("{name}\nn = {n} on each GPU\n{us} µs on {devices}, {one} on one: {share:.1} %");
            Some(Place::new(row.n, alone / together, tip))
        };
        Curve { name: name.to_owned(), class, shape, points: rows.iter().filter_map(place).collect() }
    };
    let ways = WAYS.iter().enumerate().map(|(at, (_, name, class, shape))| {
        curve(name, class, *shape, &|row| Some((row.alone, row.each[at]?)))
    });
    let mut curves: Vec<Curve> = ways.collect();
    let in_graph = |row: &Row| row.recorded[0].zip(row.recorded[1]);
    curves.push(curve("in a CUDA graph", "empty", Shape::SQUARE, &in_graph));
    let (x, y) = ("elements of each GPU (f32 sum)", "one GPU's time over theirs");
    let rules = vec![(1.0, "no time lost".to_owned())];
    let picture = Curves { rules, ..Curves::new(x, y, Steps::Linear, curves) };
    let share = |at: usize| Some(format!("{:.1} %", 100.0 * largest.alone / largest.each[at]?));
    let (n, stores) = (count(largest.n), share(WAYS.len() - 1)?);
    let torch = share(0).unwrap_or_else(|| "an unknown part".to_owned());
    let lead = format!(
        "Every GPU has as many elements as one has alone; a call waits for the sum of all. Of {n} elements \
         each, {devices} GPUs have {stores} of the speed of as many alone by stores to each other's memory, \
         and PyTorch with an all-reduce by NCCL {torch}."
    );
    let table = Table::of("Times", &rows).columns(&[
        ("<elements a GPU", &|row| count(row.n)),
        ("one alone µs", &|row| digits(row.alone)),
        ("PyTorch and NCCL µs", &|row| or_dash(row.each[0], digits)),
        ("by NCCL µs", &|row| or_dash(row.each[1], digits)),
        ("by copies µs", &|row| or_dash(row.each[2], digits)),
        ("by stores µs", &|row| or_dash(row.each[3], digits)),
        ("a graph: one µs", &|row| or_dash(row.recorded[0], digits)),
        ("a graph: all µs", &|row| or_dash(row.recorded[1], digits)),
    ]);
    let title = format!("Sums on {devices} GPUs beside one");
    Some(Figure::new("scaling", title, lead, vec![table], &[set]).with(&picture))
}

pub(super) fn block(results: &Results) -> Block<'_> {
    let Some((set, devices, rows)) = rows(results) else { return Block::default() };
    let table = Table::of("", &rows).columns(&[
        ("<floats a GPU", &|row| shown(row.n)),
        ("alone", &|row| fixed::<1>(row.alone)),
        ("all by `Peers`", &|row| or_dash(row.each[3], fixed::<1>)),
        ("by `Nccl`", &|row| or_dash(row.each[1], fixed::<1>)),
        ("by `Copies`", &|row| or_dash(row.each[2], fixed::<1>)),
        ("torch.sum and all-reduce", &|row| or_dash(row.each[0], fixed::<1>)),
        ("a graph: one", &|row| or_dash(row.recorded[0], fixed::<1>)),
        ("a graph: all by `Peers`", &|row| or_dash(row.recorded[1], fixed::<1>)),
    ]);
    let text = format!(
        "f32 sums on {devices} GPUs of one host, µs: the mean of the rounds' medians. Alone is one GPU's \
         reducer in the same rounds."
    );
    Block { picture: "scaling", ..Block::new(text, table, vec![set]) }
}
