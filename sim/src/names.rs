//! Names of kernels and functions as their sources have them.

use std::borrow::Cow;
use std::fmt::{self, Write};

use crate::error::shortened;

#[cfg(feature = "cpp")]
mod cpp;

/// Bytes of a mangled name that is demangled, at most.
const MOST: usize = 4096;
/// Bytes of a demangled name, at most: references to earlier parts make it exponential in the name's
/// length, 2^80 bytes of 240.
const MOST_PLAIN: usize = 4 * MOST;

/// A name of Rust, or with the feature `cpp` of C++, as its source has it:
/// `sum<float>(float const*, int)` of `_Z3sumIfEvPKT_i`, `kernels::sum` of
/// `_ZN7kernels3sum17h0123456789abcdefE`. None of a name that is not mangled, as those of `extern "C"`
/// are.
///
/// ```
/// let copy = warpfold_sim::demangled("_Z4copyPKfPfi");
/// assert_eq!(copy.as_deref(), Some("copy(float const*, float*, int)"));
/// assert_eq!(warpfold_sim::demangled("copy"), None);
/// ```
#[must_use]
pub fn demangled(name: &str) -> Option<String> {
    // What cpp_demangle takes without that is a type: `x` for `long long`.
    if name.len() > MOST || !(name.starts_with("_Z") || name.starts_with("_R")) {
        return None;
    }
    let mut plain = Plain(String::new());
    match rustc_demangle::try_demangle(name) {
        Ok(of_rust) => write!(plain, "{of_rust:#}").ok()?,
        #[cfg(feature = "cpp")]
        Err(_) => cpp::demangle(name, &mut plain)?,
        #[cfg(not(feature = "cpp"))]
        Err(_) => return None,
    }
    Some(plain.0).filter(|plain| plain != name)
}

/// A demangled name that refuses to become longer than [`MOST_PLAIN`].
struct Plain(String);

impl Write for Plain {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part.len() > MOST_PLAIN - self.0.len() {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Whether a mangled name is one that somebody calls so: with its parameters or without, and in Rust
/// without its modules.
pub(crate) fn is_called(mangled: &str, name: &str) -> bool {
    let Some(plain) = demangled(mangled) else { return mangled == name };
    let without = plain.split('(').next().unwrap_or_default();
    // What a template returns is part of its name.
    let without = without.strip_prefix("void ").unwrap_or(without);
    plain == name || without == name || without.rsplit("::").next() == Some(name)
}

/// A name as messages have it: [`demangled`] where it is mangled, and no longer than a line.
#[must_use]
pub fn readable(name: &str) -> Cow<'_, str> {
    match demangled(name) {
        Some(plain) => shortened(&plain).into_owned().into(),
        None => shortened(name),
    }
}

#[cfg(all(test, feature = "cpp"))]
mod tests {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn names_of_both_languages_are_as_in_their_sources() {
        let of = |name| demangled(name).expect("mangled");
        assert_eq!(of("_Z3sumIfEvPKT_i"), "void sum<float>(float const*, int)");
        assert_eq!(of("_ZN7kernels3sum17h0123456789abcdefE"), "kernels::sum");
        assert_eq!(of("_RNvCs1234_7mycrate3sum"), "mycrate::sum");
        for plain in ["sum", "x", "", "_Z", "reduce0", "_ZN", "_R"] {
            assert_eq!((demangled(plain), &*readable(plain)), (None, plain));
        }
    }

    #[test]
    fn kernels_are_called_in_several_ways() {
        let template = "_Z3sumIfEvPKT_i";
        for name in ["void sum<float>(float const*, int)", "sum<float>"] {
            assert!(is_called(template, name), "{name}");
        }
        assert!(!is_called(template, "sum"));
        let of_rust = "_ZN7kernels3sum17h0123456789abcdefE";
        assert!(is_called(of_rust, "sum") && is_called(of_rust, "kernels::sum"));
        assert!(is_called("sum", "sum") && !is_called("sum", "su"));
    }

    #[test]
    fn no_name_takes_long() {
        let parts =
            ["_Z", "_ZN", "I", "S_", "N1a", "P", "_R", "T_", "Dp", "1aI", "da", "dl", "plna", "IC1"];
        let repeated = parts.map(|part| {
            let name = format!("_Z1k{}", part.repeat(MOST / part.len()));
            name[..MOST].to_owned()
        });
        // What is tried in several ways at each depth: an operator, a type, a template's argument.
        let tried = ["da", "dl", "plna", "3abcda", "DO", "pt", "SsIfL", "1aIL"].map(|part| {
            (1..40).flat_map(move |times| {
                let part = part.repeat(times);
                ["_ZptDt", "_Z", "_Z1fDTpl"].map(|first| format!("{first}{part}sZWTc"))
            })
        });
        // Each parameter has the one before twice: 2^30 of the first one are in the last.
        let digits = ('0'..='9').chain('A'..='T');
        let doubled = digits
            .fold("_Z1f1aIiiE".to_owned(), |name, digit| name + &format!("S_IS{digit}_S{digit}_E"));
        assert_eq!(demangled(&doubled), None);
        let tried = tried.into_iter().flatten();
        for name in repeated.into_iter().chain(tried).chain([doubled]) {
            let thread_time =
                || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a time");
            let start = thread_time();
            std::hint::black_box(demangled(&name));
            let took = thread_time() - start;
            assert!(took < Duration::from_secs(2), "{took:?} for {name:.40}");
        }
        // Identifiers may have any letters.
        let data = "data".repeat(11);
        assert_eq!(demangled(&format!("_Z44{data}Pi")), Some(format!("{data}(int*)")));
        assert!(readable(&"x".repeat(5000)).chars().count() <= 301);
    }
}
