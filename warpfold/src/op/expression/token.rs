//! Tokens of expressions.

use std::fmt;

use logos::Logos;

#[derive(Logos, Debug, Clone, Copy, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n]+")]
pub(super) enum Token<'t> {
    #[regex(r"[0-9]+", |lexer| lexer.slice())]
    Integer(&'t str),
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?", |lexer| lexer.slice())]
    #[regex(r"\.[0-9]+([eE][+-]?[0-9]+)?", |lexer| lexer.slice())]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+", |lexer| lexer.slice())]
    Decimal(&'t str),
    #[regex(r"[a-zA-Z_][a-zA-Z0-9_]*", |lexer| lexer.slice())]
    Name(&'t str),
    #[regex(r"\*\*|&&|\|\||<=|>=|==|!=|[-+*/%&|^<>!?:(),]", |lexer| lexer.slice())]
    Symbol(&'t str),
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Integer(text) | Self::Decimal(text) | Self::Name(text) | Self::Symbol(text)) = self;
        write!(f, "`{text}`")
    }
}
