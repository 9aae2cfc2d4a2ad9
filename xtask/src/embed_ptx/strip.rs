//! PTX without what only tools read: line tables, comments, the labels that go with them, indentation.
//! Labels that code jumps to are numbered anew, because the compiler counts them over all kernels: a
//! change of another kernel would otherwise change every text. Parameters are numbered without the
//! kernel's name, which no one refers to: kernels are the more alike, and their archive the smaller.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};

/// PTX with what code needs and nothing else, under a line that says what compiled it.
pub(super) fn stripped(ptx: &str) -> Result<String> {
    let compiler = ptx.lines().find_map(|line| line.strip_prefix("// compiler: "));
    let compiler = compiler.context("the file does not say what compiled it")?;
    let mut text = format!("// {compiler}, `cargo xtask embed-ptx`\n");
    let mut functions = HashMap::new();
    let mut entry = None;
    for line in ptx.lines() {
        let code = line.split_once("//").map_or(line, |(code, _)| code).trim_end();
        let directive = code.trim_start();
        if directive.starts_with(".section") || directive.contains("/*") {
            bail!("`{directive}` is more than a line of code; teach embed-ptx to leave it out");
        }
        let of_tools = [".loc", ".file"].iter().any(|of_tools| directive.starts_with(of_tools));
        if directive.is_empty() || of_tools || is_debug_label(directive) {
            continue;
        }
        if let Some((_, name)) = code.split_once(".entry ") {
            entry = Some(format!("{}_param_", name.trim_end_matches('(')));
        }
        let code = entry.as_ref().map_or(code.into(), |parameter| code.replace(parameter, "p"));
        text.push_str(&with_own_labels(&packed(&code), &mut functions));
        text.push('\n');
    }
    // A label that was left out but is named somewhere would be no PTX.
    ensure!(
        !DEBUG_LABELS.iter().any(|label| text.contains(label)),
        "code names a label of a line table"
    );
    Ok(text)
}

/// A line without indentation, and with single spaces. One that opens a block in the body of a kernel is
/// indented, which tells it from the line that opens the body.
fn packed(code: &str) -> String {
    let packed = code.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    if packed.starts_with('{') && !code.starts_with('{') { format!("\t{packed}") } else { packed }
}

/// How the labels begin that only line tables name.
const DEBUG_LABELS: [&str; 3] = ["$L__tmp", "$L__func_begin", "$L__func_end"];

fn is_debug_label(line: &str) -> bool {
    line.ends_with(':') && DEBUG_LABELS.iter().any(|label| line.starts_with(label))
}

/// A line whose labels `$L__BB<function>_<block>` have the number of the function in this file.
fn with_own_labels(line: &str, functions: &mut HashMap<String, usize>) -> String {
    const LABEL: &str = "$L__BB";
    let mut parts = line.split(LABEL);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (function, rest) = part.split_at(digits);
        let next = functions.len();
        let number = *functions.entry(function.to_owned()).or_insert(next);
        text.push_str(&format!("{LABEL}{number}{rest}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: &str = "// warpfold ptx 2\n// compiler: rustc 1.95.0 / LLVM 22.1.2\n.version 8.0\n\
        .target sm_90\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)  // @k\n{\n$L__func_begin328:\n\
        \t.loc\t1 91 0  // src/gpu/llvm.rs:91:0\n// %bb.0:\n\tld.param.b64 \t%rd1, [k_param_0];\n\tsetp.eq.b32 \t%p1, %r1, 0;\n\t{\n\t}\n$L__tmp7:\n\
        \t@%p1 bra \t$L__BB328_2;\n\tbra.uni \t$L__BB328_1;\n$L__BB328_1:\n$L__BB328_2:\n\tret;\n\
        $L__func_end328:\n  // -- End function\n}\n\
        .visible .entry l()\n{\n$L__BB9_1:\n\tbra \t$L__BB9_1;\n}\n\
        .file\t1 \"device/src/gpu/llvm.rs\"\n";

    #[test]
    fn code_alone_is_kept_with_names_of_its_own() {
        let expected = "// rustc 1.95.0 / LLVM 22.1.2, `cargo xtask embed-ptx`\n.version 8.0\n\
            .target sm_90\n.visible .entry k(\n.param .u64 p0\n)\n{\n\
            ld.param.b64 %rd1, [p0];\nsetp.eq.b32 %p1, %r1, 0;\n\t{\n}\n\
            @%p1 bra $L__BB0_2;\nbra.uni $L__BB0_1;\n$L__BB0_1:\n$L__BB0_2:\nret;\n}\n\
            .visible .entry l()\n{\n$L__BB1_1:\nbra $L__BB1_1;\n}\n";
        assert_eq!(stripped(BUILT).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_left_out_line_by_line_is_refused() {
        let refused = |from: &str, to: &str| {
            let changed = BUILT.replacen(from, to, 1);
            assert_ne!(changed, BUILT);
            stripped(&changed).unwrap_err().to_string()
        };
        assert!(refused(".file", ".section .debug_info\n{").contains(".section"));
        assert!(refused("\tret;", "\tret; /* the end */").contains("/*"));
        assert!(refused("bra.uni \t$L__BB328_1", "bra.uni \t$L__tmp7").contains("label"));
        assert!(refused("// compiler", "// other").contains("what compiled"));
    }
}
