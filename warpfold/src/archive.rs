//! The archives of PTX that the library embeds: the files of `ptx/`.
//!
//! An archive is a Zstandard stream (RFC 8878). Its first frame is a skippable one that holds the index:
//!
//! ```text
//! warpfold ptx 2
//! frame 51234
//! reducer_argmax_bf16 18322
//! reducer_argmax_f16 19002
//! frame 48111
//! reducer_max_f32 9120
//! ```
//!
//! A `frame` line gives the size in bytes of the next compressed frame. The lines below it name the
//! texts of that frame, in order, with their sizes in the decompressed frame. Similar texts are
//! neighbours, so that they compress well. Reading a text decompresses its frame up to the end of the
//! text.
//!
//! Two kernels that differ in one instruction differ in the number of every later register and label.
//! Texts are therefore stored without these numbers, as `zstd -dc` prints them, and [`decoded`] restores
//! them. `+` stands for the next number of a register class, or for the next label. A number d stands
//! for the register or label d before the newest of its class: `%r0` is the newest register `%r`, and
//! `$0` the newest label. Numbers begin at 1. Register numbers restart in each function, at the
//! declaration of the class, such as `%r<9>`.

use std::{
    error::Error,
    fmt,
    io::{self, Read},
    ops::Range,
};

use memchr::memchr2;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// The first line of an index.
pub const HEAD: &str = "warpfold ptx 2";

/// The first word of a frame's line in the index; no text may have this name.
pub const FRAME: &str = "frame";

/// The magic number of a skippable frame, little-endian.
pub const SKIPPABLE: [u8; 4] = 0x184D_2A50_u32.to_le_bytes();

/// Maximum size in bytes of a decompressed frame. It limits the work of reading one text, whose frame is
/// decompressed up to its end. [`decoded`] texts are longer.
pub const MAX_TEXT: usize = 16 << 20;

/// The reason why an archive cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged(String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the archive is damaged: {}", self.0)
    }
}

impl Error for Damaged {}

type Result<T> = std::result::Result<T, Damaged>;

fn damaged<T>(what: impl Into<String>) -> Result<T> {
    Err(Damaged(what.into()))
}

/// An archive whose index agrees with the sizes of its frames.
#[derive(Debug)]
pub struct Archive<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Debug)]
struct Frame<'a> {
    compressed: &'a [u8],
    files: Vec<File<'a>>,
}

#[derive(Debug)]
struct File<'a> {
    name: &'a str,
    place: Range<usize>,
}

impl<'a> Archive<'a> {
    /// Reads the index of an archive without decompressing any frame.
    ///
    /// # Errors
    /// [`Damaged`] for an index that cannot be read or disagrees with the size of the archive, and for
    /// more than [`MAX_TEXT`] bytes in a frame.
    pub fn open(archive: &'a [u8]) -> Result<Self> {
        let (index, mut rest) = split(archive)?;
        let mut lines = index.lines();
        if lines.next() != Some(HEAD) {
            return damaged(format!("its first line is not `{HEAD}`"));
        }
        let mut frames = Vec::new();
        for line in lines {
            let (name, number) = entry(line)?;
            if name == FRAME {
                let Some((compressed, behind)) = rest.split_at_checked(number) else {
                    return damaged(format!("`{line}` exceeds the {} bytes that are left", rest.len()));
                };
                rest = behind;
                frames.push(Frame { compressed, files: Vec::new() });
                continue;
            }
            let Some(frame) = frames.last_mut() else {
                return damaged(format!("`{name}` precedes the first frame"));
            };
            frame.push(name, number)?;
        }
        if !rest.is_empty() {
            return damaged(format!("{} bytes follow its last frame", rest.len()));
        }
        Ok(Self { frames })
    }

    /// Returns the names of all texts.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.frames.iter().flat_map(|frame| &frame.files).map(|file| file.name)
    }

    /// Returns each frame, compressed and decompressed.
    ///
    /// # Errors
    /// The errors of [`Self::text`].
    pub fn frames(&self) -> impl Iterator<Item = Result<(&'a [u8], Vec<u8>)>> {
        let read = |frame: &Frame<'a>| Ok((frame.compressed, frame.decompressed(frame.text_len())?));
        self.frames.iter().map(read)
    }

    /// Returns the text with this name, or `None` if the archive does not have it.
    ///
    /// # Errors
    /// [`Damaged`] if the frame does not decompress to the size in the index.
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        let of_name = |frame: &'_ &Frame<'_>| frame.files.iter().any(|file| file.name == name);
        let Some(frame) = self.frames.iter().find(of_name) else { return Ok(None) };
        let texts = frame.texts(|file| file.name == name)?;
        Ok(texts.into_iter().next().map(|(_, text)| text))
    }

    /// Returns every name with its text.
    ///
    /// # Errors
    /// The errors of [`Self::text`].
    pub fn texts(&self) -> Result<Vec<(&'a str, String)>> {
        let mut texts = Vec::new();
        for frame in &self.frames {
            texts.extend(frame.texts(|_| true)?);
        }
        Ok(texts)
    }
}

impl<'a> Frame<'a> {
    fn text_len(&self) -> usize {
        self.files.last().map_or(0, |file| file.place.end)
    }

    fn push(&mut self, name: &'a str, len: usize) -> Result<()> {
        let start = self.text_len();
        let Some(end) = start.checked_add(len).filter(|end| *end <= MAX_TEXT) else {
            return damaged(format!("with `{name}` a frame has more than {MAX_TEXT} bytes of text"));
        };
        self.files.push(File { name, place: start..end });
        Ok(())
    }

    fn texts(&self, wanted: impl Fn(&File<'_>) -> bool) -> Result<Vec<(&'a str, String)>> {
        let wanted: Vec<&File<'a>> = self.files.iter().filter(|file| wanted(file)).collect();
        let bytes = self.decompressed(wanted.last().map_or(0, |file| file.place.end))?;
        let text = |file: &File<'a>| match std::str::from_utf8(&bytes[file.place.clone()]) {
            Ok(text) => match decoded(text) {
                Some(text) => Ok((file.name, text)),
                None => damaged(format!("{}: a register or label has a number below 1", file.name)),
            },
            Err(error) => damaged(format!("{}: {error}", file.name)),
        };
        wanted.into_iter().map(text).collect()
    }

    fn decompressed(&self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        let mut read = || -> io::Result<u64> {
            let mut decoder = FrameDecoder::new();
            decoder.set_max_window_size(MAX_TEXT as u64);
            let mut text = StreamingDecoder::new_with_decoder(self.compressed, decoder)
                .map_err(io::Error::other)?;
            text.by_ref().take(len as u64).read_to_end(&mut bytes)?;
            let rest = u64::from(len == self.text_len());
            io::copy(&mut text.take(rest), &mut io::sink())
        };
        match read() {
            Ok(0) if bytes.len() == len => Ok(bytes),
            Ok(0) => damaged(format!("a frame has {} bytes of text instead of {len}", bytes.len())),
            Ok(_) => damaged(format!("a frame of {len} bytes of text has more")),
            Err(error) => damaged(format!("a frame of {len} bytes of text cannot be read: {error}")),
        }
    }
}

/// Returns a stored text with its registers and labels numbered, or `None` if a register or label would
/// have a number below 1.
pub fn decoded(text: &str) -> Option<String> {
    let mut decoded = String::with_capacity(text.len() * 5 / 4);
    let mut classes: Vec<(&str, u32)> = Vec::new();
    let mut labels = 0;
    let mut rest = text;
    // `memchr2` is optimized in debug builds, too, in which tests decode hundreds of megabytes.
    while let Some(start) = memchr2(b'%', b'$', rest.as_bytes()) {
        let (before, sigil, after) = (&rest[..start], rest.as_bytes()[start], &rest[start + 1..]);
        decoded.push_str(before);
        decoded.push(char::from(sigil));
        rest = after;
        let (name, behind, count) = if sigil == b'$' {
            ("L", after, &mut labels)
        } else {
            let (name, behind) = class(after);
            if behind.starts_with('<') {
                // Each function declares its own registers.
                classes.retain(|(class, _)| *class != name);
                classes.push((name, 0));
            }
            let Some((_, count)) = classes.iter_mut().find(|(class, _)| *class == name) else {
                continue;
            };
            (name, behind, count)
        };
        if let Some((number, behind)) = numbered(behind, count)? {
            decoded.push_str(name);
            decoded.push_str(&number.to_string());
            rest = behind;
        }
    }
    decoded.push_str(rest);
    Some(decoded)
}

/// Splits text into the name of a register class and the rest.
pub fn class(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(text.len()))
}

/// Parses, at the start of `text`, `+` (the next number) or a distance from the newest number, `count`.
/// Returns the number and the rest of the text; `Some(None)` if the text begins with neither; and `None`
/// if the number would be below 1.
fn numbered<'t>(text: &'t str, count: &mut u32) -> Option<Option<(u32, &'t str)>> {
    if let Some(behind) = text.strip_prefix('+') {
        *count = count.checked_add(1)?;
        return Some(Some((*count, behind)));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (distance, behind) = text.split_at(digits);
    let Ok(distance) = distance.parse::<u32>() else { return Some(None) };
    let number = count.checked_sub(distance).filter(|number| *number > 0)?;
    Some(Some((number, behind)))
}

fn split(archive: &[u8]) -> Result<(&str, &[u8])> {
    let parts = || {
        let (magic, rest) = archive.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        (*magic == SKIPPABLE).then_some(())?;
        rest.split_at_checked(len)
    };
    let Some((index, rest)) = parts() else { return damaged("it does not begin with an index") };
    match std::str::from_utf8(index) {
        Ok(index) => Ok((index, rest)),
        Err(error) => damaged(format!("its index: {error}")),
    }
}

/// Parses a text's name, which must be valid as a file name, and the number after it.
fn entry(line: &str) -> Result<(&str, usize)> {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let (name, number) = line.split_once(' ').unwrap_or_default();
    match number.parse() {
        Ok(number) if !name.is_empty() && !name.starts_with('.') && name.bytes().all(of_name) => {
            Ok((name, number))
        }
        _ => damaged(format!("`{line}` is not a name and a number of bytes")),
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// Builds an archive from an index, whose `{0}` and `{1}` become frame sizes, and a text per frame.
    fn archive(index: &str, texts: [&str; 2]) -> Vec<u8> {
        let frames = texts.map(|text| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest));
        let mut index = index.to_owned();
        for (place, frame) in ["{0}", "{1}"].into_iter().zip(&frames) {
            index = index.replace(place, &frame.len().to_string());
        }
        let len = u32::try_from(index.len()).unwrap().to_le_bytes();
        [&SKIPPABLE[..], &len, index.as_bytes(), &frames[0], &frames[1]].concat()
    }

    const INDEX: &str = "warpfold ptx 2\nframe {0}\na 3\nb 0\nc 2\nframe {1}\nd 1\n";
    const TEXTS: [&str; 2] = ["onetw", "3"];

    #[test]
    fn texts_are_read_at_their_offsets_in_their_frames() {
        let archive = archive(INDEX, TEXTS);
        let archive = Archive::open(&archive).unwrap();
        let expected = [("a", "one"), ("b", ""), ("c", "tw"), ("d", "3")];
        let all = archive.texts().unwrap();
        assert!(all.iter().map(|(name, text)| (*name, &**text)).eq(expected), "{all:?}");
        for (name, text) in expected {
            assert_eq!(archive.text(name).unwrap().as_deref(), Some(text), "{name}");
        }
        assert_eq!(archive.text("e"), Ok(None));
    }

    #[test]
    fn registers_and_labels_are_numbered_by_appearance() {
        let kept = ".entry a()\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\n$+:\nmov.u32 %r+, %tid.x;\nadd %r+, %r1, 7;\n\
            setp %p+, %r0, %r1;\n@%p0 bra $+;\nbra $1;\n$0:\n.entry b()\n.reg .b32 %r<2>;\nmov %r+, 1;\nbra $+;\n";
        let read = ".entry a()\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\n$L1:\nmov.u32 %r1, %tid.x;\nadd %r2, %r1, 7;\n\
            setp %p1, %r2, %r1;\n@%p1 bra $L2;\nbra $L1;\n$L2:\n.entry b()\n.reg .b32 %r<2>;\nmov %r1, 1;\nbra $L3;\n";
        assert_eq!(decoded(kept).as_deref(), Some(read));
        // Registers of undeclared classes stay as they are, as does `$` without a distance or `+`.
        for same in ["", "%r+ %r1 %", "%clock64 $ $x $L", "%r<"] {
            assert_eq!(decoded(same).as_deref(), Some(same));
        }
        for damaged in ["%r<1>%r0", "%r<1>%r+%r1", "$0", "$+$1", "$+$4294967295"] {
            assert_eq!(decoded(damaged), None, "{damaged}");
        }
        // A distance that exceeds `u32` stays as it is.
        assert_eq!(decoded("$+$4294967296").as_deref(), Some("$L1$4294967296"));
    }

    #[test]
    fn empty_archive_is_valid() {
        let archive = Archive { frames: Vec::new() };
        assert_eq!((archive.texts(), archive.text("a")), (Ok(Vec::new()), Ok(None)));
        let bytes = [&SKIPPABLE[..], &15_u32.to_le_bytes(), b"warpfold ptx 2\n"].concat();
        assert!(Archive::open(&bytes).unwrap().frames.is_empty());
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(INDEX.contains(from), "{from}");
        Archive::open(&archive(&INDEX.replace(from, to), TEXTS)).unwrap_err().to_string()
    }

    #[test]
    fn open_rejects_an_index_that_disagrees_with_the_archive() {
        let says = |from, to, expected: &str| {
            let said = refused(from, to);
            assert!(said.starts_with("the archive is damaged: ") && said.contains(expected), "{said}");
        };
        says("ptx 2", "ptx 1", "`warpfold ptx 2`");
        says("frame {1}", "frame 999999", "`frame 999999` exceeds the ");
        says("frame {1}", "frame 0", "bytes follow its last frame");
        says("frame {0}\n", "", "`a` precedes the first frame");
        says("d 1", "d 16777217", "with `d` a frame has more than 16777216 bytes");
        says("c 2", "c 16777214", "with `c` a frame has more than 16777216 bytes");
        says("c 2", "c 18446744073709551615", "with `c` a frame has more than 16777216 bytes");
        for line in ["c", "c ", "c -2", "c 2 2", " 2", ".c 2", "../c 2", "c/d 2", ""] {
            says("c 2", line, &format!("`{line}` is not a name and a number"));
        }
        Archive::open(&archive(&INDEX.replace("d 1", "d 16777216"), TEXTS)).unwrap();
    }

    #[test]
    fn text_rejects_a_frame_that_disagrees_with_the_index() {
        let says = |index: &str, texts, expected: &str| {
            let archive = archive(index, texts);
            let archive = Archive::open(&archive).unwrap();
            let said = archive.text("d").unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
            assert_eq!(archive.texts().unwrap_err().to_string(), said);
        };
        says(INDEX, ["onetw", ""], "0 bytes of text instead of 1");
        says(INDEX, ["onetw", "34"], "a frame of 1 bytes of text ");
        says(&INDEX.replace("d 1", "d 1\ne 1"), ["onetw", "é"], "d: incomplete utf-8");
    }

    #[test]
    fn a_window_beyond_the_bound_is_refused() {
        // A frame header that asks for a window of 2^26 bytes, and a last block of one byte.
        let frame = [0x28, 0xB5, 0x2F, 0xFD, 0, 16 << 3, 9, 0, 0, b'x'];
        let index = b"warpfold ptx 2\nframe 10\nd 1\n";
        let archive =
            |frame: &[u8]| [&SKIPPABLE[..], &(index.len() as u32).to_le_bytes(), index, frame].concat();
        let said = Archive::open(&archive(&frame)).unwrap().text("d").unwrap_err().to_string();
        assert!(said.contains("indow"), "{said}");
        let mut small = frame;
        small[5] = 0;
        assert_eq!(Archive::open(&archive(&small)).unwrap().text("d"), Ok(Some("x".to_owned())));
    }

    #[test]
    fn truncated_and_corrupted_archives_do_not_panic() {
        let whole = archive(INDEX, TEXTS);
        for len in 0..whole.len() {
            assert!(Archive::open(&whole[..len]).is_err(), "{len} bytes");
        }
        for place in 0..whole.len() {
            for value in 0..=u8::MAX {
                let mut changed = whole.clone();
                changed[place] = value;
                let opened = Archive::open(&changed);
                assert!(place >= SKIPPABLE.len() || value == whole[place] || opened.is_err());
                let Ok(archive) = opened else { continue };
                // A changed byte may yield another text or an error.
                let texts = archive.texts();
                assert!(value != whole[place] || texts.is_ok());
            }
        }
    }
}
