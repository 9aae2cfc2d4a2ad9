//! Conversions to and from 8-bit floats and `tf32` (19 bits), which are not register types.

use super::matrix;
use super::soft::{DOUBLE, HALF, Round};
use crate::program::Element;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Narrowing {
    /// Selects `e5m2` instead of `e4m3` as the 8-bit format.
    pub(crate) e5m2: bool,
    pub(crate) relu: bool,
    /// For `tf32`: saturates at the largest finite number.
    pub(crate) finite: bool,
    pub(crate) round: Round,
}

impl Narrowing {
    pub(crate) fn encode(self) -> u32 {
        let round = match self.round {
            Round::Zero => 0,
            Round::Away => 1,
            _ => 2,
        };
        u32::from(self.e5m2) | u32::from(self.relu) << 1 | u32::from(self.finite) << 2 | round << 3
    }

    fn decode(bits: u32) -> Self {
        let round = match bits >> 3 {
            0 => Round::Zero,
            1 => Round::Away,
            _ => Round::Nearest,
        };
        Self { e5m2: bits & 1 == 1, relu: bits & 2 != 0, finite: bits & 4 != 0, round }
    }

    const fn element(self) -> Element {
        if self.e5m2 { Element::E5m2 } else { Element::E4m3 }
    }

    /// Rounds a value to the 8-bit format: to nearest, ties to even, saturating at the largest number.
    fn byte(self, value: f64) -> u8 {
        // The least exponent of a normal number, the bits of the fraction, and the largest number.
        let (least, fraction, most) = if self.e5m2 { (-14, 2, 0x7b) } else { (-6, 3, 0x7e) };
        if value.is_nan() {
            return 0x7f;
        }
        if self.relu && value.is_sign_negative() {
            return 0;
        }
        let (sign, magnitude) = (u8::from(value.is_sign_negative()) << 7, value.abs());
        if magnitude > matrix::value(self.element(), most) {
            return sign | most as u8;
        }
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least);
        let units = (magnitude * 2_f64.powi(fraction - exponent)).round_ties_even();
        // The hidden bit of a normal number adds one to the exponent field.
        sign | (((exponent - least) << fraction) as u8 + units as u8)
    }
}

/// Converts two singles to a pair of bytes, `high` above `low`.
pub(crate) fn bytes_of_singles(imm: u32, high: f32, low: f32) -> u16 {
    let narrowing = Narrowing::decode(imm);
    u16::from_le_bytes([narrowing.byte(low.into()), narrowing.byte(high.into())])
}

pub(crate) fn bytes_of_halves(imm: u32, pair: u32) -> u16 {
    let narrowing = Narrowing::decode(imm);
    let byte = |bits| narrowing.byte(matrix::value(Element::F16, bits));
    u16::from_le_bytes([byte(pair & 0xffff), byte(pair >> 16)])
}

pub(crate) fn halves_of_bytes(imm: u32, pair: u16) -> u32 {
    let narrowing = Narrowing::decode(imm);
    let half = |byte: u8| {
        let value = matrix::value(narrowing.element(), byte.into());
        match narrowing.relu {
            _ if value.is_nan() => HALF.nan() as u32,
            true if value.is_sign_negative() => 0,
            _ => HALF.pack(DOUBLE.unpack(value.to_bits()), Round::Nearest) as u32,
        }
    };
    let [low, high] = pair.to_le_bytes();
    half(low) | half(high) << 16
}

/// Rounds the fraction of a single to the width of a `tf32` fraction.
pub(crate) fn tf32(imm: u32, value: f32) -> u32 {
    const DROPPED: u32 = 0x1fff;
    let narrowing = Narrowing::decode(imm);
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fff_ffff;
    }
    if narrowing.relu && value.is_sign_negative() {
        return 0;
    }
    let up = match narrowing.round {
        Round::Zero => 0,
        Round::Away => 0x1000,
        _ => 0xfff + (bits >> 13 & 1),
    };
    let rounded = (bits + up) & !DROPPED;
    if narrowing.finite && f32::from_bits(rounded).is_infinite() {
        return rounded - (DROPPED + 1);
    }
    rounded
}
