//! Packs PTX texts into the archive that `warpfold`'s `archive` module reads, and unpacks it.

use std::{collections::HashMap, iter};

use anyhow::{Result, bail, ensure};
use rayon::prelude::*;
use warpfold::internal::archive::{Archive, FRAME, HEAD, SKIPPABLE, class};

use super::File;

/// Maximum bytes of text in a frame, unless one text alone is longer. The first call of a kernel
/// decompresses a whole frame.
const FRAME_TEXT: usize = 4 << 20;

/// Higher levels do not reduce the size.
const LEVEL: i32 = 19;

/// Returns a text in the form that archives store: numbers of registers and labels become `+` or a
/// distance, as the library's `archive` module describes. Fails for a `$` that does not begin a label.
pub(super) fn encoded(text: &str) -> Result<String> {
    let mut encoded = String::with_capacity(text.len());
    let mut classes: HashMap<&str, HashMap<&str, usize>> = HashMap::new();
    let mut labels = HashMap::new();
    let mut rest = text;
    while let Some(start) = rest.find(['%', '$']) {
        let (before, after) = (&rest[..=start], &rest[start + 1..]);
        encoded.push_str(before);
        rest = after;
        let end = |in_name: fn(char) -> bool| after.find(|c| !in_name(c)).unwrap_or(after.len());
        let (kind, numbers, end) = if before.ends_with('$') {
            let end = end(|c| c.is_ascii_alphanumeric() || c == '_');
            if !after.starts_with('L') {
                bail!("`${}` is not a label; teach embed-ptx to keep it", &after[..end]);
            }
            ("", &mut labels, end)
        } else {
            let (name, behind) = class(after);
            if behind.starts_with('<') {
                classes.insert(name, HashMap::new());
            }
            let Some(numbers) = classes.get_mut(name) else { continue };
            let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            if digits == 0 {
                continue;
            }
            (name, numbers, name.len() + digits)
        };
        let count = numbers.len();
        let number = *numbers.entry(&after[..end]).or_insert(count);
        encoded.push_str(kind);
        match number {
            new if new == count => encoded.push('+'),
            old => encoded.push_str(&(count - 1 - old).to_string()),
        }
        rest = &after[end..];
    }
    encoded.push_str(rest);
    Ok(encoded)
}

/// Packs files, in ascending order of their names, into an archive. The bytes depend only on the release
/// of zstd in Cargo.lock. Frames that the previous archive has are copied from it.
///
/// Fails for files that the library would read back differently: invalid names or names that do not
/// ascend, a text that is too long, and a text whose registers and labels are not numbered from 1 in
/// order of appearance.
pub(super) fn pack(files: &[File], previous: &[u8]) -> Result<Vec<u8>> {
    for pair in files.windows(2) {
        ensure!(pair[0].0 < pair[1].0, "`{}` comes before `{}`", pair[0].0, pair[1].0);
    }
    let mut index = format!("{HEAD}\n");
    let kept = |(name, text): &File| Ok((name.clone(), encoded(text)?));
    let mut kept: Vec<File> = files.par_iter().map(kept).collect::<Result<_>>()?;
    kept.sort_by(|(a, _), (b, _)| similarity(a).cmp(&similarity(b)));
    let groups: Vec<&[File]> = groups(&kept).collect();
    let previous = frames(previous);
    let compressed = groups.par_iter().map(|group| {
        let text: String = group.iter().map(|(_, text)| text.as_str()).collect();
        match previous.get(text.as_bytes()) {
            Some(frame) => Ok(frame.to_vec()),
            None => Ok(zstd::bulk::compress(text.as_bytes(), LEVEL)?),
        }
    });
    let mut frames = Vec::new();
    for (group, frame) in groups.iter().zip(compressed.collect::<Result<Vec<_>>>()?) {
        index += &format!("{FRAME} {}\n", frame.len());
        index.extend(group.iter().map(|(name, text)| format!("{name} {}\n", text.len())));
        frames.extend(frame);
    }
    let len = u32::try_from(index.len())?.to_le_bytes();
    let archive = [&SKIPPABLE[..], &len, index.as_bytes(), &frames].concat();
    ensure!(unpack(&archive)? == files, "the archive has other files than it was made of");
    Ok(archive)
}

/// Returns the frames of an archive by their text; an empty map for a damaged archive.
fn frames(archive: &[u8]) -> HashMap<Vec<u8>, &[u8]> {
    let Ok(archive) = Archive::open(archive) else { return HashMap::new() };
    archive.frames().filter_map(Result::ok).map(|(frame, text)| (text, frame)).collect()
}

/// Returns a sort key for names such as `reducer_nansum_f32` that puts similar texts into one frame:
/// first by element size, then by operation without its modifiers.
fn similarity(name: &str) -> impl Ord {
    let mut words = name.rsplit('_');
    let dtype = words.next().unwrap_or_default();
    let op = words.next().unwrap_or_default();
    let bits: u32 = dtype.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse().unwrap_or(0);
    let kind = op.trim_start_matches("nan").trim_start_matches("bin");
    (bits, kind, op, dtype, name)
}

/// Returns the files of an archive in ascending order of their names.
pub(super) fn unpack(archive: &[u8]) -> Result<Vec<File>> {
    let texts = Archive::open(archive)?.texts()?;
    let mut files: Vec<File> = texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    files.sort();
    Ok(files)
}

/// Splits files into frames: as many files as fit, and at least one.
fn groups(files: &[File]) -> impl Iterator<Item = &[File]> {
    let mut rest = files;
    iter::from_fn(move || {
        let mut bytes = 0;
        let fit = rest.iter().take_while(|(_, text)| {
            bytes += text.len();
            bytes <= FRAME_TEXT
        });
        let count = fit.count().max(1);
        let (group, behind) = rest.split_at_checked(count)?;
        rest = behind;
        Some(group)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::workspace::Workspace;
    use warpfold::internal::archive::decoded;

    use super::*;
    use crate::embed_ptx::places;

    fn file(name: &str, text: impl Into<String>) -> File {
        (name.to_owned(), text.into())
    }

    fn index_len(archive: &[u8]) -> usize {
        u32::from_le_bytes(archive[4..8].try_into().unwrap()) as usize
    }

    /// Returns the names of each frame, from the index.
    fn names(archive: &[u8]) -> Vec<Vec<&str>> {
        let index = std::str::from_utf8(&archive[8..8 + index_len(archive)]).unwrap();
        let mut frames = Vec::<Vec<&str>>::new();
        for (name, _) in index.lines().skip(1).map(|line| line.split_once(' ').unwrap()) {
            match name {
                FRAME => frames.push(Vec::new()),
                name => frames.last_mut().unwrap().push(name),
            }
        }
        frames
    }

    #[test]
    fn as_many_texts_share_a_frame_as_fit() {
        let half = "x".repeat(FRAME_TEXT / 2);
        let files = [
            file("a", half.clone()),
            file("b", half.clone()),
            file("c", "y"),
            file("d", half.clone() + &half + "z"),
            file("e", ""),
        ];
        let archive = pack(&files, &[]).unwrap();
        assert_eq!(names(&archive), [&["a", "b"][..], &["c"], &["d"], &["e"]]);
        assert_eq!(unpack(&archive).unwrap(), files);
        assert_eq!(unpack(&pack(&[], &[]).unwrap()).unwrap(), []);
    }

    #[test]
    fn a_frame_of_the_previous_archive_is_copied() {
        let files = ["a", "b"].map(|name| file(name, name.repeat(FRAME_TEXT)));
        // The same texts, compressed otherwise.
        let mut previous = pack(&files[..1], &[]).unwrap();
        let frame = zstd::bulk::compress(files[0].1.as_bytes(), 1).unwrap();
        let index = format!("{HEAD}\n{FRAME} {}\na {FRAME_TEXT}\n", frame.len());
        previous.truncate(4);
        previous.extend((index.len() as u32).to_le_bytes());
        previous.extend(index.bytes().chain(frame.iter().copied()));
        let packed = pack(&files, &previous).unwrap();
        assert_eq!(unpack(&packed).unwrap(), files);
        assert!(packed.windows(frame.len()).any(|bytes| bytes == frame));
        for damaged in [&previous[..6], &previous[..20], &previous[..previous.len() - 1]] {
            assert_eq!(pack(&files, damaged).unwrap(), pack(&files, &[]).unwrap());
        }
    }

    #[test]
    fn a_text_without_numbers_is_read_with_those_of_the_order_of_appearance() {
        let text = ".reg .b32 %r<9>;\n$L__BB0_7:\nmov.u32 %r5, %tid.x;\nadd.s32 %r2, %r5, %clock64;\n\
            @%p1 bra $L__BB0_7;\nbra $L__BB0_2;\n.reg .b32 %r<2>;\nmov.b32 %r1, 2;\n";
        let kept = ".reg .b32 %r<9>;\n$+:\nmov.u32 %r+, %tid.x;\nadd.s32 %r+, %r1, %clock64;\n\
            @%p1 bra $0;\nbra $+;\n.reg .b32 %r<2>;\nmov.b32 %r+, 2;\n";
        assert_eq!(encoded(text).unwrap(), kept);
        let read = decoded(kept).unwrap();
        assert_eq!(
            read,
            text.replace("%r5", "%r1")
                .replace("add.s32 %r2, %r5", "add.s32 %r2, %r1")
                .replace("L__BB0_7", "L1")
                .replace("L__BB0_2", "L2")
        );
        assert_eq!(
            (encoded(&read).unwrap(), decoded(&encoded(&read).unwrap()).unwrap()),
            (kept.to_owned(), read)
        );
        assert!(
            encoded("mov.u64 %rd1, name$x;").unwrap_err().to_string().starts_with("`$x` is not a label")
        );
    }

    #[test]
    fn what_the_library_could_not_read_is_not_written() {
        let refused = |names: &[&str]| {
            let files: Vec<File> = names.iter().map(|name| file(name, "text")).collect();
            pack(&files, &[]).unwrap_err().to_string()
        };
        assert!(refused(&["b", "a"]).contains("`b` comes before `a`"));
        assert!(refused(&["a", "a"]).contains("`a` comes before `a`"));
        assert!(refused(&["../a"]).contains("`../a 4` is not a name"));
        assert!(refused(&["a", FRAME]).contains("damaged"));
    }

    /// Only the first frames, because compression takes seconds.
    #[test]
    fn what_the_library_embeds_is_made_of_its_texts_again_byte_by_byte() {
        let kept = fs::read(&places(&Workspace::locate().unwrap())[0]).unwrap();
        let mut files = unpack(&kept).unwrap();
        files.sort_by(|(a, _), (b, _)| similarity(a).cmp(&similarity(b)));
        let encoded: Vec<File> =
            files.iter().take(400).map(|(name, text)| file(name, encoded(text).unwrap())).collect();
        let some = groups(&encoded).take(2).map(<[File]>::len).sum();
        files.truncate(some);
        files.sort();
        let again = pack(&files, &[]).unwrap();
        // Skips the index.
        let frames = |archive: &[u8]| archive[8 + index_len(archive)..].to_vec();
        assert!(
            frames(&kept).starts_with(&frames(&again)),
            "another release of zstd? write it with `cargo xtask embed-ptx --repack`"
        );
    }
}
