//! Debug sections: only the strings that `.loc` names are kept.

use super::{Parser, Result};
use crate::ast::Ast;
use crate::lexer::Token;

impl<'s> Parser<'s> {
    /// `.section .debug_str { label: .b8 …; }`
    pub(super) fn section(&mut self, ast: &mut Ast<'s>) -> Result<()> {
        self.position += 1;
        let keep = match self.next() {
            Some(Token::Dot(name)) => name == "debug_str",
            _ => return self.expected("a section name"),
        };
        self.expect(b'{')?;
        let mut open: Option<(&'s str, Vec<u8>)> = None;
        loop {
            match self.next() {
                None => return self.expected("`}`"),
                Some(Token::Punct(b'}')) => return Ok(()),
                Some(Token::Name(label)) if keep && self.peek() == Some(Token::Punct(b':')) => {
                    open = Some((label, Vec::new()));
                }
                Some(Token::Int(byte)) => {
                    let Some((label, bytes)) = &mut open else { continue };
                    if byte != 0 {
                        bytes.push(byte as u8);
                        continue;
                    }
                    ast.strings.push((label, String::from_utf8_lossy(bytes).into_owned()));
                    open = None;
                }
                Some(_) => {}
            }
        }
    }
}
