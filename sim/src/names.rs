//! Names of kernels and functions as their sources have them.

use std::borrow::Cow;

use crate::error::shortened;

/// Bytes of a name that is looked at, at most.
const MOST: usize = 4096;

/// A name of Rust or C++ as its source has it: `sum<float>(float const*, int)` of
/// `_Z3sumIfEvPKT_i`, `kernels::sum` of `_ZN7kernels3sum17h0123456789abcdefE`. None of a name that is
/// not mangled, as those of `extern "C"` are.
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
    if let Ok(of_rust) = rustc_demangle::try_demangle(name) {
        return Some(format!("{of_rust:#}"));
    }
    cpp_demangle::Symbol::new(name).ok()?.demangle().ok().filter(|of_cpp| of_cpp != name)
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

#[cfg(test)]
mod tests {
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
        for part in ["_Z", "_ZN", "I", "S_", "N1a", "P", "_R", "T_", "Dp", "1aI"] {
            let name = format!("_Z1k{}", part.repeat(MOST / part.len()));
            let start = std::time::Instant::now();
            std::hint::black_box(demangled(&name[..MOST]));
            assert!(start.elapsed().as_secs_f64() < 1.0, "{part}");
        }
        assert!(readable(&"x".repeat(5000)).chars().count() <= 301);
    }
}
