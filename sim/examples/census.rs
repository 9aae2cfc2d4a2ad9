//! `census FOLDER ...`: counts the kernels of the PTX files in folders that the simulator accepts.
//!
//! Prints a line of JSON for each file that is not accepted whole, then one for each reason with its
//! number of kernels, and one with the totals. `scripts/census.sh` compiles sources to PTX and runs it.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use warpfold_sim::Module;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for folder in env::args().skip(1) {
        collect(Path::new(&folder), &mut files)?;
    }
    files.sort();
    let (mut kernels, mut taken, mut whole, mut refused) = (0, 0, 0, 0);
    let mut reasons: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for file in &files {
        let text = fs::read_to_string(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let declared = text.lines().filter(|line| line.contains(".entry ")).count();
        kernels += declared;
        let mut because = |reason: &str, count: usize| {
            let reason = without_names(reason);
            let found = reasons.entry(reason).or_insert((0, name.clone()));
            found.0 += count;
        };
        match Module::parse_each(&text) {
            Ok(module) => {
                let broken: Vec<_> = module.broken().filter(|broken| broken.is_entry()).collect();
                taken += declared - broken.len().min(declared);
                whole += usize::from(broken.is_empty());
                for broken in broken {
                    because(&broken.error().to_string(), 1);
                }
            }
            Err(error) => {
                refused += 1;
                because(&error.to_string(), declared);
            }
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (reason, (count, first)) in reasons {
        println!("{{\"kernels\": {count}, \"reason\": {reason:?}, \"first\": {first:?}}}");
    }
    println!(
        "{{\"files\": {}, \"files_whole\": {whole}, \"files_refused\": {refused}, \"kernels\": {kernels}, \
         \"kernels_taken\": {taken}}}",
        files.len()
    );
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns a reason without its position in the text and without names of registers and symbols.
fn without_names(reason: &str) -> String {
    let reason = reason.lines().next().unwrap_or_default();
    let reason = reason.split_once("column ").map_or(reason, |(_, rest)| rest);
    let reason = reason.split_once(": ").map_or(reason, |(_, rest)| rest);
    let mut said = String::new();
    for word in reason.split(' ') {
        let bare = word.trim_matches(|c: char| "`,;()[]{}".contains(c));
        let is_name =
            bare.starts_with("_Z") || (bare.starts_with('%') && bare.ends_with(char::is_numeric));
        said.push_str(if is_name { "…" } else { word });
        said.push(' ');
    }
    said.trim_end().to_owned()
}
