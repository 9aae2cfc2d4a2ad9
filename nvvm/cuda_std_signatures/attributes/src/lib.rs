//! The two attributes of rust-cuda that the device crates use, reduced to what a type check needs.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Makes a function a kernel: `extern "C"` under its own name. As in rust-cuda, the function must be
/// `unsafe`, without generic parameters and without a result.
#[proc_macro_attribute]
pub fn kernel(_: TokenStream, item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.to_string() == word);
    let Some(at) = (0..tokens.len()).find(|at| is(*at, "fn")) else {
        return refuse("only a function is a kernel");
    };
    if at == 0 || !is(at - 1, "unsafe") {
        return refuse("a kernel is an unsafe function");
    }
    let parameters = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
    if !tokens.get(at + 2).is_some_and(parameters) {
        return refuse("a kernel has no generic parameters");
    }
    if is(at + 3, "-") {
        return refuse("a kernel returns nothing");
    }
    let mut made: TokenStream = "#[unsafe(no_mangle)]".parse().expect("an attribute");
    made.extend(tokens[..at].iter().cloned());
    made.extend("extern \"C\"".parse::<TokenStream>().expect("an ABI"));
    made.extend(tokens[at..].iter().cloned());
    made
}

/// Accepts a state space of the GPU for a static, which does not affect a type check. As in rust-cuda,
/// macro arguments lose their grouping: if `$n` is `A * B`, `$n as usize` becomes `A * B as usize`.
#[proc_macro_attribute]
pub fn address_space(space: TokenStream, item: TokenStream) -> TokenStream {
    match space.to_string().as_str() {
        "global" | "shared" | "constant" | "local" => ungrouped(item),
        _ => refuse("the address spaces are global, shared, constant and local"),
    }
}

/// Replaces invisible groups, which enclose macro arguments, by their tokens.
fn ungrouped(tokens: TokenStream) -> TokenStream {
    let token = |token: TokenTree| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => ungrouped(group.stream()),
        TokenTree::Group(group) => {
            let mut inside = Group::new(group.delimiter(), ungrouped(group.stream()));
            inside.set_span(group.span());
            TokenTree::Group(inside).into()
        }
        other => other.into(),
    };
    tokens.into_iter().flat_map(token).collect()
}

fn refuse(why: &str) -> TokenStream {
    format!("::core::compile_error!({why:?});").parse().expect("a macro call")
}
