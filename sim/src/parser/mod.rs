//! Recursive descent over the tokens: module level, functions, variables.

mod body;
mod constant;
mod debug;
mod function;
mod variables;

use std::iter::Peekable;
use std::vec;

use crate::ast::{Ast, Type};
use crate::effort::MAX_TEXT;
use crate::lexer::{self, Failure, Token, Tokens};
use crate::memory::Space;

/// Parses a module. A broken function is recorded in its place and skipped. An error outside functions,
/// or in a function whose end is not found, fails the module.
pub(crate) fn parse(source: &str) -> Result<Ast<'_>> {
    if source.len() > MAX_TEXT {
        return Err((0, format!("{} bytes of text, allowed are {MAX_TEXT}", source.len())));
    }
    let (tokens, strays) = lexer::tokens(source)?;
    let mut parser = Parser { source, tokens, position: 0, strays: strays.into_iter().peekable() };
    let parsed = parser.module();
    parser.no_stray_before(parsed.as_ref().map_or_else(|(offset, _)| *offset, |_| u32::MAX))?;
    parsed
}

type Result<T> = std::result::Result<T, Failure>;

const MAX_DEPTH: u32 = 8;

struct Parser<'s> {
    source: &'s str,
    tokens: Tokens<'s>,
    position: usize,
    /// Offsets of characters that form no token, after the last parsed function.
    strays: Peekable<vec::IntoIter<u32>>,
}

#[derive(Default)]
struct Linkage {
    external: bool,
    weak: bool,
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

    /// Returns the byte offset of the next token, or of the end.
    fn offset(&self) -> u32 {
        self.tokens.get(self.position).map_or(self.source.len() as u32, |(_, range)| range.start)
    }

    fn previous_end(&self) -> u32 {
        self.position.checked_sub(1).map_or(0, |index| self.tokens[index].1.end)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err((self.offset(), message.into()))
    }

    /// Fails if characters that form no token precede `end`, outside functions.
    fn no_stray_before(&mut self, end: u32) -> Result<()> {
        let stray = self.strays.next_if(|&stray| stray < end);
        stray.map_or(Ok(()), |stray| Err(lexer::no_token(self.source, stray)))
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        match self.peek_text() {
            "" => self.fail(format!("expected {what}, found the end of the text")),
            found => self.fail(format!("expected {what}, found `{found}`")),
        }
    }

    fn peek_text(&self) -> &'s str {
        let token = self.tokens.get(self.position);
        token.map_or("", |(_, range)| &self.source[range.start as usize..range.end as usize])
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

    fn unsigned(&mut self, what: &str, limit: u64) -> Result<u64> {
        match self.peek_integer() {
            Some(value) if value <= limit => {
                self.position += 1;
                Ok(value)
            }
            Some(value) => self.fail(format!("{what} is {value}, allowed is at most {limit}")),
            None => self.expected(what),
        }
    }

    fn number32(&mut self, what: &str) -> Result<u32> {
        Ok(self.unsigned(what, u64::from(u32::MAX))? as u32)
    }

    fn signed(&mut self) -> Result<i64> {
        Ok(self.constant()?.bits as i64)
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
                Some(Token::Dot("visible")) => self.position += 1,
                Some(Token::Dot("weak" | "common")) => {
                    self.position += 1;
                    linkage.weak = true;
                }
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
                    return self.variables(&linkage, &mut ast.variables);
                }
                _ => return self.expected("a module-level directive"),
            }
        }
    }
}

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
