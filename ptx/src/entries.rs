//! The text of one entry of a file.

use memchr::{memchr, memchr3, memmem};

/// Returns PTX with one entry only: the text without all other entries, so that the driver compiles no
/// other one. Returns `None` if the text does not define the entry, if it is in an unknown form, if it
/// has block comments, or if it has debug sections, which refer to all entries.
///
/// ```
/// use warpfold_ptx::with_entry_only;
///
/// let ptx = ".version 8.0\n.visible .entry a()\n{\nret;\n}\n.visible .entry b()\n{\nexit;\n}\n";
/// let only = ".version 8.0\n.visible .entry b()\n{\nexit;\n}\n";
/// assert_eq!(with_entry_only(ptx, "b").as_deref(), Some(only));
/// assert_eq!(with_entry_only(ptx, "c"), None);
/// ```
pub fn with_entry_only(ptx: &str, entry: &str) -> Option<String> {
    let text = ptx.as_bytes();
    if [&b".section"[..], b"/*"].iter().any(|words| memmem::find(text, words).is_some()) {
        return None;
    }
    let (mut only, mut kept, mut is_there) = (String::new(), 0, false);
    let (mut at, mut passed, mut start) = (0, 0, 0);
    while let Some(found) = memmem::find(&text[at..], ENTRY) {
        let directive = at + found;
        at = directive + ENTRY.len();
        // The start of the line, or the end of the previous entry in it.
        start = ptx[passed..directive].rfind('\n').map_or(start, |line| passed + line + 1);
        passed = at;
        match ptx[start..directive].trim_ascii() {
            ".visible" | ".weak" => {}
            // A directive in the line before belongs to the entry, too.
            "" if !ends_with_directive(&text[..start]) => {}
            "" => return None,
            // In a comment, or in an unknown form, whose entry is kept.
            _ => continue,
        }
        let end = end_of_body(text, at)?;
        let name = ptx[at..end].trim_ascii_start();
        let len = name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')))?;
        if &name[..len] == entry {
            is_there = true;
        } else {
            only.push_str(&ptx[kept..start]);
            kept = ptx[end..].strip_prefix('\n').map_or(end, |_| end + 1);
        }
        (at, passed, start) = (end, end, end);
    }
    only.push_str(&ptx[kept..]);
    is_there.then_some(only)
}

const ENTRY: &[u8] = b".entry";

fn ends_with_directive(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    text.ends_with(b".visible") || text.ends_with(b".weak")
}

/// Returns the end of the first braces from a place on, and of all braces inside of them.
fn end_of_body(text: &[u8], from: usize) -> Option<usize> {
    let (mut at, mut depth) = (from, 0_u32);
    loop {
        at += memchr3(b'{', b'}', b'/', &text[at..])?;
        match (text[at], text.get(at + 1)) {
            (b'{', _) => depth += 1,
            (b'}', _) => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            (b'/', Some(b'/')) => at += memchr(b'\n', &text[at..])?,
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
// .entry in a comment
.shared .b8 words[4];
.visible .entry first(
.param .u64 p0 // }
)
.maxntid 128
{
{ .reg .pred %p; } // }
ret;
}
.weak .entry first_too(){ret;}
.func helper { }
.entry last()
{
}";

    #[test]
    fn other_entries_are_left_out() {
        let rest = "// .entry in a comment\n.shared .b8 words[4];\n";
        let first = &TEXT[rest.len()..TEXT.find(".weak").unwrap()];
        assert_eq!(
            with_entry_only(TEXT, "first").unwrap(),
            format!("{rest}{first}.func helper {{ }}\n")
        );
        assert_eq!(
            with_entry_only(TEXT, "first_too").unwrap(),
            format!("{rest}.weak .entry first_too(){{ret;}}\n.func helper {{ }}\n")
        );
        let last = format!("{rest}.func helper {{ }}\n.entry last()\n{{\n}}");
        assert_eq!(with_entry_only(TEXT, "last").unwrap(), last);
        assert_eq!(with_entry_only(&last, "last").unwrap(), last);
    }

    #[test]
    fn unknown_forms_have_no_text_of_one_entry() {
        let two = ".visible\n.entry a() {}\n.visible\n.entry b() {}";
        let comment = "/*\n.entry of old\n*/\n.entry a() {}";
        for text in ["", ".entry a() {", ".entry a() }", ".entry a() { // }", two, comment] {
            assert_eq!(with_entry_only(text, "a"), None, "{text}");
        }
        let twice = "// .entry .entry x() {}\n.entry a() {}";
        assert_eq!(with_entry_only(twice, "a").as_deref(), Some(twice));
        assert_eq!(with_entry_only(TEXT, "fir"), None);
        assert_eq!(with_entry_only(TEXT, "helper"), None);
        assert_eq!(with_entry_only(&format!("{TEXT}\n.section .debug_info {{ }}"), "last"), None);
    }
}
