//! Every `cargo xtask` command that the ladder's pages show: those that need neither a GPU nor NVIDIA's
//! tools are run; of the others only the arguments are parsed.

use std::{
    path::Path,
    process::{Command, Output},
};

use warpfold_measure::ladder::{
    self,
    commands::{self, Program},
};

const ANYWHERE: [&str; 3] = ["check", "explain", "--list"];

fn xtask(arguments: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap()
}

fn assert_right(page: &str, command: &commands::Command, output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{page}: `{}`: {}: {stderr}", command.text, output.status);
}

#[test]
fn documented_commands_parse_and_gpu_free_ones_run() {
    let mut shown = Vec::new();
    for (page, text) in ladder::read(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap() {
        let all = commands::commands(&text).unwrap_or_else(|error| panic!("{page}: {error:#}"));
        let xtask = all.into_iter().filter(|command| command.program == Program::Xtask);
        shown.extend(xtask.map(|command| (page, command)));
    }
    assert!(!shown.is_empty(), "no page shows a `cargo xtask` command");
    for (page, command) in &shown {
        // With --help appended, the arguments are parsed and nothing is executed.
        let read = [command.arguments.clone(), vec!["--help".to_owned()]].concat();
        assert_right(page, command, &xtask(&read));
        if !command.needs_gpu
            && command.arguments.iter().any(|argument| ANYWHERE.contains(&argument.as_str()))
        {
            assert_right(page, command, &xtask(&command.arguments));
        }
    }
}

#[test]
fn wrong_arguments_before_help_are_errors() {
    for arguments in
        ["explian sequential", "explain sequental", "compare --statik", "explain --n many sequential"]
    {
        let arguments: Vec<String> = arguments.split(' ').chain(["--help"]).map(str::to_owned).collect();
        assert!(!xtask(&arguments).status.success(), "{arguments:?}");
    }
}
