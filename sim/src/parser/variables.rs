//! Declarations of variables with their initial values.

use super::{Linkage, MAX_DEPTH, Parser, Result, variable_space};
use crate::ast::{Relocation, Type, Variable};
use crate::lexer::Token;
use crate::memory::Space;

const MAX_VARIABLE: u64 = 1 << 32;

impl<'s> Parser<'s> {
    pub(super) fn variables(&mut self, linkage: &Linkage, out: &mut Vec<Variable<'s>>) -> Result<()> {
        let Some(Token::Dot(word)) = self.next() else { return self.expected("a state space") };
        let Some(space) = variable_space(word) else { return self.expected("a state space") };
        let (mut align, mut vector, mut ty) = (None, 1, None);
        while let Some(Token::Dot(word)) = self.peek() {
            match word {
                "align" => {
                    self.position += 1;
                    align = Some(self.alignment()?);
                }
                "attribute" => self.attribute()?,
                "v2" | "v4" | "v8" => {
                    self.position += 1;
                    vector = u32::from(word.as_bytes()[1] - b'0');
                }
                _ => ty = Some(self.ty()?),
            }
        }
        let Some(ty) = ty else { return self.expected("a type") };
        loop {
            let mut variable = self.variable(space, ty, vector, linkage)?;
            variable.align = align.unwrap_or(ty.bytes() * vector);
            out.push(variable);
            if !self.eat(b',') {
                return self.expect(b';');
            }
        }
    }

    fn attribute(&mut self) -> Result<()> {
        self.position += 1;
        self.expect(b'(')?;
        while !self.eat(b')') {
            if self.next().is_none() {
                return self.expected("`)`");
            }
        }
        Ok(())
    }

    fn variable(
        &mut self,
        space: Space,
        ty: Type,
        vector: u32,
        linkage: &Linkage,
    ) -> Result<Variable<'s>> {
        let offset = self.offset();
        let name = self.name("a variable name")?;
        let mut bytes = u64::from(ty.bytes() * vector);
        let mut open_ended = false;
        while self.eat(b'[') {
            if self.eat(b']') {
                open_ended = true;
                continue;
            }
            let length = self.count("an array length", MAX_VARIABLE)?;
            bytes = bytes.saturating_mul(length);
            self.expect(b']')?;
        }
        if bytes > MAX_VARIABLE {
            return self.fail(format!("variable of {bytes} bytes, allowed is {MAX_VARIABLE}"));
        }
        let (mut init, mut relocations) = (Vec::new(), Vec::new());
        if self.eat(b'=') {
            self.initialiser(ty, &mut init, &mut relocations, 0)?;
        }
        let bytes = if open_ended { init.len() as u64 } else { bytes };
        if init.len() as u64 > bytes {
            let length = init.len();
            return self.fail(format!("initial value of {length} bytes, allowed is {bytes}"));
        }
        let Linkage { external, weak } = *linkage;
        Ok(Variable { space, name, align: 1, bytes, external, weak, init, relocations, offset })
    }

    fn initialiser(
        &mut self,
        ty: Type,
        bytes: &mut Vec<u8>,
        relocations: &mut Vec<Relocation<'s>>,
        depth: u32,
    ) -> Result<()> {
        if self.eat(b'{') {
            if depth == MAX_DEPTH {
                return self.fail(format!("initial values nested deeper than {MAX_DEPTH}"));
            }
            while !self.eat(b'}') {
                self.initialiser(ty, bytes, relocations, depth + 1)?;
                if !self.eat(b',') {
                    self.expect(b'}')?;
                    break;
                }
            }
            return Ok(());
        }
        let at = bytes.len();
        let value = match self.peek() {
            Some(Token::Name(name)) if !self.is_at_constant() => {
                self.position += 1;
                let generic = name == "generic" && self.eat(b'(');
                let symbol = if generic { self.name("a variable")? } else { name };
                if generic {
                    self.expect(b')')?;
                }
                let addend = if self.eat(b'+') { self.signed()? } else { 0 };
                relocations.push(Relocation { at, symbol, addend, generic });
                0
            }
            _ => self.constant_bits(ty)?,
        };
        bytes.extend_from_slice(&value.to_le_bytes()[..ty.bytes().min(8) as usize]);
        Ok(())
    }

    fn constant_bits(&mut self, ty: Type) -> Result<u64> {
        if !self.is_at_constant() {
            return Ok(float_bits(self.float()?, ty));
        }
        let value = self.constant()?;
        Ok(match (ty.is_float(), value.unsigned) {
            (false, _) => value.bits,
            (true, true) => float_bits(value.bits as f64, ty),
            (true, false) => float_bits(value.bits as i64 as f64, ty),
        })
    }

    fn float(&mut self) -> Result<f64> {
        let negative = self.eat(b'-');
        let value = match self.peek() {
            Some(Token::Single(bits)) => f64::from(f32::from_bits(bits)),
            Some(Token::Double(bits)) => f64::from_bits(bits),
            Some(Token::Decimal(text)) => text.parse().unwrap_or(f64::NAN),
            _ => return self.expected("a constant"),
        };
        self.position += 1;
        Ok(if negative { -value } else { value })
    }
}

fn float_bits(value: f64, ty: Type) -> u64 {
    match ty {
        Type::F32 | Type::B32 | Type::U32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}
