//! A kernel that applies one instruction to arrays of operands.

use super::instruction::{Instruction, Ty};

/// Name of the kernel. Its parameters are three words: the address of the operands, the address of the
/// results, and the number of cases. Each operand and result has 64 bits; all first operands precede all
/// second ones. One thread computes one case.
pub(crate) const ENTRY: &str = "apply";
pub(crate) const THREADS: u32 = 256;

fn declaration(name: &str, ty: Ty) -> String {
    if ty == Ty::Pred {
        return format!("    .reg .pred {name};\n");
    }
    format!("    .reg .b{} {name};\n", ty.register())
}

pub(crate) fn ptx(instruction: &Instruction) -> String {
    let Instruction { text, from, to, arity, .. } = instruction;
    let names: Vec<String> = (0..*arity).map(|index| format!("%i{index}")).collect();
    let mut body = declaration("%o", *to);
    for name in &names {
        body += &declaration(name, *from);
        body += &format!("    ld.global.b{} {name}, [%in];\n", from.register());
        body += "    add.s64 %in, %in, %stride;\n";
    }
    body += &format!("    {text} %o, {};\n", names.join(", "));
    body += &match to.register() {
        1 => "    selp.b64 %value, 1, 0, %o;\n".to_owned(),
        64 => "    mov.b64 %value, %o;\n".to_owned(),
        bits => format!("    cvt.u64.u{bits} %value, %o;\n"),
    };
    FRAME.replace("BODY", &body)
}

const FRAME: &str = "
.version 7.8
.target sm_90
.address_size 64
.visible .entry apply(.param .u64 operands, .param .u64 results, .param .u64 count)
{
    .reg .pred %done;
    .reg .b32 %thread, %threads, %block;
    .reg .b64 %row, %in, %out, %count, %stride, %value;
    mov.u32 %thread, %tid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %block, %ctaid.x;
    cvt.u64.u32 %row, %thread;
    mad.wide.u32 %row, %block, %threads, %row;
    ld.param.u64 %count, [count];
    setp.ge.u64 %done, %row, %count;
    @%done ret;
    shl.b64 %stride, %count, 3;
    shl.b64 %row, %row, 3;
    ld.param.u64 %in, [operands];
    add.s64 %in, %in, %row;
    ld.param.u64 %out, [results];
    add.s64 %out, %out, %row;
BODY
    st.global.b64 [%out], %value;
    ret;
}
";
