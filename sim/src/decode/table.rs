//! The table of supported opcodes.

use crate::ast::Type;
use crate::observe::Class;
use crate::program::Op;

use super::context::{Context, Result};
use super::{
    cluster, compare, control, copy, float, integer, logic, matrix, mbarrier, memory, movement, texture,
    video, warp, warpgroup,
};

type Decoder = for<'c, 'a, 's> fn(&mut Context<'c, 'a, 's>) -> Result<Op>;

pub(super) struct Opcode {
    pub(super) name: &'static str,
    /// The unit that executes the instruction. [`class`](Self::class) replaces `Integer` by the unit of
    /// the instruction's type.
    class: Class,
    pub(super) decode: Decoder,
}

/// Sorted by name for the binary search.
pub(super) static OPCODES: &[Opcode] = &[
    row("abs", Class::Integer, integer::abs),
    row("activemask", Class::Warp, warp::activemask),
    row("add", Class::Integer, integer::add),
    row("addc", Class::Integer, integer::addc),
    row("alloca", Class::Other, control::alloca),
    row("and", Class::Integer, logic::and),
    row("applypriority", Class::Other, memory::hint),
    row("atom", Class::Atomic, memory::atom),
    row("bar", Class::Barrier, control::bar),
    row("barrier", Class::Barrier, control::bar),
    row("bfe", Class::Integer, integer::bfe),
    row("bfi", Class::Integer, integer::bfi),
    row("bfind", Class::Integer, integer::bfind),
    row("bmsk", Class::Integer, integer::bmsk),
    row("bra", Class::Control, control::bra),
    row("brev", Class::Integer, integer::brev),
    row("brkpt", Class::Other, control::nop),
    row("brx", Class::Control, control::brx),
    row("clz", Class::Integer, integer::clz),
    row("cnot", Class::Integer, logic::cnot),
    row("copysign", Class::Integer, float::copysign),
    row("cos", Class::Special, float::cos),
    row("cp", Class::Copy, copy::cp),
    row("createpolicy", Class::Other, movement::createpolicy),
    row("cvt", Class::Convert, movement::cvt),
    row("cvta", Class::Integer, movement::cvta),
    row("discard", Class::Other, memory::hint),
    row("div", Class::Integer, integer::div),
    row("dp2a", Class::Integer, integer::dp2a),
    row("dp4a", Class::Integer, integer::dp4a),
    row("elect", Class::Warp, warp::elect),
    row("ex2", Class::Special, float::ex2),
    row("exit", Class::Control, control::exit),
    row("fence", Class::Fence, memory::fence),
    row("fma", Class::Integer, float::fma),
    row("fns", Class::Integer, integer::fns),
    row("getctarank", Class::Integer, cluster::getctarank),
    row("griddepcontrol", Class::Other, control::griddepcontrol),
    row("isspacep", Class::Compare, movement::isspacep),
    row("ld", Class::Memory, memory::ld),
    row("ldmatrix", Class::Memory, matrix::ldmatrix),
    row("ldu", Class::Memory, memory::ld),
    row("lg2", Class::Special, float::lg2),
    row("lop3", Class::Integer, logic::lop3),
    row("mad", Class::Integer, integer::mad),
    row("mad24", Class::Integer, integer::mad24),
    row("madc", Class::Integer, integer::madc),
    row("mapa", Class::Integer, cluster::mapa),
    row("match", Class::Warp, warp::match_),
    row("max", Class::Integer, integer::max),
    row("mbarrier", Class::Barrier, mbarrier::mbarrier),
    row("membar", Class::Fence, memory::fence),
    row("min", Class::Integer, integer::min),
    row("mma", Class::Matrix, matrix::mma),
    row("mov", Class::Move, movement::mov),
    row("movmatrix", Class::Warp, matrix::movmatrix),
    row("mul", Class::Integer, integer::mul),
    row("mul24", Class::Integer, integer::mul24),
    row("nanosleep", Class::Other, control::nanosleep),
    row("neg", Class::Integer, integer::neg),
    row("not", Class::Integer, logic::not),
    row("or", Class::Integer, logic::or),
    row("pmevent", Class::Other, control::nop),
    row("popc", Class::Integer, integer::popc),
    row("prefetch", Class::Other, memory::hint),
    row("prefetchu", Class::Other, memory::hint),
    row("prmt", Class::Integer, logic::prmt),
    row("rcp", Class::Special, float::rcp),
    row("red", Class::Atomic, memory::red),
    row("redux", Class::Warp, warp::redux),
    row("rem", Class::Integer, integer::rem),
    row("ret", Class::Control, control::ret),
    row("rsqrt", Class::Special, float::rsqrt),
    row("sad", Class::Integer, integer::sad),
    row("selp", Class::Move, compare::selp),
    row("set", Class::Compare, compare::set),
    row("setmaxnreg", Class::Other, control::setmaxnreg),
    row("setp", Class::Compare, compare::setp),
    row("shf", Class::Integer, logic::shf),
    row("shfl", Class::Warp, warp::shfl),
    row("shl", Class::Integer, logic::shl),
    row("shr", Class::Integer, logic::shr),
    row("sin", Class::Special, float::sin),
    row("slct", Class::Move, compare::slct),
    row("sqrt", Class::Special, float::sqrt),
    row("st", Class::Memory, memory::st),
    row("stackrestore", Class::Other, control::stackrestore),
    row("stacksave", Class::Other, control::stacksave),
    row("stmatrix", Class::Memory, matrix::stmatrix),
    row("sub", Class::Integer, integer::sub),
    row("subc", Class::Integer, integer::subc),
    row("suld", Class::Memory, texture::suld),
    row("suq", Class::Texture, texture::suq),
    row("sured", Class::Atomic, texture::sured),
    row("sust", Class::Memory, texture::sust),
    row("szext", Class::Integer, integer::szext),
    row("tanh", Class::Special, float::tanh),
    row("tensormap", Class::Other, copy::tensormap),
    row("testp", Class::Compare, float::testp),
    row("tex", Class::Texture, texture::tex),
    row("tld4", Class::Texture, texture::tld4),
    row("trap", Class::Control, control::trap),
    row("txq", Class::Texture, texture::txq),
    row("vabsdiff2", Class::Integer, video::arithmetic),
    row("vabsdiff4", Class::Integer, video::arithmetic),
    row("vadd2", Class::Integer, video::arithmetic),
    row("vadd4", Class::Integer, video::arithmetic),
    row("vavrg2", Class::Integer, video::arithmetic),
    row("vavrg4", Class::Integer, video::arithmetic),
    row("vmax2", Class::Integer, video::arithmetic),
    row("vmax4", Class::Integer, video::arithmetic),
    row("vmin2", Class::Integer, video::arithmetic),
    row("vmin4", Class::Integer, video::arithmetic),
    row("vote", Class::Warp, warp::vote),
    row("vset2", Class::Integer, video::set),
    row("vset4", Class::Integer, video::set),
    row("vsub2", Class::Integer, video::arithmetic),
    row("vsub4", Class::Integer, video::arithmetic),
    row("wgmma", Class::Matrix, warpgroup::wgmma),
    row("wmma", Class::Matrix, matrix::wmma),
    row("xor", Class::Integer, logic::xor),
];

const fn row(name: &'static str, class: Class, decode: Decoder) -> Opcode {
    Opcode { name, class, decode }
}

pub(super) fn find(name: &str) -> Option<&'static Opcode> {
    OPCODES.binary_search_by_key(&name, |opcode| opcode.name).ok().map(|index| &OPCODES[index])
}

impl Opcode {
    pub(super) fn class(&self, ty: Option<Type>) -> Class {
        if self.class != Class::Integer {
            return self.class;
        }
        match ty {
            Some(Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2) => Class::Half,
            Some(Type::F32) => Class::Float,
            Some(Type::F64) => Class::Double,
            Some(ty) if ty.bits() == 64 => Class::Integer64,
            _ => Class::Integer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OPCODES;

    #[test]
    fn the_table_is_sorted_for_its_search() {
        assert!(OPCODES.is_sorted_by(|a, b| a.name < b.name));
    }
}
