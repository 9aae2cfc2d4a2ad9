//! Parses debug sections, and stores those that locate instructions in the source.

use super::{Parser, Result};
use crate::ast::{Ast, DebugSection};
use crate::lexer::Token;

impl<'s> Parser<'s> {
    /// Parses a debug section, such as `.section .debug_str { label: .b8 …; }`.
    pub(super) fn section(&mut self, ast: &mut Ast<'s>) -> Result<()> {
        self.position += 1;
        match self.next() {
            Some(Token::Dot("debug_str")) => self.strings(ast),
            Some(Token::Dot("debug_abbrev")) => {
                ast.debug_abbrev = self.bytes()?;
                Ok(())
            }
            Some(Token::Dot("debug_info")) => {
                ast.debug_info = self.bytes()?;
                Ok(())
            }
            Some(Token::Dot(_)) => self.bytes().map(|_| ()),
            _ => self.expected("a section name"),
        }
    }

    fn strings(&mut self, ast: &mut Ast<'s>) -> Result<()> {
        self.expect(b'{')?;
        let mut open: Option<(&'s str, Vec<u8>)> = None;
        loop {
            match self.next() {
                None => return self.expected("`}`"),
                Some(Token::Punct(b'}')) => return Ok(()),
                Some(Token::Name(label)) if self.peek() == Some(Token::Punct(b':')) => {
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

    /// Parses the bytes of a section, with zeros in place of labels.
    fn bytes(&mut self) -> Result<DebugSection<'s>> {
        self.expect(b'{')?;
        let (mut section, mut width) = (DebugSection::default(), 1);
        loop {
            match self.next() {
                None => return self.expected("`}`"),
                Some(Token::Punct(b'}')) => return Ok(section),
                Some(Token::Dot("b8")) => width = 1,
                Some(Token::Dot("b16")) => width = 2,
                Some(Token::Dot("b32")) => width = 4,
                Some(Token::Dot("b64")) => width = 8,
                Some(Token::Int(value)) => section.bytes.extend(&value.to_le_bytes()[..width]),
                // The name of a section stands for its start, which is taken as 0.
                Some(Token::Dot(_)) => section.bytes.extend(&[0; 8][..width]),
                Some(Token::Name(_)) if self.peek() == Some(Token::Punct(b':')) => {}
                Some(Token::Name(label)) => {
                    // Narrower labels are offsets within sections.
                    if width == 8 {
                        section.labels.push((section.bytes.len(), label));
                    }
                    section.bytes.extend(&[0; 8][..width]);
                }
                Some(_) => {}
            }
        }
    }
}
