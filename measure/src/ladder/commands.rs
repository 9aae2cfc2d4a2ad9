//! Extracts a document's commands, and the claims of its text about their output.
//!
//! A command is one of two things. It is a line of a fenced block without a language, where a number
//! after `#` is its result. Or it is code in a paragraph that begins with `Look at:`. In such a
//! paragraph, three kinds of code name a run:
//!
//! - a whole command;
//! - options alone, which change the options of the paragraph's first command;
//! - a variant's name, which is run with the options of the preceding variant.
//!
//! The text after one of them makes claims about that run: a number of blocks, launches, warp
//! instructions, thread instructions, CPU threads or active lanes, or that the run is refused. A
//! sentence about a profiler, a GPU or the machine code makes no claim about a run. A paragraph that
//! begins with `It prints` refers to the command above it.

use std::fmt;

use anyhow::{Context, Result, bail};
use warpfold_suite::catalogue;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    Variant(&'static str),
    Xtask,
    /// Any other program: a tool of the CUDA toolkit.
    Tool,
}

/// A run in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    pub text: String,
    pub program: Program,
    /// The arguments; for a [`Program::Tool`] the whole line.
    pub arguments: Vec<String>,
    /// The result in the document.
    pub result: Option<String>,
    pub claims: Vec<Claim>,
    /// True if the document says that the run is refused.
    pub refused: bool,
    /// True if the document says that the run is for a GPU.
    pub needs_gpu: bool,
}

/// A number with a unit, as written in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Digits, with or without a decimal point.
    pub number: String,
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Blocks of the first launch.
    Blocks,
    Launches,
    WarpInstructions,
    /// Instructions, counted per active lane.
    ThreadInstructions,
    CpuThreads,
    /// Thread instructions per warp instruction.
    Lanes,
}

impl Unit {
    const ALL: [(Self, &[&str]); 6] = [
        (Self::Blocks, &["block", "blocks"]),
        (Self::Launches, &["launch", "launches"]),
        (Self::WarpInstructions, &["warp instructions"]),
        (Self::ThreadInstructions, &["thread instructions"]),
        (Self::CpuThreads, &["CPU thread", "CPU threads"]),
        (Self::Lanes, &["active lanes"]),
    ];
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Unit::ALL.iter().find(|(unit, _)| *unit == self.unit).map(|(_, words)| words);
        write!(f, "{} {}", self.number, words.and_then(|words| words.last()).unwrap_or(&""))
    }
}

/// Returns the numbers with a unit in a document or a run's output, and all other numbers.
pub fn claims(text: &str) -> (Vec<Claim>, Vec<String>) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let (mut claims, mut others) = (Vec::new(), Vec::new());
    for at in 0..words.len() {
        let number = bare(words[at]);
        if number.parse::<f64>().is_err() || !number.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let next: Vec<String> = words[at + 1..].iter().take(2).map(|word| bare(word)).collect();
        let says = |words: &&str| next.join(" ") == **words || next.first().is_some_and(|w| w == *words);
        match Unit::ALL.iter().find(|(_, names)| names.iter().any(says)) {
            Some((unit, _)) => claims.push(Claim { number, unit: *unit }),
            None => others.push(number),
        }
    }
    (claims, others)
}

/// Returns the commands of a document, in order. Fails for code that looks like a command and is not,
/// and for a number in a `Look at` paragraph that refers to no run.
pub fn commands(text: &str) -> Result<Vec<Command>> {
    let mut found: Vec<Command> = Vec::new();
    let mut fence: Option<bool> = None;
    let mut paragraph = String::new();
    for line in text.lines().chain([""]) {
        if let Some(language) = line.strip_prefix("```") {
            fence = fence.is_none().then_some(language.is_empty());
        } else if fence == Some(true) {
            found.extend(listed(line)?);
        } else if fence.is_none() && !line.trim().is_empty() {
            paragraph += line;
            paragraph.push(' ');
            continue;
        }
        if let Some(said) = paragraph.strip_prefix("Look at:") {
            found.extend(looked_at(said).with_context(|| format!("in `{}`", paragraph.trim()))?);
        } else if let (Some(last), Some(said)) = (found.last_mut(), paragraph.strip_prefix("It prints"))
        {
            last.claims.extend(claims(said).0);
        }
        paragraph.clear();
    }
    Ok(found)
}

fn listed(line: &str) -> Result<Option<Command>> {
    let (command, comment) = line.split_once('#').unwrap_or((line, ""));
    if command.trim().is_empty() {
        return Ok(None);
    }
    let result = comment.trim().parse::<f64>().is_ok().then(|| comment.trim().to_owned());
    Ok(Some(Command { result, ..parse(command)? }))
}

fn parse(text: &str) -> Result<Command> {
    let text = text.trim();
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let (program, arguments) = match (word(0), word(1), word(3)) {
        ("cargo", "xtask", _) => (Program::Xtask, words[2..].to_vec()),
        ("cargo", "run", "--bin") if word(2) == "--release" && word(5) == "--" => {
            (Program::Variant(catalogue::find(word(4))?.id), words[6..].to_vec())
        }
        ("cargo", ..) => bail!("`{text}` is not `cargo run --release --bin ID -- …` or `cargo xtask …`"),
        _ => (Program::Tool, words),
    };
    let text = text.to_owned();
    let (result, claims) = (None, Vec::new());
    Ok(Command { text, program, arguments, result, claims, refused: false, needs_gpu: false })
}

fn looked_at(paragraph: &str) -> Result<Vec<Command>> {
    let mut found: Vec<Command> = Vec::new();
    // True in a sentence about a profiler, a GPU or machine code, which claims nothing about a run.
    let mut elsewhere = false;
    for (at, part) in paragraph.split('`').enumerate() {
        if at % 2 == 1 {
            if let Some(mut command) = named(part, &found)? {
                command.needs_gpu = elsewhere;
                found.push(command);
            }
            continue;
        }
        for sentence in part.split_inclusive(". ") {
            elsewhere |=
                ["SASS", "profiler", "On a GPU", "on a GPU"].iter().any(|word| sentence.contains(word));
            let (claims, others) = claims(sentence);
            if !elsewhere {
                if let [number, ..] = others.as_slice() {
                    bail!("{number} has no unit; write a unit after it, or say where it is seen");
                }
                match found.last_mut() {
                    Some(command) => {
                        command.claims.extend(claims);
                        command.refused |= sentence.contains("is refused");
                    }
                    None if claims.is_empty() => {}
                    None => bail!("a number precedes the first command; write the command first"),
                }
            }
            elsewhere &= !sentence.ends_with(". ");
        }
    }
    if found.is_empty() {
        bail!("no command to look at");
    }
    Ok(found)
}

fn named(code: &str, found: &[Command]) -> Result<Option<Command>> {
    if code.starts_with("cargo ") {
        return parse(code).map(Some);
    }
    if code.starts_with("--") {
        let Some(first) = found.first() else { return Ok(None) };
        let options: Vec<String> = code.split_whitespace().map(str::to_owned).collect();
        let arguments = changed(&first.arguments, &options);
        return Ok(Some(Command { text: code.to_owned(), arguments, ..unsaid(first) }));
    }
    let before = found.iter().rfind(|command| matches!(command.program, Program::Variant(_)));
    let variant = catalogue::VARIANTS.iter().find(|variant| variant.id == code);
    Ok(before.zip(variant).map(|(before, variant)| Command {
        text: code.to_owned(),
        program: Program::Variant(variant.id),
        ..unsaid(before)
    }))
}

/// Returns the same run without claims.
fn unsaid(command: &Command) -> Command {
    Command { claims: Vec::new(), refused: false, needs_gpu: false, ..command.clone() }
}

/// Returns the arguments with options added or replaced by name.
fn changed(arguments: &[String], options: &[String]) -> Vec<String> {
    let mut kept = arguments.to_vec();
    for option in options.iter().filter(|option| option.starts_with("--")) {
        if let Some(at) = kept.iter().position(|argument| argument == option) {
            let more = kept[at + 1..].iter().take_while(|argument| !argument.starts_with("--")).count();
            kept.drain(at..=at + more);
        }
    }
    kept.extend_from_slice(options);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Command> {
        commands(text).unwrap()
    }

    fn said(command: &Command) -> Vec<String> {
        command.claims.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn commands_and_claims_are_read_from_paragraphs() {
        let text = "x\n\nLook at: `cargo run --release --bin sequential -- --n 4096 --device sim`:\n\
            16 blocks, 12\nwarp instructions (29.2 active lanes); `first_add` has 8 blocks. With\n\
            `--n 4Mi` there are 3 launches. In the SASS there are two `LDG` and 7 things. `serial`\n\
            has 1 launch. `--grid 100` is refused.\n";
        let all = all(text);
        let texts: Vec<&str> = all.iter().map(|command| command.text.as_str()).collect();
        assert_eq!(texts[1..], ["first_add", "--n 4Mi", "serial", "--grid 100"]);
        assert_eq!(said(&all[0]), ["16 blocks", "12 warp instructions", "29.2 active lanes"]);
        assert_eq!(all[1].program, Program::Variant("first_add"));
        assert_eq!((said(&all[1]), said(&all[2])), (vec!["8 blocks".into()], vec!["3 launches".into()]));
        assert_eq!(all[2].arguments, ["--device", "sim", "--n", "4Mi"]);
        assert_eq!(
            (all[3].arguments.clone(), said(&all[3])),
            (all[2].arguments.clone(), vec!["1 launches".into()])
        );
        assert_eq!(all[4].arguments, ["--n", "4096", "--device", "sim", "--grid", "100"]);
        assert_eq!(
            all.iter().map(|command| command.refused).collect::<Vec<_>>(),
            [false, false, false, false, true]
        );
        assert!(all.iter().all(|command| !command.needs_gpu));
    }

    #[test]
    fn a_block_shows_commands_with_their_results() {
        let text = "```\ncargo xtask run --list     # once\n\
            cargo run --release --bin serial -- --n 8 # 2.5\n```\n\n\
            It prints 1 launch.\n\n```rust\ncargo nothing\n```\n";
        let all = all(text);
        assert_eq!((all[0].program.clone(), all[0].result.as_deref()), (Program::Xtask, None));
        assert_eq!((all[1].result.as_deref(), said(&all[1])), (Some("2.5"), vec!["1 launches".into()]));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn commands_for_a_gpu_are_marked() {
        let text = "Look at: `cargo xtask run --list`. On a GPU, `cargo xtask compare` times it. Then\n\
            `cargo xtask run`.\n";
        let marks: Vec<bool> = all(text).iter().map(|command| command.needs_gpu).collect();
        assert_eq!(marks, [false, true, false]);
    }

    #[test]
    fn uncheckable_claims_are_rejected() {
        for (text, says) in [
            ("Look at: `cargo xtask run --list`: 47 of them.\n", "47 has no unit"),
            ("Look at: 3 launches of `cargo xtask run --list`.\n", "precedes the first command"),
            ("Look at: the sky.\n", "no command"),
            ("Look at: `cargo run --bin serial`.\n", "is not"),
            ("Look at: `cargo run --release --bin sereal -- --n 1`.\n", "sereal"),
        ] {
            let error = format!("{:#}", commands(text).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }
}
