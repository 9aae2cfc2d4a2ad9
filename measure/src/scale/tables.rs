use super::{
    failures::Failures,
    measured::Measured,
    model::{ALL_REDUCE, BUS, LocalTime, Messages, Shape, TORCH, TORCH_ALONE, off},
    network::{Machine, Pattern, Work},
};

/// GPUs per host, and hosts, of the extrapolation.
const GPUS: u32 = 8;
const HOSTS: u32 = 128;

/// Microseconds of a message between hosts, not measured here. The lower value is that of NCCL's
/// messages within a host.
const BETWEEN: [f64; 2] = [5.0, 10.0];

/// Assumed mean delay of a message relative to its time, and microseconds that a process takes per
/// message when it receives many.
const JITTER: f64 = 0.2;
const EACH: f64 = 5.0;

/// Excess time of the slowest card: the largest observed difference between two cards.
const CARDS: f64 = 0.02;
/// Assumed probability of a host's pause, and its microseconds.
const HICCUP: (f64, f64) = (1e-3, 1000.0);

const TRIALS: usize = 40;

/// GPU hours per failure. 419 unexpected interruptions of 16 384 GPUs in 54 days were published ("The
/// Llama 3 Herd of Models", 2024, section 3.3.4).
const HOURS_BETWEEN: f64 = 16_384.0 * 54.0 * 24.0 / 419.0;
/// Seconds until the other ranks have detected a failure, which tests ensure, and until all are
/// restarted, which is assumed.
const NOTICED: f64 = 10.0;
const STARTED: f64 = 60.0;
/// Assumed interval and duration of a rank's checkpoints, in seconds.
const KEPT: (f64, f64) = (60.0, 0.1);
const FAILURE_TRIALS: u32 = 2000;

pub(super) fn all(measured: &Measured) -> Vec<(&'static str, String)> {
    vec![
        ("fit", fit(measured)),
        ("check", check(measured)),
        ("flat", flat(measured)),
        ("streamed", streamed(measured)),
        ("patterns", patterns(measured)),
        ("failures", failures()),
    ]
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|---{}|\n", head.join(" | "), "|--:".repeat(head.len() - 1));
    for row in rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}

/// Formats with about three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn times(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.3}") } else { format!("{factor:.0}") }
}

fn floats(count: u64) -> String {
    format!("2^{}", count.ilog2())
}

fn fit(measured: &Measured) -> String {
    let (local, messages) = (LocalTime::fit(measured), Messages::fit(measured));
    let row = |what: &str, value: f64, unit: &str, from: &str| {
        vec![what.to_owned(), format!("{} {unit}", number(value)), from.to_owned()]
    };
    table(
        &["what", "value", "from"],
        [
            row("a call that reads next to nothing", local.call, "µs", "a group of one, 2^10 floats"),
            row("start and end of a large one", local.start, "µs", "a group of one, 2^24 and 2^30"),
            row("the memory's rate", local.rate / 1e3, "GB/s", "the same two"),
            row("an all-reduce's launch", messages.launch, "µs", "NCCL on one GPU"),
            row(
                "a message inside of a host, α",
                messages.each,
                "µs",
                "NCCL on two GPUs, less one, halved",
            ),
        ],
    )
}

fn check(measured: &Measured) -> String {
    let (local, messages) = (LocalTime::fit(measured), Messages::fit(measured));
    let row = |what: String, predicted: f64, found: f64, unit: &str| {
        let off = format!("{:+.1} %", off(predicted, found));
        vec![what, format!("{} {unit}", number(predicted)), format!("{} {unit}", number(found)), off]
    };
    let of_four = measured.peer(ALL_REDUCE, 4, None);
    let mut rows = vec![
        row(
            "all-reduce of one float on 4, by a tree".into(),
            messages.of(Shape::Tree, 4),
            of_four,
            "µs",
        ),
        row("the same by a ring".into(), messages.of(Shape::RingTwice, 4), of_four, "µs"),
    ];
    for (count, gpus) in [(1 << 20, 2), (1 << 20, 4), (1 << 28, 4), (1 << 32, 4)] {
        let alone = measured.peer(TORCH_ALONE, 1, Some(count));
        let what = format!("torch.sum and all-reduce of {} floats a GPU on {gpus}", floats(count));
        let predicted = alone + messages.of(Shape::Tree, gpus);
        rows.push(row(what, predicted, measured.peer(TORCH, gpus, Some(count)), "µs"));
    }
    let bus = |gpus| measured.peer(BUS, gpus, None);
    rows.push(row("copies to 2 GPUs at once".into(), 2.0 * bus(1), bus(2), "GB/s"));
    rows.push(row("copies to 4 GPUs at once".into(), 2.0 * bus(2), bus(4), "GB/s"));
    let between = measured.local.iter().find(|local| local.floats == 1 << 28).expect("it was measured");
    rows.push(row("the reducer's sum of 2^28 floats on 1".into(), local.of(1 << 28), between.us, "µs"));
    table(&["what", "predicted", "measured", "off"], rows)
}

/// Returns the microseconds for combining all values, within hosts and between them.
fn beyond(messages: Messages, shape: Shape, between: f64) -> f64 {
    let inside = messages.each * shape.messages(GPUS);
    match shape {
        // One ring through all GPUs, which passes through each host once.
        Shape::Ring => messages.launch + f64::from(HOSTS) * (inside + between) - between,
        Shape::Tree | Shape::RingTwice => messages.launch + inside + between * shape.messages(HOSTS),
    }
}

fn flat(measured: &Measured) -> String {
    let (local, messages) = (LocalTime::fit(measured), Messages::fit(measured));
    let mut rows = Vec::new();
    for log2 in [20, 28, 32] {
        let mine = local.of(1 << log2);
        for between in BETWEEN {
            let tree = beyond(messages, Shape::Tree, between);
            let ring = beyond(messages, Shape::Ring, between);
            let bytes = f64::from(GPUS * HOSTS) * (1_u64 << log2) as f64 * 4.0;
            let part = |more: f64| format!("{:.0} %", 100.0 * mine / (mine + more));
            rows.push(vec![
                format!("2^{log2}"),
                number(between),
                number(mine),
                number(tree),
                number(ring),
                number(bytes / (mine + tree) / 1e6),
                part(tree),
                part(ring),
            ]);
        }
    }
    let head = ["floats a GPU", "α between hosts, µs", "local, µs", "tree, µs", "ring, µs"];
    let head = [&head[..], &["TB/s by a tree", "of 1 024 alone", "by a ring"]].concat();
    table(&head, rows)
}

fn streamed(measured: &Measured) -> String {
    let bus = |gpus| measured.peer(BUS, gpus, None);
    let row = |what: &str, rate: f64, from: &str| {
        let seconds = 1e15 / (rate * 1e9);
        vec![what.to_owned(), number(rate), number(seconds), from.to_owned()]
    };
    table(
        &["", "GB/s", "s of 1 PB", "from"],
        [
            row("1 GPU", bus(1), "measured"),
            row("4 GPUs of a host", bus(4), "measured"),
            row("8 GPUs of a host, if its memory is what limits 4", bus(4), "assumed"),
            row("8 GPUs of a host, if it has twice as much", 2.0 * bus(4), "assumed"),
            row("128 hosts of the former", 128.0 * bus(4), "no host waits for another one"),
            row("128 hosts of the latter", 256.0 * bus(4), "the same"),
        ],
    )
}

fn patterns(measured: &Measured) -> String {
    let (local, messages) = (LocalTime::fit(measured), Messages::fit(measured));
    let time = local.of(1 << 28);
    let mut rows = Vec::new();
    for hosts in [1, 16, HOSTS as usize] {
        let machine = Machine {
            gpus: GPUS as usize,
            hosts,
            inside: messages.each,
            between: BETWEEN[0],
            jitter: JITTER,
            each: EACH,
        };
        for pattern in Pattern::ALL {
            let even = Work { time, cards: 0.0, hiccup: (0.0, 0.0) };
            let late = Work { time, cards: CARDS, hiccup: HICCUP };
            let [_, (behind, behind_most)] = machine.trials(pattern, &even, TRIALS);
            let [(end, end_most), (late_behind, _)] = machine.trials(pattern, &late, TRIALS);
            rows.push(vec![
                format!("{} GPUs, {}", GPUS as usize * hosts, pattern.name()),
                number(behind),
                number(behind_most),
                number(late_behind),
                number(end - time),
                number(end_most - time),
            ]);
        }
    }
    let worst = format!("the slowest of {TRIALS}");
    let head = ["", "all alike: behind the last", &worst, "some late: behind the last"];
    table(&[&head[..], &["behind one that is not", &worst]].concat(), rows)
}

fn failures() -> String {
    let mut rows = Vec::new();
    for gpus in [4, 1024, 16_384] {
        for hours in [1.0 / 60.0, 1.0, 24.0] {
            let anew =
                Failures { gpus, between: HOURS_BETWEEN * 3600.0, again: NOTICED + STARTED, keep: None };
            let kept = Failures { keep: Some(KEPT), ..anew };
            let factor = |failures: Failures| failures.factor(hours * 3600.0, FAILURE_TRIALS);
            rows.push(vec![
                format!("{gpus} GPUs"),
                if hours < 1.0 { "1 min".to_owned() } else { format!("{hours:.0} h") },
                format!("{:.1} h", HOURS_BETWEEN / f64::from(gpus)),
                times(factor(anew)),
                times(factor(kept)),
            ]);
        }
    }
    let head = ["", "work", "between failures", "begun anew", "each rank's value kept every minute"];
    table(&head, rows)
}
