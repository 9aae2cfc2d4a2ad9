//! SARIF 2.1.0, a format of findings for code review.

use std::path::Path;

use serde_json::{Value, json};

use crate::diagnostic::{Diagnostic, Place, Spot};
use crate::rules::{Level, RULES};

pub const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Returns the findings as the log of one run; each is paired with the reason for its suppression, if
/// any. Paths below `root` are relative to it. If the PTX has no line information, locations are lines
/// of `ptx`.
#[must_use]
pub fn sarif(found: &[(Diagnostic, Option<String>)], root: &Path, ptx: &str) -> Value {
    let rule = |rule: &crate::Rule| {
        json!({
            "id": rule.id,
            "shortDescription": { "text": rule.is },
            "help": { "text": rule.help },
            "defaultConfiguration": { "level": level(rule.level) },
        })
    };
    let results: Vec<Value> = found
        .iter()
        .map(|(found, suppressed)| result(found, suppressed.as_deref(), root, ptx))
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "warpfold-sim",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
            }},
            "originalUriBaseIds": { "SRCROOT": { "uri": format!("{}/", file_uri(&root.to_string_lossy())) } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
    }
}

fn result(found: &Diagnostic, suppressed: Option<&str>, root: &Path, ptx: &str) -> Value {
    let rule = found.kind();
    let times = if found.count > 1 { format!(", {} times", found.count) } else { String::new() };
    let of_kernel =
        if found.kernel.is_empty() { String::new() } else { format!(" in kernel `{}`", found.name()) };
    let mut result = json!({
        "ruleId": rule.id,
        "ruleIndex": rule.index(),
        "level": level(rule.level),
        "message": { "text": format!("{}{of_kernel}{times}", found.message) },
        // The fingerprint contains no line numbers, so that it survives edits elsewhere in the file.
        "partialFingerprints": { "kernelAndInstructions/v1": fingerprint(found) },
    });
    let ptx_spot = |place: &Place| Spot { file: ptx.to_owned(), line: place.ptx_line, column: 0 };
    let known = |place: &Place| place.user.clone().unwrap_or_else(|| ptx_spot(place));
    if let Some(first) = found.places.first() {
        result["locations"] = json!([location(&known(first), Some(&told(first)), root)]);
        let calls = first.chain.iter().filter(|spot| first.user.as_ref() != Some(spot));
        let calls = calls.map(|spot| location(spot, Some("an inlined location or a caller"), root));
        let others =
            found.places[1..].iter().map(|place| location(&known(place), Some(&told(place)), root));
        let mut related: Vec<Value> = others.chain(calls).collect();
        for (id, place) in related.iter_mut().enumerate() {
            place["id"] = json!(id);
        }
        result["relatedLocations"] = json!(related);
    }
    if let Some(reason) = suppressed {
        result["suppressions"] = json!([{ "kind": "external", "justification": reason }]);
    }
    result
}

fn told(place: &Place) -> String {
    let ([bx, by, bz], [tx, ty, tz]) = (place.block, place.thread);
    let Place { part, ptx_line, instruction, .. } = place;
    format!(
        "{part}: block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), PTX line {ptx_line}, `{instruction}`"
    )
}

fn location(spot: &Spot, message: Option<&str>, root: &Path) -> Value {
    let inside = Path::new(&spot.file).strip_prefix(root).ok();
    let is_relative = Path::new(&spot.file).is_relative();
    let artifact = match inside {
        Some(inside) => json!({ "uri": encoded(&inside.to_string_lossy()), "uriBaseId": "SRCROOT" }),
        None if is_relative => json!({ "uri": encoded(&spot.file), "uriBaseId": "SRCROOT" }),
        None => json!({ "uri": file_uri(&spot.file) }),
    };
    let mut region = json!({ "startLine": spot.line });
    if spot.column != 0 {
        region["startColumn"] = json!(spot.column);
    }
    let mut location = json!({ "physicalLocation": { "artifactLocation": artifact, "region": region } });
    if let Some(message) = message {
        location["message"] = json!({ "text": message });
    }
    location
}

fn file_uri(path: &str) -> String {
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("file://{slash}{}", encoded(path))
}

/// Percent-encodes a path for a URI.
fn encoded(path: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'+' => {
            char::from(byte).to_string()
        }
        b'\\' => "/".to_owned(),
        _ => format!("%{byte:02X}"),
    };
    path.bytes().map(byte).collect()
}

/// Returns the FNV-1a hash of a finding without its lines and addresses.
fn fingerprint(found: &Diagnostic) -> String {
    let parts = [found.rule.as_str(), found.kernel.as_str()].into_iter();
    let instructions = found.places.iter().map(|place| place.instruction.as_str());
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.chain(instructions).flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}
