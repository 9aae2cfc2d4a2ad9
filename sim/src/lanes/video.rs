//! Arithmetic of the SIMD video instructions, on the four bytes or the two halves of words.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Average,
    AbsoluteDifference,
    Min,
    Max,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

const OPERATIONS: [Operation; 12] = [
    Operation::Add,
    Operation::Sub,
    Operation::Average,
    Operation::AbsoluteDifference,
    Operation::Min,
    Operation::Max,
    Operation::Equal,
    Operation::NotEqual,
    Operation::Less,
    Operation::LessEqual,
    Operation::Greater,
    Operation::GreaterEqual,
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Video {
    pub(crate) operation: Operation,
    pub(crate) bits: u32,
    /// Signedness of the parts of the result, of the first operand and of the second operand.
    pub(crate) signed: [bool; 3],
    pub(crate) saturates: bool,
    /// Set if the parts are summed, together with the third operand.
    pub(crate) sums: bool,
}

impl Video {
    pub(crate) fn encode(self) -> u32 {
        let [d, a, b] = self.signed.map(u32::from);
        let flags = d | a << 1 | b << 2 | u32::from(self.saturates) << 3 | u32::from(self.sums) << 4;
        self.operation as u32 | self.bits << 8 | flags << 16
    }

    fn decode(bits: u32) -> Self {
        let flag = |bit: u32| bits >> (16 + bit) & 1 == 1;
        Self {
            operation: OPERATIONS[(bits & 0xff) as usize % OPERATIONS.len()],
            bits: bits >> 8 & 0xff,
            signed: [flag(0), flag(1), flag(2)],
            saturates: flag(3),
            sums: flag(4),
        }
    }
}

fn part(word: u32, index: u32, bits: u32, signed: bool) -> i32 {
    let top = word << (32 - bits - index * bits);
    if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
}

pub(crate) fn video(imm: u32, a: u32, b: u32, c: u32) -> u32 {
    let Video { operation, bits, signed, saturates, sums } = Video::decode(imm);
    let (mut packed, mut sum) = (0, c);
    for index in 0..32 / bits {
        let (a, b) = (part(a, index, bits, signed[1]), part(b, index, bits, signed[2]));
        let value = match operation {
            Operation::Add => a + b,
            Operation::Sub => a - b,
            Operation::Average if a + b >= 0 => (a + b + 1) >> 1,
            Operation::Average => (a + b) >> 1,
            Operation::AbsoluteDifference => (a - b).abs(),
            Operation::Min => a.min(b),
            Operation::Max => a.max(b),
            Operation::Equal => i32::from(a == b),
            Operation::NotEqual => i32::from(a != b),
            Operation::Less => i32::from(a < b),
            Operation::LessEqual => i32::from(a <= b),
            Operation::Greater => i32::from(a > b),
            Operation::GreaterEqual => i32::from(a >= b),
        };
        let (least, most) = match signed[0] {
            true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        };
        let value = if saturates { value.clamp(least, most) } else { value };
        packed |= (value as u32 & ((1 << bits) - 1)) << (index * bits);
        sum = sum.wrapping_add(value as u32);
    }
    if sums { sum } else { packed }
}
