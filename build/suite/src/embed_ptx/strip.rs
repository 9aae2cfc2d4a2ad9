//! Removes line tables, comments, their labels, and indentation from PTX, which only tools read.
//! Registers and labels are numbered in order of appearance: the archive stores no other numbers, and
//! the compiler counts labels over all kernels, so that a change to one kernel would change every text.
//! Parameters are numbered without the kernel's name.

use anyhow::{Context, Result, bail, ensure};
use warpfold::internal::archive::decoded;

use super::pack::encoded;

/// Returns the PTX that the driver needs, after a line that names the compiler.
pub(super) fn stripped(ptx: &str) -> Result<String> {
    let compiler = ptx.lines().find_map(|line| line.strip_prefix("// compiler: "));
    let compiler = compiler.context("the file does not say what compiled it")?;
    let mut text = format!("// {compiler}, `cargo xtask embed-ptx`\n");
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
        text.push_str(&packed(&code));
        text.push('\n');
    }
    // A remaining reference to a removed label would make the PTX invalid.
    ensure!(
        !DEBUG_LABELS.iter().any(|label| text.contains(label)),
        "code names a label of a line table"
    );
    decoded(&encoded(&text)?).context("a register or label cannot be kept")
}

/// Removes indentation and repeated spaces. A brace that opens a block in the body of a kernel keeps a
/// tab, which distinguishes it from the brace of the body.
fn packed(code: &str) -> String {
    let packed = code.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    if packed.starts_with('{') && !code.starts_with('{') { format!("\t{packed}") } else { packed }
}

/// Prefixes of labels that only line tables refer to.
const DEBUG_LABELS: [&str; 3] = ["$L__tmp", "$L__func_begin", "$L__func_end"];

fn is_debug_label(line: &str) -> bool {
    line.ends_with(':') && DEBUG_LABELS.iter().any(|label| line.starts_with(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: &str = "// warpfold ptx 2\n// compiler: rustc 1.95.0 / LLVM 22.1.2\n.version 8.0\n\
        .target sm_90\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)  // @k\n{\n$L__func_begin328:\n\
        .reg .b64 %rd<9>;\n\t.loc\t1 91 0  // src/gpu/llvm.rs:91:0\n// %bb.0:\n\tld.param.b64 \t%rd8, [k_param_0];\n\tsetp.eq.b32 \t%p1, %r1, 0;\n\t{\n\t}\n$L__tmp7:\n\
        \t@%p1 bra \t$L__BB328_2;\n\tbra.uni \t$L__BB328_1;\n$L__BB328_1:\n$L__BB328_2:\n\tret;\n\
        $L__func_end328:\n  // -- End function\n}\n\
        .visible .entry l()\n{\n$L__BB9_1:\n\tbra \t$L__BB9_1;\n}\n\
        .file\t1 \"device/src/gpu/llvm.rs\"\n";

    #[test]
    fn code_alone_is_kept_with_names_of_its_own() {
        let expected = "// rustc 1.95.0 / LLVM 22.1.2, `cargo xtask embed-ptx`\n.version 8.0\n\
            .target sm_90\n.visible .entry k(\n.param .u64 p0\n)\n{\n\
            .reg .b64 %rd<9>;\nld.param.b64 %rd1, [p0];\nsetp.eq.b32 %p1, %r1, 0;\n\t{\n}\n\
            @%p1 bra $L1;\nbra.uni $L2;\n$L2:\n$L1:\nret;\n}\n\
            .visible .entry l()\n{\n$L3:\nbra $L3;\n}\n";
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
