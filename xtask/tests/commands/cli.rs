//! The program's usage errors, tested from outside.

use std::process::{Command, Output};

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = xtask(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_mistyped_command_is_answered_with_the_nearest() {
    assert!(refused(&["biuld-ptx"]).contains("'build-ptx'"));
    assert!(refused(&["build-ptx", "--arhc", "sm_90"]).contains("'--arch'"));
}

#[test]
fn invalid_value_error_lists_allowed_values() {
    let said = refused(&["build-ptx", "--arch", "90"]);
    assert!(said.contains("is not of the form sm_NN, sm_NNa or sm_NNf"), "{said}");
    let said = refused(&["build-ptx", "--codegen", "ptxas"]);
    assert!(said.contains("[possible values: llvm, nvvm]"), "{said}");
}

#[test]
fn a_missing_cuda_std_is_one_line() {
    let said = refused(&["lint", "nvvm", "--cuda-std", "/no/such/folder"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: no cuda_std at /no/such/folder: "), "{said}");
}

#[test]
fn codegen_nvvm_lists_one_missing_requirement_per_line() {
    // Hides the toolchains of this machine.
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["build-ptx", "--codegen", "nvvm"])
        .env("RUSTUP_HOME", "/no/such/folder")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.lines().count() >= 5, "{said}");
    assert_eq!(said.lines().next(), Some("codegen nvvm: asked for"));
    assert!(said.lines().skip(1).all(|line| line.starts_with("error: codegen nvvm needs ")), "{said}");
}

#[test]
fn doctor_is_a_report_on_any_machine() {
    let output = xtask(&["doctor", "--json"]);
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    for line in lines.lines() {
        let check: serde_json::Value = serde_json::from_str(line).unwrap();
        let keys = match check["state"].as_str() {
            Some("found") => ["version", "place"],
            _ => ["why", "get"],
        };
        assert!(check["name"].is_string() && check["purpose"].is_string(), "{line}");
        assert!(keys.iter().all(|key| check[key].is_string()), "{line}");
    }
    assert!(lines.lines().count() > 10, "{lines}");
}

/// There is no option `--dtypes` besides `--dtype`.
#[test]
fn an_option_has_one_spelling() {
    let help = |args: &[&str]| String::from_utf8(xtask(args).stdout).unwrap();
    let all = help(&["--help"]);
    let commands = all.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let named = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut options = std::collections::BTreeMap::new();
    for command in named.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
    {
        for line in help(&[command, "--help"]).lines() {
            if let Some((_, option)) =
                line.split_once("--").filter(|(before, _)| before.trim().is_empty())
            {
                let name = option.split([' ', '=']).next().unwrap().to_owned();
                options.entry(name).or_insert_with(Vec::new).push(command.to_owned());
            }
        }
    }
    for (option, commands) in &options {
        if let Some(others) = options.get(&format!("{option}s")) {
            panic!("{commands:?} have --{option}, {others:?} have --{option}s");
        }
    }
    let of = |option: &str| options.get(option).map_or(0, Vec::len);
    assert!(["variant", "dtype", "op", "n"].iter().all(|option| of(option) >= 4), "{options:?}");
    assert!(of("iters") == 3 && of("rounds") == 0, "{options:?}");
}
