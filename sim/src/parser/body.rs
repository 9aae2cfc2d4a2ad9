//! Statements and operands of a function body.

use super::{Linkage, MAX_DEPTH, Parser, Result, variable_space};
use crate::ast::{Instruction, Operand, SourceLocation, Statement};
use crate::lexer::Token;

/// Maximum nesting of scopes, because a name is looked up in all of them.
const MAX_SCOPES: u32 = 64;
const MAX_COMMENT: usize = 4096;

impl<'s> Parser<'s> {
    pub(super) fn body(&mut self) -> Result<Vec<Statement<'s>>> {
        self.expect(b'{')?;
        let mut statements = Vec::new();
        let mut depth = 1_u32;
        loop {
            match self.peek() {
                None => return self.expected("`}`"),
                Some(Token::Punct(b'{')) => {
                    if depth == MAX_SCOPES {
                        return self.fail(format!("scopes nest deeper than {MAX_SCOPES}"));
                    }
                    self.position += 1;
                    depth += 1;
                    statements.push(Statement::Open);
                }
                Some(Token::Punct(b'}')) => {
                    self.position += 1;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(statements);
                    }
                    statements.push(Statement::Close);
                }
                Some(Token::Punct(b';')) => self.position += 1,
                Some(Token::Dot(directive)) => self.inner_directive(directive, &mut statements)?,
                Some(Token::Name(name)) if self.peek_at(1) == Some(Token::Punct(b':')) => {
                    let offset = self.offset();
                    self.position += 2;
                    statements.push(self.labelled(name, offset)?);
                }
                Some(_) => {
                    let instruction = self.instruction()?;
                    statements.push(Statement::Instruction(instruction));
                }
            }
        }
    }

    fn inner_directive(&mut self, directive: &str, out: &mut Vec<Statement<'s>>) -> Result<()> {
        match directive {
            "reg" => self.registers(out),
            "loc" => {
                let location = self.location()?;
                out.push(Statement::Location(location));
                Ok(())
            }
            "pragma" => self.pragma(),
            "extern" | "visible" | "weak" => {
                self.position += 1;
                let mut variables = Vec::new();
                let linkage = Linkage { external: directive == "extern", weak: false };
                self.variables(&linkage, &mut variables)?;
                out.extend(variables.into_iter().map(Statement::Variable));
                Ok(())
            }
            _ if variable_space(directive).is_some() => {
                let mut variables = Vec::new();
                self.variables(&Linkage::default(), &mut variables)?;
                out.extend(variables.into_iter().map(Statement::Variable));
                Ok(())
            }
            _ => self.expected("a statement"),
        }
    }

    /// Parses the statement after `name:`: a list of targets, a prototype, or none of these for a label.
    fn labelled(&mut self, name: &'s str, offset: u32) -> Result<Statement<'s>> {
        if self.eat_dot("branchtargets") {
            return Ok(Statement::Targets { name, labels: self.names("a label")? });
        }
        if self.eat_dot("calltargets") {
            return Ok(Statement::CallTargets { name, functions: self.names("a function")? });
        }
        if self.eat_dot("callprototype") {
            return Ok(Statement::Prototype(self.prototype(name)?));
        }
        Ok(Statement::Label(name, offset))
    }

    fn names(&mut self, what: &str) -> Result<Vec<&'s str>> {
        let mut names = vec![self.name(what)?];
        while self.eat(b',') {
            names.push(self.name(what)?);
        }
        self.expect(b';')?;
        Ok(names)
    }

    fn registers(&mut self, out: &mut Vec<Statement<'s>>) -> Result<()> {
        self.position += 1;
        let ty = self.ty()?;
        loop {
            let offset = self.offset();
            let name = self.name("a register name")?;
            let count = if self.eat(b'<') {
                let count = self.unsigned("a register count", 1 << 24)? as u32;
                self.expect(b'>')?;
                Some(count)
            } else {
                None
            };
            out.push(Statement::Registers { ty, name, count, offset });
            if !self.eat(b',') {
                return self.expect(b';');
            }
        }
    }

    /// Parses `.loc file line column [, function_name label [+n], inlined_at file line column]`.
    fn location(&mut self) -> Result<SourceLocation<'s>> {
        self.position += 1;
        let (file, line, column) = self.place()?;
        let mut location =
            SourceLocation { file, line, column, function: None, inlined_at: None, comment: None };
        while self.eat(b',') {
            match self.name("`function_name` or `inlined_at`")? {
                "function_name" => {
                    location.function = Some(self.name("a label")?);
                    if self.eat(b'+') {
                        self.number32("an offset")?;
                    }
                }
                "inlined_at" => location.inlined_at = Some(self.place()?),
                other => return self.fail(format!("unknown location attribute `{other}`")),
            }
        }
        location.comment = self.calls_in_comment();
        Ok(location)
    }

    /// Returns the comment after a `.loc` if it has the chain of calls that LLVM writes there.
    fn calls_in_comment(&self) -> Option<&'s str> {
        let rest = &self.source[self.previous_end() as usize..];
        // Limits the search, so that a text without line ends is not scanned for each directive.
        let rest = &rest[..rest.floor_char_boundary(MAX_COMMENT)];
        let comment = rest.lines().next()?.trim_start().strip_prefix("//")?;
        comment.contains("@[").then_some(comment)
    }

    fn place(&mut self) -> Result<(u32, u32, u32)> {
        Ok((self.number32("a file")?, self.number32("a line")?, self.number32("a column")?))
    }

    fn instruction(&mut self) -> Result<Instruction<'s>> {
        let start = self.offset();
        let mut guard = None;
        if self.eat(b'@') {
            let negated = self.eat(b'!');
            guard = Some((self.name("a predicate")?, negated));
        }
        let opcode = self.name("an instruction")?;
        let mut modifiers = Vec::new();
        while let Some(Token::Dot(modifier)) = self.peek() {
            self.position += 1;
            modifiers.push(modifier);
        }
        let mut operands = Vec::new();
        if self.peek() != Some(Token::Punct(b';')) {
            // Parentheses enclose the values of a call; elsewhere they enclose a constant expression.
            let list = |parser: &Self| opcode == "call" && parser.peek() == Some(Token::Punct(b'('));
            loop {
                operands.push(if list(self) { self.list(b')', 0)? } else { self.operand(0)? });
                if !self.eat(b',') {
                    break;
                }
            }
        }
        let end = self.previous_end();
        if !self.eat(b';') {
            return self.expected("`,` or `;`");
        }
        Ok(Instruction { guard, opcode, modifiers, operands, span: (start, end) })
    }

    fn operand(&mut self, depth: u32) -> Result<Operand<'s>> {
        if depth == MAX_DEPTH {
            return self.fail(format!("operands nested deeper than {MAX_DEPTH}"));
        }
        let first = match self.peek() {
            _ if self.is_at_constant() => Operand::Int(self.signed()?),
            Some(Token::Punct(b'[')) => self.address(depth)?,
            Some(Token::Punct(b'{')) => self.list(b'}', depth)?,
            Some(Token::Punct(b'(')) => self.list(b')', depth)?,
            Some(Token::Punct(b'!')) => {
                self.position += 1;
                Operand::Not(self.name("a predicate")?)
            }
            Some(Token::Name("_")) => {
                self.position += 1;
                Operand::Sink
            }
            Some(Token::Name(name)) => {
                self.position += 1;
                self.name_operand(name)?
            }
            _ => self.float_immediate()?,
        };
        if self.eat(b'|') {
            let second = self.operand(depth + 1)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn name_operand(&mut self, name: &'s str) -> Result<Operand<'s>> {
        if let Some(Token::Dot(component @ ("x" | "y" | "z" | "w"))) = self.peek() {
            self.position += 1;
            return Ok(Operand::Name(name, Some(component)));
        }
        match self.displacement()? {
            Some(offset) => Ok(Operand::Offset(name, offset)),
            None => Ok(Operand::Name(name, None)),
        }
    }

    /// Parses `+4`, `+-4` or `-4` after a base.
    fn displacement(&mut self) -> Result<Option<i64>> {
        match self.peek() {
            Some(Token::Punct(b'+')) => {
                self.position += 1;
                self.signed().map(Some)
            }
            Some(Token::Punct(b'-')) => self.signed().map(Some),
            _ => Ok(None),
        }
    }

    fn list(&mut self, close: u8, depth: u32) -> Result<Operand<'s>> {
        self.position += 1;
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(b',')?;
            }
            items.push(self.operand(depth + 1)?);
        }
        Ok(Operand::List(items))
    }

    fn address(&mut self, depth: u32) -> Result<Operand<'s>> {
        self.position += 1;
        let (base, offset) = match self.peek() {
            Some(Token::Name(name)) if !self.is_at_constant() => {
                self.position += 1;
                (Some(name), self.displacement()?.unwrap_or(0))
            }
            _ => (None, self.signed()?),
        };
        if let (Some(base), 0, Some(Token::Punct(b','))) = (base, offset, self.peek()) {
            let mut at = Vec::new();
            while self.eat(b',') {
                at.push(self.operand(depth + 1)?);
            }
            self.expect(b']')?;
            return Ok(Operand::Located { base, at });
        }
        self.expect(b']')?;
        Ok(Operand::Address { base, offset })
    }

    fn float_immediate(&mut self) -> Result<Operand<'s>> {
        let negative = self.eat(b'-');
        let operand = match self.peek() {
            Some(Token::Single(bits)) => Operand::Single(bits ^ (u32::from(negative) << 31)),
            Some(Token::Double(bits)) => Operand::Double(bits ^ (u64::from(negative) << 63)),
            Some(Token::Decimal(text)) => {
                let value: f64 = text.parse().unwrap_or(f64::NAN);
                Operand::Double(value.to_bits() ^ (u64::from(negative) << 63))
            }
            _ => return self.expected("an operand"),
        };
        self.position += 1;
        Ok(operand)
    }
}
