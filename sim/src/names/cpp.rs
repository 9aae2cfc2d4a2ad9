//! C++ names.

use std::fmt::Write;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Recursion limit of the parser. The parser tries several alternatives at each depth, so its time is
/// exponential in the depth: seconds at its default limit of 96. All but 3 of 44,000 names of LLVM and
/// libstdc++ stay below this limit.
const DEPTH: u32 = 64;
/// Maximum number of `new` and `delete` expressions in a name. Each multiplies the alternatives at each
/// depth. No kernel's signature has any; the count may include a few other letters.
const MOST_NEW: usize = 8;

/// Writes the source form of a C++ name; `None` for a name that is not C++, or could take long to parse.
pub(super) fn demangle(name: &str, plain: &mut impl Write) -> Option<()> {
    parsed(name)?.structured_demangle(plain, &DemangleOptions::default()).ok()
}

fn parsed(name: &str) -> Option<Symbol<&str>> {
    let options = ParseOptions::default().recursion_limit(DEPTH);
    (news(name.as_bytes()) <= MOST_NEW).then(|| Symbol::new_with_options(name, &options).ok())?
}

/// Counts possible `new` and `delete` expressions in a mangled name: their letters, outside
/// length-prefixed text that can only be an identifier.
fn news(name: &[u8]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < name.len() {
        let digits = name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = at + digits;
        // After these characters, or before `E` and `_`, digits need not be a length.
        let is_length = at > 0
            && digits > 0
            && digits < 5
            && !b"_LCDF".contains(&name[at - 1])
            && name.get(end).is_some_and(|next| next.is_ascii_alphabetic() && *next != b'E');
        let length =
            name[at..end].iter().fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
        let word = &name[at..name.len().min(at + 2)];
        count += usize::from([b"nw", b"na", b"dl", b"da"].iter().any(|new| word == *new));
        at = if is_length { end + length } else { at + digits.max(1) };
    }
    count
}
