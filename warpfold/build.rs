//! Generates Rust tables of the measured launches from `tuning/<arch>.json`. The build fails if a file
//! cannot be read.

use std::{
    collections::HashMap,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use tinyjson::{InnerAsRef, JsonValue};

/// Format version of the tuning files that this script reads.
const FORMAT: u64 = 1;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    for input in ["tuning", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set; build with cargo")?);
    fs::write(out.join("tuning.rs"), tunings()?)?;
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::result::Result<Vec<PathBuf>, std::io::Error>>()?;
    paths.sort();
    Ok(paths)
}

fn stem(path: &Path) -> Result<&str> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.ok_or_else(|| format!("{}: the name is not UTF-8; rename the file", path.display()).into())
}

/// Returns the Rust expression of an architecture such as `sm_90`.
fn arch(name: &str) -> Result<String> {
    let digits = name.strip_prefix("sm_").and_then(|digits| digits.parse::<u32>().ok());
    let number =
        digits.ok_or_else(|| format!("`{name}` is not an architecture; give one such as sm_90"))?;
    Ok(format!("Arch::new({}, {})", number / 10, number % 10))
}

fn tunings() -> Result<String> {
    let mut list = String::from("&[\n");
    for path in entries(Path::new("tuning"))? {
        let tuning = tuning(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        list.push_str(&tuning);
    }
    list.push(']');
    Ok(list)
}

fn tuning(path: &Path) -> Result<String> {
    let file: JsonValue = fs::read_to_string(path)?.parse()?;
    let format = number(&file, "format")?;
    if format != FORMAT {
        return Err(format!("format is {format}; this version reads {FORMAT}").into());
    }
    if text(&file, "arch")? != stem(path)? {
        return Err("its arch is not that of its name; make them the same".into());
    }
    let mut list = format!("Measured {{ arch: {}, tables: &[\n", arch(stem(path)?)?);
    for table in array(&file, "tables")? {
        let (op, dtype) = (text(table, "op")?, text(table, "dtype")?);
        let case = |error: Box<dyn Error>| format!("{op} of {dtype}: {error}");
        writeln!(list, "({op:?}, {dtype:?}, &[")?;
        for bracket in array(table, "brackets")? {
            list.push_str(&self::bracket(bracket).map_err(case)?);
        }
        list.push_str("]),\n");
    }
    list.push_str("] },\n");
    Ok(list)
}

fn bracket(bracket: &JsonValue) -> Result<String> {
    let up_to = match member(bracket, "up_to") {
        None => "None".to_owned(),
        Some(_) => format!("Some({})", number(bracket, "up_to")?),
    };
    let kernel = match text(bracket, "kernel")? {
        "grid" => "Grid",
        "bulk" => "Bulk",
        other => return Err(format!("kernel is `{other}`; there are grid and bulk").into()),
    };
    let blocks = member(bracket, "blocks").ok_or("a bracket has no blocks")?;
    let (kind, count) = match (member(blocks, "total"), member(blocks, "per_multiprocessor")) {
        (Some(_), None) => ("Total", number(blocks, "total")?),
        (None, Some(_)) => ("PerMultiprocessor", number(blocks, "per_multiprocessor")?),
        _ => return Err("blocks have either total or per_multiprocessor".into()),
    };
    let block = number(bracket, "block")?;
    Ok(format!(
        "Bracket {{ up_to: {up_to}, kernel: KernelKind::{kernel}, block: {block}, \
         blocks: Blocks::{kind}({count}) }},\n"
    ))
}

fn member<'v>(value: &'v JsonValue, key: &str) -> Option<&'v JsonValue> {
    value.get::<HashMap<String, JsonValue>>()?.get(key)
}

/// Returns a member of an object. `kind` is the name of `T` in JSON.
fn require<'v, T: InnerAsRef>(value: &'v JsonValue, key: &str, kind: &str) -> Result<&'v T> {
    let member = member(value, key).and_then(JsonValue::get);
    member.ok_or_else(|| format!("{key} is missing or not a {kind}").into())
}

fn number(value: &JsonValue, key: &str) -> Result<u64> {
    let &number = require::<f64>(value, key, "number")?;
    let is_exact = number >= 0.0 && number < (1_u64 << 53) as f64 && number.fract() == 0.0;
    is_exact.then_some(number as u64).ok_or_else(|| format!("{key} is {number}; give an integer").into())
}

fn text<'v>(value: &'v JsonValue, key: &str) -> Result<&'v str> {
    Ok(require::<String>(value, key, "string")?)
}

fn array<'v>(value: &'v JsonValue, key: &str) -> Result<&'v [JsonValue]> {
    Ok(require::<Vec<JsonValue>>(value, key, "list")?)
}
