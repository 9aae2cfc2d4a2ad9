//! Integer and bit functions on scalars, as PTX defines them.

/// Extracts `len` bits from bit `pos` on (`bfe`). A signed field is extended by its top bit, or by bit
/// 31 or 63 of the source if the field extends past it.
pub(crate) fn extract(value: u64, bits: u32, signed: bool, pos: u32, len: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if len == 0 {
        return 0;
    }
    let negative = signed && value >> (pos + len - 1).min(bits - 1) & 1 == 1;
    let present = bits.saturating_sub(pos).min(len);
    let field = value.checked_shr(pos).unwrap_or(0) & ones(present);
    if negative { field | !ones(present) } else { field }
}

/// Inserts the `len` low bits of `field` into `value` at bit `pos` (`bfi`).
pub(crate) fn insert(field: u64, value: u64, bits: u32, pos: u32, len: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if pos >= bits {
        return value;
    }
    let mask = ones(len.min(bits)) << pos;
    value & !mask | (field << pos) & mask
}

const fn ones(count: u32) -> u64 {
    match count {
        0 => 0,
        1..=63 => (1 << count) - 1,
        _ => u64::MAX,
    }
}

/// Returns the position of the highest bit that differs from the sign, or all ones if no bit does
/// (`bfind`).
pub(crate) fn find_high(value: u64, bits: u32, signed: bool, shift_amount: bool) -> u32 {
    let value = if signed && value >> (bits - 1) & 1 == 1 { !value & ones(bits) } else { value };
    if value == 0 {
        return u32::MAX;
    }
    let place = 63 - value.leading_zeros();
    if shift_amount { bits - 1 - place } else { place }
}

/// Returns the position of the `offset`-th set bit of `mask`, counted from bit `base` upwards, or
/// downwards for a negative offset (`fns`).
pub(crate) fn nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let mut left = offset.unsigned_abs();
    let mut place = base as i32;
    while (0..32).contains(&place) {
        left -= mask >> place & 1;
        if left == 0 {
            return place as u32;
        }
        place += offset.signum();
    }
    u32::MAX
}

/// Returns `len` ones from bit `pos` on (`bmsk`).
pub(crate) fn bit_mask(pos: u32, len: u32, wrap: bool) -> u32 {
    let (pos, len) = if wrap { (pos & 31, len & 31) } else { (pos, len) };
    let mask = ones(len.min(32)) as u32;
    mask.checked_shl(pos).unwrap_or(0)
}

/// Keeps the `len` low bits, extended by their sign or by zeros (`szext`).
pub(crate) fn extend(value: u32, len: u32, signed: bool, wrap: bool) -> u32 {
    let len = if wrap { len & 31 } else { len.min(32) };
    match (len, signed) {
        (0, _) => 0,
        (_, true) => ((value << (32 - len)) as i32 >> (32 - len)) as u32,
        (_, false) => value & ones(len) as u32,
    }
}

/// Shifts the 64-bit value `high:low` and returns one half (`shf.l`, `shf.r`).
pub(crate) fn funnel(low: u32, high: u32, amount: u32, left: bool, wrap: bool) -> u32 {
    let amount = if wrap { amount & 31 } else { amount.min(32) };
    let value = u64::from(high) << 32 | u64::from(low);
    if left { ((value << amount) >> 32) as u32 } else { (value >> amount) as u32 }
}

/// Selects four bytes of `b:a`; bit 3 of a selector repeats the byte's sign (`prmt`).
pub(crate) fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let mut out = [0; 4];
    for (index, byte) in out.iter_mut().enumerate() {
        let pick = selector >> (4 * index) & 0xf;
        let value = bytes[(pick & 7) as usize];
        *byte = if pick & 8 == 0 { value } else { ((value as i8) >> 7) as u8 };
    }
    u32::from_le_bytes(out)
}

pub(crate) fn permute_mode(mode: PermuteMode, c: u32) -> u32 {
    let table: [u32; 4] = match mode {
        PermuteMode::Forward4 => [0x3210, 0x4321, 0x5432, 0x6543],
        PermuteMode::Backward4 => [0x5670, 0x6701, 0x7012, 0x0123],
        PermuteMode::Replicate8 => [0x0000, 0x1111, 0x2222, 0x3333],
        PermuteMode::EdgeLeft => [0x3210, 0x3211, 0x3222, 0x3333],
        PermuteMode::EdgeRight => [0x0000, 0x1110, 0x2210, 0x3210],
        PermuteMode::Replicate16 => [0x1010, 0x3232, 0x1010, 0x3232],
    };
    table[(c & 3) as usize]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermuteMode {
    Forward4,
    Backward4,
    Replicate8,
    EdgeLeft,
    EdgeRight,
    Replicate16,
}

/// Applies the truth table `lut` to the bits of three words (`lop3`).
pub(crate) fn logic3(lut: u32, a: u32, b: u32, c: u32) -> u32 {
    let term = |bit: u32, x: u32, y: u32, z: u32| {
        if lut >> bit & 1 == 1 { x & y & z } else { 0 }
    };
    term(0, !a, !b, !c)
        | term(1, !a, !b, c)
        | term(2, !a, b, !c)
        | term(3, !a, b, c)
        | term(4, a, !b, !c)
        | term(5, a, !b, c)
        | term(6, a, b, !c)
        | term(7, a, b, c)
}

/// Returns the sum of four byte products; the bytes of each operand are signed or unsigned (`dp4a`).
pub(crate) fn dot4(a: u32, b: u32, a_signed: bool, b_signed: bool) -> u32 {
    let byte = |value: u8, signed| if signed { i32::from(value as i8) } else { i32::from(value) };
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.map(|(x, y)| byte(x, a_signed) * byte(y, b_signed)).sum::<i32>() as u32
}

/// Returns the sum of the products of the 16-bit halves of `a` and the lower two bytes of `b` (`dp2a`).
pub(crate) fn dot2(a: u32, b: u32, a_signed: bool, b_signed: bool) -> u32 {
    let half = |value: u16| if a_signed { i32::from(value as i16) } else { i32::from(value) };
    let byte = |value: u8| if b_signed { i32::from(value as i8) } else { i32::from(value) };
    let [low, high, ..] = b.to_le_bytes();
    (half(a as u16) * byte(low)).wrapping_add(half((a >> 16) as u16) * byte(high)) as u32
}

/// Returns `b`, above it `a`, both limited to a type of `bits` bits, and above these the lower bits of
/// `c` (`cvt.pack`).
pub(crate) fn pack(a: u32, b: u32, c: u32, bits: u32, is_signed: bool) -> u32 {
    let (least, most) =
        if is_signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let limited = |value: u32| (value as i32).clamp(least, most) as u32 & ((1 << bits) - 1);
    let rest = if bits == 16 { 0 } else { c << (2 * bits) };
    limited(b) | limited(a) << bits | rest
}

pub(crate) const fn low24(value: i32) -> i64 {
    ((value << 8) >> 8) as i64
}
