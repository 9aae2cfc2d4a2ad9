//! Names of C++.

use std::fmt::Write;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Depth to which C++ names are parsed. The parser tries several readings of a part one after the other,
/// each of which may hold such parts again, so that its time is exponential in the depth: seconds at its
/// own limit of 96. All but 3 of 44,000 names of LLVM and libstdc++ are less deep than this.
const DEPTH: u32 = 64;
/// Expressions with `new` and `delete` in a name, at most: those multiply by themselves, from depth to
/// depth. No kernel's signature has any; a few may seem to be there.
const MOST_NEW: usize = 8;

/// Writes a C++ name as its source has it; `None` for a name that is not one, or may take long.
pub(super) fn demangle(name: &str, plain: &mut impl Write) -> Option<()> {
    parsed(name)?.structured_demangle(plain, &DemangleOptions::default()).ok()
}

/// Parses a C++ name in bounded time; none of a name that may take longer.
fn parsed(name: &str) -> Option<Symbol<&str>> {
    let options = ParseOptions::default().recursion_limit(DEPTH);
    (news(name.as_bytes()) <= MOST_NEW).then(|| Symbol::new_with_options(name, &options).ok())?
}

/// Counts what may be an expression with `new` or `delete` in a mangled name: the letters of one,
/// outside of what can only be an identifier, its length in front.
fn news(name: &[u8]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < name.len() {
        let digits = name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = at + digits;
        // Behind these, or in front of `E` and `_`, digits may be no length.
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
