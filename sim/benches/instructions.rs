//! Cost of a simulated warp instruction: host instructions counted by callgrind, and the least time of
//! many runs. Both are robust on a busy machine.
//!
//!     cargo bench -p warpfold-sim --bench instructions -- [NAME]... [--against PROGRAM]...

mod cases;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cases::{Case, Cases, Watch};
use clap::Parser;

const TURNS: usize = 5;
const TURN: Duration = Duration::from_millis(200);

/// Measure host instructions and ns per simulated warp instruction, of this build and of others.
#[derive(Parser)]
struct Options {
    /// Run only the cases whose names contain one of these texts [default: all].
    names: Vec<String>,
    /// Another build of this benchmark to compare with; the builds run alternately.
    #[arg(long, value_name = "PROGRAM")]
    against: Vec<PathBuf>,
    /// Host threads per launch. Callgrind always counts with one.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Print only times, without instruction counts
    #[arg(long)]
    no_count: bool,
    /// Run the case of exactly this name RUNS times, or for about 200 ms if RUNS is 0. The benchmark
    /// calls itself and other builds with this option.
    #[arg(long)]
    runs: Option<u32>,
    /// Ignored. Cargo passes it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn chosen(&self) -> Vec<(String, Case, Watch)> {
        let cases = Cases { threads: self.threads };
        let watched = |watch| cases.steady().into_iter().map(move |case| (case, watch));
        let divergent = cases.divergent().into_iter().map(|case| (case, Watch::Plain));
        let all = Watch::ALL.into_iter().flat_map(watched).chain(divergent);
        let named = all.map(|(case, watch)| (format!("{}, {}", case.name, watch.name()), case, watch));
        named.filter(|(name, ..)| self.wants(name)).collect()
    }

    fn wants(&self, name: &str) -> bool {
        match self.runs {
            Some(_) => self.names.iter().any(|wanted| wanted == name),
            None => self.names.is_empty() || self.names.iter().any(|wanted| name.contains(wanted)),
        }
    }
}

fn main() {
    let options = Options::parse();
    if let Some(runs) = options.runs {
        return options.chosen().iter().for_each(|(_, case, watch)| run(case, *watch, runs));
    }
    let this = std::env::current_exe().expect("the path of this program");
    let programs = [vec![this], options.against.clone()].concat();
    let counts = !options.no_count && Command::new("valgrind").arg("--version").output().is_ok();
    println!("{:34} host instructions and ns for each warp instruction", "");
    for (name, ..) in options.chosen() {
        let mut least = vec![f64::INFINITY; programs.len()];
        for _ in 0..TURNS {
            for (program, least) in programs.iter().zip(&mut least) {
                *least = least.min(measure(Command::new(program), &name, options.threads, 0).1);
            }
        }
        print!("{name:34}");
        for (program, least) in programs.iter().zip(least) {
            let counted = if counts { format!("{:.1}", count(program, &name)) } else { "-".to_owned() };
            print!(" {counted:>9} {least:7.2}");
        }
        println!();
    }
}

/// Runs a case and prints the number of warp instructions per run and the least time of a run in ns.
fn run(case: &Case, watch: Watch, runs: u32) {
    let (start, mut least, mut done) = (Instant::now(), Duration::MAX, 0);
    let mut instructions = 0;
    while if runs == 0 { start.elapsed() < TURN || done < 3 } else { done < runs } {
        let before = Instant::now();
        instructions = case.run(watch);
        least = least.min(before.elapsed());
        done += 1;
    }
    println!("{instructions} {}", least.as_nanos());
}

/// Runs a case in `program` and returns its warp instructions and the ns per warp instruction.
fn measure(mut program: Command, name: &str, threads: usize, runs: u32) -> (f64, f64) {
    program.args([name, "--threads", &threads.to_string(), "--runs", &runs.to_string()]);
    let output = program.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [instructions, time] = numbers[..] else {
        panic!("{program:?} says {said:?}, {}", String::from_utf8_lossy(&output.stderr));
    };
    (instructions, time / instructions)
}

/// Returns the host instructions per warp instruction, counted by callgrind. The count is the difference
/// between three runs and one, so that setup is excluded. Valgrind does not support AVX-512.
fn count(program: &Path, name: &str) -> f64 {
    let log = std::env::temp_dir().join(format!("instructions.{}", std::process::id()));
    let collected = |runs: u32| {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(format!("--log-file={}", log.display())).arg(program);
        let (instructions, _) = measure(valgrind, name, 1, runs);
        let said = fs::read_to_string(&log).expect("valgrind's log");
        let collected = said.lines().find_map(|line| line.split("Collected :").nth(1));
        let collected: f64 = collected.and_then(|count| count.trim().parse().ok()).expect("a count");
        (collected, instructions)
    };
    let ((one, _), (three, instructions)) = (collected(1), collected(3));
    fs::remove_file(log).expect("valgrind's log");
    (three - one) / (2.0 * instructions)
}
