//! Functions: their heads, and recovery after broken ones.

use super::{Linkage, Parser, Result};
use crate::ast::{ClusterDirectives, Formal, Function, Prototype, Statement};
use crate::lexer::{self, Failure, Token, shown};

impl<'s> Parser<'s> {
    /// Parses a `.entry` or `.func`. If the function is broken, but its name and end are found, returns
    /// the name with the failure.
    pub(super) fn function(&mut self, linkage: &Linkage) -> Result<Function<'s>> {
        let start = self.offset();
        self.no_stray_before(start)?;
        let entry = self.eat_dot("entry");
        self.position += usize::from(!entry);
        while self.eat_dot("noreturn") {}
        let returns = self.position;
        self.skip_returns()?;
        let offset = self.offset();
        let name = self.name("a function name")?;
        let behind_name = self.position;
        let mut function = Function {
            name,
            entry,
            external: linkage.external,
            returns: Vec::new(),
            params: Vec::new(),
            max_threads: None,
            required_threads: None,
            cluster: ClusterDirectives::default(),
            body: None,
            broken: None,
            allocates: false,
            start,
            offset,
        };
        self.position = returns;
        let failure = self.signature_and_body(&mut function).err();
        if let Some(failure) = &failure {
            self.position = behind_name;
            function.body = self.skip_function(failure)?.then(Vec::new);
        }
        let first = failure.into_iter().chain(self.stray_within()).min();
        if let Some((at, message)) = first {
            function.body = function.body.map(|_| Vec::new());
            function.broken = Some((at, shown(&message)));
        }
        Ok(function)
    }

    fn signature_and_body(&mut self, function: &mut Function<'s>) -> Result<()> {
        if self.peek() == Some(Token::Punct(b'(')) {
            function.returns = self.formals()?;
        }
        // Skips the name, which is known.
        self.position += 1;
        if self.peek() == Some(Token::Punct(b'(')) {
            function.params = self.formals()?;
        }
        self.performance_directives(function)?;
        if !self.eat(b';') {
            let body = self.body()?;
            function.allocates = body.iter().any(|statement| match statement {
                Statement::Instruction(instruction) => instruction.opcode == "alloca",
                _ => false,
            });
            function.body = Some(body);
        }
        Ok(())
    }

    /// Parses a prototype after `name: .callprototype`, up to its semicolon.
    pub(super) fn prototype(&mut self, name: &'s str) -> Result<Prototype<'s>> {
        let mut prototype = Prototype { name, returns: Vec::new(), params: Vec::new() };
        if self.peek() == Some(Token::Punct(b'(')) {
            prototype.returns = self.formals()?;
        }
        self.name("`_`")?;
        if self.peek() == Some(Token::Punct(b'(')) {
            prototype.params = self.formals()?;
        }
        while let Some(Token::Dot(word)) = self.peek() {
            self.position += 1;
            if word.starts_with("abi_preserve") {
                self.number32("a count of registers")?;
            }
        }
        self.expect(b';')?;
        Ok(prototype)
    }

    fn skip_returns(&mut self) -> Result<()> {
        let start = self.position;
        if self.peek() != Some(Token::Punct(b'(')) {
            return Ok(());
        }
        let mut depth = 0_u32;
        while let Some(token) = self.next() {
            match token {
                Token::Punct(b'(') => depth += 1,
                Token::Punct(b')') if depth == 1 => return Ok(()),
                Token::Punct(b')') => depth -= 1,
                Token::Punct(b'{' | b'}' | b';') => break,
                _ => {}
            }
        }
        // The list has no end and no name follows, so this fails with the right error.
        self.position = start;
        self.formals().map(drop)
    }

    /// Skips a broken function, and returns whether it has a body. Returns the given failure if another
    /// function begins, or the module ends, before the end of this one is found.
    fn skip_function(&mut self, failure: &Failure) -> Result<bool> {
        let (mut scopes, mut brackets) = (0_u32, 0_u32);
        let mut last = None;
        while let Some(token) = self.next() {
            match token {
                Token::Dot("entry" | "func") => break,
                Token::Punct(b'{') => scopes += 1,
                Token::Punct(b'}') if scopes == 0 => break,
                Token::Punct(b'}') if scopes == 1 => return Ok(true),
                Token::Punct(b'}') => scopes -= 1,
                _ if scopes > 0 => {}
                Token::Punct(b'(') => brackets += 1,
                Token::Punct(b')') => brackets = brackets.saturating_sub(1),
                // This semicolon may end a `.pragma` of the function's head, after its string.
                Token::Punct(b';') if !matches!(last, Some(Token::Text(_))) => return Ok(false),
                Token::Dot(name) if brackets == 0 && is_of_module(name) => break,
                _ => {}
            }
            last = Some(token);
        }
        Err(failure.clone())
    }

    /// Returns a failure if the function that ends here contains characters that form no token.
    fn stray_within(&mut self) -> Option<Failure> {
        let end = self.previous_end();
        let first = self.strays.next_if(|&stray| stray < end)?;
        while self.strays.next_if(|&stray| stray < end).is_some() {}
        Some(lexer::no_token(self.source, first))
    }

    fn performance_directives(&mut self, function: &mut Function<'s>) -> Result<()> {
        while let Some(Token::Dot(name)) = self.peek() {
            match name {
                "maxntid" => function.max_threads = Some(self.extent()?),
                "reqntid" => function.required_threads = Some(self.extent()?),
                "reqnctapercluster" => function.cluster.shape = Some(self.extent()?),
                "explicitcluster" => {
                    self.position += 1;
                    function.cluster.explicit = true;
                }
                "maxclusterrank" => {
                    self.position += 1;
                    function.cluster.most_blocks = Some(self.number32("a block count")?);
                }
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

    /// Parses one to three comma-separated extents after a directive.
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
            let count = self.count("a parameter size", 32_764)? as u32;
            bytes = (bytes * count).min(32_764);
            self.expect(b']')?;
        }
        Ok(Formal { name, align: align.unwrap_or(ty.bytes()), bytes, register })
    }
}

/// Returns whether a directive occurs only outside functions. Such a directive ends a broken function.
fn is_of_module(directive: &str) -> bool {
    matches!(
        directive,
        "visible" | "weak" | "common" | "extern" | "global" | "const" | "shared" | "file" | "section"
    )
}
