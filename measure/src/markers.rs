//! Parts of documents between markers, `<!-- KIND: NAME -->` and an end.

use anyhow::{Context, Result, ensure};

/// Replaces the text between markers. The first marker is `start`, a name and ` -->`; the second one is
/// `end`. The new text is `new(name, old text)`. Returns an error if a marker has no counterpart.
pub(crate) fn replace(
    text: &str,
    start: &str,
    end: &str,
    new: impl Fn(&str, &str) -> Result<String>,
) -> Result<String> {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, marked)) = rest.split_once(start) {
        let (marker, after) =
            marked.split_once("-->").with_context(|| format!("{start} without -->"))?;
        let name = marker.trim();
        let inside = after.find(start).unwrap_or(after.len());
        let (old, _) =
            after[..inside].split_once(end).with_context(|| format!("`{name}` has no {end}"))?;
        let new = new(name, old).with_context(|| format!("`{name}`"))?;
        done += &format!("{before}{start}{marker}-->{new}{end}");
        rest = &after[old.len() + end.len()..];
    }
    ensure!(!rest.contains(end), "{end} without a beginning");
    Ok(done + rest)
}
