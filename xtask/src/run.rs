//! `cargo xtask run`: the whole catalogue, every operation and type, checked and on a GPU timed.

use std::{io::IsTerminal, process::ExitCode, time::Instant};

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use warpfold::{
    Data, Device, Dtype, Op, PtxStore, Record, Reduction, Request, Selection,
    catalogue::{self, Geometry, VARIANTS, Variant},
    cli,
    device::Kind,
    measure::Options,
    plan,
    reference::Expected,
};

use crate::{build_ptx::Choice, suite};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of random elements: 1000003, 4Mi, 2^20, 10M
    #[arg(long, default_value = "1000003", value_parser = cli::parse_count)]
    pub n: u64,
    /// Where to run: auto, cuda or sim
    #[arg(long, default_value = "auto", value_parser = str::parse::<Selection>)]
    pub device: Selection,
    /// What compiles the kernels
    #[arg(long, value_enum, default_value_t)]
    pub codegen: Choice,
    /// Only these variants, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = catalogue::find)]
    pub variants: Vec<&'static Variant>,
    /// Threads of a block, a power of two from 32 to 1024
    #[arg(long, default_value_t = plan::DEFAULT_BLOCK)]
    pub block: u32,
    /// Timed runs on a GPU; 0 only checks
    #[arg(long, default_value_t = Options::default().iterations)]
    pub iters: u32,
    /// Seed of the random elements
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object per run instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Runs, checks and tabulates. Exits 1 when a result is wrong.
///
/// # Errors
/// A machine or arguments that cannot run it; a wrong result is not one.
pub fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let store = store(args.codegen)?;
    let device = cli::open(args.device)?;
    let variants =
        if args.variants.is_empty() { VARIANTS.iter().collect() } else { args.variants.clone() };
    let records = Runs { args, device: &device, store: &store, variants }.all()?;
    if args.json {
        for record in &records {
            println!("{}", serde_json::to_string(record)?);
        }
    } else {
        println!("{}", table(&records));
    }
    let wrong = records.iter().filter(|record| !record.ok).count();
    eprintln!(
        "{} of {} right, n = {}, on {}, in {:.1} s",
        records.len() - wrong,
        records.len(),
        args.n,
        device.info().name,
        start.elapsed().as_secs_f32()
    );
    Ok(ExitCode::from(u8::from(wrong > 0)))
}

/// As [`suite::ptx_store`], by the code generator that the user chose, and said.
fn store(codegen: Choice) -> Result<PtxStore> {
    if std::env::var_os(warpfold::PTX_DIR).is_some() {
        return Ok(PtxStore::locate(None)?);
    }
    let built = suite::ensure_ptx(codegen)?;
    eprintln!("PTX for {} by codegen {} ({})", built.arch, built.codegen, built.reason);
    suite::store_of(&built)
}

/// Most elements that the simulator gives to a variant with a single thread.
const SERIAL: u64 = 100_003;

struct Runs<'a> {
    args: &'a Args,
    device: &'a Device,
    store: &'a PtxStore,
    variants: Vec<&'static Variant>,
}

impl Runs<'_> {
    fn all(&self) -> Result<Vec<Record>> {
        let cases = |variant: &&'static Variant| variant.cases().count();
        let progress = progress(self.variants.iter().map(cases).sum());
        let mut records = Vec::new();
        for &dtype in Dtype::ALL {
            // Elements and answers are the same for every variant: made once per type and size.
            let mut sizes: Vec<_> = self.takers(dtype).map(|variant| self.size(variant)).collect();
            sizes.sort_unstable();
            sizes.dedup();
            for n in sizes {
                self.device.require_memory(n.saturating_mul(dtype.size() as u64))?;
                let data = Data::random(dtype, usize::try_from(n)?, self.args.seed);
                for &op in Op::ALL {
                    let expected = Expected::of(op, &data)?;
                    let has = |variant: &&Variant| variant.ops.contains(&op) && self.size(variant) == n;
                    for variant in self.takers(dtype).filter(has) {
                        progress.set_message(variant.entry(op, dtype));
                        records.push(self.one(variant, op, &data, &expected)?);
                        progress.inc(1);
                    }
                }
            }
        }
        progress.finish_and_clear();
        let order = |record: &Record| catalogue::ids().position(|id| id == record.variant);
        records.sort_by_key(|record| (order(record), record.dtype, record.op));
        Ok(records)
    }

    fn takers(&self, dtype: Dtype) -> impl Iterator<Item = &'static Variant> {
        self.variants.iter().copied().filter(move |variant| variant.dtypes.contains(&dtype))
    }

    /// Elements for a variant. One thread of the simulator gets less to do, which the table shows.
    fn size(&self, variant: &Variant) -> u64 {
        match (variant.geometry, self.device.info().kind) {
            (Geometry::SingleThread, Kind::Sim) => self.args.n.min(SERIAL),
            _ => self.args.n,
        }
    }

    fn one(
        &self,
        variant: &'static Variant,
        op: Op,
        data: &Data,
        expected: &Expected,
    ) -> Result<Record> {
        let request = Request { block: self.args.block, ..Request::new(variant, op, data) };
        let options = Options { iterations: self.args.iters, ..Options::default() };
        let entry = || variant.entry(op, data.dtype());
        let reduction = Reduction::new(self.device, self.store, &request).with_context(entry)?;
        Record::of(&reduction, data, expected, options).with_context(entry)
    }
}

fn progress(total: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}").expect("a valid template");
    ProgressBar::new(total as u64).with_style(style)
}

fn table(records: &[Record]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let header = [
        "variant",
        "type",
        "op",
        "n",
        "device",
        "result",
        "expected",
        "ok",
        "time us",
        "GB/s",
        "% of peak",
    ];
    table.set_header(header);
    let optional =
        |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    for record in records {
        let numbers = [
            optional(record.time_us.map(|time| time.median), 2),
            optional(record.bandwidth_gbps, 1),
            optional(record.percent_of_peak, 1),
        ];
        let verdict =
            if record.ok { Cell::new("ok").fg(Color::Green) } else { Cell::new("WRONG").fg(Color::Red) };
        let right = |text: &String| Cell::new(text).set_alignment(CellAlignment::Right);
        let mut row = vec![
            Cell::new(record.variant),
            Cell::new(record.dtype),
            Cell::new(record.op),
            right(&record.n.to_string()),
            Cell::new(record.device),
            right(&record.result.to_string()),
            right(&record.expected.to_string()),
            verdict,
        ];
        row.extend(numbers.iter().map(right));
        table.add_row(row);
    }
    table
}
