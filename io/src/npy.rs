//! The header of an `.npy` file: magic, version, length, and a Python dict.
//!
//! The crates that read `.npy` (npyz, ndarray-npy) parse the dict with py_literal, which accepts any
//! Python literal and backtracks: 24 bytes of `[[[[…` take it more than 20 seconds, and dimensions take
//! quadratic time. NumPy writes one form only. This parser reads that form, in one pass, and limits the
//! header to the length that NumPy accepts.

use std::{
    ffi::c_long,
    fmt,
    io::{self, Read},
};

/// The first bytes of every `.npy`.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// The size limit of a header, which is that of `numpy.load` for untrusted files.
const MAX_HEADER: u64 = 10_000;

/// The largest number of dimensions, which is NumPy's own limit.
const MAX_DIMENSIONS: usize = 64;

/// The number of characters of a type's name that a message shows.
const SHOWN: usize = 32;

const ALLOWED: &str = "allowed are bool, i8, u8, i16, u16, i32, u32, i64, u64, f16, f32 and f64";
const NO_DICT: &str =
    "its header is not a Python dict of descr, fortran_order and shape, as NumPy writes it";
const NO_SHAPE: &str = "its shape is not a tuple of lengths";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of types")]
pub enum Type {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    /// Elements without a header may have this type; NumPy does not have it.
    Bf16,
    F32,
    F64,
}

impl Type {
    /// The types that NumPy has.
    pub const ALL: [Self; 12] = [
        Self::Bool,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::Bf16]).find(|of| of.name() == name)
    }

    /// Returns the type's name in Rust, such as `f32`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the `descr` of little-endian elements, as NumPy writes it.
    pub const fn descr(self) -> &'static str {
        self.row().1
    }

    pub const fn size(self) -> usize {
        (self.descr().as_bytes()[2] - b'0') as usize
    }

    /// Returns the name, the `descr`, and the other spellings that NumPy reads: a character code and
    /// then names.
    const fn row(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::Bool => ("bool", "|b1", &["?", "bool"]),
            Self::I8 => ("i8", "|i1", &["b", "int8", "byte"]),
            Self::U8 => ("u8", "|u1", &["B", "uint8", "ubyte"]),
            Self::I16 => ("i16", "<i2", &["h", "int16", "short"]),
            Self::U16 => ("u16", "<u2", &["H", "uint16", "ushort"]),
            Self::I32 => ("i32", "<i4", &["i", "int32", "intc"]),
            Self::U32 => ("u32", "<u4", &["I", "uint32", "uintc"]),
            Self::I64 => ("i64", "<i8", &["q", "int64", "longlong"]),
            Self::U64 => ("u64", "<u8", &["Q", "uint64", "ulonglong"]),
            Self::F16 => ("f16", "<f2", &["e", "float16", "half"]),
            Self::Bf16 => ("bf16", "<V2", &[]),
            Self::F32 => ("f32", "<f4", &["f", "float32", "single"]),
            Self::F64 => ("f64", "<f8", &["d", "float64", "double", "float"]),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub stored: Type,
    /// True if the elements are big endian; never set for single bytes.
    pub big_endian: bool,
    /// True if the first index varies fastest, not the last.
    pub fortran_order: bool,
    /// The length of each axis; the total size in bytes fits in 64 bits.
    pub shape: Vec<u64>,
}

impl Head {
    pub fn elements(&self) -> u64 {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    pub fn bytes(&self) -> u64 {
        self.elements() * self.stored.size() as u64
    }
}

/// Returns an `.npy` file of version 1.0 with an array of little-endian elements, whose type is `descr`
/// in NumPy.
pub fn file(descr: &str, shape: &[usize], elements: &[u8]) -> Vec<u8> {
    let lens: String = shape.iter().map(|len| format!("{len},")).collect();
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lens}), }}");
    // The elements must be aligned to 64 bytes.
    let length = (dict.len() + 11).next_multiple_of(64) - 10;
    let mut file = MAGIC.to_vec();
    file.extend([1, 0]);
    file.extend(u16::try_from(length).expect("64 lengths fit").to_le_bytes());
    file.extend(format!("{dict:<width$}\n", width = length - 1).bytes());
    file.extend(elements);
    file
}

/// Parses the rest of the header after the magic bytes, up to the first element.
pub fn head(file: &mut impl Read) -> Result<Head, String> {
    let mut version = [0; 2];
    fill(file, &mut version)?;
    let mut length = [0; 4];
    match version[0] {
        1 => fill(file, &mut length[..2])?,
        2 | 3 => fill(file, &mut length)?,
        other => return Err(format!("has the .npy version {other}; supported are 1, 2 and 3")),
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
        io::ErrorKind::UnexpectedEof => "is cut off inside its header".to_owned(),
        _ => error.to_string(),
    })
}

/// Parses the dict, which must have each of NumPy's three keys once, in any order.
fn parse(header: &[u8]) -> Result<Head, String> {
    let (mut descr, mut order, mut shape) = (None, None, None);
    let mut text = Text(header);
    text.expect(b'{')?;
    while !text.eat(b'}') {
        let key = text.string().ok_or(NO_DICT)?;
        text.expect(b':')?;
        let again = match key {
            b"descr" => descr.replace(text.descr()?).is_some(),
            b"fortran_order" => order.replace(text.boolean().ok_or(NO_DICT)?).is_some(),
            b"shape" => shape.replace(text.shape()?).is_some(),
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
    let (stored, big_endian): (Type, bool) = descr.ok_or("its header has no descr")?;
    let fortran_order = order.ok_or("its header has no fortran_order")?;
    let shape: Vec<u64> = shape.ok_or("its header has no shape")?;
    if !shape.contains(&0) {
        let bytes = |bytes: u64, &length| bytes.checked_mul(length);
        shape.iter().try_fold(stored.size() as u64, bytes).ok_or(TOO_LARGE)?;
    }
    Ok(Head { stored, big_endian, fortran_order, shape })
}

const TOO_LARGE: &str = "its shape is larger than any file";

struct Text<'t>(&'t [u8]);

impl<'t> Text<'t> {
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

    /// Parses a string in either kind of quotes, without escapes.
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

    fn descr(&mut self) -> Result<(Type, bool), String> {
        match self.next() {
            Some(b'[') => Err(format!("holds records; {ALLOWED}; save one field, as a['name']")),
            _ => descr(self.string().ok_or(NO_DICT)?),
        }
    }

    /// Parses a tuple of lengths: `()`, `(3,)`, `(2, 3)`.
    fn shape(&mut self) -> Result<Vec<u64>, String> {
        if !self.eat(b'(') {
            return Err(NO_SHAPE.to_owned());
        }
        let mut shape = Vec::new();
        while !self.eat(b')') {
            shape.push(self.length().ok_or(NO_SHAPE)?);
            if shape.len() > MAX_DIMENSIONS {
                return Err(format!("its shape has more than {MAX_DIMENSIONS} dimensions"));
            }
            let comma = self.eat(b',');
            if !comma && (shape.len() == 1 || self.next() != Some(b')')) {
                return Err(NO_SHAPE.to_owned());
            }
        }
        Ok(shape)
    }

    fn length(&mut self) -> Option<u64> {
        self.next();
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(digits);
        // Python 2 writes long integers with a suffix.
        self.0 = rest.strip_prefix(b"L").unwrap_or(rest);
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

/// Parses a type in any of the spellings that NumPy reads, and returns whether it is big endian.
///
/// NumPy itself writes `<f4`, `>f4` and `|u1`. Other writers use `<u1` (cnpy), `=f4`, a bare `f4`, a
/// character code such as `<d` or `?`, or a name such as `float32`.
fn descr(descr: &[u8]) -> Result<(Type, bool), String> {
    let unknown = || {
        let advice = advice(descr).map_or(String::new(), |advice| format!("; {advice}"));
        format!("holds `{}`; {ALLOWED}{advice}", shown(descr))
    };
    let (order, code) = unordered(descr);
    // A name has no byte order.
    let name = || from_name(code).filter(|_| order.is_none());
    let stored = from_code(code).or_else(name).ok_or_else(unknown)?;
    Ok((stored, order == Some(b'>') && stored.size() > 1))
}

fn unordered(descr: &[u8]) -> (Option<u8>, &[u8]) {
    match descr.split_first() {
        Some((order, code)) if b"<>=|".contains(order) => (Some(*order), code),
        _ => (None, descr),
    }
}

fn from_code(code: &[u8]) -> Option<Type> {
    match code {
        b"l" if size_of::<c_long>() == 8 => Some(Type::I64),
        b"l" => Some(Type::I32),
        b"L" if size_of::<c_long>() == 8 => Some(Type::U64),
        b"L" => Some(Type::U32),
        _ => Type::ALL.into_iter().find(|of| {
            let (_, descr, spellings) = of.row();
            [&descr[1..], spellings[0]].iter().any(|spelling| spelling.as_bytes() == code)
        }),
    }
}

/// Returns the type with one of NumPy's machine-independent names.
fn from_name(name: &[u8]) -> Option<Type> {
    Type::ALL.into_iter().find(|of| of.row().2[1..].iter().any(|of| of.as_bytes() == name))
}

fn advice(descr: &[u8]) -> Option<&'static str> {
    let code = unordered(descr).1;
    match (code, code.first()?) {
        (b"V2", _) => Some(
            "NumPy saves bfloat16 as this type: save a.astype('float32'), or a.tofile(…), which --dtype \
             bf16 reads",
        ),
        (b"f16" | b"g" | b"longdouble" | b"float128", _) => Some("save a.astype('float64')"),
        (b"O" | b"object", _) => {
            Some("it is an array of Python objects: save a.astype('float64'), if they are numbers")
        }
        (_, b'V') => Some("save one field of the records, or a view of it as numbers"),
        (b"F" | b"D" | b"G", _) | (_, b'c') => Some("save a.real, a.imag or abs(a)"),
        (_, b'M' | b'm' | b'd') => Some("save a.view('int64')"),
        (_, b'S' | b'U' | b'a') => Some("save a.astype('float64'), if the strings are numbers"),
        _ => None,
    }
}

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
            .map(|head| head.elements())
    }

    fn stored(descr: &str) -> Result<(Type, bool), String> {
        of(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (), }}"))
            .map(|head| (head.stored, head.big_endian))
    }

    #[test]
    fn numpy_headers_are_read() {
        let head = |fortran_order, shape: &[u64]| {
            let stored = Type::F32;
            Ok(Head { stored, big_endian: false, fortran_order, shape: shape.to_vec() })
        };
        for (dict, expected) in [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n", head(false, &[2, 3])),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (6,)}", head(true, &[6])),
            ("{\"shape\":(1,2,3),\"fortran_order\":False,\"descr\":\"<f4\"}", head(false, &[1, 2, 3])),
        ] {
            assert_eq!(of(dict), expected, "{dict}");
            assert_eq!(expected.unwrap().bytes(), 24);
        }
        assert_eq!(shape("()"), Ok(1));
        assert_eq!(shape("(18446744073709551615, 18446744073709551615, 0)"), Ok(0));
    }

    #[test]
    fn types_have_the_byte_order_that_numpy_writes() {
        assert_eq!(stored("|b1"), Ok((Type::Bool, false)));
        assert_eq!(stored("<i2"), Ok((Type::I16, false)));
        assert_eq!(stored(">u2"), Ok((Type::U16, true)));
        assert_eq!(stored(">f8"), Ok((Type::F64, true)));
        for (wrong, advice) in [
            ("", ""),
            ("<", ""),
            ("<<f4", ""),
            ("<float32", ""),
            ("Float32", ""),
            ("<f3", ""),
            ("<f16", "; save a.astype('float64')"),
            ("<c8", "; save a.real, a.imag or abs(a)"),
            ("<M8[ns]", "; save a.view('int64')"),
            ("|S3", "; save a.astype('float64'), if the strings are numbers"),
            ("|O", "; it is an array of Python objects: save a.astype('float64'), if they are numbers"),
            ("<V2", "a.tofile(…), which --dtype bf16 reads"),
            ("|V12", "; save one field of the records"),
        ] {
            let message = stored(wrong).unwrap_err();
            assert!(message.starts_with(&format!("holds `{wrong}`; {ALLOWED}")), "{message}");
            assert!(message.contains(advice), "{message}");
        }
    }

    #[test]
    fn every_numpy_dtype_spelling_is_read() {
        let spellings: [(Type, &[&str]); 12] = [
            (Type::Bool, &["b1", "<b1", "=b1", "|b1", ">b1", "?", "<?", "bool"]),
            (Type::I8, &["<i1", ">i1", "=i1", "i1", "b", "|b", "int8", "byte"]),
            (Type::U8, &["<u1", ">u1", "=u1", "u1", "B", "uint8", "ubyte"]),
            (Type::I16, &["i2", "=i2", "|i2", "<h", "h", "int16", "short"]),
            (Type::U16, &["u2", "<H", "uint16", "ushort"]),
            (Type::I32, &["i4", "<i", "int32", "intc"]),
            (Type::U32, &["u4", "=I", "uint32", "uintc"]),
            (Type::I64, &["i8", "<q", "int64", "longlong"]),
            (Type::U64, &["u8", "<Q", "uint64", "ulonglong"]),
            (Type::F16, &["f2", "e", "<e", "float16", "half"]),
            (Type::F32, &["f4", "=f4", "|f4", "f", "<f", "float32", "single"]),
            (Type::F64, &["f8", "d", "<d", "float64", "double", "float"]),
        ];
        for (expected, spellings) in spellings {
            for spelling in spellings {
                assert_eq!(stored(spelling), Ok((expected, false)), "{spelling}");
            }
        }
        for (big, expected) in [(">h", Type::I16), (">d", Type::F64), (">f4", Type::F32)] {
            assert_eq!(stored(big), Ok((expected, true)), "{big}");
        }
        // NumPy under Python 2 wrote such lengths.
        assert_eq!((shape("(3L,)"), shape("(3L, 4L)")), (Ok(3), Ok(12)));
        assert_eq!(shape("(3LL,)"), Err(NO_SHAPE.to_owned()));
    }

    #[test]
    fn malformed_headers_are_refused() {
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
    fn dimensions_and_header_length_are_limited() {
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
