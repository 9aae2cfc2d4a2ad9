//! Messages of errors: the string literals of the macros, attributes and functions that make errors.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

/// Macros, attributes, variants and functions whose string literals are messages.
const MAKERS: [&str; 15] = [
    "Err",
    "Refused",
    "anyhow",
    "bail",
    "context",
    "damaged",
    "ensure",
    "error",
    "fail",
    "missing",
    "mismatch",
    "new_err",
    "refuse",
    "refused",
    "with_context",
];

/// Negated nouns, which leave open what is wrong: `docs/style.md` has better forms.
const NEGATED: [&str; 5] = [" is no ", " are no ", " is none", " are none", " as none"];

/// Returns the line and the text of each message in a source, without its tests.
///
/// # Errors
/// Fails if the source is not a sequence of Rust tokens.
fn messages(source: &str) -> Result<Vec<(usize, String)>, proc_macro2::LexError> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    collect(TokenStream::from_str(source)?, false, &mut found);
    Ok(found)
}

fn collect(tokens: TokenStream, in_maker: bool, found: &mut Vec<(usize, String)>) {
    let mut after_maker = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => after_maker = MAKERS.contains(&name.to_string().as_str()),
            TokenTree::Group(group) => {
                collect(group.stream(), in_maker || after_maker, found);
                after_maker = false;
            }
            TokenTree::Literal(literal) if in_maker => {
                let text = literal.to_string();
                if text.starts_with('"') && text.contains(' ') {
                    let text: String = text.split("\\\n").map(str::trim_start).collect();
                    found.push((literal.span().start().line, text));
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == '!' => {}
            TokenTree::Punct(_) | TokenTree::Literal(_) => after_maker = false,
        }
    }
}

/// Returns every message with a negated noun.
pub(super) fn findings(sources: &[(String, String)]) -> Vec<String> {
    let is_negated = |text: &str| NEGATED.iter().any(|noun| text.contains(noun));
    all(sources).filter(|(_, text)| is_negated(text)).map(shown).collect()
}

fn shown((at, text): (String, String)) -> String {
    format!("{at}: message: {text}")
}

/// Returns the location and the text of each message of the sources outside of tests.
fn all(sources: &[(String, String)]) -> impl Iterator<Item = (String, String)> {
    let is_product = |shown: &str| !shown.split('/').any(|part| part.starts_with("test"));
    sources.iter().filter(move |(shown, _)| is_product(shown)).flat_map(|(shown, source)| {
        let found = messages(source).unwrap_or_default();
        found.into_iter().map(move |(line, text)| (format!("{shown}:{line}"), text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_where_errors_are_made() {
        let source = r#"
            fn f() -> Result<()> {
                ensure!(name == "x", "no {name} here; \
                                      take another");
                say("nothing is wrong");
                Err(format!("the file is {name:?}"))
            }
            #[error("{0} is too small")]
            struct Small;
        "#;
        let found: Vec<String> = messages(source).unwrap().into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            found,
            [r#""no {name} here; take another""#, r#""the file is {name:?}""#, r#""{0} is too small""#]
        );
    }

    /// Lists the messages for `cargo test -p xtask every_message -- --nocapture`.
    #[test]
    fn every_message_can_be_listed() {
        let sources = super::super::sources().unwrap();
        for (_, source) in &sources {
            assert!(messages(source).is_ok());
        }
        let all: Vec<String> = all(&sources).map(shown).collect();
        println!("{}", all.join("\n"));
        assert!(all.len() > 500, "{}", all.len());
    }
}
