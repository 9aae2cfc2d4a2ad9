//! Modifiers and operands of the instruction that is being decoded.

use crate::ast::{Instruction, Operand, Type};
use crate::effort::Effort;
use crate::lanes::AluFn;
use crate::memory::{Space, code_address};
use crate::program::{
    Access, Assertion, AsyncOp, Barrier, Call, ConditionCall, HeapCall, Init, MatrixOp, Op, Operands,
    Print, Special, TextureOp,
};

use super::flatten::{Flat, Returns};
use super::rows::{File, Rows};
use super::special;
use super::symbols::{ModuleSymbols, Symbol};

pub(super) type Result<T> = std::result::Result<T, String>;

/// Decoding state of an entry and of its current instruction.
pub(super) struct Context<'c, 'a, 's> {
    pub(super) module: &'c ModuleSymbols<'s>,
    pub(super) effort: &'c Effort,
    pub(super) flat: &'c mut Flat<'a, 's>,
    pub(super) rows: Rows,
    pub(super) accesses: Vec<Access>,
    pub(super) barriers: Vec<Barrier>,
    pub(super) asynchronous: Vec<AsyncOp>,
    pub(super) prints: Vec<Print>,
    pub(super) assertions: Vec<Assertion>,
    pub(super) condition_calls: Vec<ConditionCall>,
    pub(super) heap_calls: Vec<HeapCall>,
    pub(super) matrices: Vec<MatrixOp>,
    pub(super) textures: Vec<TextureOp>,
    pub(super) tables: Vec<Vec<u32>>,
    pub(super) calls: Vec<Call>,
    /// Address of each shared variable; all 0 in the first pass, which finds the used variables.
    pub(super) shared_addresses: Vec<u32>,
    pub(super) shared_used: Vec<bool>,
    pub(super) instruction: &'a Instruction<'s>,
    pub(super) scope: usize,
    pub(super) returns: Returns,
    pub(super) taken: u32,
    pub(super) last_type: Option<Type>,
}

impl<'a, 's> Context<'_, 'a, 's> {
    fn operand_list(&self) -> &'a [Operand<'s>] {
        &self.instruction.operands
    }

    fn modifiers(&self) -> &'a [&'s str] {
        &self.instruction.modifiers
    }

    fn remaining(&self) -> impl Iterator<Item = (usize, &'s str)> + use<'a, 's> {
        let taken = self.taken;
        let list = self.modifiers().iter().copied().enumerate();
        list.filter(move |&(index, _)| index >= 32 || taken >> index & 1 == 0)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.modifiers().contains(&name)
    }

    pub(super) fn take(&mut self, name: &str) -> bool {
        let found = self.remaining().find(|&(_, modifier)| modifier == name);
        found.is_some_and(|(index, _)| self.mark(index))
    }

    fn mark(&mut self, index: usize) -> bool {
        if index < 32 {
            self.taken |= 1 << index;
        }
        index < 32
    }

    /// Takes the first remaining modifier that the table lists, and returns its value.
    pub(super) fn choose<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let found = self.remaining().find_map(|(index, modifier)| {
            table.iter().find(|(name, _)| *name == modifier).map(|(_, value)| (index, *value))
        });
        found.filter(|&(index, _)| self.mark(index)).map(|(_, value)| value)
    }

    pub(super) fn require<T: Copy>(&mut self, what: &str, table: &[(&str, T)]) -> Result<T> {
        self.choose(table).ok_or_else(|| {
            let names: Vec<String> = table.iter().map(|(name, _)| format!("`.{name}`")).collect();
            format!("`{}` needs {what}: one of {}", self.instruction.opcode, names.join(", "))
        })
    }

    /// Takes the modifiers for which `hint` returns `true`; they have no effect on results.
    pub(super) fn ignore(&mut self, hint: impl Fn(&str) -> bool) {
        let hints: Vec<usize> =
            self.remaining().filter(|(_, name)| hint(name)).map(|(index, _)| index).collect();
        for index in hints {
            self.mark(index);
        }
    }

    pub(super) fn ty(&mut self) -> Result<Type> {
        let found = self.remaining().find_map(|(index, name)| Some((index, Type::parse(name)?)));
        let Some((index, ty)) = found.filter(|&(index, _)| index < 32) else {
            return Err(format!("`{}` needs a type", self.instruction.opcode));
        };
        self.mark(index);
        self.last_type = Some(ty);
        Ok(ty)
    }

    pub(super) fn peek_type(&self) -> Option<Type> {
        self.remaining().find_map(|(_, name)| Type::parse(name))
    }

    pub(super) fn peek(&self) -> Option<&'s str> {
        self.remaining().next().map(|(_, name)| name)
    }

    pub(super) fn all_taken(&self) -> Result<()> {
        let opcode = self.instruction.opcode;
        self.remaining().next().map_or(Ok(()), |(_, name)| {
            Err(format!("modifier `.{name}` of `{opcode}` is not supported here"))
        })
    }

    pub(super) fn wrong_type<T>(&self, ty: Type) -> Result<T> {
        let opcode = self.instruction.opcode;
        let name = format!("{ty:?}").to_lowercase();
        Err(format!("`{opcode}` has no form for type `.{name}` with these modifiers"))
    }

    pub(super) fn arity(&self, range: std::ops::RangeInclusive<usize>) -> Result<usize> {
        let (opcode, count) = (self.instruction.opcode, self.operand_list().len());
        if range.contains(&count) {
            return Ok(count);
        }
        let (least, most) = range.into_inner();
        let allowed = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(format!("`{opcode}` has {count} operands, allowed is {allowed}"))
    }

    pub(super) fn operand(&self, index: usize) -> Result<&'a Operand<'s>> {
        self.operand_list()
            .get(index)
            .ok_or_else(|| format!("`{}` lacks operand {}", self.instruction.opcode, index + 1))
    }

    pub(super) fn symbol(&mut self, name: &'s str) -> Result<Symbol> {
        self.flat
            .scopes
            .find(self.scope, name)
            .or_else(|| self.module.names.get(name).copied())
            .ok_or_else(|| format!("`{name}` is not declared"))
    }

    fn register(&mut self, name: &'s str, ty: Type) -> Result<u32> {
        match self.symbol(name)? {
            Symbol::Register(Type::B128, _) => {
                let opcode = self.instruction.opcode;
                Err(format!("register `{name}` has 128 bits, which `{opcode}` does not take here"))
            }
            Symbol::Register(declared, register) if declared.bits() == ty.bits() => Ok(register),
            Symbol::Register(declared, _) => {
                let (has, needs) = (declared.bits(), ty.bits());
                Err(format!(
                    "register `{name}` has {has} bits, `{}` needs {needs}",
                    self.instruction.opcode
                ))
            }
            _ => Err(format!("`{name}` is not a register")),
        }
    }

    pub(super) fn wide_register(&mut self, operand: &Operand<'s>, write: bool) -> Result<[u16; 2]> {
        let symbol = match operand {
            Operand::Name(name, None) => Some(self.symbol(name)?),
            _ => None,
        };
        let Some(Symbol::Register(Type::B128, register)) = symbol else {
            return Err(format!("`{}` needs a register of 128 bits here", self.instruction.opcode));
        };
        let whole = !self.is_guarded();
        Ok([register, register + 1].map(|half| match write {
            true => self.rows.write(half, whole),
            false => self.rows.read(half),
        }))
    }

    fn is_guarded(&self) -> bool {
        self.instruction.guard.is_some()
    }

    pub(super) fn destination(&mut self, index: usize, ty: Type) -> Result<u16> {
        let operand = self.operand(index)?;
        self.destination_of(operand, ty)
    }

    pub(super) fn destination_of(&mut self, operand: &Operand<'s>, ty: Type) -> Result<u16> {
        let Operand::Name(name, None) = operand else {
            return Err(format!("the destination of `{}` must be a register", self.instruction.opcode));
        };
        let register = self.register(name, ty)?;
        Ok(self.rows.write(register, !self.is_guarded()))
    }

    pub(super) fn declared_type(&mut self, operand: &Operand<'s>) -> Result<Type> {
        let Operand::Name(name, None) = operand else {
            return Err(format!("`{}` needs a register here", self.instruction.opcode));
        };
        match self.symbol(name)? {
            Symbol::Register(declared, _) => Ok(declared),
            _ => Err(format!("`{name}` is not a register")),
        }
    }

    pub(super) fn source(&mut self, index: usize, ty: Type) -> Result<u16> {
        let operand = self.operand(index)?;
        self.source_of(operand, ty)
    }

    pub(super) fn source_of(&mut self, operand: &Operand<'s>, ty: Type) -> Result<u16> {
        match operand {
            Operand::Name(name, None) => {
                if let Some(special) = special::find(name, None) {
                    return self.special(name, special, ty);
                }
                match self.symbol(name)? {
                    Symbol::Register(..) => {
                        let register = self.register(name, ty)?;
                        Ok(self.rows.read(register))
                    }
                    symbol => self.address_of(symbol, name, 0, ty),
                }
            }
            Operand::Name(name, Some(component)) => match special::find(name, Some(component)) {
                Some(special) => self.special(name, special, ty),
                None => Err(format!("`{name}.{component}` is not a supported special register")),
            },
            Operand::Offset(name, offset) => {
                let symbol = self.symbol(name)?;
                self.address_of(symbol, name, *offset, ty)
            }
            _ => match immediate(operand, ty) {
                Some(bits) => Ok(self.constant(bits, ty)),
                None => Err(format!("`{}` cannot take this operand", self.instruction.opcode)),
            },
        }
    }

    pub(super) fn constant(&mut self, bits: u64, ty: Type) -> u16 {
        match File::of(ty) {
            File::Double => self.rows.constant(Init::Double(bits)),
            _ => self.rows.constant(Init::Word(bits as u32)),
        }
    }

    fn special(&mut self, name: &str, special: Special, ty: Type) -> Result<u16> {
        match (ty.bits(), special::bits(special)) {
            (1, 1) => Ok(self.rows.constant(Init::SpecialPredicate(special))),
            (32, 32) => Ok(self.rows.constant(Init::Special(special))),
            (64, 64) => Ok(self.rows.constant(Init::Special64(special))),
            (needed, bits) => {
                Err(format!("special register `{name}` has {bits} bits, but {needed} are needed"))
            }
        }
    }

    fn address_of(&mut self, symbol: Symbol, name: &str, offset: i64, ty: Type) -> Result<u16> {
        if !matches!(ty.bits(), 32 | 64) {
            return Err(format!("the address of `{name}` does not fit {} bits", ty.bits()));
        }
        if let Symbol::Global(index) = symbol {
            if ty.bits() != 64 {
                return Err(format!("the address of global `{name}` needs 64 bits"));
            }
            return Ok(self.rows.constant(Init::Global(index, offset)));
        }
        if let Symbol::Function(index) = symbol {
            if ty.bits() != 64 {
                return Err(format!("the address of function `{name}` needs 64 bits"));
            }
            return Ok(self.constant(code_address(index), ty));
        }
        let Some((_, address)) = self.place(symbol) else {
            return Err(format!("`{name}` has no address"));
        };
        Ok(self.constant(address.wrapping_add(offset as u64), ty))
    }

    /// Returns the state space and the address of a variable that is not global.
    pub(super) fn place(&mut self, symbol: Symbol) -> Option<(Space, u64)> {
        match symbol {
            Symbol::Shared(index) => {
                self.shared_used[index] = true;
                Some((Space::Shared, u64::from(self.shared_addresses[index])))
            }
            Symbol::Local(offset, _) => Some((Space::Local, u64::from(offset))),
            Symbol::Const(offset) => Some((Space::Const, offset)),
            Symbol::Param(offset) => Some((Space::Param, u64::from(offset))),
            _ => None,
        }
    }

    /// Returns the register-file row of a predicate operand, and whether the operand is negated.
    pub(super) fn predicate(&mut self, index: usize) -> Result<(u16, bool)> {
        match self.operand(index)? {
            Operand::Not(name) => Ok((self.predicate_named(name)?, true)),
            Operand::Name(name, None) => Ok((self.predicate_named(name)?, false)),
            Operand::Int(value) => Ok((Rows::always(), *value == 0)),
            _ => Err(format!("`{}` needs a predicate here", self.instruction.opcode)),
        }
    }

    pub(super) fn predicate_named(&mut self, name: &'s str) -> Result<u16> {
        if let Some(special) = special::find(name, None) {
            return self.special(name, special, Type::Pred);
        }
        let register = self.register(name, Type::Pred)?;
        Ok(self.rows.read(register))
    }

    pub(super) fn label(&mut self, name: &'s str) -> Result<u32> {
        match self.symbol(name)? {
            Symbol::Label(label) => self.label_index(label),
            _ => Err(format!("`{name}` is not a label")),
        }
    }

    pub(super) fn label_index(&self, label: usize) -> Result<u32> {
        let index = self.flat.labels.get(label).copied().flatten();
        index.map(|index| index as u32).ok_or_else(|| "the label has no position".to_owned())
    }

    /// Decodes an operation on registers: operand 0 is the destination and has the first type, the
    /// sources follow.
    pub(super) fn alu(&mut self, f: AluFn, types: &[Type]) -> Result<Op> {
        self.alu_with(f, types, 0)
    }

    /// Like [`alu`](Self::alu), with a constant in `imm`.
    pub(super) fn alu_with(&mut self, f: AluFn, types: &[Type], imm: u32) -> Result<Op> {
        self.arity(types.len()..=types.len())?;
        let mut o = Operands { imm, ..Operands::default() };
        // Sources come first, because an instruction reads them before it writes the destination.
        for (index, (place, &ty)) in
            [&mut o.a, &mut o.b, &mut o.c].into_iter().zip(&types[1..]).enumerate()
        {
            *place = if ty == Type::Pred {
                match self.predicate(index + 1)? {
                    (row, false) => row,
                    (_, true) => return Err("a negated predicate is not allowed here".to_owned()),
                }
            } else {
                self.source(index + 1, ty)?
            };
        }
        o.d = self.destination(0, types[0])?;
        Ok(Op::Alu { f, o })
    }
}

pub(super) fn immediate(operand: &Operand<'_>, ty: Type) -> Option<u64> {
    let bits = match (operand, ty) {
        (Operand::Int(value), Type::F32) => u64::from((*value as f32).to_bits()),
        (Operand::Int(value), Type::F64) => (*value as f64).to_bits(),
        (Operand::Int(value), _) => *value as u64,
        (Operand::Single(bits), Type::F64) => f64::from(f32::from_bits(*bits)).to_bits(),
        (Operand::Single(bits), _) => u64::from(*bits),
        (Operand::Double(bits), Type::F32) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
        (Operand::Double(bits), _) => *bits,
        _ => return None,
    };
    Some(match ty.bits() {
        64 => bits,
        width => bits & ((1 << width) - 1),
    })
}
