//! Device-side `printf`, and the texts of failed assertions.

use std::borrow::Cow;
use std::sync::PoisonError;

use sprintf::{Printf, vsprintf};

use crate::error::{FailedAssertion, FaultKind};
use crate::lanes::lanes_of;
use crate::memory::{Space, classify, window};
use crate::observe::AccessKind;
use crate::program::Assertion;

use super::backing::{Bytes, Global, Lanes, Source};
use super::memory::{bad_access, name};
use super::number_text::{flags, float_text, integer_text};
use super::warp::Warp;
use super::{ExecContext, Outcome, Probe};

const MOST_KEPT: usize = 64 << 20;
const MOST_TEXT: u64 = 64 << 10;

/// Maximum field width and precision; larger values are reduced to it.
const MOST_WIDE: u32 = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Percent,
    Signed,
    Unsigned,
    Character,
    Float,
    Text,
    Pointer,
}

#[derive(Debug, PartialEq, Eq)]
struct Conversion<'f> {
    kind: Kind,
    how: &'f str,
    letter: char,
    bytes: u32,
    /// Bits of an integer that are printed, which the length modifiers `h` and `hh` reduce.
    bits: u32,
}

impl Warp {
    pub(super) fn print<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        index: u32,
        mask: u32,
    ) -> Outcome<()> {
        let print = context.launch.entry.program.prints[index as usize];
        let is_explored = context.probe.exploration().is_some();
        for lane in lanes_of(mask) {
            let begin = print.frame.map_or(0, |row| self.regs.words[usize::from(row)][lane]);
            let (format, arguments) = (print.format + begin, print.arguments + begin);
            let (said, count) = self.print_one(context, format, arguments, lane)?;
            if let Some(at) = print.result {
                let at = lane * self.local_bytes + (begin + at) as usize;
                self.local[at..at + 4].copy_from_slice(&count.to_le_bytes());
            }
            // An exploration would print the text again in every execution.
            if !is_explored {
                let mut kept = context.launch.printed.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() + said.len() <= MOST_KEPT {
                    kept.extend_from_slice(&said);
                }
            }
        }
        Ok(())
    }

    /// Returns the output of a lane, and the number of its arguments.
    fn print_one<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        format: u32,
        arguments: u32,
        lane: usize,
    ) -> Outcome<(Vec<u8>, u32)> {
        let local = window(Space::Local);
        let format = self.fetch(context, local + u64::from(format), 8, lane)?;
        let mut from = self.fetch(context, local + u64::from(arguments), 8, lane)?;
        let format = self.text(context, format, lane)?;
        let (mut said, mut count) = (Vec::new(), 0);
        let mut rest = format.as_str();
        while let Some(at) = rest.find('%') {
            said.extend_from_slice(&rest.as_bytes()[..at]);
            rest = &rest[at..];
            let Some((conversion, behind)) = conversion(rest) else {
                said.push(b'%');
                rest = &rest[1..];
                continue;
            };
            rest = behind;
            if conversion.kind == Kind::Percent {
                said.push(b'%');
                continue;
            }
            let bytes = u64::from(conversion.bytes);
            from = from.next_multiple_of(bytes);
            let value = self.fetch(context, from, conversion.bytes, lane)?;
            from += bytes;
            count += 1;
            let text = match conversion.kind {
                Kind::Text => Some(self.text(context, value, lane)?),
                _ => None,
            };
            said.extend(converted(&conversion, value, text.as_deref()));
        }
        said.extend_from_slice(rest.as_bytes());
        Ok((said, count))
    }

    /// Returns the fault of a failed assertion, without its texts if they cannot be read.
    pub(super) fn failed_assertion<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        index: Option<u32>,
        lane: usize,
    ) -> FaultKind {
        let call = index.map(|index| context.launch.entry.program.assertions[index as usize]);
        let failed = call.and_then(|Assertion { frame, message, file, line, function }| {
            let begin = frame.map_or(0, |row| self.regs.words[usize::from(row)][lane]);
            let mut parameter = |at: u32, bytes| {
                let address = window(Space::Local) + u64::from(at + begin);
                self.fetch(context, address, bytes, lane).ok()
            };
            let addresses = [parameter(message, 8)?, parameter(file, 8)?, parameter(function, 8)?];
            let line = parameter(line, 4)? as u32;
            let mut text = |address| {
                let text = self.text(context, address, lane).ok()?;
                Some(text.replace(char::is_control, "?"))
            };
            let [message, file, function] = addresses;
            let (message, file, function) = (text(message)?, text(file)?, text(function)?);
            Some(Box::new(FailedAssertion { message, file, line, function }))
        });
        FaultKind::Assertion(failed)
    }

    fn text<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        from: u64,
        lane: usize,
    ) -> Outcome<String> {
        let mut bytes = Vec::new();
        for at in 0..MOST_TEXT {
            match self.fetch(context, from.wrapping_add(at), 1, lane)? {
                0 => break,
                byte => bytes.push(byte as u8),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn fetch<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        address: u64,
        bytes: u32,
        lane: usize,
    ) -> Outcome<u64> {
        let space = classify(address);
        let at = address.wrapping_sub(window(space));
        match space {
            Space::Shared => read(&mut Bytes(&context.own().shared), space, at, bytes, lane),
            Space::Local => {
                let (memory, stacks) = (&mut self.local, self.stacks.as_slice());
                read(&mut Lanes { memory, bytes: self.local_bytes, stacks }, space, at, bytes, lane)
            }
            Space::Const => read(&mut Bytes(context.launch.constants), space, at, bytes, lane),
            Space::Param => read(&mut Bytes(context.launch.params), space, at, bytes, lane),
            Space::Global | Space::Generic => {
                let mut global = Global { view: &context.launch.view, hint: &mut context.hint };
                read(&mut global, Space::Global, at, bytes, lane)
            }
        }
    }
}

fn read(memory: &mut impl Source, space: Space, address: u64, bytes: u32, lane: usize) -> Outcome<u64> {
    let place = memory.locate(address, bytes, lane);
    match place.filter(|_| address.is_multiple_of(bytes.into())) {
        Some(place) => Ok(memory.get(place, 0, bytes)),
        None => bad_access(memory, name(AccessKind::Load), space, address, bytes, lane),
    }
}

/// Parses the conversion at the start of a text; returns the conversion and the rest, or `None` if C has
/// no such conversion.
fn conversion(text: &str) -> Option<(Conversion<'_>, &str)> {
    let inner = &text[1..];
    let end = inner.find(|c: char| !"-+ #0123456789.".contains(c))?;
    let (how, rest) = inner.split_at(end);
    let letters = rest.trim_start_matches(['h', 'l', 'j', 'z', 't', 'L', 'q']);
    let size = &rest[..rest.len() - letters.len()];
    let letter = letters.chars().next()?;
    let wide = size.contains(['l', 'j', 'z', 't', 'q']);
    let whole = if wide { 8 } else { 4 };
    let bits = match size.matches('h').count() {
        0 => 8 * whole,
        1 => 16,
        _ => 8,
    };
    let (kind, bytes) = match letter {
        '%' => (Kind::Percent, 0),
        'd' | 'i' => (Kind::Signed, whole),
        'u' | 'x' | 'X' | 'o' => (Kind::Unsigned, whole),
        'c' => (Kind::Character, 4),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'a' | 'A' => (Kind::Float, 8),
        's' => (Kind::Text, 8),
        'p' => (Kind::Pointer, 8),
        _ => return None,
    };
    Some((Conversion { kind, how, letter, bytes, bits }, &letters[letter.len_utf8()..]))
}

fn converted(conversion: &Conversion<'_>, value: u64, text: Option<&str>) -> Vec<u8> {
    let Conversion { kind, letter, bits, .. } = *conversion;
    let how = &*bounded(conversion.how);
    let unused = u64::BITS - bits;
    let signed = ((value << unused) as i64) >> unused;
    let (float, text) = (f64::from_bits(value), text.unwrap_or_default());
    let pointer = format!("{value:#x}");
    let (letter, argument): (char, &dyn Printf) = match kind {
        // The `sprintf` crate ignores the precision of integers, rounds ties of floats away from zero,
        // and writes no exponent for 0.
        Kind::Signed => {
            return integer_text(how, letter, signed < 0, signed.unsigned_abs()).into_bytes();
        }
        Kind::Unsigned => {
            return integer_text(how, letter, false, value << unused >> unused).into_bytes();
        }
        Kind::Float if !letter.eq_ignore_ascii_case(&'a') => {
            return float_text(how, letter, float).into_bytes();
        }
        // The byte need not be valid UTF-8.
        Kind::Character => return padded(how, vec![value as u8]),
        Kind::Percent => return vec![b'%'],
        Kind::Float => (letter, &float),
        Kind::Text => (letter, &text),
        Kind::Pointer => ('s', &pointer),
    };
    vsprintf(&format!("%{how}{letter}"), &[argument])
        .unwrap_or_else(|_| format!("%{how}{letter}"))
        .into_bytes()
}

fn bounded(how: &str) -> Cow<'_, str> {
    // A number that exceeds 32 bits is too wide as well.
    let is_wide =
        |number: &str| !number.is_empty() && number.parse().map_or(true, |wide: u32| wide > MOST_WIDE);
    let (flags, numbers) = flags(how);
    if !numbers.split('.').any(is_wide) {
        return how.into();
    }
    let each = numbers
        .split('.')
        .map(|number| if is_wide(number) { MOST_WIDE.to_string() } else { number.to_owned() });
    (flags.to_owned() + &each.collect::<Vec<_>>().join(".")).into()
}

fn padded(how: &str, character: Vec<u8>) -> Vec<u8> {
    let (_, numbers) = flags(how);
    let width = numbers.split('.').next();
    let fill = width.and_then(|width| width.parse::<usize>().ok()).unwrap_or(0).saturating_sub(1);
    let spaces = vec![b' '; fill];
    if how.contains('-') { [character, spaces].concat() } else { [spaces, character].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_modifiers_limit_the_bits_of_integers() {
        let printed = |format: &str, value: u64| {
            let (conversion, _) = conversion(format).expect("it is one");
            String::from_utf8(converted(&conversion, value, None)).unwrap()
        };
        // The expected texts are the output of glibc.
        assert_eq!(printed("%hd", 70_000), "4464");
        assert_eq!(printed("%hhd", 200), "-56");
        assert_eq!(printed("%hhu", 300), "44");
        assert_eq!(printed("%hx", 0xffff_ffff), "ffff");
        assert_eq!(printed("%d", 0xffff_ffff), "-1");
        assert_eq!(printed("%lld", u64::MAX), "-1");
        assert_eq!(printed("%llu", u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn field_width_and_precision_are_limited() {
        let width = |format: &str| {
            let (conversion, rest) = conversion(format).expect("it is one");
            assert_eq!(rest, "");
            converted(&conversion, 7, Some("text")).len()
        };
        let most = MOST_WIDE as usize;
        for format in
            ["%9999999d", "%-9999999s", "%099999999999999999999x", "%5000c", "%70000f", "%4097p"]
        {
            assert_eq!(width(format), most, "{format}");
        }
        assert_eq!(width("%.70000f"), most + "0.".len());
        assert_eq!((width("%5d"), width("%-4096d"), width("%.3f")), (5, most, "0.000".len()));
    }
}
