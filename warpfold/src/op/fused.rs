//! Several operations on the same elements in one launch.

use std::{borrow::Cow, collections::HashMap, mem};

use warpfold_abi::fused;

use crate::names::{Dtype, Form, Nan, Op, OpKind, Order};

/// The beginning of the block that has the bit of a part. It is followed by a register and the bit.
pub(crate) const MARK: &str = "{ .reg .pred part; mov.u32 ";

/// The chosen parts of a fused kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    bits: u32,
    pub(crate) dtype: Dtype,
}

impl Parts {
    /// Returns the parts with these bits, or `None` for fewer than two.
    pub(crate) fn of(bits: impl Iterator<Item = u32>, dtype: Dtype) -> Option<Self> {
        let bits = bits.fold(0, |bits, bit| bits | bit);
        (bits.count_ones() >= 2).then_some(Self { bits, dtype })
    }

    /// Returns the number of parts, and of their results.
    pub(crate) fn len(self) -> u32 {
        self.bits.count_ones()
    }

    /// Returns the PTX of a fused kernel with these parts alone, or `None` for PTX that lacks one of
    /// them.
    ///
    /// Branches to other parts are resolved, and their code is left out. The driver's compiler does
    /// that, too, but takes longer (docs/notes/2026-11-29-tuples.md).
    pub(crate) fn choose_in(self, ptx: &str) -> Option<String> {
        let lines: Vec<Line<'_>> = ptx.lines().map(Line::of).collect();
        let mut writes = HashMap::<_, u32>::new();
        for line in &lines {
            line.written(|register| *writes.entry(register).or_default() += 1);
        }
        // A register that several instructions write may have any of their values.
        let is_known = |register: &&str| writes.get(*register) == Some(&1);
        let (mut choices, mut conditions, mut there) = (HashMap::new(), HashMap::new(), 0);
        for line in &lines {
            if let Line::Part { register, bit } = *line {
                choices.insert(register, bit & self.bits != 0);
                there |= bit;
            }
        }
        if there & self.bits != self.bits {
            return None;
        }
        for line in &lines {
            if let Line::Compare { condition, register, is_equal, .. } = *line
                && let Some(is_chosen) = choices.get(register)
                && [condition, register].iter().all(is_known)
            {
                conditions.insert(condition, *is_chosen != is_equal);
            }
        }
        let chosen: Vec<_> = lines
            .iter()
            .filter_map(|line| match *line {
                Line::Part { register, bit } => {
                    Some(format!("mov.u32 {register}, {};", bit & self.bits).into())
                }
                Line::Branch { condition, if_true, label, text } => match conditions.get(condition) {
                    Some(is_true) => (*is_true == if_true).then(|| format!("bra.uni {label}").into()),
                    None => Some(Cow::from(text)),
                },
                Line::Compare { text, .. } | Line::Other(text) => Some(text.into()),
            })
            .collect();
        Some(without_unreachable(&chosen))
    }
}

/// Returns the part of fused kernels that computes the result of an operation, by its bit, and the
/// operation whose result it writes.
pub(crate) fn part(op: Op, dtype: Dtype) -> Option<(u32, Op)> {
    use Nan::{Propagate, Skip};
    if op.wide || op.order != Order::RunToRun || op.form != Form::OUTPUT || !op.takes(dtype) {
        return None;
    }
    let bit = match (op.kind, op.nan) {
        (OpKind::Sum, Propagate) => fused::SUM,
        (OpKind::SumOfSquares, Propagate) => fused::SUM_OF_SQUARES,
        (OpKind::SumOfMagnitudes, Propagate) => fused::SUM_OF_MAGNITUDES,
        (OpKind::Product, Propagate) => fused::PRODUCT,
        (OpKind::Min | OpKind::Max | OpKind::MinMax, Propagate) => fused::MIN_MAX,
        (OpKind::ArgMin, Propagate) => fused::ARG_MIN,
        (OpKind::ArgMax, Propagate) => fused::ARG_MAX,
        (OpKind::CountNonZero, Propagate) => fused::COUNT_NON_ZERO,
        (OpKind::Mean, Propagate) => fused::MEAN,
        (OpKind::MeanAndVariance, Propagate) => fused::MEAN_AND_VARIANCE,
        (OpKind::L2Norm, Propagate) => fused::L2_NORM,
        (OpKind::CountNan, Propagate) => fused::COUNT_NAN,
        (OpKind::Sum, Skip) => fused::NAN_SUM,
        (OpKind::SumOfSquares, Skip) => fused::NAN_SUM_OF_SQUARES,
        (OpKind::SumOfMagnitudes, Skip) => fused::NAN_SUM_OF_MAGNITUDES,
        (OpKind::Product, Skip) => fused::NAN_PRODUCT,
        (OpKind::Min | OpKind::Max | OpKind::MinMax, Skip) => fused::NAN_MIN_MAX,
        (OpKind::ArgMin, Skip) => fused::NAN_ARG_MIN,
        (OpKind::ArgMax, Skip) => fused::NAN_ARG_MAX,
        (OpKind::MeanAndVariance, Skip) => fused::NAN_MEAN_AND_VARIANCE,
        (OpKind::L2Norm, Skip) => fused::NAN_L2_NORM,
        _ => return None,
    };
    let kind = match op.kind {
        OpKind::Min | OpKind::Max => OpKind::MinMax,
        kind => kind,
    };
    Some((bit, Op { kind, ..op }))
}

/// A line of PTX.
enum Line<'t> {
    /// Has the bit of a part.
    Part {
        register: &'t str,
        bit: u32,
    },
    /// Compares a register with zero.
    Compare {
        condition: &'t str,
        register: &'t str,
        is_equal: bool,
        text: &'t str,
    },
    /// Branches if a condition has a value. The label is followed by a semicolon.
    Branch {
        condition: &'t str,
        if_true: bool,
        label: &'t str,
        text: &'t str,
    },
    Other(&'t str),
}

impl<'t> Line<'t> {
    fn of(text: &'t str) -> Self {
        Self::part(text)
            .or_else(|| Self::compare(text))
            .or_else(|| Self::branch(text))
            .unwrap_or(Self::Other(text))
    }

    fn part(text: &'t str) -> Option<Self> {
        // `%r1, 4; }`
        let (register, rest) = text.trim_start().strip_prefix(MARK)?.split_once(", ")?;
        let bit = rest.split(';').next()?.parse::<i64>().ok()?;
        Some(Self::Part { register, bit: bit as u32 })
    }

    fn compare(text: &'t str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let is_equal = match words.next()? {
            "setp.eq.b32" | "setp.eq.s32" | "setp.eq.u32" => true,
            "setp.ne.b32" | "setp.ne.s32" | "setp.ne.u32" => false,
            _ => return None,
        };
        let (condition, register) = (words.next()?.strip_suffix(',')?, words.next()?.strip_suffix(',')?);
        let is_zero = words.next()? == "0;";
        is_zero.then_some(Self::Compare { condition, register, is_equal, text })
    }

    fn branch(text: &'t str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let condition = words.next()?.strip_prefix('@')?;
        let is_branch = matches!(words.next()?, "bra" | "bra.uni");
        let (if_true, condition) = match condition.strip_prefix('!') {
            Some(condition) => (false, condition),
            None => (true, condition),
        };
        is_branch.then_some(Self::Branch { condition, if_true, label: words.next()?, text })
    }

    /// Passes the registers that the line may write to `to`.
    fn written(&self, mut to: impl FnMut(&'t str)) {
        let text = match *self {
            Self::Part { register, .. } => return to(register),
            Self::Compare { condition, .. } => return to(condition),
            Self::Branch { .. } => return,
            Self::Other(text) => text.trim(),
        };
        // In a block of several instructions, any register.
        let operands = match text.split_once(char::is_whitespace) {
            _ if text.starts_with('{') => text,
            Some((guard, rest)) if guard.starts_with('@') => rest,
            Some((_, rest)) => {
                let rest = rest.trim_start();
                rest.split(if rest.starts_with('{') { '}' } else { ',' }).next().unwrap_or(rest)
            }
            None => return,
        };
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '%' | '_'));
        operands.split(is_end).filter(|word| word.starts_with('%')).for_each(to);
    }
}

/// Returns the lines of a kernel without the blocks that no branch reaches, or all if a label is in an
/// unknown form.
fn without_unreachable(lines: &[Cow<'_, str>]) -> String {
    let is = |brace| move |line: &Cow<'_, str>| line.trim() == brace;
    let start = lines.iter().position(is("{")).map_or(0, |brace| brace + 1);
    let end = lines.iter().rposition(is("}")).unwrap_or(lines.len());
    // A block begins at a label, and ends with a jump.
    let (mut blocks, mut labels, mut first) = (Vec::new(), HashMap::new(), start);
    for at in start..end {
        let line = without_comment(&lines[at]);
        if let Some(label) = line.strip_suffix(':') {
            if !label.starts_with('$') {
                return lines.join("\n") + "\n";
            }
            if first < at {
                blocks.push(first..at);
                first = at;
            }
            labels.insert(label, blocks.len());
        } else if is_jump(line) {
            blocks.push(first..at + 1);
            first = at + 1;
        }
    }
    blocks.push(first..end);
    let (mut reached, mut next) = (vec![false; blocks.len()], vec![0]);
    while let Some(block) = next.pop() {
        if mem::replace(&mut reached[block], true) {
            continue;
        }
        let lines = &lines[blocks[block].clone()];
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '$' | '_'));
        let words = lines.iter().flat_map(|line| line.split(is_end));
        next.extend(words.filter_map(|word| labels.get(word)));
        if block + 1 < blocks.len() && !lines.last().is_some_and(|line| is_jump(without_comment(line))) {
            next.push(block + 1);
        }
    }
    let reached = blocks.into_iter().zip(reached).filter(|&(_, reached)| reached);
    let body = reached.flat_map(|(block, _)| &lines[block]);
    let kept = lines[..start].iter().chain(body).chain(&lines[end..]);
    kept.fold(String::new(), |text, line| text + line + "\n")
}

fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(line, _)| line).trim()
}

/// Returns whether a line is a jump after which the next line is not executed.
fn is_jump(line: &str) -> bool {
    let name = line.split(|c: char| !c.is_ascii_alphabetic()).next();
    matches!(name, Some("bra" | "brx" | "ret" | "exit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(bits: u32) -> Parts {
        Parts { bits, dtype: Dtype::F32 }
    }

    /// Returns the body of a kernel after a choice, one line for each instruction.
    fn chosen(body: &str, bits: u32) -> String {
        let text = format!(".version 8.0\n.visible .entry k(\n)\n{{\n{body}\n}}\n");
        let chosen = parts(bits).choose_in(&text).unwrap();
        let body = chosen.strip_prefix(".version 8.0\n.visible .entry k(\n)\n{\n").unwrap();
        body.strip_suffix("\n}\n").unwrap().to_owned()
    }

    const TWO: &str = "\
{ .reg .pred part; mov.u32 %r1, 4; }
setp.eq.b32 %p1, %r1, 0;
@%p1 bra $L1;
add.f32 %f1, %f1, %f2;
$L1:
{ .reg .pred part; mov.u32 %r2, 8; }
setp.ne.b32 %p2, %r2, 0;
@!%p2 bra $L2;
add.f32 %f3, %f3, %f2;
$L2:
ret;";

    #[test]
    fn code_of_other_parts_is_left_out() {
        let first = "\
mov.u32 %r1, 4;
setp.eq.b32 %p1, %r1, 0;
add.f32 %f1, %f1, %f2;
$L1:
mov.u32 %r2, 0;
setp.ne.b32 %p2, %r2, 0;
bra.uni $L2;
$L2:
ret;";
        assert_eq!(chosen(TWO, 4), first);
        let both = chosen(TWO, 4 | 8);
        assert!(both.contains("%f1, %f1") && both.contains("%f3, %f3") && !both.contains("@"), "{both}");
        let none = chosen(TWO, 0);
        assert!(!none.contains("add.f32"), "{none}");
    }

    #[test]
    fn registers_with_several_values_are_not_known() {
        // Another instruction writes the answer, or the condition, in one of many forms.
        for write in [
            "mov.u32 %r1, 1;",
            "@%p9 mov.u32 %r1, 1;",
            "mov.b64 {%r9, %r1}, %rd1;",
            "{ .reg .b32 a; mov.u32 %r1, 1; }",
            "setp.lt.s32 %p1, %r7, 3;",
            "setp.eq.b32 %p1, %r7, 0;",
        ] {
            let body = TWO.replacen("setp", &format!("{write}\nsetp"), 1);
            let kept = chosen(&body, 0);
            assert!(kept.contains("@%p1 bra $L1;\nadd.f32 %f1"), "{write}: {kept}");
            assert!(!kept.contains("%f3, %f3"), "{write}: {kept}");
        }
        // A use is no write.
        for usage in ["st.global.u32 [%rd1], %r1;", "selp.b32 %r9, %r1, %r8, %p1;", "@%p1 bra $L2;"] {
            let body = TWO.replacen("@%p1 bra", &format!("{usage}\n@%p1 bra"), 1);
            assert!(!chosen(&body, 0).contains("add.f32 %f1"), "{usage}");
        }
    }

    #[test]
    fn what_an_indexed_branch_reaches_is_kept() {
        let body = "\
{ .reg .pred part; mov.u32 %r1, 1; }
$L9: .branchtargets
$L1,
$L2;
brx.idx %r2, $L9;
$L1:
mov.u32 %r3, 1;
ret;
$L2:
mov.u32 %r3, 2;
exit;
$L3:
mov.u32 %r3, 3;
bra.uni $L1;";
        let kept = chosen(body, 1);
        assert!(
            kept.contains("%r3, 1") && kept.contains("%r3, 2") && !kept.contains("%r3, 3"),
            "{kept}"
        );
    }

    #[test]
    fn kernels_without_a_chosen_part_are_refused() {
        assert_eq!(parts(3).choose_in(".visible .entry k()\n{\nret;\n}\n"), None);
        assert_eq!(parts(4 | 16).choose_in(TWO), None);
        assert!(parts(4 | 8).choose_in(TWO).is_some());
    }

    #[test]
    fn labels_of_other_compilers_keep_their_code() {
        let commented = TWO.replace("$L1:", "$L1: // a loop");
        assert!(!chosen(&commented, 0).contains("add.f32"));
        let plain = TWO.replace("$L1", "L1");
        assert!(chosen(&plain, 0).contains("add.f32 %f1"));
    }

    #[test]
    fn two_or_more_parts_are_fused() {
        let bits = |ops: &[Op]| ops.iter().filter_map(|&op| Some(part(op, Dtype::F32)?.0)).collect();
        let of = |ops: &[Op]| {
            let bits: Vec<u32> = bits(ops);
            Parts::of(bits.into_iter(), Dtype::F32).map(|parts| parts.bits)
        };
        let [sum, min, max] = [OpKind::Sum, OpKind::Min, OpKind::Max].map(OpKind::plain);
        assert_eq!(of(&[sum, max]), Some(fused::SUM | fused::MIN_MAX));
        assert_eq!(of(&[sum, min.skipping_nan(Dtype::F32)]), Some(fused::SUM | fused::NAN_MIN_MAX));
        assert_eq!((of(&[sum]), of(&[min, max]), of(&[])), (None, None, None));
        assert_eq!(of(&[sum, sum.reproducible(Dtype::F32)]), None);
    }
}
