//! Every form of every floating-point instruction that both the simulator and sm_90 have.

use super::accuracy::Accuracy;
use super::instruction::{Instruction, Mode, Operation, Round, Ty};

const BOTH: [bool; 2] = [false, true];
const WORDS: [Ty; 2] = [Ty::F32, Ty::F64];
const HALVES: [Ty; 4] = [Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2];
const BINARY: [(&str, Operation); 3] =
    [("add", Operation::Add), ("sub", Operation::Sub), ("mul", Operation::Mul)];
const RELATIONS: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
const PROPERTIES: [&str; 6] = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];

pub(crate) fn instructions() -> Vec<Instruction> {
    let groups = [
        directed(),
        halves(),
        signs(),
        extremes(),
        comparisons(),
        to_integers(),
        from_integers(),
        between_floats(),
        integral(),
        approximations(),
    ];
    groups.into_iter().flatten().collect()
}

fn when(applies: bool, modifier: &'static str) -> &'static str {
    if applies { modifier } else { "" }
}

fn has_ftz(ty: Ty) -> bool {
    matches!(ty, Ty::F16 | Ty::F16x2 | Ty::F32)
}

fn flushing(ty: Ty) -> &'static [bool] {
    if has_ftz(ty) { &BOTH } else { &BOTH[..1] }
}

fn exact(text: String, operation: Operation, ty: Ty, arity: usize, mode: Mode) -> Instruction {
    Instruction { text, operation, from: ty, to: ty, arity, mode, accuracy: Accuracy::Exact }
}

fn directed() -> Vec<Instruction> {
    use Operation::{Div, Fma, Rcp, Sqrt};
    let mut all = Vec::new();
    for (ty, round) in WORDS.into_iter().flat_map(|ty| Round::ALL.map(|round| (ty, round))) {
        for &ftz in flushing(ty) {
            let mut push = |name: &str, operation, arity, sat| {
                let modifiers = format!("{}{}{}", round.name(), when(ftz, ".ftz"), when(sat, ".sat"));
                let mode = Mode { round, ftz, sat, ..Mode::PLAIN };
                all.push(exact(format!("{name}.{modifiers}.{}", ty.name()), operation, ty, arity, mode));
            };
            for &sat in if ty == Ty::F32 { &BOTH[..] } else { &BOTH[..1] } {
                for (name, operation) in BINARY {
                    push(name, operation, 2, sat);
                }
                push("fma", Fma, 3, sat);
                push("mad", Fma, 3, sat);
            }
            for (name, operation, arity) in [("div", Div, 2), ("rcp", Rcp, 1), ("sqrt", Sqrt, 1)] {
                push(name, operation, arity, false);
            }
        }
    }
    all
}

fn halves() -> Vec<Instruction> {
    let mut all = Vec::new();
    for ty in HALVES {
        let wide = has_ftz(ty);
        for &ftz in flushing(ty) {
            let mut push = |name: &str, operation, arity, sat, relu| {
                let flags = [when(ftz, ".ftz"), when(sat, ".sat"), when(relu, ".relu")].concat();
                let mode = Mode { ftz, sat, relu, ..Mode::PLAIN };
                all.push(exact(format!("{name}.rn{flags}.{}", ty.name()), operation, ty, arity, mode));
            };
            for (sat, relu) in [(false, false), (true, false), (false, true)] {
                if sat && !wide {
                    continue;
                }
                push("fma", Operation::Fma, 3, sat, relu);
                for (name, operation) in BINARY.into_iter().filter(|_| !relu) {
                    push(name, operation, 2, sat, relu);
                }
            }
        }
    }
    all
}

fn signs() -> Vec<Instruction> {
    let mut all = Vec::new();
    for ty in WORDS.into_iter().chain(HALVES) {
        for &ftz in flushing(ty) {
            for (name, operation) in [("abs", Operation::Abs), ("neg", Operation::Neg)] {
                let text = format!("{name}{}.{}", when(ftz, ".ftz"), ty.name());
                all.push(exact(text, operation, ty, 1, Mode { ftz, ..Mode::PLAIN }));
            }
        }
    }
    for ty in WORDS {
        let text = format!("copysign.{}", ty.name());
        all.push(exact(text, Operation::CopySign, ty, 2, Mode::PLAIN));
    }
    for ftz in BOTH {
        let text = format!("slct{}.b32.f32", when(ftz, ".ftz"));
        all.push(exact(text, Operation::Select, Ty::F32, 3, Mode { ftz, ..Mode::PLAIN }));
    }
    all
}

fn extremes() -> Vec<Instruction> {
    let mut all = Vec::new();
    for ty in WORDS.into_iter().chain(HALVES) {
        let modified: &[bool] = if ty == Ty::F64 { &BOTH[..1] } else { &BOTH };
        for (&ftz, &nan) in
            flushing(ty).iter().flat_map(|ftz| modified.iter().map(move |nan| (ftz, nan)))
        {
            for &xorsign in modified {
                for (name, operation) in [("min", Operation::Min), ("max", Operation::Max)] {
                    let flags = [when(ftz, ".ftz"), when(nan, ".NaN"), when(xorsign, ".xorsign.abs")];
                    let text = format!("{name}{}.{}", flags.concat(), ty.name());
                    let mode = Mode { ftz, nan, xorsign, ..Mode::PLAIN };
                    all.push(exact(text, operation, ty, 2, mode));
                }
            }
        }
    }
    all
}

fn comparisons() -> Vec<Instruction> {
    let mut all = Vec::new();
    let mut push = |text, operation, from, to, arity, ftz| {
        let mode = Mode { ftz, ..Mode::PLAIN };
        all.push(Instruction { to, ..exact(text, operation, from, arity, mode) });
    };
    for relation in RELATIONS {
        for ty in Ty::FLOATS {
            for &ftz in flushing(ty) {
                let text = format!("setp.{relation}{}.{}", when(ftz, ".ftz"), ty.name());
                push(text, Operation::Compare(relation), ty, Ty::Pred, 2, ftz);
            }
        }
        for (to, ftz) in [Ty::U32, Ty::S32, Ty::F32].into_iter().flat_map(|to| BOTH.map(|ftz| (to, ftz)))
        {
            let text = format!("set.{relation}{}.{}.f32", when(ftz, ".ftz"), to.name());
            push(text, Operation::Compare(relation), Ty::F32, to, 2, ftz);
        }
    }
    for (property, ty) in PROPERTIES.into_iter().flat_map(|name| WORDS.map(|ty| (name, ty))) {
        let text = format!("testp.{property}.{}", ty.name());
        push(text, Operation::Property(property), ty, Ty::Pred, 1, false);
    }
    all
}

fn conversion(rounding: &str, mode: Mode, to: Ty, from: Ty) -> Instruction {
    let flags = [when(mode.ftz, ".ftz"), when(mode.sat, ".sat"), when(mode.relu, ".relu")].concat();
    let text = format!("cvt{rounding}{flags}.{}.{}", to.name(), from.name());
    Instruction { to, ..exact(text, Operation::Convert, from, 1, mode) }
}

fn to_integers() -> Vec<Instruction> {
    let mut all = Vec::new();
    for (from, to) in Ty::FLOATS.into_iter().flat_map(|from| Ty::INTEGERS.map(|to| (from, to))) {
        for (round, sat) in Round::ALL.into_iter().flat_map(|round| BOTH.map(|sat| (round, sat))) {
            for &ftz in if from == Ty::F32 { &BOTH[..] } else { &BOTH[..1] } {
                // bf16 has no `.sat`, and no conversions to and from bytes.
                if from == Ty::Bf16 && (sat || to.bits() == 8) {
                    continue;
                }
                let mode = Mode { round, ftz, sat, integral: true, ..Mode::PLAIN };
                all.push(conversion(&format!(".{}i", round.name()), mode, to, from));
            }
        }
    }
    all
}

fn from_integers() -> Vec<Instruction> {
    let mut all = Vec::new();
    for (to, from) in Ty::FLOATS.into_iter().flat_map(|to| Ty::INTEGERS.map(|from| (to, from))) {
        for (round, sat) in Round::ALL.into_iter().flat_map(|round| BOTH.map(|sat| (round, sat))) {
            if to == Ty::Bf16 && (sat || from.bits() == 8) {
                continue;
            }
            all.push(conversion(
                &format!(".{}", round.name()),
                Mode { round, sat, ..Mode::PLAIN },
                to,
                from,
            ));
        }
    }
    all
}

fn between_floats() -> Vec<Instruction> {
    use Ty::{Bf16, F16, F32, F64};
    let mut all = Vec::new();
    for (to, from) in [(F32, F32), (F32, F16), (F64, F16), (F64, F32), (F32, Bf16), (F64, Bf16)] {
        for (ftz, sat) in BOTH.into_iter().flat_map(|ftz| BOTH.map(|sat| (ftz, sat))) {
            if ftz && (![to, from].contains(&F32) || from == Bf16) || sat && from == Bf16 {
                continue;
            }
            all.push(conversion("", Mode { ftz, sat, ..Mode::PLAIN }, to, from));
        }
    }
    for (to, from) in
        [(F16, F32), (F32, F64), (F16, F64), (Bf16, F32), (Bf16, F64), (F16, Bf16), (Bf16, F16)]
    {
        for (round, sat) in Round::ALL.into_iter().flat_map(|round| BOTH.map(|sat| (round, sat))) {
            for ftz in BOTH {
                let narrow = [to, from].contains(&Bf16);
                if ftz && (![to, from].contains(&F32) || narrow) || sat && narrow {
                    continue;
                }
                let mode = Mode { round, ftz, sat, ..Mode::PLAIN };
                all.push(conversion(&format!(".{}", round.name()), mode, to, from));
            }
        }
    }
    for (to, round) in
        [F16, Bf16].into_iter().flat_map(|to| [Round::Nearest, Round::Zero].map(|r| (to, r)))
    {
        let relu = Mode { round, relu: true, ..Mode::PLAIN };
        all.push(conversion(&format!(".{}", round.name()), relu, to, F32));
        for relu in BOTH {
            let pair = if to == F16 { Ty::F16x2 } else { Ty::Bf16x2 };
            let text = format!("cvt.{}{}.{}.f32", round.name(), when(relu, ".relu"), pair.name());
            let packed = exact(text, Operation::Pack, F32, 2, Mode { round, relu, ..Mode::PLAIN });
            all.push(Instruction { to: pair, ..packed });
        }
    }
    all
}

fn integral() -> Vec<Instruction> {
    let mut all = Vec::new();
    for (ty, round) in Ty::FLOATS.into_iter().flat_map(|ty| Round::ALL.map(|round| (ty, round))) {
        for (&ftz, sat) in [false, ty == Ty::F32][..1 + usize::from(ty == Ty::F32)]
            .iter()
            .flat_map(|ftz| BOTH.map(|sat| (ftz, sat)))
        {
            if sat && ty == Ty::Bf16 {
                continue;
            }
            let mode = Mode { round, ftz, sat, integral: true, ..Mode::PLAIN };
            all.push(conversion(&format!(".{}i", round.name()), mode, ty, ty));
        }
    }
    all
}

fn approximations() -> Vec<Instruction> {
    use Accuracy::{Absolute, Exact, Logarithm, Quotient, Relative, Trigonometric, Ulps, Upper};
    use Operation::{Cos, Div, Ex2, Lg2, Rcp, Rsqrt, Sin, Sqrt, Tanh};
    let singles = [
        ("div.full", Div, 2, Ulps(2)),
        ("div.approx", Div, 2, Quotient),
        ("rcp.approx", Rcp, 1, Ulps(1)),
        ("sqrt.approx", Sqrt, 1, Relative(-23.0)),
        ("rsqrt.approx", Rsqrt, 1, Relative(-22.9)),
        ("sin.approx", Sin, 1, Trigonometric),
        ("cos.approx", Cos, 1, Trigonometric),
        ("lg2.approx", Lg2, 1, Logarithm),
        ("ex2.approx", Ex2, 1, Ulps(2)),
    ];
    let mut all = Vec::new();
    let mut push = |text: String, operation, ty, arity, ftz, accuracy| {
        let mode = Mode { ftz, ..Mode::PLAIN };
        all.push(Instruction { accuracy, ..exact(text, operation, ty, arity, mode) });
    };
    for ((name, operation, arity, accuracy), ftz) in
        singles.into_iter().flat_map(|s| BOTH.map(|f| (s, f)))
    {
        push(format!("{name}{}.f32", when(ftz, ".ftz")), operation, Ty::F32, arity, ftz, accuracy);
    }
    push("tanh.approx.f32".to_owned(), Tanh, Ty::F32, 1, false, Relative(-11.0));
    push("rsqrt.approx.f64".to_owned(), Rsqrt, Ty::F64, 1, false, Relative(-50.0));
    push("rsqrt.approx.ftz.f64".to_owned(), Rsqrt, Ty::F64, 1, true, Upper);
    push("rcp.approx.ftz.f64".to_owned(), Rcp, Ty::F64, 1, true, Upper);
    for (ty, tanh) in [(Ty::F16, -10.987), (Ty::F16x2, -10.987), (Ty::Bf16, -8.0), (Ty::Bf16x2, -8.0)] {
        // bf16 flushes subnormals because its exponent is that of f32.
        let ftz = ty.shape().is_some_and(|shape| shape.exponent == 8);
        let text = format!("ex2.approx{}.{}", when(ftz, ".ftz"), ty.name());
        // The manual gives an error bound only. The hardware's algorithm is known and stays within that
        // bound, except for subnormal halves.
        push(text, Ex2, ty, 1, ftz, Exact);
        push(format!("tanh.approx.{}", ty.name()), Tanh, ty, 1, false, Absolute(tanh));
    }
    all
}
