//! Fat binaries, which NVIDIA's tools embed in programs: PTX and machine code for several kinds of
//! device, each compressed or not.
//!
//! NVIDIA does not document the layout. The fields read here were observed in the output of nvcc 12 and
//! 13 with each `--compress-mode`: a header of 16 bytes, which gives the number of bytes after it, and
//! parts, each with a header of its own.

use std::{cmp::Reverse, error, fmt, io::Read};

use warpfold_ptx::Arch;

/// The newest target that simulated devices run unless `WARPFOLD_SIM_CAPABILITY` chooses another.
pub const NEWEST_TARGET: u32 = Arch::SIMULATED.number();
/// The first bytes of a fat binary.
pub const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
pub(crate) const HEAD_BYTES: usize = 16;

const PART_HEAD_BYTES: usize = 64;

/// Maximum bytes of a fat binary.
pub const MOST_BYTES: usize = 1 << 30;
/// Maximum bytes of PTX in a part: more than the simulator parses.
const MOST_TEXT: u64 = 65 << 20;
/// Maximum compression ratio, which is LZ4's. Data with a higher ratio was made to exhaust memory.
const MOST_RATIO: u64 = 255;
const MOST_NAMED: usize = 8;
/// Maximum parts that are decompressed to find one for the device, more than any compiler writes.
const MOST_TRIED: usize = 32;

/// Values of [`Part::kind`].
const PTX: u16 = 1;
const MACHINE_CODE: u16 = 2;
/// Machine code is an ELF file, where the section of a function has this prefix before the function's
/// name.
const FUNCTION: &[u8] = b".text.";
/// Bits of [`Part::flags`].
const BY_LZ4: u64 = 0x2000;
const BY_ZSTD: u64 = 0x8000;

/// The reason why a fat binary yields no PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FatError {
    /// The fat binary is truncated or corrupt.
    Corrupt,
    /// The fat binary has no PTX for the device.
    NoPtx {
        /// The contents found, what is allowed, and what to do.
        reason: String,
    },
}

impl fmt::Display for FatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt => f.write_str("the fat binary is cut off or corrupt"),
            Self::NoPtx { reason } => f.write_str(reason),
        }
    }
}

impl error::Error for FatError {}

pub(crate) fn bytes(head: [u8; HEAD_BYTES]) -> Option<usize> {
    let parts = usize::try_from(u64::from_le_bytes(number(&head, 8)?)).ok()?;
    let head_bytes = usize::from(u16::from_le_bytes(number(&head, 6)?));
    let all = parts.checked_add(head_bytes)?;
    (HEAD_BYTES..=MOST_BYTES).contains(&all).then_some(all)
}

/// Returns the consecutive fat binaries of a program's section, up to the first bytes of another kind.
pub fn each(mut section: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        // Fat binaries may be separated by zeros.
        let start = section.iter().position(|&byte| byte != 0)?;
        section = &section[start..];
        let head = number(section, 0).filter(|_| section.starts_with(&MAGIC))?;
        let (fat, rest) = section.split_at_checked(bytes(head)?)?;
        section = rest;
        Some(fat)
    })
}

/// Returns whether a fat binary has no parts, or only machine code without functions. Linking device
/// code produces such fat binaries.
pub fn is_empty(image: &[u8]) -> bool {
    let has_functions = |part: &Part<'_>| {
        part.kind != MACHINE_CODE
            || decompressed(part)
                .is_none_or(|code| code.windows(FUNCTION.len()).any(|bytes| bytes == FUNCTION))
    };
    image.len() <= HEAD_BYTES || parts(image).is_some_and(|parts| !parts.iter().any(has_functions))
}

struct Part<'a> {
    kind: u16,
    /// Target compute capability: ten times the major number plus the minor one.
    arch: u32,
    flags: u64,
    stored: &'a [u8],
    /// Bytes after decompression.
    whole: u64,
}

/// Returns the PTX for the newest target that a device of the target `newest` runs: it is not newer, and
/// not for another architecture alone, as that for `sm_90a`. A target is ten times the major number of
/// its compute capability plus the minor one.
///
/// # Errors
/// Returns a [`FatError`] if the image is corrupt or has no such PTX.
pub fn ptx(image: &[u8], newest: u32) -> Result<String, FatError> {
    let parts = parts(image).ok_or(FatError::Corrupt)?;
    let of = |kind: u16| parts.iter().filter(move |part| part.kind == kind);
    let mut runnable: Vec<_> = of(PTX).filter(|part| part.arch <= newest).collect();
    runnable.sort_by_key(|part| Reverse(part.arch));
    for part in runnable.into_iter().take(MOST_TRIED) {
        let text = decompressed(part).ok_or(FatError::Corrupt)?;
        let text = String::from_utf8(text).map_err(|_| FatError::Corrupt)?;
        // The header of a part has the number of the target without its suffix.
        if target_of(&text).is_none_or(|target| Arch::new(newest / 10, newest % 10).runs(target)) {
            return Ok(text.trim_end_matches('\0').to_owned());
        }
    }
    let ptx = of(PTX).map(|part| format!("PTX for sm_{}", part.arch));
    let code = of(MACHINE_CODE).map(|part| format!("machine code for sm_{}", part.arch));
    let mut names: Vec<String> = ptx.chain(code).take(MOST_NAMED).collect();
    let more = of(PTX).count() + of(MACHINE_CODE).count() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let has = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let reason = format!(
        "the fat binary has {has}; the simulator takes PTX for sm_{newest} or older: compile with \
         -arch=compute_{newest}"
    );
    Err(FatError::NoPtx { reason })
}

/// Returns the target that a PTX text names.
fn target_of(text: &str) -> Option<Arch> {
    let (_, rest) = text.split_once(".target")?;
    rest.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()?.parse().ok()
}

fn parts(image: &[u8]) -> Option<Vec<Part<'_>>> {
    let head = usize::from(u16::from_le_bytes(number(image, 6)?));
    if head < HEAD_BYTES {
        return None;
    }
    let mut rest = image.get(head..)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let head_bytes = u32::from_le_bytes(number(rest, 4)?) as usize;
        // A part that does not advance the position would make the loop endless.
        if head_bytes < PART_HEAD_BYTES {
            return None;
        }
        let len = usize::try_from(u64::from_le_bytes(number(rest, 8)?)).ok()?;
        let compressed = u32::from_le_bytes(number(rest, 16)?) as usize;
        let flags = u64::from_le_bytes(number(rest, 40)?);
        let end = head_bytes.checked_add(len)?;
        let stored = rest.get(head_bytes..end)?;
        // Compressed bytes may be followed by padding.
        let is_compressed = flags & (BY_LZ4 | BY_ZSTD) != 0;
        let stored = if is_compressed { stored.get(..compressed)? } else { stored };
        parts.push(Part {
            kind: u16::from_le_bytes(number(rest, 0)?),
            arch: u32::from_le_bytes(number(rest, 28)?),
            flags,
            stored,
            whole: u64::from_le_bytes(number(rest, 56)?),
        });
        rest = &rest[end..];
    }
    Some(parts)
}

fn decompressed(part: &Part<'_>) -> Option<Vec<u8>> {
    if part.flags & (BY_LZ4 | BY_ZSTD) == 0 {
        return Some(part.stored.to_vec());
    }
    if part.whole > MOST_TEXT.min(MOST_RATIO * part.stored.len() as u64) {
        return None;
    }
    let mut text = Vec::new();
    if part.flags & BY_ZSTD != 0 {
        let decoder = ruzstd::decoding::StreamingDecoder::new(part.stored).ok()?;
        decoder.take(part.whole + 1).read_to_end(&mut text).ok()?;
    } else {
        text = lz4_flex::block::decompress(part.stored, part.whole as usize).ok()?;
    }
    (text.len() as u64 == part.whole).then_some(text)
}

fn number<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..from.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, MAGIC, bytes, each, is_empty, ptx, target_of};

    fn part(kind: u16, arch: u32, flags: u64, stored: &[u8], whole: usize) -> Vec<u8> {
        let padded = stored.len().next_multiple_of(8);
        let mut part = vec![0; 80];
        part[0..2].copy_from_slice(&kind.to_le_bytes());
        part[2..4].copy_from_slice(&[1, 1]);
        part[4..8].copy_from_slice(&80_u32.to_le_bytes());
        part[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        if flags != 0 {
            part[16..20].copy_from_slice(&(stored.len() as u32).to_le_bytes());
            part[56..64].copy_from_slice(&(whole as u64).to_le_bytes());
        }
        part[28..32].copy_from_slice(&arch.to_le_bytes());
        part[40..48].copy_from_slice(&(flags | 0x11).to_le_bytes());
        part.extend(stored);
        part.resize(80 + padded, 0);
        part
    }

    fn fat(parts: &[Vec<u8>]) -> Vec<u8> {
        let parts = parts.concat();
        let mut fat = [&MAGIC[..], &[1, 0, 16, 0], &(parts.len() as u64).to_le_bytes()].concat();
        assert_eq!(bytes(fat[..].try_into().unwrap()).unwrap(), HEAD_BYTES + parts.len());
        fat.extend(parts);
        fat
    }

    #[test]
    fn newest_runnable_ptx_is_selected() {
        let of = |arch: u32| part(1, arch, 0, format!("PTX {arch}").as_bytes(), 0);
        let fat = fat(&[of(75), part(2, 80, 0, b"\x7fELF", 0), of(90), of(86), of(100)]);
        assert_eq!(ptx(&fat, 90).unwrap(), "PTX 90");
        assert_eq!(ptx(&fat, 89).unwrap(), "PTX 86");
        let says = ptx(&fat, 70).unwrap_err().to_string();
        for word in ["PTX for sm_75", "machine code for sm_80", "sm_70 or older", "-arch=compute_70"] {
            assert!(says.contains(word), "{says}");
        }
        assert!(ptx(&self::fat(&[]), 90).unwrap_err().to_string().contains("has nothing"));
        let of = |arch: u32, target: &str| {
            part(1, arch, 0, format!(".version 8.0\n.target {target}, debug\n").as_bytes(), 0)
        };
        let fat = self::fat(&[of(80, "sm_80"), of(90, "sm_90a"), of(100, "sm_100f")]);
        let target = |device| target_of(&ptx(&fat, device).unwrap()).unwrap().to_string();
        assert_eq!(
            [86, 90, 100, 103, 120].map(target),
            ["sm_80", "sm_90a", "sm_100f", "sm_100f", "sm_80"]
        );
    }

    #[test]
    fn each_yields_consecutive_fat_binaries() {
        let (none, one) = (fat(&[]), fat(&[part(1, 90, 0, b"PTX", 0)]));
        let code =
            |bytes| is_empty(&fat(&[part(2, 90, 0, b"\x7fELF.symtab", 0), part(2, 90, 0, bytes, 0)]));
        assert_eq!([code(b"\x7fELF.symtab"), code(b"\x7fELF.text.sum")], [true, false]);
        let section = [&none[..], &one, &[0; 24], &one, &[1, 2, 3]].concat();
        let found: Vec<&[u8]> = each(&section).collect();
        assert_eq!(found, [&none[..], &one, &one]);
        assert_eq!(found.iter().map(|fat| is_empty(fat)).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(each(&one[..one.len() - 1]).count(), 0);
    }

    #[test]
    fn compressed_and_plain_parts_are_read() {
        let text = ".version 8.0\n".repeat(100);
        let by_lz4 = lz4_flex::block::compress(text.as_bytes());
        let by_zstd = ruzstd::encoding::compress_to_vec(
            text.as_bytes(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        for (flags, stored) in [(0, text.as_bytes()), (0x2000, &by_lz4), (0x8000, &by_zstd)] {
            let image = fat(&[part(1, 90, flags, stored, text.len())]);
            assert_eq!(ptx(&image, 90).unwrap(), text, "{flags:x}");
            for end in [image.len() - 9, 60, 17] {
                assert!(ptx(&image[..end], 90).is_err(), "{flags:x} up to {end}");
            }
            if flags != 0 {
                for wrong in [text.len() - 1, text.len() + 1, 64 << 20, usize::MAX] {
                    assert!(ptx(&fat(&[part(1, 90, flags, stored, wrong)]), 90).is_err(), "{wrong}");
                }
                let corrupt: Vec<u8> = stored.iter().map(|byte| byte ^ 0x5a).collect();
                assert!(ptx(&fat(&[part(1, 90, flags, &corrupt, text.len())]), 90).is_err());
            }
        }
    }
    #[test]
    fn parts_with_an_invalid_header_are_refused() {
        let wrong = [0_u32, 1, 16, 63, 80, u32::MAX];
        for (head, len) in
            wrong.into_iter().flat_map(|head| [(head, 0_u64), (head, 80), (head, u64::MAX)])
        {
            let mut image = fat(&[part(1, 90, 0, b"", 0)]);
            image[20..24].copy_from_slice(&head.to_le_bytes());
            image[24..32].copy_from_slice(&len.to_le_bytes());
            let is_right = head == 80 && len == 0;
            assert_eq!(ptx(&image, 90).is_ok(), is_right, "{head} {len}");
        }
        // A header size of 0 places the parts inside of the header.
        let mut image = fat(&[part(1, 90, 0, b"PTX", 0)]);
        image[6] = 0;
        assert!(ptx(&image, 90).is_err());
    }

    #[test]
    fn a_message_does_not_name_all_of_many_parts() {
        let says = ptx(&fat(&vec![part(2, 80, 0, b"", 0); 1000]), 90).unwrap_err().to_string();
        assert!(says.contains("machine code for sm_80, 992 more; ") && says.len() < 400, "{says}");
    }
}
