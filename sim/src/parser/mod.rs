//! Recursive descent over the tokens: module level, functions, variables.

mod body;
mod debug;

use crate::ast::{Ast, Formal, Function, Relocation, Type, Variable};
use crate::error::ParseError;
use crate::lexer::{self, Token, Tokens};
use crate::memory::Space;

/// Parses a module.
///
/// # Errors
/// The first place where the text is not PTX of the supported subset.
pub(crate) fn parse(source: &str) -> Result<Ast<'_>> {
    let mut parser = Parser { source, tokens: lexer::tokens(source)?, position: 0 };
    parser.module()
}

type Result<T> = std::result::Result<T, ParseError>;

/// Deepest nesting of initialisers and operand lists.
const MAX_DEPTH: u32 = 8;
/// Largest variable, in bytes.
const MAX_VARIABLE: u64 = 1 << 32;

struct Parser<'s> {
    source: &'s str,
    tokens: Tokens<'s>,
    position: usize,
}

/// Words before `.entry`, `.func` or a variable.
#[derive(Default)]
struct Linkage {
    external: bool,
}

impl<'s> Parser<'s> {
    fn peek(&self) -> Option<Token<'s>> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<Token<'s>> {
        self.tokens.get(self.position + ahead).map(|(token, _)| *token)
    }

    fn next(&mut self) -> Option<Token<'s>> {
        let token = self.peek();
        self.position += usize::from(token.is_some());
        token
    }

    /// Byte offset of the next token, or of the end.
    fn offset(&self) -> u32 {
        self.tokens.get(self.position).map_or(self.source.len() as u32, |(_, range)| range.start)
    }

    /// Byte offset just past the token before.
    fn previous_end(&self) -> u32 {
        self.position.checked_sub(1).map_or(0, |index| self.tokens[index].1.end)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(lexer::at(self.source, self.offset(), message))
    }

    /// Fails by naming the next token and what was expected instead.
    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = self.tokens.get(self.position).map_or_else(
            || "the end of the text".to_owned(),
            |(_, range)| format!("`{}`", &self.source[range.start as usize..range.end as usize]),
        );
        self.fail(format!("expected {what}, found {found}"))
    }

    fn eat(&mut self, punct: u8) -> bool {
        let hit = self.peek() == Some(Token::Punct(punct));
        self.position += usize::from(hit);
        hit
    }

    fn expect(&mut self, punct: u8) -> Result<()> {
        if self.eat(punct) { Ok(()) } else { self.expected(&format!("`{}`", punct as char)) }
    }

    fn eat_dot(&mut self, name: &str) -> bool {
        let hit = self.peek() == Some(Token::Dot(name));
        self.position += usize::from(hit);
        hit
    }

    fn name(&mut self, what: &str) -> Result<&'s str> {
        let Some(Token::Name(name)) = self.peek() else { return self.expected(what) };
        self.position += 1;
        Ok(name)
    }

    fn text(&mut self) -> Result<&'s str> {
        let Some(Token::Text(text)) = self.peek() else { return self.expected("a string") };
        self.position += 1;
        Ok(text)
    }

    /// An unsigned integer no greater than `limit`.
    fn unsigned(&mut self, what: &str, limit: u64) -> Result<u64> {
        match self.peek() {
            Some(Token::Int(value)) if value <= limit => {
                self.position += 1;
                Ok(value)
            }
            Some(Token::Int(value)) => {
                self.fail(format!("{what} is {value}, allowed is at most {limit}"))
            }
            _ => self.expected(what),
        }
    }

    fn number32(&mut self, what: &str) -> Result<u32> {
        Ok(self.unsigned(what, u64::from(u32::MAX))? as u32)
    }

    fn signed(&mut self) -> Result<i64> {
        let negative = self.eat(b'-');
        let value = self.unsigned("an integer", u64::MAX)? as i64;
        Ok(if negative { value.wrapping_neg() } else { value })
    }

    fn ty(&mut self) -> Result<Type> {
        if let Some(Token::Dot(name)) = self.peek()
            && let Some(ty) = Type::parse(name)
        {
            self.position += 1;
            return Ok(ty);
        }
        self.expected("a type")
    }

    fn alignment(&mut self) -> Result<u32> {
        let value = self.unsigned("an alignment", 4096)?;
        if value.is_power_of_two() {
            return Ok(value as u32);
        }
        self.fail(format!("alignment is {value}, allowed is a power of two"))
    }

    fn module(&mut self) -> Result<Ast<'s>> {
        let mut ast = Ast::default();
        while let Some(token) = self.peek() {
            let Token::Dot(directive) = token else {
                if self.eat(b';') {
                    continue;
                }
                return self.expected("a directive");
            };
            self.directive(directive, &mut ast)?;
        }
        if ast.version == (0, 0) {
            return self.fail("the module has no `.version`");
        }
        Ok(ast)
    }

    fn directive(&mut self, directive: &'s str, ast: &mut Ast<'s>) -> Result<()> {
        match directive {
            "version" => {
                self.position += 1;
                ast.version = self.version()?;
            }
            "target" => {
                self.position += 1;
                ast.target = self.name("a target such as `sm_90`")?;
                while self.eat(b',') {
                    self.name("a target option")?;
                }
            }
            "address_size" => {
                self.position += 1;
                let size = self.unsigned("an address size", 64)?;
                if size != 64 {
                    return self.fail(format!("address size is {size}, allowed is 64"));
                }
            }
            "file" => {
                self.position += 1;
                let index = self.number32("a file index")?;
                ast.files.push((index, self.text()?));
                while self.eat(b',') {
                    self.unsigned("a file attribute", u64::MAX)?;
                }
            }
            "section" => self.section(ast)?,
            "pragma" => self.pragma()?,
            _ => self.declaration(ast)?,
        }
        Ok(())
    }

    fn pragma(&mut self) -> Result<()> {
        self.position += 1;
        self.text()?;
        self.expect(b';')
    }

    fn version(&mut self) -> Result<(u32, u32)> {
        if let Some(Token::Decimal(text)) = self.peek()
            && let Some((major, minor)) = text.split_once('.')
            && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
        {
            self.position += 1;
            return Ok((major, minor));
        }
        self.expected("a version such as `7.8`")
    }

    fn declaration(&mut self, ast: &mut Ast<'s>) -> Result<()> {
        let mut linkage = Linkage::default();
        loop {
            match self.peek() {
                Some(Token::Dot("visible" | "weak" | "common")) => self.position += 1,
                Some(Token::Dot("extern")) => {
                    self.position += 1;
                    linkage.external = true;
                }
                Some(Token::Dot("entry" | "func")) => {
                    let function = self.function(&linkage)?;
                    ast.functions.push(function);
                    return Ok(());
                }
                Some(Token::Dot(name)) if variable_space(name).is_some() => {
                    return self.variables(linkage.external, &mut ast.variables);
                }
                _ => return self.expected("a directive of the module level"),
            }
        }
    }

    fn function(&mut self, linkage: &Linkage) -> Result<Function<'s>> {
        let entry = self.eat_dot("entry");
        self.position += usize::from(!entry);
        let mut returns = Vec::new();
        while self.eat_dot("noreturn") {}
        if self.peek() == Some(Token::Punct(b'(')) {
            returns = self.formals()?;
        }
        let offset = self.offset();
        let name = self.name("a function name")?;
        let params = if self.peek() == Some(Token::Punct(b'(')) { self.formals()? } else { Vec::new() };
        let mut function = Function {
            name,
            entry,
            external: linkage.external,
            returns,
            params,
            max_threads: None,
            required_threads: None,
            body: None,
            offset,
        };
        self.performance_directives(&mut function)?;
        if !self.eat(b';') {
            function.body = Some(self.body()?);
        }
        Ok(function)
    }

    fn performance_directives(&mut self, function: &mut Function<'s>) -> Result<()> {
        while let Some(Token::Dot(name)) = self.peek() {
            match name {
                "maxntid" => function.max_threads = Some(self.extent()?),
                "reqntid" => function.required_threads = Some(self.extent()?),
                "minnctapersm" | "maxnreg" | "maxnctapersm" => {
                    self.position += 1;
                    self.number32("a count")?;
                }
                "noreturn" => self.position += 1,
                "pragma" => self.pragma()?,
                _ => return self.expected("a performance directive or the body"),
            }
        }
        Ok(())
    }

    /// One to three comma-separated extents after a directive.
    fn extent(&mut self) -> Result<[u32; 3]> {
        self.position += 1;
        let mut extent = [1; 3];
        extent[0] = self.number32("a thread count")?;
        for place in &mut extent[1..] {
            if !self.eat(b',') {
                break;
            }
            *place = self.number32("a thread count")?;
        }
        Ok(extent)
    }

    fn formals(&mut self) -> Result<Vec<Formal<'s>>> {
        self.expect(b'(')?;
        let mut formals = Vec::new();
        while !self.eat(b')') {
            if !formals.is_empty() {
                self.expect(b',')?;
            }
            formals.push(self.formal()?);
        }
        Ok(formals)
    }

    fn formal(&mut self) -> Result<Formal<'s>> {
        let register = self.eat_dot("reg");
        if !register && !self.eat_dot("param") {
            return self.expected("`.param`");
        }
        let mut align = None;
        if self.eat_dot("align") {
            align = Some(self.alignment()?);
        }
        let ty = self.ty()?;
        if self.eat_dot("ptr") {
            while let Some(Token::Dot(word)) = self.peek() {
                self.position += 1;
                if word == "align" {
                    self.alignment()?;
                }
            }
        }
        let name = self.name("a parameter name")?;
        let mut bytes = ty.bytes();
        if self.eat(b'[') {
            let count = self.unsigned("a parameter size", 32_764)? as u32;
            bytes = (bytes * count).min(32_764);
            self.expect(b']')?;
        }
        Ok(Formal { name, align: align.unwrap_or(ty.bytes()), bytes, register })
    }

    /// Variables of one declaration, up to its semicolon.
    fn variables(&mut self, external: bool, out: &mut Vec<Variable<'s>>) -> Result<()> {
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
            let mut variable = self.variable(space, ty, vector, external)?;
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

    fn variable(&mut self, space: Space, ty: Type, vector: u32, external: bool) -> Result<Variable<'s>> {
        let offset = self.offset();
        let name = self.name("a variable name")?;
        let mut bytes = u64::from(ty.bytes() * vector);
        let mut open_ended = false;
        while self.eat(b'[') {
            if self.eat(b']') {
                open_ended = true;
                continue;
            }
            let length = self.unsigned("an array length", MAX_VARIABLE)?;
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
        Ok(Variable { space, name, align: 1, bytes, external, init, relocations, offset })
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
            Some(Token::Name(name)) => {
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

    /// A constant as the bits that it has in a variable of type `ty`.
    fn constant_bits(&mut self, ty: Type) -> Result<u64> {
        let negative = self.eat(b'-');
        let double = match self.peek() {
            Some(Token::Int(value)) if !ty.is_float() => {
                self.position += 1;
                return Ok(if negative { value.wrapping_neg() } else { value });
            }
            Some(Token::Int(value)) => value as f64,
            Some(Token::Single(bits)) => f64::from(f32::from_bits(bits)),
            Some(Token::Double(bits)) => f64::from_bits(bits),
            Some(Token::Decimal(text)) => text.parse().unwrap_or(f64::NAN),
            _ => return self.expected("a constant"),
        };
        self.position += 1;
        let double = if negative { -double } else { double };
        Ok(match ty {
            Type::F32 | Type::B32 | Type::U32 => u64::from((double as f32).to_bits()),
            _ => double.to_bits(),
        })
    }
}

/// The state space in which a directive declares variables.
fn variable_space(directive: &str) -> Option<Space> {
    Some(match directive {
        "global" => Space::Global,
        "const" => Space::Const,
        "shared" => Space::Shared,
        "local" => Space::Local,
        "param" => Space::Param,
        _ => return None,
    })
}
