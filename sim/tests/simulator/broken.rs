//! Broken entries among valid ones: each is refused by name, with its line, and the others run.

use crate::common::{device, read_u32s, u32s};
use warpfold_sim::{Args, Error, Gpu, Launch, Module};

const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

fn good(name: &str, number: u32) -> String {
    format!(
        ".visible .entry {name}(.param .u64 out) {{ .reg .b64 %rd; ld.param.u64 %rd, [out]; \
         st.global.u32 [%rd], {number}; ret; }}\n"
    )
}

/// Returns a module of declarations between two valid entries, `first` and `last`, which both run.
fn between(text: &str) -> Module {
    let whole = format!("{HEAD}{}{text}\n{}", good("first", 5), good("last", 7));
    let module = Module::parse_each(&whole).unwrap_or_else(|error| panic!("{error}\n{whole}"));
    let strict = Module::parse(&whole).map(|_| ()).map_err(|error| error.to_string());
    let earliest = module.broken().map(|broken| broken.error()).min_by_key(|at| (at.line, at.column));
    assert_eq!(strict, earliest.map_or(Ok(()), |error| Err(error.to_string())), "{text}");
    for (name, number) in [("first", 5), ("last", 7)] {
        let gpu = Gpu::new(device());
        let out = u32s(&gpu, &[0]);
        let ran = gpu.launch(&module, name, &Launch::linear(1, 1), &Args::new().ptr(out));
        ran.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read_u32s(&gpu, out, 1), [number], "{text}");
    }
    module
}

fn said(module: &Module, name: &str) -> String {
    let gpu = Gpu::new(device());
    let ran = gpu.launch(module, name, &Launch::linear(1, 1), &Args::new());
    ran.map_or_else(|error| error.to_string(), |_| "it ran".to_owned())
}

/// Asserts that `k`, in declarations that begin on line 5, is the only broken entry, and why.
fn assert_broken(text: &str, expected: &str) {
    let module = between(text);
    assert_eq!(said(&module, "k"), format!("entry `k` is broken: ptx {expected}"), "{text}");
    assert!(module.entry("k").is_none(), "{text}");
    assert!(module.broken().any(|broken| broken.name() == "k" && broken.is_entry()), "{text}");
    let names: Vec<&str> = module.entries().map(warpfold_sim::Entry::name).collect();
    assert_eq!(names, ["first", "last"], "{text}");
}

#[test]
fn a_broken_body_breaks_its_entry_alone() {
    for (body, expected) in [
        ("\nfrobnicate.u32 1;", "line 6, column 1: unknown opcode `frobnicate`"),
        ("\n  mov.u32 %r1, 5;", "line 6, column 3: `%r1` is not declared"),
        ("\nmov.u32 %r1 5;", "line 6, column 13: expected `,` or `;`, found `5`"),
        ("\n.tex .u64 t;", "line 6, column 1: expected a statement, found `.tex`"),
        ("\n{ { ) } }", "line 6, column 5: expected an instruction, found `)`"),
        ("\nmov.u32 %r1, 5 #;", "line 6, column 16: `#; ret; }` is not a PTX token"),
        ("# one\nret # two", "line 5, column 22: `# one` is not a PTX token"),
        ("ret; é", "line 5, column 27: `é ret; }` is not a PTX token"),
        (
            "\nmov.u32 %r1, ; // }\n/* } */ .pragma \"}\";",
            "line 6, column 14: expected an operand, found `;`",
        ),
        ("L: L: ", "line 5, column 25: `L` is declared twice"),
        ("\nbra NOWHERE;", "line 6, column 1: `NOWHERE` is not declared"),
        (
            ".global .u32 x;",
            "line 5, column 35: variable `x` in global memory cannot be declared within a function",
        ),
        ("call nobody;", "line 5, column 22: call of `nobody`, which is not a function of the module"),
    ] {
        assert_broken(&format!(".visible .entry k() {{{body} ret; }}"), expected);
    }
    assert_broken(&format!(".entry k() {{ {} {} }}", "{".repeat(70), "}".repeat(70)), {
        "line 5, column 77: scopes nest deeper than 64"
    });
}

#[test]
fn a_broken_head_breaks_its_entry_alone() {
    for (text, expected) in [
        (".entry k(.param .texref t) { ret; }", "line 5, column 17: expected a type, found `.texref`"),
        (
            ".entry k() .pragma \"a;\"; .blocksareclusters { ret; }",
            "line 5, column 26: expected a performance directive or the body, found `.blocksareclusters`",
        ),
        (
            ".entry k(.param .u64 .ptr .global .align 3 p) { ret; }",
            "line 5, column 44: alignment is 3, allowed is a power of two",
        ),
        (".entry k(.param .b8 p[32765]) { ret; }", {
            "line 5, column 23: a parameter size is 32765, allowed is at most 32764"
        }),
        (".entry # k() { ret; }", "line 5, column 8: `# k() { ret;` is not a PTX token"),
    ] {
        assert_broken(text, expected);
    }
}

#[test]
fn an_entry_that_calls_a_broken_function_is_broken_by_it() {
    let calls = "\n.entry k() { call g; ret; }";
    let through = "\n.func g() { call f; ret; }\n.entry k() { call g; ret; }";
    assert_broken(
        &format!(".func g() {{ frobnicate; ret; }}{calls}"),
        "line 5, column 13: in `g`, which it calls: unknown opcode `frobnicate`",
    );
    assert_broken(
        &format!(".func g() {{ mov.u32 1 2; ret; }}{calls}"),
        "line 5, column 23: in `g`, which it calls: expected `,` or `;`, found `2`",
    );
    assert_broken(
        &format!(".func f() {{ 1; ret # }}{through}"),
        "line 5, column 13: in `f`, which it calls: expected an instruction, found `1`",
    );
    assert_broken(
        &format!(".func other() {{ ret; }}\n.func (.surfref x[(1)]) f() {{ ret; }}{through}"),
        "line 6, column 8: in `f`, which it calls: expected `.param`, found `.surfref`",
    );
    assert_broken(
        ".func g();\n.entry k() { call g; call g; ret; }\n.func g()\n{ frobnicate; ret; }",
        "line 8, column 3: in `g`, which it calls: unknown opcode `frobnicate`",
    );
}

#[test]
fn long_names_do_not_hide_the_reason() {
    let [entry, function] = ["k", "f"].map(|letter| letter.repeat(500));
    let module =
        between(&format!(".func {function}() {{ frob; }}\n.entry {entry}() {{ call {function}; }}"));
    let said = said(&module, &entry);
    assert!(
        said.starts_with("entry `kkk") && said.ends_with("fff…`, which it calls: unknown opcode `frob`")
    );
    assert!(said.len() < 800, "{said}");
}

#[test]
fn uncalled_broken_functions_break_no_entry() {
    let module = between(".func g() { mov.u32 1 2; ret; }\n.extern .func h(.param .texref t);");
    let broken: Vec<_> = module.broken().map(|broken| (broken.name(), broken.is_entry())).collect();
    assert_eq!(broken, [("g", false), ("h", false)]);
    assert_eq!(said(&module, "g"), "module has no entry `g`; it has `first`, `last`");
    // Functions are checked only when an entry calls them.
    assert_eq!(between(".func g() { frobnicate; ret; }").broken().len(), 0);
}

#[test]
fn each_broken_entry_has_its_own_reason() {
    let module = between(
        ".entry a() { frob; ret; }\n.entry b() { mov 1 2; ret; }\n.func f() { frob; ret; }\n\
         .entry c() { call f; ret; }",
    );
    let broken: Vec<_> = module.broken().map(|broken| (broken.name(), broken.error().line)).collect();
    assert_eq!(broken, [("a", 5), ("b", 6), ("c", 7)]);
    let gpu = Gpu::new(device());
    let refused = gpu.launch(&module, "b", &Launch::linear(1, 1), &Args::new()).expect_err("refused");
    let Error::BrokenEntry { name, reason } = refused else { panic!("{refused}") };
    assert_eq!((name.as_str(), reason.line, reason.column), ("b", 6, 20));
    assert_eq!(said(&module, "nobody"), "module has no entry `nobody`; it has `first`, `last`");
}

#[test]
fn errors_outside_functions_refuse_the_text() {
    for (text, expected) in [
        (".global .texref t;", "line 5, column 9: expected a type, found `.texref`"),
        (
            ".extern .global .u32 x;",
            "line 5, column 22: variable `x` is external; only shared arrays may be external",
        ),
        (".alias f, g;", "line 5, column 1: expected a module-level directive, found `.alias`"),
        ("# .entry k() { ret; }", "line 5, column 1: `# .entry k()` is not a PTX token"),
        (".visible # .entry k() { ret; }", "line 5, column 10: `# .entry k()` is not a PTX token"),
        (".entry k() { ret; } é", "line 5, column 21: `é` is not a PTX token"),
        (".entry k() { ret; /* }", "line 5, column 19: comment without end"),
        (".entry k() { ret; } ret; }", "line 5, column 21: expected a directive, found `ret`"),
        (".entry k() { { ret; }", "line 6, column 17: expected a state space, found `last`"),
        (".entry k() { frob #", "line 5, column 19: `#` is not a PTX token"),
        (".entry k(.param .u64 x", "line 6, column 1: expected `,`, found `.visible`"),
        (".entry k() .global .u32 x;", {
            "line 5, column 12: expected a performance directive or the body, found `.global`"
        }),
        (".func (.param .u32 x f() { ret; }", "line 5, column 22: expected `,`, found `f`"),
        (".func ) f() { ret; }", "line 5, column 7: expected a function name, found `)`"),
        (".entry () { ret; }", "line 5, column 11: expected a function name, found `{`"),
        (".entry first() { frob; ret; }", "line 5, column 8: `first` is declared twice"),
    ] {
        let whole = format!("{HEAD}{}{text}\n{}", good("first", 5), good("last", 7));
        for parsed in [Module::parse(&whole), Module::parse_each(&whole)] {
            assert_eq!(parsed.expect_err(text).to_string(), format!("ptx {expected}"), "{text}");
        }
    }
}
