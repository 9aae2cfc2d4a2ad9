//! Operands: all special values, then seeded random ones near rounding boundaries.

use super::instruction::{Instruction, Operation, Shape, Ty};

/// Operands of one instruction. Case `i` depends on `i` alone, so every machine tests the same ones.
pub(crate) struct Source {
    ty: Ty,
    arity: usize,
    operation: Operation,
    narrows_to: Option<Shape>,
    special: Vec<u64>,
    seed: u64,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick(&mut self, from: &[u64]) -> u64 {
        from[self.below(from.len() as u64) as usize]
    }
}

const fn low(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Returns zeros, subnormals, the least and the greatest normal numbers, neighbours of powers of two,
/// 1.5 times powers of two, infinities, and NaNs with and without payload.
fn special_floats(shape: Shape) -> Vec<u64> {
    let exponent = |e: i64| ((e + shape.bias()) as u64) << shape.fraction;
    let top = 1 << (shape.fraction - 1);
    let mut all =
        vec![0, 1, 2, (1 << shape.fraction) - 1, 1 << shape.fraction, (1 << shape.fraction) + 1];
    for e in [-1, 0, 1, 2, 7, 8, 15] {
        all.extend([exponent(e) - 1, exponent(e), exponent(e) + 1, exponent(e) | top]);
    }
    let wide = shape.exponent > 5;
    all.extend(
        [16, 31, 32, 63, 64, 126]
            .into_iter()
            .filter(|_| wide)
            .flat_map(|e| [exponent(e) - 1, exponent(e)]),
    );
    all.extend([exponent(-shape.bias() / 2), exponent(shape.bias() / 2)]);
    let infinity = shape.infinity();
    all.extend([infinity - 2, infinity - 1, infinity, infinity + 1, infinity | top, infinity | top | 5]);
    all.push(infinity | (top - 1) | top);
    all.iter().flat_map(|bits| [*bits, bits | shape.sign()]).collect()
}

fn special_integers(ty: Ty) -> Vec<u64> {
    let near = |power: u32| [-1, 0, 1].map(|by: i64| (1_u64 << power).wrapping_add(by as u64));
    let all = (0..ty.bits()).flat_map(near).flat_map(|value| [value, value.wrapping_neg()]);
    let mut all: Vec<u64> = all.map(|value| value & low(ty.register())).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Source {
    pub(crate) fn new(instruction: &Instruction) -> Self {
        let ty = instruction.from;
        let special = ty.shape().map_or_else(|| special_integers(ty), special_floats);
        let seed = instruction.text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let (operation, arity) = (instruction.operation, instruction.arity);
        let wider = |to: &Shape| ty.shape().is_some_and(|from| from.fraction > to.fraction);
        let narrows_to = instruction.to.shape().filter(wider);
        Self { ty, arity, operation, narrows_to, special, seed }
    }

    /// Returns the number of cases that are not random: all values of one operand of up to 16 bits,
    /// special values and all exponents of a wider one, or combinations of special values.
    pub(crate) fn systematic(&self) -> u64 {
        match self.arity {
            1 if self.ty.bits() <= 16 => 1 << 16,
            1 => self.special.len() as u64 + self.boundaries(),
            2 => (self.special.len() as u64).pow(2),
            _ => (self.few().count() as u64).pow(3),
        }
    }

    fn boundaries(&self) -> u64 {
        self.ty.shape().map_or(0, |shape| 8 << shape.exponent)
    }

    fn boundary(&self, shape: Shape, index: u64) -> u64 {
        let fraction = match index & 3 {
            0 => 0,
            1 => 1,
            2 => low(shape.fraction),
            _ => 1 << (shape.fraction - 1),
        };
        let sign = if index & 4 == 0 { 0 } else { shape.sign() };
        sign | (index >> 3) << shape.fraction | fraction
    }

    /// Returns at most 20 special values, few enough for all triples.
    fn few(&self) -> impl Iterator<Item = u64> + '_ {
        let step = self.special.len().div_ceil(20);
        self.special.iter().copied().step_by(step)
    }

    pub(crate) fn case(&self, index: u64) -> [u64; 3] {
        if index < self.systematic() {
            return self.systematic_case(index);
        }
        let mut random = Random(self.seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let mut case = self.random_case(&mut random);
        if self.ty.half().is_some() {
            let upper = self.random_case(&mut random);
            case = std::array::from_fn(|k| case[k] & 0xffff | upper[k] << 16);
        }
        for operand in &mut case[self.arity..] {
            *operand = 0;
        }
        case.map(|bits| bits & low(self.ty.register()))
    }

    fn systematic_case(&self, index: u64) -> [u64; 3] {
        let case = match self.arity {
            1 if self.ty.bits() <= 16 => [index, 0, 0],
            1 => match (self.special.get(index as usize), self.ty.shape()) {
                (Some(&special), _) => [special, 0, 0],
                (None, Some(shape)) => [self.boundary(shape, index - self.special.len() as u64), 0, 0],
                (None, None) => [0; 3],
            },
            2 => {
                let count = self.special.len() as u64;
                [self.special[(index / count) as usize], self.special[(index % count) as usize], 0]
            }
            _ => {
                let few: Vec<u64> = self.few().collect();
                let count = few.len() as u64;
                [index / count / count, index / count % count, index % count].map(|i| few[i as usize])
            }
        };
        if self.ty.half().is_none() {
            return case;
        }
        let mut random = Random(index);
        let mut upper = || random.pick(&self.special);
        case.map(|lower| if lower == 0 && self.arity < 3 { lower } else { lower | upper() << 16 })
    }

    fn random_case(&self, random: &mut Random) -> [u64; 3] {
        match self.ty.shape() {
            Some(shape) => self.random_floats(shape, random),
            None => [random_integer(self.ty, random), 0, 0],
        }
    }

    fn random_floats(&self, shape: Shape, random: &mut Random) -> [u64; 3] {
        let a = self.random_float(shape, random);
        let b = match random.below(4) {
            0 => self.random_float(shape, random),
            1 => near(shape, a, random),
            2 => scaled(shape, a, self.operation, random),
            _ => sparse(shape, random),
        };
        let c = match random.below(4) {
            0 => self.random_float(shape, random),
            1 => near(shape, a, random),
            _ => near_product(shape, a, b, random),
        };
        [a, b, c]
    }

    fn random_float(&self, shape: Shape, random: &mut Random) -> u64 {
        match (random.below(6), self.narrows_to) {
            (0, _) => random.next() & low(shape.bits()),
            (1, _) => mutated(random.pick(&self.special), random),
            (2, _) => sparse(shape, random),
            (3, Some(target)) => near_half(shape, shape.fraction - target.fraction, random),
            (3 | 4, _) => {
                let exponent = (shape.bias() - 12 + random.below(24) as i64).max(1) as u64;
                let fraction = random.next() & low(shape.fraction);
                let sign = random.next() & shape.sign();
                sign | exponent.min(low(shape.exponent) - 1) << shape.fraction | fraction
            }
            _ => self.boundary(shape, random.below(8 << shape.exponent)),
        }
    }
}

fn random_integer(ty: Ty, random: &mut Random) -> u64 {
    let length = 1 + random.below(u64::from(ty.bits()));
    let value = random.next() & low(length as u32) | 1 << (length - 1);
    let value = match random.below(4) {
        0 => value,
        // Makes the bits past a float's precision one half, or one more or less than that.
        choice => {
            let precision = [11, 8, 24][choice as usize - 1] + random.below(2);
            match length.saturating_sub(precision) as u32 {
                0 => value,
                rest => {
                    (value & !low(rest) | 1 << (rest - 1)).wrapping_add(random.below(3)).wrapping_sub(1)
                }
            }
        }
    };
    if random.below(2) == 0 { value } else { value.wrapping_neg() }
}

fn mutated(bits: u64, random: &mut Random) -> u64 {
    match random.below(3) {
        0 => bits.wrapping_add(random.below(4)),
        1 => bits.wrapping_sub(random.below(4)),
        _ => bits ^ 1 << random.below(64),
    }
}

/// Returns a number whose fraction has at most three ones, or at most three zeros. Sums and products of
/// such numbers are often ties.
fn sparse(shape: Shape, random: &mut Random) -> u64 {
    let mut fraction = 0;
    for _ in 0..random.below(4) {
        fraction ^= 1 << random.below(u64::from(shape.fraction));
    }
    if random.below(4) == 0 {
        fraction = !fraction & low(shape.fraction);
    }
    random.next() & (low(shape.exponent + 1) << shape.fraction) | fraction
}

/// Returns a number whose last `dropped` fraction bits are a half, next to a half, or next to zero.
fn near_half(shape: Shape, dropped: u32, random: &mut Random) -> u64 {
    let middle = 1_u64 << (dropped - 1);
    let rest = [middle, middle + 1, middle - 1, 0, 1, low(dropped)][random.below(6) as usize];
    random.next() & low(shape.bits()) & !low(dropped) | rest
}

/// Returns a number whose exponent is close to that of `other`, so that sums are rounded in every way.
fn near(shape: Shape, other: u64, random: &mut Random) -> u64 {
    let reach = u64::from(shape.fraction) + 3;
    let exponent = (other >> shape.fraction & low(shape.exponent)) as i64;
    let moved = exponent + random.below(2 * reach + 1) as i64 - reach as i64;
    let exponent = moved.clamp(0, low(shape.exponent) as i64 - 1) as u64;
    let fraction = if random.below(2) == 0 { random.next() } else { sparse(shape, random) };
    // A number a few steps from the negated one, so that their sum cancels.
    if random.below(4) == 0 {
        return mutated(other ^ shape.sign(), random);
    }
    random.next() & shape.sign() | exponent << shape.fraction | fraction & low(shape.fraction)
}

/// Returns a number whose product or quotient with another is near an end of the normal range.
fn scaled(shape: Shape, other: u64, operation: Operation, random: &mut Random) -> u64 {
    let exponent = (other >> shape.fraction & low(shape.exponent)) as i64;
    let slack = random.below(u64::from(shape.fraction) + 5) as i64;
    let result =
        if random.below(2) == 0 { 3 - slack } else { low(shape.exponent) as i64 - 4 + slack / 4 };
    let wanted = match operation {
        Operation::Div => exponent + shape.bias() - result,
        _ => result + shape.bias() - exponent,
    };
    let exponent = wanted.clamp(0, low(shape.exponent) as i64 - 1) as u64;
    let fraction = if random.below(2) == 0 { random.next() } else { sparse(shape, random) };
    random.next() & shape.sign() | exponent << shape.fraction | fraction & low(shape.fraction)
}

/// Returns the negated product of two numbers, roughly rounded, moved by some steps or by about the
/// precision. A fused addition then leaves the remainder of the exact product.
fn near_product(shape: Shape, a: u64, b: u64, random: &mut Random) -> u64 {
    let significand = |bits: u64| u128::from(bits & low(shape.fraction) | 1 << shape.fraction);
    let exponent = |bits: u64| (bits >> shape.fraction & low(shape.exponent)) as i64;
    let product = significand(a) * significand(b);
    let carry = i64::from(product >> (2 * shape.fraction + 1) != 0);
    let fraction = (product >> (i64::from(shape.fraction) + carry)) as u64 & low(shape.fraction);
    let by = match random.below(3) {
        0 => 0,
        1 => random.below(7) as i64 - 3,
        _ => random.below(2 * u64::from(shape.fraction) + 6) as i64 - i64::from(shape.fraction) - 3,
    };
    let moved =
        (exponent(a) + exponent(b) - shape.bias() + carry + by).clamp(0, low(shape.exponent) as i64 - 1);
    let sign = (a ^ b ^ shape.sign()) & shape.sign() ^ (random.next() & random.next() & shape.sign());
    let bits = sign | (moved as u64) << shape.fraction | fraction;
    if random.below(2) == 0 { bits } else { mutated(bits, random) }
}
