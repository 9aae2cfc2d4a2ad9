//! The head of an `.npy` file: magic, version, the length of the header, and the header, a Python dict.
//!
//! The header has a parser of its own. The crates that read `.npy` (npyz, ndarray-npy) give it to
//! py_literal, which reads any Python literal and backtracks: 24 bytes of `[[[[…` keep it busy for more
//! than 20 seconds, and dimensions take it quadratic time. NumPy writes one form only. What follows
//! reads that form, looks at each byte once, and takes no longer header than NumPy does.

use std::io::{self, Read};

use crate::Dtype;

/// What every `.npy` begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Bytes of a header, at most: as many as `numpy.load` reads of a file that it does not trust.
const MAX_HEADER: u64 = 10_000;

/// Dimensions of an array, at most: NumPy's own limit.
const MAX_DIMENSIONS: usize = 64;

/// Characters of a type's name that a message shows.
const SHOWN: usize = 32;

const ALLOWED: &str = "allowed are i8, u8, i32, u32, i64, u64, f16, f32 and f64, little endian";
const NO_DICT: &str =
    "its header is no Python dict of descr, fortran_order and shape, as NumPy writes it";
const NO_SHAPE: &str = "its shape is no tuple of lengths";

/// What a file says of its elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) dtype: Dtype,
    /// How many there are; their bytes fit in 64 bits.
    pub(super) elements: u64,
}

/// Reads what follows the magic bytes, up to the first element.
///
/// # Errors
/// What is wrong, and what is allowed.
pub(super) fn head(file: &mut impl Read) -> Result<Head, String> {
    let mut version = [0; 2];
    fill(file, &mut version)?;
    let mut length = [0; 4];
    match version[0] {
        1 => fill(file, &mut length[..2])?,
        2 | 3 => fill(file, &mut length)?,
        other => return Err(format!("is of .npy version {other}; known are 1, 2 and 3")),
    }
    let length = u64::from(u32::from_le_bytes(length));
    if length > MAX_HEADER {
        return Err(format!("its header has {length} bytes; allowed are {MAX_HEADER}"));
    }
    let mut header = vec![0; length as usize];
    fill(file, &mut header)?;
    parse(&header)
}

fn fill(file: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    file.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "cut off inside its header".to_owned(),
        _ => error.to_string(),
    })
}

/// The dict: each of NumPy's three keys once, in any order.
fn parse(header: &[u8]) -> Result<Head, String> {
    let (mut dtype, mut order, mut elements) = (None, None, None);
    let mut text = Text(header);
    text.expect(b'{')?;
    while !text.eat(b'}') {
        let key = text.string().ok_or(NO_DICT)?;
        text.expect(b':')?;
        let again = match key {
            b"descr" => dtype.replace(text.dtype()?).is_some(),
            b"fortran_order" => order.replace(text.boolean().ok_or(NO_DICT)?).is_some(),
            b"shape" => elements.replace(text.shape()?).is_some(),
            _ => return Err(format!("its header has the key `{}`; {NO_DICT}", shown(key))),
        };
        if again {
            return Err(format!("its header has `{}` twice", shown(key)));
        }
        if !text.eat(b',') {
            text.expect(b'}')?;
            break;
        }
    }
    if text.next().is_some() {
        return Err(NO_DICT.to_owned());
    }
    let dtype: Dtype = dtype.ok_or("its header has no descr")?;
    // Either order has the elements in the file one after the other.
    order.ok_or("its header has no fortran_order")?;
    let elements: u64 = elements.ok_or("its header has no shape")?;
    elements.checked_mul(dtype.size() as u64).ok_or(TOO_LARGE)?;
    Ok(Head { dtype, elements })
}

const TOO_LARGE: &str = "its shape is larger than any file";

/// What is left of the header.
struct Text<'t>(&'t [u8]);

impl<'t> Text<'t> {
    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        self.0 = self.0.trim_ascii_start();
        self.0.first().copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.next() == Some(byte);
        self.0 = &self.0[usize::from(there)..];
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.eat(byte) { Ok(()) } else { Err(NO_DICT.to_owned()) }
    }

    /// What stands between quotes of either kind; nothing in there is escaped.
    fn string(&mut self) -> Option<&'t [u8]> {
        let quote = self.next().filter(|byte| b"'\"".contains(byte))?;
        let end = self.0[1..].iter().position(|&byte| byte == quote)?;
        let (string, rest) = self.0[1..].split_at(end);
        self.0 = &rest[1..];
        (!string.contains(&b'\\')).then_some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        self.next()?;
        let (value, word): (bool, &[u8]) =
            if self.0[0] == b'T' { (true, b"True") } else { (false, b"False") };
        self.0 = self.0.strip_prefix(word)?;
        Some(value)
    }

    fn dtype(&mut self) -> Result<Dtype, String> {
        match self.next() {
            Some(b'[') => Err(format!("holds records; {ALLOWED}")),
            _ => dtype(self.string().ok_or(NO_DICT)?),
        }
    }

    /// The product of the lengths in a tuple: `()`, `(3,)`, `(2, 3)`.
    fn shape(&mut self) -> Result<u64, String> {
        if !self.eat(b'(') {
            return Err(NO_SHAPE.to_owned());
        }
        // One that is 0 makes any product 0.
        let (mut product, mut empty) = (Some(1_u64), false);
        let mut dimensions = 0;
        while !self.eat(b')') {
            let length = self.length().ok_or(NO_SHAPE)?;
            dimensions += 1;
            if dimensions > MAX_DIMENSIONS {
                return Err(format!("its shape has more than {MAX_DIMENSIONS} dimensions"));
            }
            product = product.and_then(|product| product.checked_mul(length.max(1)));
            empty |= length == 0;
            let comma = self.eat(b',');
            if !comma && (dimensions == 1 || self.next() != Some(b')')) {
                return Err(NO_SHAPE.to_owned());
            }
        }
        if empty { Ok(0) } else { Ok(product.ok_or(TOO_LARGE)?) }
    }

    fn length(&mut self) -> Option<u64> {
        self.next();
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(digits);
        self.0 = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

fn dtype(descr: &[u8]) -> Result<Dtype, String> {
    Ok(match descr {
        // One byte has no order.
        b"|i1" => Dtype::I8,
        b"|u1" => Dtype::U8,
        b"<i4" => Dtype::I32,
        b"<u4" => Dtype::U32,
        b"<i8" => Dtype::I64,
        b"<u8" => Dtype::U64,
        b"<f2" => Dtype::F16,
        b"<f4" => Dtype::F32,
        b"<f8" => Dtype::F64,
        [b'>', ..] => {
            let descr = shown(descr);
            return Err(format!(
                "big endian (`{descr}`); convert it with a.astype(a.dtype.newbyteorder('<'))"
            ));
        }
        _ => return Err(format!("holds `{}`; {ALLOWED}", shown(descr))),
    })
}

/// What a file says, as a message may repeat it: not much of it, and nothing that a terminal obeys.
fn shown(bytes: &[u8]) -> String {
    let (start, cut) = bytes.split_at_checked(SHOWN).map_or((bytes, ""), |(start, _)| (start, "…"));
    format!("{}{cut}", start.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dict: &str) -> Result<Head, String> {
        parse(dict.as_bytes())
    }

    fn shape(shape: &str) -> Result<u64, String> {
        of(&format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"))
            .map(|head| head.elements)
    }

    #[test]
    fn what_numpy_writes_is_read() {
        let head = Ok(Head { dtype: Dtype::F32, elements: 6 });
        for dict in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (6,)}",
            "{\"shape\":(1,2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
        ] {
            assert_eq!(of(dict), head, "{dict}");
        }
        assert_eq!(shape("()"), Ok(1));
        assert_eq!(shape("(18446744073709551615, 0)"), Ok(0));
    }

    #[test]
    fn what_numpy_does_not_write_is_refused() {
        for (dict, expected) in [
            ("", NO_DICT),
            ("{", NO_DICT),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", NO_DICT),
            ("{'descr': '<f4' 'fortran_order': False, 'shape': (2,), }", NO_DICT),
            ("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", NO_DICT),
            ("{'descr': '<f4', 'shape': (2,), }", "its header has no fortran_order"),
            ("{'descr': '<f4', 'descr': '<f4', }", "its header has `descr` twice"),
            ("{'descr': [('a', '<f4')], }", "holds records"),
            ("{'descr': '\\x3cf4', }", NO_DICT),
            ("{'descr': '\u{1b}[31m\n', }", "holds `\\x1b[31m\\n`; allowed"),
            ("{'\u{1b}': 1}", "the key `\\x1b`;"),
        ] {
            let message = of(dict).unwrap_err();
            assert!(message.contains(expected), "{dict}: {message}");
        }
        for given in ["3", "(3)", "(,)", "(1,,)", "(1 2)", "(-1,)", "(18446744073709551616,)", "(1,"] {
            assert_eq!(shape(given).unwrap_err(), NO_SHAPE, "{given}");
        }
        assert_eq!(shape("(4294967296, 4294967296)").unwrap_err(), TOO_LARGE);
        let message = of(&format!("{{'descr': '{}', }}", "é".repeat(1000))).unwrap_err();
        assert!(message.len() < 300, "{message}");
    }

    #[test]
    fn there_are_limits() {
        assert_eq!(shape(&format!("({})", "1, ".repeat(64))), Ok(1));
        assert!(shape(&format!("({})", "1, ".repeat(65))).unwrap_err().contains("64 dimensions"));
        let mut file: &[u8] = b"\x02\x00\xff\xff\xff\xff";
        assert_eq!(head(&mut file).unwrap_err(), "its header has 4294967295 bytes; allowed are 10000");
    }

    /// py_literal took more than 20 seconds for 24 of these brackets, and quadratic time for dimensions.
    #[test]
    fn brackets_and_dimensions_take_linear_time() {
        let start = std::time::Instant::now();
        for (open, repeated) in
            [("(", 5_000), ("[", 5_000), ("{", 5_000), ("1,", 2_400), ("((1,),", 1_500)]
        {
            let nested = open.repeat(repeated);
            for header in
                [nested.clone(), format!("{{'descr': {nested}"), format!("{{'shape': ({nested}")]
            {
                assert!(of(&header).is_err());
            }
        }
        assert!(start.elapsed().as_secs_f64() < 1.0, "{:?}", start.elapsed());
    }
}
