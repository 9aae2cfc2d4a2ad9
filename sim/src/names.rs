//! Demangled names of kernels and functions.

use std::borrow::Cow;
use std::fmt::{self, Write};

use crate::error::shortened;

#[cfg(feature = "cpp")]
mod cpp;

const MOST: usize = 4096;
/// Maximum bytes of a demangled name. Back-references make its length exponential: a mangled name of 240
/// bytes can give 2^80.
const MOST_PLAIN: usize = 4 * MOST;

/// Returns the source name of a mangled Rust name, or with the feature `cpp` of a C++ name:
/// `sum<float>(float const*, int)` for `_Z3sumIfEvPKT_i`, `kernels::sum` for
/// `_ZN7kernels3sum17h0123456789abcdefE`. Returns `None` for a name that is not mangled, such as that of
/// an `extern "C"` function.
///
/// ```
/// let copy = warpfold_sim::demangled("_Z4copyPKfPfi");
/// assert_eq!(copy.as_deref(), Some("copy(float const*, float*, int)"));
/// assert_eq!(warpfold_sim::demangled("copy"), None);
/// ```
#[must_use]
pub fn demangled(name: &str) -> Option<String> {
    // Without such a prefix, cpp_demangle parses the name as a type: `x` as `long long`.
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

/// A demangled name; writing fails past [`MOST_PLAIN`] bytes.
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

/// Returns whether `name` denotes a mangled name: with its parameters or without, and in Rust without
/// its modules.
pub(crate) fn is_called(mangled: &str, name: &str) -> bool {
    let Some(plain) = demangled(mangled) else { return mangled == name };
    let without = plain.split('(').next().unwrap_or_default();
    // The demangled name of a template starts with its return type.
    let without = without.strip_prefix("void ").unwrap_or(without);
    plain == name || without == name || without.rsplit("::").next() == Some(name)
}

/// Returns a name for messages, [`demangled`] if possible, and of limited length.
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
    fn cpp_and_rust_names_are_demangled() {
        let of = |name| demangled(name).expect("mangled");
        assert_eq!(of("_Z3sumIfEvPKT_i"), "void sum<float>(float const*, int)");
        assert_eq!(of("_ZN7kernels3sum17h0123456789abcdefE"), "kernels::sum");
        assert_eq!(of("_RNvCs1234_7mycrate3sum"), "mycrate::sum");
        for plain in ["sum", "x", "", "_Z", "reduce0", "_ZN", "_R"] {
            assert_eq!((demangled(plain), &*readable(plain)), (None, plain));
        }
    }

    #[test]
    fn kernels_match_full_and_short_names() {
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
    fn demangling_time_is_bounded() {
        let parts =
            ["_Z", "_ZN", "I", "S_", "N1a", "P", "_R", "T_", "Dp", "1aI", "da", "dl", "plna", "IC1"];
        let repeated = parts.map(|part| {
            let name = format!("_Z1k{}", part.repeat(MOST / part.len()));
            name[..MOST].to_owned()
        });
        // Constructs that the parser tries in several ways at each depth: an operator, a type, a
        // template argument.
        let tried = ["da", "dl", "plna", "3abcda", "DO", "pt", "SsIfL", "1aIL"].map(|part| {
            (1..40).flat_map(move |times| {
                let part = part.repeat(times);
                ["_ZptDt", "_Z", "_Z1fDTpl"].map(|first| format!("{first}{part}sZWTc"))
            })
        });
        // Each parameter repeats the previous one twice, so the last has 2^30 copies of the first.
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
        // The `da` of an identifier is not counted as a `delete[]`.
        let data = "data".repeat(11);
        assert_eq!(demangled(&format!("_Z44{data}Pi")), Some(format!("{data}(int*)")));
        assert!(readable(&"x".repeat(5000)).chars().count() <= 301);
    }
}
