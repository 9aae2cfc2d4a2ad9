//! The compiler of expressions to PTX.
//!
//! Precedence climbing over the tokens emits the instructions as it goes. Both sides of a choice are
//! computed, since no operation has an effect.

use std::ops::Range;

use super::token::{Token, tokens};
use crate::{
    Error,
    names::{Dtype, MapOp},
};

/// Maximum length of a text in bytes.
const MOST_BYTES: usize = 4096;

/// Maximum cost of all instructions. A kernel has up to a hundred places for them, and the driver's
/// compiler takes seconds for 64 divisions of `f32` at each.
const MOST_COST: u32 = 512;

/// Maximum nesting, which limits the stack of the compiler.
const MOST_DEPTH: u32 = 64;

const MOST_EXPONENT: u32 = 64;

/// The beginning of the block that kernels have in place of a map. It is followed by the bits of the
/// register, the register of the result, and that of the element.
pub(crate) const MARK: &str = "{ .reg .pred expression; mov.b";

/// The instructions of a map.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// Declarations and instructions. [`INPUT`] is the register of the element.
    code: String,
    /// The register or constant with the value.
    value: String,
    bits: u32,
}

const INPUT: &str = "$";

impl Map {
    /// Returns the PTX of kernels with the map at its places, or `None` for PTX without places.
    pub(super) fn insert_into(&self, ptx: &str) -> Option<String> {
        let (start, places) = ptx.split_once(MARK)?;
        let mut mapped = String::with_capacity(2 * ptx.len());
        mapped.push_str(start);
        for place in places.split(MARK) {
            // `32 %r2, %r1; }`
            let (_, registers) = place.split_once(' ')?;
            let (output, rest) = registers.split_once(", ")?;
            let (input, rest) = rest.split_once(';')?;
            let code = self.code.replace(INPUT, input);
            let value = self.value.replace(INPUT, input);
            mapped.push_str(&format!("{{ {code}mov.b{} {output}, {value};{rest}", self.bits));
        }
        Some(mapped)
    }
}

/// A number or a condition, in a register, or a number that is a constant.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Number(String),
    Condition(String),
}

/// The type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// The type in instructions.
    pub(super) name: &'static str,
    pub(super) bits: u32,
    is_float: bool,
}

/// The functions, the number of their arguments, and whether they are for floats only.
const FUNCTIONS: [(&str, usize, bool); 12] = [
    ("abs", 1, false),
    ("min", 2, false),
    ("max", 2, false),
    ("sqrt", 1, true),
    ("exp", 1, true),
    ("log", 1, true),
    ("floor", 1, true),
    ("ceil", 1, true),
    ("trunc", 1, true),
    ("rint", 1, true),
    ("fma", 3, true),
    ("is_nan", 1, true),
];

pub(super) struct Compiler<'t> {
    text: &'t str,
    tokens: Vec<(Token<'t>, Range<usize>)>,
    next: usize,
    depth: u32,
    pub(super) number: Number,
    code: String,
    cost: u32,
    numbers: u32,
    conditions: u32,
}

type Result<T, E = Error> = std::result::Result<T, E>;

pub(super) fn compile(map: &str, filter: Option<&str>, op: MapOp, dtype: Dtype) -> Result<Map> {
    let number = match dtype.sum() {
        Dtype::F32 => Number { name: "f32", bits: 32, is_float: true },
        Dtype::F64 => Number { name: "f64", bits: 64, is_float: true },
        sum if sum.is_unsigned() => Number { name: "u64", bits: 64, is_float: false },
        _ => Number { name: "s64", bits: 64, is_float: false },
    };
    let mut compiler = Compiler {
        text: "",
        tokens: Vec::new(),
        next: 0,
        depth: 0,
        number,
        code: String::new(),
        cost: 0,
        numbers: 0,
        conditions: 0,
    };
    let value = compiler.whole(map)?;
    let mut value = compiler.number_of(value);
    if let Some(filter) = filter {
        let condition = compiler.whole(filter)?;
        let condition = compiler.require_condition(condition, 0)?;
        let identity = number.identity(op);
        value = compiler.emit(&format!("selp.{}", number.name), &[&value, &identity, &condition]);
    }
    let Compiler { code, cost, numbers, conditions, .. } = compiler;
    if cost > MOST_COST {
        let reason = format!(
            "expected a cost of at most {MOST_COST} instructions, got {cost}; divisions, roots, exponentials \
             and logarithms cost the most"
        );
        return Err(Error::Expression { text: map.to_owned(), at: 0, reason });
    }
    let declared = |class: &str, name, count| match count {
        0 => String::new(),
        count => format!(".reg .{class} {name}<{count}>; "),
    };
    let declarations =
        declared(&format!("b{}", number.bits), 't', numbers) + &declared("pred", 'p', conditions);
    Ok(Map { code: declarations + &code, value, bits: number.bits })
}

impl Number {
    pub(super) fn constant(self, float: f64, integer: i128) -> String {
        match self.name {
            "f32" => format!("0f{:08X}", (float as f32).to_bits()),
            "f64" => format!("0d{:016X}", float.to_bits()),
            _ => format!("0x{:X}", integer as u64),
        }
    }

    /// Returns the result of no values.
    fn identity(self, op: MapOp) -> String {
        let (least, greatest) =
            if self.name == "u64" { (0, u64::MAX.into()) } else { (i64::MIN.into(), i64::MAX.into()) };
        match op {
            MapOp::Sum => self.constant(0.0, 0),
            MapOp::Min => self.constant(f64::INFINITY, greatest),
            MapOp::Max => self.constant(f64::NEG_INFINITY, least),
        }
    }
}

impl<'t> Compiler<'t> {
    /// Compiles a text to its value.
    fn whole(&mut self, text: &'t str) -> Result<Value> {
        if text.len() > MOST_BYTES {
            let reason = format!("{} bytes of text; {MOST_BYTES} are allowed", text.len());
            return Err(Error::Expression { text: String::new(), at: 0, reason });
        }
        (self.text, self.next) = (text, 0);
        self.tokens.clear();
        for (token, range) in tokens(text) {
            let Some(token) = token else {
                let character = text[range.start..].chars().next().unwrap_or_default();
                return Err(self.error(range.start, format!("unexpected character {character:?}")));
            };
            self.tokens.push((token, range));
        }
        let value = self.choice()?;
        if self.next < self.tokens.len() {
            return Err(self.unexpected("an operator or the end"));
        }
        Ok(value)
    }

    fn error(&self, at: usize, reason: impl Into<String>) -> Error {
        Error::Expression { text: self.text.to_owned(), at, reason: reason.into() }
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |(_, range)| range.start)
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.next).map(|(token, _)| *token)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_next = self.peek() == Some(Token::Symbol(symbol));
        self.next += usize::from(is_next);
        is_next
    }

    fn require(&mut self, symbol: &str) -> Result<()> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let found = self.peek().map_or("the end".to_owned(), |token| token.to_string());
        self.error(self.at(), format!("expected {wanted}, found {found}"))
    }

    /// Runs a rule of the grammar one level deeper.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MOST_DEPTH {
            let reason = format!("nested too deeply; {MOST_DEPTH} levels are allowed");
            return Err(self.error(self.at(), reason));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// `c ? a : b`
    fn choice(&mut self) -> Result<Value> {
        let at = self.at();
        let condition = self.binary(0)?;
        if !self.take("?") {
            return Ok(condition);
        }
        let condition = self.require_condition(condition, at)?;
        let yes = self.nested(Self::choice)?;
        self.require(":")?;
        let no = self.nested(Self::choice)?;
        if let (Value::Condition(yes), Value::Condition(no)) = (&yes, &no) {
            let yes = self.emit_condition("and.pred", &[&condition, yes]);
            let otherwise = self.emit_condition("not.pred", &[&condition]);
            let no = self.emit_condition("and.pred", &[&otherwise, no]);
            return Ok(self.condition("or.pred", &[&yes, &no]));
        }
        let (yes, no) = (self.number_of(yes), self.number_of(no));
        let select = format!("selp.{}", self.number.name);
        Ok(Value::Number(self.emit(&select, &[&yes, &no, &condition])))
    }

    fn binary(&mut self, least: u8) -> Result<Value> {
        let mut left_at = self.at();
        let mut left = self.unary()?;
        while let Some(Token::Symbol(symbol)) = self.peek() {
            let precedence = match symbol {
                "||" => 0,
                "&&" => 1,
                "<" | "<=" | ">" | ">=" | "==" | "!=" => 2,
                "|" => 3,
                "^" => 4,
                "&" => 5,
                "+" | "-" => 6,
                "*" | "/" | "%" => 7,
                _ => break,
            };
            if precedence < least {
                break;
            }
            let at = self.at();
            self.next += 1;
            let right_at = self.at();
            let right = self.binary(precedence + 1)?;
            if precedence == 2
                && let Some(Token::Symbol("<" | "<=" | ">" | ">=" | "==" | "!=")) = self.peek()
            {
                let reason = "comparisons cannot be chained; join them with `&&`";
                return Err(self.error(self.at(), reason));
            }
            left = if precedence < 2 {
                let left = self.require_condition(left, left_at)?;
                let right = self.require_condition(right, right_at)?;
                let instruction = if symbol == "||" { "or.pred" } else { "and.pred" };
                self.condition(instruction, &[&left, &right])
            } else {
                let (left, right) = (self.number_of(left), self.number_of(right));
                self.arithmetic(symbol, at, &left, &right)?
            };
            left_at = at;
        }
        Ok(left)
    }

    fn arithmetic(&mut self, symbol: &str, at: usize, left: &str, right: &str) -> Result<Value> {
        let Number { name, bits, is_float } = self.number;
        let rounded = if is_float { "rn." } else { "" };
        let instruction = match symbol {
            "<" => format!("setp.lt.{name}"),
            "<=" => format!("setp.le.{name}"),
            ">" => format!("setp.gt.{name}"),
            ">=" => format!("setp.ge.{name}"),
            "==" => format!("setp.eq.{name}"),
            // True if either is NaN.
            "!=" => format!("setp.ne{}.{name}", if is_float { "u" } else { "" }),
            "+" => format!("add.{rounded}{name}"),
            "-" => format!("sub.{rounded}{name}"),
            "*" => return Ok(Value::Number(self.multiply(left, right))),
            "/" => format!("div.{rounded}{name}"),
            _ if is_float => {
                return Err(self.error(at, format!("`{symbol}` is for integers, but values are floats")));
            }
            "%" => format!("rem.{name}"),
            "&" => format!("and.b{bits}"),
            "|" => format!("or.b{bits}"),
            _ => format!("xor.b{bits}"),
        };
        Ok(match instruction.starts_with("setp") {
            true => self.condition(&instruction, &[left, right]),
            false => Value::Number(self.emit(&instruction, &[left, right])),
        })
    }

    fn unary(&mut self) -> Result<Value> {
        let name = self.number.name;
        if self.take("-") {
            if self.take_least_integer() {
                return Ok(Value::Number(self.number.constant(0.0, i64::MIN.into())));
            }
            let value = self.nested(Self::unary)?;
            let value = self.number_of(value);
            return Ok(Value::Number(match self.number.is_float {
                true => self.emit(&format!("neg.{name}"), &[&value]),
                false => self.emit(&format!("sub.{name}"), &["0", &value]),
            }));
        }
        if self.take("!") {
            let at = self.at();
            let value = self.nested(Self::unary)?;
            let condition = self.require_condition(value, at)?;
            return Ok(self.condition("not.pred", &[&condition]));
        }
        let base = self.primary()?;
        if !self.take("**") {
            return Ok(base);
        }
        let exponent = match self.peek() {
            Some(Token::Integer(digits)) => digits.parse().ok().filter(|&n| n <= MOST_EXPONENT),
            _ => None,
        };
        let Some(exponent) = exponent else {
            return Err(self.unexpected(&format!("an exponent from 0 to {MOST_EXPONENT}")));
        };
        self.next += 1;
        let base = self.number_of(base);
        Ok(Value::Number(self.power(&base, exponent)))
    }

    /// Skips the magnitude of the least integer, which only its negation can have.
    fn take_least_integer(&mut self) -> bool {
        let [Some((Token::Integer("9223372036854775808"), _)), after] =
            [self.next, self.next + 1].map(|at| self.tokens.get(at))
        else {
            return false;
        };
        let is_power = matches!(after, Some((Token::Symbol("**"), _)));
        let is_least = self.number.name == "s64" && !is_power;
        self.next += usize::from(is_least);
        is_least
    }

    fn power(&mut self, base: &str, exponent: u32) -> String {
        match exponent {
            0 => self.number.constant(1.0, 1),
            1 => base.to_owned(),
            _ => {
                let half = self.power(base, exponent / 2);
                let square = self.multiply(&half, &half);
                if exponent % 2 == 1 { self.multiply(&square, base) } else { square }
            }
        }
    }

    fn multiply(&mut self, a: &str, b: &str) -> String {
        let Number { name, is_float, .. } = self.number;
        self.emit(&format!("mul.{}.{name}", if is_float { "rn" } else { "lo" }), &[a, b])
    }

    fn primary(&mut self) -> Result<Value> {
        let at = self.at();
        let token = self.peek();
        self.next += 1;
        match token {
            Some(Token::Symbol("(")) => {
                let value = self.nested(Self::choice)?;
                self.require(")")?;
                Ok(value)
            }
            Some(Token::Integer(digits)) => self.integer(at, digits),
            Some(Token::Decimal(digits)) => {
                if !self.number.is_float {
                    return Err(self.error(at, "a float, but values are integers"));
                }
                Ok(self.float_of(digits))
            }
            Some(Token::Name("x")) => Ok(Value::Number(INPUT.to_owned())),
            Some(Token::Name(name)) if self.take("(") => self.call(at, name),
            Some(Token::Name(name)) => match name {
                "inf" | "nan" if self.number.is_float => {
                    let value = if name == "inf" { f64::INFINITY } else { f64::NAN };
                    Ok(Value::Number(self.number.constant(value, 0)))
                }
                _ => Err(self.error(at, format!("unknown name `{name}`; the element is `x`"))),
            },
            _ => {
                self.next -= 1;
                Err(self.unexpected("a value"))
            }
        }
    }

    /// Returns the float of this type that is nearest to a decimal number.
    fn float_of(&self, digits: &str) -> Value {
        let (single, double) = (digits.parse::<f32>(), digits.parse::<f64>());
        let number = if self.number.bits == 32 { single.map(f64::from) } else { double };
        Value::Number(self.number.constant(number.unwrap_or(f64::NAN), 0))
    }

    fn integer(&self, at: usize, digits: &str) -> Result<Value> {
        let Number { name, bits, is_float } = self.number;
        if is_float {
            return Ok(self.float_of(digits));
        }
        let most = if name == "u64" { u64::MAX } else { i64::MAX.cast_unsigned() };
        match digits.parse::<u64>() {
            Ok(integer) if integer <= most => {
                Ok(Value::Number(self.number.constant(0.0, integer.into())))
            }
            _ => Err(self.error(at, format!("the integer does not fit in {bits} bits"))),
        }
    }

    fn call(&mut self, at: usize, function: &str) -> Result<Value> {
        let Number { name, is_float, .. } = self.number;
        let mut arguments = Vec::new();
        loop {
            let argument = self.nested(Self::choice)?;
            arguments.push(self.number_of(argument));
            if !self.take(",") {
                break;
            }
        }
        self.require(")")?;
        let Some(&(_, arity, is_of_floats)) = FUNCTIONS.iter().find(|(name, ..)| *name == function)
        else {
            let names = |of_floats| {
                let names = FUNCTIONS.iter().filter(move |row| row.2 == of_floats).map(|row| row.0);
                names.collect::<Vec<_>>().join(", ")
            };
            let (all, floats) = (names(false), names(true));
            let reason =
                format!("unknown function `{function}`; there are {all}, and for floats {floats}");
            return Err(self.error(at, reason));
        };
        if arguments.len() != arity {
            let (given, s) = (arguments.len(), if arity == 1 { "" } else { "s" });
            let reason = format!("`{function}` takes {arity} argument{s}, not {given}");
            return Err(self.error(at, reason));
        }
        if is_of_floats && !is_float {
            return Err(self.error(at, format!("`{function}` is for floats, but values are integers")));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let instruction = match function {
            "abs" if name == "u64" => return Ok(Value::Number(arguments[0].to_owned())),
            "abs" | "min" | "max" => format!("{function}.{name}"),
            "exp" => return Ok(Value::Number(self.exp(arguments[0]))),
            "log" => return Ok(Value::Number(self.log(arguments[0]))),
            "is_nan" => {
                let twice = [arguments[0], arguments[0]];
                return Ok(self.condition(&format!("setp.nan.{name}"), &twice));
            }
            "sqrt" | "fma" => format!("{function}.rn.{name}"),
            "floor" => format!("cvt.rmi.{name}.{name}"),
            "ceil" => format!("cvt.rpi.{name}.{name}"),
            "trunc" => format!("cvt.rzi.{name}.{name}"),
            _ => format!("cvt.rni.{name}.{name}"),
        };
        Ok(Value::Number(self.emit(&instruction, &arguments)))
    }

    /// Emits an instruction with a number as its result.
    pub(super) fn emit(&mut self, instruction: &str, operands: &[&str]) -> String {
        self.numbers += 1;
        self.emit_to(format!("t{}", self.numbers - 1), instruction, operands)
    }

    /// Emits an instruction with a condition as its result.
    fn emit_condition(&mut self, instruction: &str, operands: &[&str]) -> String {
        self.conditions += 1;
        self.emit_to(format!("p{}", self.conditions - 1), instruction, operands)
    }

    pub(super) fn condition(&mut self, instruction: &str, operands: &[&str]) -> Value {
        Value::Condition(self.emit_condition(instruction, operands))
    }

    fn emit_to(&mut self, result: String, instruction: &str, operands: &[&str]) -> String {
        // About as many instructions of the device.
        let Number { bits, is_float, .. } = self.number;
        self.cost += match instruction.split('.').next() {
            Some("div" | "sqrt") if is_float => bits / 4,
            _ if is_float => 1,
            Some("div" | "rem") => 40,
            Some("mul") => 4,
            _ => 2,
        };
        self.code += &format!("{instruction} {result}, {}; ", operands.join(", "));
        result
    }

    fn number_of(&mut self, value: Value) -> String {
        match value {
            Value::Number(number) => number,
            Value::Condition(condition) => {
                let (one, zero) = (self.number.constant(1.0, 1), self.number.constant(0.0, 0));
                self.emit(&format!("selp.{}", self.number.name), &[&one, &zero, &condition])
            }
        }
    }

    fn require_condition(&self, value: Value, at: usize) -> Result<String> {
        match value {
            Value::Condition(condition) => Ok(condition),
            Value::Number(_) => {
                Err(self.error(at, "a number, but a condition is needed, such as `x > 0`"))
            }
        }
    }
}
