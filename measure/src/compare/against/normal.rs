//! Normalises the code of a PTX entry, so that names that compilers choose freely do not count.
//!
//! Comments, line tables and unused labels are omitted. Registers, labels, the entry, its parameters and
//! the variables that it refers to are numbered in order of appearance, so that two entries have the
//! same code exactly if their lines are equal. The declarations of variables are part of the code: their
//! space, alignment and size matter.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;

use warpfold_ptx::syntax::{self, Item, Kind, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code {
    /// One statement per line in the compiler's order, declarations last.
    pub(super) lines: Vec<String>,
    pub(super) instructions: usize,
}

pub(super) fn entries(source: &str) -> Result<BTreeMap<String, Code>> {
    let items = syntax::items(source)?;
    let is_entry = |item: &&Item<'_>| matches!(item.kind, Kind::Function { entry: true, .. });
    let of = |entry: &Item<'_>| (entry.names[0].to_owned(), code(entry, &items));
    Ok(items.iter().filter(is_entry).map(of).collect())
}

fn code(entry: &Item<'_>, items: &[Item<'_>]) -> Code {
    let mut names = Names::default();
    let mut lines = lines(entry, items, &mut names);
    // Symbols are resolved in order of appearance, because their declarations may refer to further
    // symbols.
    let mut at = 0;
    while let Some(name) = names.symbols.get(at).cloned() {
        let declares = |item: &&Item<'_>| item.names.contains(&name.as_str()) && !is_section(item);
        for item in items.iter().filter(declares) {
            lines.extend(self::lines(item, items, &mut names));
        }
        at += 1;
    }
    let instructions = entry.statements().filter(|code| !code.opcode().starts_with('.')).count();
    Code { lines, instructions }
}

fn is_section(item: &Item<'_>) -> bool {
    matches!(item.kind, Kind::Section | Kind::File(_) | Kind::Directive)
}

/// Maps the compiler's names to numbered ones.
#[derive(Default)]
struct Names {
    known: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
    symbols: Vec<String>,
}

impl Names {
    fn number(&mut self, class: &'static str, name: &str) -> String {
        let Self { known, counts, .. } = self;
        let new = || {
            let count = counts.entry(class).or_default();
            *count += 1;
            format!("{class}{count}")
        };
        known.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

fn lines(item: &Item<'_>, items: &[Item<'_>], names: &mut Names) -> Vec<String> {
    let defined = |name: &str| items.iter().any(|item| !is_section(item) && item.names.contains(&name));
    let tokens = without_tables(&item.tokens);
    let own = item.names.first().copied().unwrap_or_default();
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        let text = token.text;
        let shown = match class_of(text) {
            _ if text == own && is_function(item) => "entry".to_owned(),
            _ if is_parameter(text, own) => format!("entry{}", &text[own.len()..]),
            Some(class) => names.number(class, text),
            None if token.is_name() && defined(text) => {
                if !names.symbols.iter().any(|known| known == text) {
                    names.symbols.push(text.to_owned());
                }
                names.number("symbol", text)
            }
            None => text.to_owned(),
        };
        line.push(shown);
        // A brace opens a scope at the start of a statement, elsewhere a vector of registers.
        let ends = match text {
            ";" | ":" => true,
            "{" => line.len() == 1 || tokens.get(at + 1).is_some_and(|next| next.line > token.line),
            "}" => line.len() == 1,
            _ => false,
        };
        if ends {
            lines.push(line.join(" "));
            line.clear();
        }
    }
    lines.extend((!line.is_empty()).then(|| line.join(" ")));
    lines
}

fn is_function(item: &Item<'_>) -> bool {
    matches!(item.kind, Kind::Function { .. })
}

/// Returns whether `text` is `<entry>_param_<number>`, the name of a parameter.
fn is_parameter(text: &str, entry: &str) -> bool {
    !entry.is_empty() && text.strip_prefix(entry).is_some_and(|rest| rest.starts_with("_param_"))
}

/// Returns the class of a name that the compiler generated: a register or a label. Special registers,
/// such as `%tid.x`, have no class.
fn class_of(text: &str) -> Option<&'static str> {
    const REGISTERS: [&str; 12] =
        ["%p", "%rs", "%rd", "%rq", "%r", "%fd", "%f", "%hh", "%h", "%b", "%SPL", "%SP"];
    let numbered = |class: &&str| {
        let rest = text.strip_prefix(*class);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match text.starts_with('$') {
        true => Some("$label"),
        false => REGISTERS.into_iter().find(numbered),
    }
}

/// Removes line tables, declarations of numbered registers, and unused labels.
fn without_tables<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t Token<'a>> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for token in tokens.iter().filter(|token| token.text.starts_with('$')) {
        *uses.entry(token.text).or_default() += 1;
    }
    let is_unused = |at: usize| {
        let label = tokens.get(at + 1).is_some_and(|next| next.text == ":");
        label && uses.get(tokens[at].text) == Some(&1)
    };
    let declares_registers = |at: usize| {
        let name = tokens.get(at + 2).map_or("", |token| token.text);
        tokens[at].text == ".reg" && class_of(name).is_some() && tokens[at + 3].text == "<"
    };
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let rest = &tokens[at..];
        at += match rest[0].text {
            ".loc" => rest.iter().take_while(|token| token.line == rest[0].line).count(),
            _ if is_unused(at) => 2,
            _ if declares_registers(at) => {
                rest.iter().position(|token| token.text == ";").map_or(rest.len(), |end| end + 1)
            }
            _ => {
                kept.push(&rest[0]);
                1
            }
        };
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = r#"
.version 8.0
.target sm_90
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b8 flag[4];
.visible .entry tree_sum_f32(
	.param .u64 .ptr .align 1 tree_sum_f32_param_0,
	.param .u64 tree_sum_f32_param_1
)                                       // @tree_sum_f32
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<9>;
$L__func_begin12:
	.loc	1 24 0                          // src/a.rs:24:0
// %bb.0:
	ld.param.b64 	%rd5, [tree_sum_f32_param_0];
	mov.u32 	%r3, %tid.x;
$L__tmp7:
	// begin inline asm
	mov.u32 %r4, flag;
	{ .reg .pred q; setp.eq.u32 q, %r4, 0; }
	ld.global.v2.b32 {%r6,%r7}, [%rd5+-16];
	// end inline asm
	@!%p1 bra 	$L__BB12_2;
	mov.u32 %r5, dynamic;
$L__BB12_2:
	ret;
}
.file	1 "src/a.rs"
"#;

    /// The same code with other numbers, names and lines, after another entry.
    fn renamed() -> String {
        let other = ".visible .entry other()\n{\n\tret;\n}\n.visible .entry tree";
        let pairs = [
            ("%r4", "%r14"),
            ("%r3", "%r2"),
            ("%p1", "%p2"),
            ("%rd5", "%rd1"),
            ("$L__BB12_2", "$L_x"),
            ("<9>", "<20>"),
            ("1 24 0", "7 30 2"),
            ("src/a.rs", "lib/b.rs"),
            ("flag", "block_flag"),
            ("$L__tmp7", "$L__tmp99"),
            (".visible .entry tree", other),
        ];
        pairs.iter().fold(EARLIER.to_owned(), |text, (old, new)| text.replace(old, new))
    }

    #[test]
    fn names_and_lines_make_no_difference() {
        let [earlier, now] = [EARLIER, &renamed()].map(|text| entries(text).unwrap());
        assert_eq!(earlier["tree_sum_f32"], now["tree_sum_f32"]);
        assert_eq!(earlier["tree_sum_f32"].instructions, 8);
        assert_eq!(now.keys().collect::<Vec<_>>(), ["other", "tree_sum_f32"]);
        // Declarations follow the code.
        let lines = &earlier["tree_sum_f32"].lines;
        assert!(lines.contains(&"mov.u32 %r1 , %tid.x ;".to_owned()), "{lines:?}");
        let declared = ".shared .align 4 .b8 symbol1 [ 4 ] ;";
        assert!(lines.iter().any(|line| line == declared), "{lines:?}");
    }

    #[test]
    fn code_changes_are_a_difference() {
        let earlier = &entries(EARLIER).unwrap()["tree_sum_f32"];
        for (old, new) in [
            ("%tid.x", "%tid.y"),
            ("[%rd5+-16]", "[%rd5+16]"),
            ("{%r6,%r7}", "{%r7,%r7}"),
            ("@!%p1", "@%p1"),
            ("setp.eq.u32 q", "setp.ne.u32 q"),
            ("mov.u32 %r5, dynamic;\n", ""),
            ("flag[4]", "flag[8]"),
            (".shared .align 4", ".shared .align 16"),
            ("mov.u32 %r5, dynamic;", "mov.u32 %r5, flag;"),
            (
                "bra \t$L__BB12_2;\n\tmov.u32 %r5, dynamic;\n$L__BB12_2:",
                "bra \t$L__BB12_2;\n$L__BB12_2:\n\tmov.u32 %r5, dynamic;\n",
            ),
            ("\n{\n\t.reg", "\n.maxntid 256, 1, 1\n{\n\t.reg"),
            (".param .u64 tree", ".param .u32 tree"),
        ] {
            let changed = EARLIER.replace(old, new);
            assert_ne!(changed, EARLIER, "{old}");
            assert_ne!(&entries(&changed).unwrap()["tree_sum_f32"], earlier, "{old} as {new}");
        }
    }
}
