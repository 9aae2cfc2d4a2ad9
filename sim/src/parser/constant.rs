//! Integer constants and constant expressions, evaluated while they are parsed by the rules of the PTX
//! manual's section 4.5: 64 bits, signed unless an operand is unsigned.

use std::fmt;

use super::{MAX_DEPTH, Parser, Result};
use crate::lexer::Token;
use crate::program::LANES;

const WARP_SZ: &str = "WARP_SZ";

/// Maximum signs and parentheses that the lookahead skips before a number.
const MAX_AHEAD: usize = 4 * MAX_DEPTH as usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Integer {
    pub(super) bits: u64,
    pub(super) unsigned: bool,
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unsigned { self.bits.fmt(f) } else { (self.bits as i64).fmt(f) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    const fn rank(self) -> u32 {
        match self {
            Self::Or => 0,
            Self::And => 1,
            Self::BitOr => 2,
            Self::BitXor => 3,
            Self::BitAnd => 4,
            Self::Equal | Self::NotEqual => 5,
            Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual => 6,
            Self::ShiftLeft | Self::ShiftRight => 7,
            Self::Add | Self::Subtract => 8,
            Self::Multiply | Self::Divide | Self::Remainder => 9,
        }
    }

    fn apply(self, left: Integer, right: Integer) -> Option<Integer> {
        let (a, b) = (left.bits, right.bits);
        let unsigned = left.unsigned || right.unsigned;
        let converted = |bits| Integer { bits, unsigned };
        let truth = |is: bool| Integer { bits: is.into(), unsigned: false };
        let order = if unsigned { a.cmp(&b) } else { (a as i64).cmp(&(b as i64)) };
        Some(match self {
            Self::Or => truth(a != 0 || b != 0),
            Self::And => truth(a != 0 && b != 0),
            Self::BitOr => converted(a | b),
            Self::BitXor => converted(a ^ b),
            Self::BitAnd => converted(a & b),
            Self::Equal => truth(a == b),
            Self::NotEqual => truth(a != b),
            Self::Less => truth(order.is_lt()),
            Self::LessEqual => truth(order.is_le()),
            Self::Greater => truth(order.is_gt()),
            Self::GreaterEqual => truth(order.is_ge()),
            Self::ShiftLeft => Integer { bits: if b < 64 { a << b } else { 0 }, ..left },
            Self::ShiftRight if left.unsigned => {
                Integer { bits: if b < 64 { a >> b } else { 0 }, ..left }
            }
            Self::ShiftRight => Integer { bits: (a as i64 >> b.min(63)) as u64, ..left },
            Self::Add => converted(a.wrapping_add(b)),
            Self::Subtract => converted(a.wrapping_sub(b)),
            Self::Multiply => converted(a.wrapping_mul(b)),
            Self::Divide if b == 0 => return None,
            Self::Divide if unsigned => converted(a / b),
            Self::Divide => converted((a as i64).wrapping_div(b as i64) as u64),
            // Unlike in C, operands are taken as unsigned.
            Self::Remainder => Integer { bits: a.checked_rem(b)?, unsigned: false },
        })
    }
}

impl Parser<'_> {
    pub(super) fn peek_integer(&self) -> Option<u64> {
        match self.peek()? {
            Token::Int(value) => Some(value),
            Token::Name(WARP_SZ) => Some(LANES as u64),
            _ => None,
        }
    }

    pub(super) fn is_at_constant(&self) -> bool {
        for ahead in 0..MAX_AHEAD {
            match self.peek_at(ahead) {
                Some(Token::Int(_) | Token::Name(WARP_SZ)) => return true,
                Some(Token::Punct(b'(' | b')' | b'+' | b'-' | b'!' | b'~')) => {}
                Some(Token::Dot("s64" | "u64")) => {}
                _ => return false,
            }
        }
        false
    }

    pub(super) fn constant(&mut self) -> Result<Integer> {
        self.conditional(0)
    }

    /// Like [`constant`](Self::constant), limited to 0 to `limit`.
    pub(super) fn count(&mut self, what: &str, limit: u64) -> Result<u64> {
        if !self.is_at_constant() {
            return self.expected(what);
        }
        let start = self.position;
        let value = self.constant()?;
        if value.bits <= limit {
            return Ok(value.bits);
        }
        self.position = start;
        self.fail(format!("{what} is {value}, allowed is at most {limit}"))
    }

    fn conditional(&mut self, depth: u32) -> Result<Integer> {
        let condition = self.binary(0, depth)?;
        if !self.eat(b'?') {
            return Ok(condition);
        }
        let yes = self.conditional(depth + 1)?;
        self.expect(b':')?;
        let no = self.conditional(depth + 1)?;
        let bits = if condition.bits == 0 { no.bits } else { yes.bits };
        Ok(Integer { bits, unsigned: yes.unsigned || no.unsigned })
    }

    /// Parses operators of precedence `least` or higher, from left to right.
    fn binary(&mut self, least: u32, depth: u32) -> Result<Integer> {
        let mut left = self.unary(depth)?;
        while let Some((operator, tokens)) = self.operator().filter(|(op, _)| op.rank() >= least) {
            let at = self.position;
            self.position += tokens;
            let right = self.binary(operator.rank() + 1, depth)?;
            let Some(result) = operator.apply(left, right) else {
                self.position = at;
                return self.fail("division by zero in a constant expression");
            };
            left = result;
        }
        Ok(left)
    }

    fn unary(&mut self, depth: u32) -> Result<Integer> {
        if depth >= MAX_DEPTH {
            return self.fail(format!("constant expressions nested deeper than {MAX_DEPTH}"));
        }
        if let Some(bits) = self.peek_integer() {
            let text = self.peek_text();
            self.position += 1;
            return Ok(Integer { bits, unsigned: text.ends_with('U') || bits > i64::MAX as u64 });
        }
        let Some(Token::Punct(sign @ (b'(' | b'+' | b'-' | b'!' | b'~'))) = self.peek() else {
            return self.expected("an integer");
        };
        self.position += 1;
        if sign == b'(' {
            return self.bracketed(depth);
        }
        let value = self.unary(depth + 1)?;
        Ok(match sign {
            b'-' => Integer { bits: value.bits.wrapping_neg(), ..value },
            b'!' => Integer { bits: u64::from(value.bits == 0), unsigned: false },
            b'~' => Integer { bits: !value.bits, unsigned: true },
            _ => value,
        })
    }

    /// Parses the part after `(`: a type conversion with its operand, or an expression.
    fn bracketed(&mut self, depth: u32) -> Result<Integer> {
        let (signed, unsigned) = (self.eat_dot("s64"), self.eat_dot("u64"));
        if signed || unsigned {
            self.expect(b')')?;
            return Ok(Integer { unsigned, ..self.unary(depth + 1)? });
        }
        let value = self.conditional(depth + 1)?;
        self.expect(b')')?;
        Ok(value)
    }

    /// Returns the next operator and its number of tokens; the two characters of an operator must be
    /// adjacent.
    fn operator(&self) -> Option<(Operator, usize)> {
        let (first, range) = self.tokens.get(self.position)?;
        let first = match *first {
            Token::Punct(first) => first,
            // A `%` before a register is part of its name.
            Token::Name("%") => b'%',
            _ => return None,
        };
        let second = match self.tokens.get(self.position + 1) {
            Some((Token::Punct(second), next)) if next.start == range.end => *second,
            _ => 0,
        };
        Some(match (first, second) {
            (b'|', b'|') => (Operator::Or, 2),
            (b'&', b'&') => (Operator::And, 2),
            (b'=', b'=') => (Operator::Equal, 2),
            (b'!', b'=') => (Operator::NotEqual, 2),
            (b'<', b'<') => (Operator::ShiftLeft, 2),
            (b'<', b'=') => (Operator::LessEqual, 2),
            (b'>', b'>') => (Operator::ShiftRight, 2),
            (b'>', b'=') => (Operator::GreaterEqual, 2),
            (b'|', _) => (Operator::BitOr, 1),
            (b'^', _) => (Operator::BitXor, 1),
            (b'&', _) => (Operator::BitAnd, 1),
            (b'<', _) => (Operator::Less, 1),
            (b'>', _) => (Operator::Greater, 1),
            (b'+', _) => (Operator::Add, 1),
            (b'-', _) => (Operator::Subtract, 1),
            (b'*', _) => (Operator::Multiply, 1),
            (b'/', _) => (Operator::Divide, 1),
            (b'%', _) => (Operator::Remainder, 1),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parser;
    use crate::lexer;

    fn value(text: &str) -> String {
        let (tokens, strays) = lexer::tokens(text).expect("tokens");
        let strays = strays.into_iter().peekable();
        let mut parser = Parser { source: text, tokens, position: 0, strays };
        let value = parser.constant().map_err(|failure| lexer::error(text, failure).to_string());
        assert!(value.is_err() || parser.peek().is_none(), "{text}: {value:?} and more");
        value.map_or_else(|error| error, |value| value.to_string())
    }

    #[test]
    fn expressions_are_worked_out_as_the_manual_says() {
        for (text, expected) in [
            ("WARP_SZ", "32"),
            ("WARP_SZ - 1", "31"),
            ("-WARP_SZ*2+1", "-63"),
            ("2 + 3 * 4 - 10 / 3", "11"),
            ("(2 + 3) * (4 - 10) / 7", "-4"),
            ("-7 / 2", "-3"),
            ("-7 % 4", "1"),
            ("7U - 8", "18446744073709551615"),
            ("~0", "18446744073709551615"),
            ("(.s64)~0", "-1"),
            ("(.u64)-1 > 0", "1"),
            ("-1 > 0", "0"),
            ("0xfabc123400000000 >> 60", "15"),
            ("-16 >> 2", "-4"),
            ("1 << 64", "0"),
            ("-1 >> 64", "-1"),
            ("1 << 2 << 3", "32"),
            ("6 & 3 | 8 ^ 9", "3"),
            ("1 == 1 != 0 && 2 >= 2 || 1 / 1", "1"),
            ("!5 + !0", "1"),
            ("WARP_SZ == 32 ? 7 : 8", "7"),
            ("0 ? 1 : 0 ? 2 : 3", "3"),
            ("4 +-8", "-4"),
            ("-9223372036854775807 - 1", "-9223372036854775808"),
            ("(-9223372036854775807 - 1) / -1", "-9223372036854775808"),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_constant_expressions_are_errors() {
        let zero = "division by zero in a constant expression";
        assert_eq!(value("5 / (1 - 1)"), format!("ptx line 1, column 3: {zero}"));
        assert_eq!(value("5 % 0"), format!("ptx line 1, column 3: {zero}"));
        assert_eq!(value("5 + x"), "ptx line 1, column 5: expected an integer, found `x`");
        assert_eq!(value("(5"), "ptx line 1, column 3: expected `)`, found the end of the text");
        let deep = "constant expressions nested deeper than 8";
        assert_eq!(value(&"(".repeat(100)), format!("ptx line 1, column 9: {deep}"));
        assert_eq!(value(&"-".repeat(100)), format!("ptx line 1, column 9: {deep}"));
        assert_eq!(value(&"1 ? 2 : ".repeat(9)), format!("ptx line 1, column 61: {deep}"));
    }
}
