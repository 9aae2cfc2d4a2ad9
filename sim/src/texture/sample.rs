//! Texture reads at coordinates.
//!
//! Interpolation weights have 8 fractional bits, as the CUDA manual specifies; each channel's sum is
//! rounded once, to single precision.

use super::{AddressMode, Channel, Sampler, Texels, Texture};
use crate::lanes::matrix;
use crate::program::Element;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Texel([i32; 3]),
    /// Coordinates, normalized or in texels as the sampler determines.
    At([f32; 3]),
}

/// The two texels along a dimension that enclose a coordinate, and the weight of the second; a texel is
/// `None` for the border.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    texels: [Option<u32>; 2],
    weight: f64,
}

/// Returns the channels of a texture at a location, as the bits of floats or of integers. `read` returns
/// the raw bits of a texel's channels.
pub(crate) fn sample<E>(
    texture: &Texture,
    place: Place,
    plane: u32,
    mut read: impl FnMut([u32; 3]) -> Result<[u32; 4], E>,
) -> Result<[u32; 4], E> {
    let Texture { texels, sampler } = texture;
    let sampler = &of_shape(texels, sampler);
    let floats = is_float(texels, sampler);
    let mut channels = |at: [Option<u32>; 3]| -> Result<[u32; 4], E> {
        let [Some(x), Some(y), Some(z)] = at else { return Ok(border(sampler, floats)) };
        let mut bits = read([x, y, plane + z])?;
        for (index, bits) in bits.iter_mut().enumerate() {
            *bits = channel(texels, sampler, index, *bits);
        }
        Ok(bits)
    };
    let depth = texels.dimensions == 3 && !texels.cube;
    let extent = [texels.extent[0], texels.extent[1], if depth { texels.extent[2] } else { 1 }];
    let coordinates = match place {
        Place::Texel(at) => {
            let inside = |axis: usize| match axis < dimensions(texels) {
                true => u32::try_from(at[axis]).ok().filter(|&at| at < extent[axis]),
                false => Some(0),
            };
            let at = [inside(0), inside(1), inside(2)];
            return if at.contains(&None) { Ok([0; 4]) } else { channels(at) };
        }
        Place::At(coordinates) => coordinates,
    };
    let linear = sampler.linear && floats;
    let axis = |index: usize| match index < dimensions(texels) {
        true => along(coordinates[index], extent[index], sampler, index, linear),
        false => Axis { texels: [Some(0); 2], weight: 0.0 },
    };
    let axes = [axis(0), axis(1), axis(2)];
    if !linear {
        return channels(axes.map(|axis| axis.texels[0]));
    }
    let mut sums = [0.0_f64; 4];
    for corner in 0..8_usize {
        let side = |index: usize| corner >> index & 1;
        let part = |index: usize| match side(index) {
            0 => 1.0 - axes[index].weight,
            _ => axes[index].weight,
        };
        let weight = part(0) * part(1) * part(2);
        if weight == 0.0 {
            continue;
        }
        let bits = channels([0, 1, 2].map(|index| axes[index].texels[side(index)]))?;
        for (sum, bits) in sums.iter_mut().zip(bits) {
            *sum += weight * f64::from(f32::from_bits(bits));
        }
    }
    Ok(sums.map(|sum| (sum as f32).to_bits()))
}

/// Returns one channel of the four texels of a bilinear interpolation, counter-clockwise from the lower
/// left one.
pub(crate) fn gather<E>(
    texture: &Texture,
    [x, y]: [f32; 2],
    plane: u32,
    component: usize,
    mut read: impl FnMut([u32; 3]) -> Result<[u32; 4], E>,
) -> Result<[u32; 4], E> {
    let Texture { texels, sampler } = texture;
    let sampler = &of_shape(texels, sampler);
    let (x, y) =
        (along(x, texels.extent[0], sampler, 0, true), along(y, texels.extent[1], sampler, 1, true));
    let mut found = [0; 4];
    for (found, (column, row)) in found.iter_mut().zip([(0, 1), (1, 1), (1, 0), (0, 0)]) {
        *found = match (x.texels[column], y.texels[row]) {
            (Some(x), Some(y)) => channel(texels, sampler, component, read([x, y, plane])?[component]),
            _ => border(sampler, is_float(texels, sampler))[component],
        };
    }
    Ok(found)
}

/// Returns the sampler, changed to clamp at the edges of a face if the texture is a cube.
fn of_shape(texels: &Texels, sampler: &Sampler) -> Sampler {
    match texels.cube {
        true => Sampler { address: [AddressMode::Clamp; 3], ..*sampler },
        false => *sampler,
    }
}

fn dimensions(texels: &Texels) -> usize {
    if texels.cube { 2 } else { texels.dimensions as usize }
}

fn is_float(texels: &Texels, sampler: &Sampler) -> bool {
    texels.channel.is_float() || sampler.as_floats && texels.channel.bytes() < 4
}

fn border(sampler: &Sampler, floats: bool) -> [u32; 4] {
    sampler.border.map(|value| if floats { value.to_bits() } else { value as i32 as u32 })
}

fn along(coordinate: f32, texels: u32, sampler: &Sampler, index: usize, linear: bool) -> Axis {
    // Above this, a single has no fractional bits to locate a point within a texel.
    const FAR: f64 = (1_u64 << 32) as f64;
    let mode = match sampler.address[index] {
        AddressMode::Wrap | AddressMode::Mirror if !sampler.normalized => AddressMode::Clamp,
        mode => mode,
    };
    let count = f64::from(texels);
    let given = f64::from(if coordinate.is_nan() { 0.0 } else { coordinate }).clamp(-FAR, FAR);
    let at = match mode {
        AddressMode::Wrap => (given - given.floor()) * count,
        AddressMode::Mirror if given.floor() % 2.0 == 0.0 => (given - given.floor()) * count,
        AddressMode::Mirror => (1.0 - (given - given.floor())) * count,
        _ if sampler.normalized => given * count,
        _ => given,
    };
    let texel = |at: i64| -> Option<u32> {
        let last = i64::from(texels) - 1;
        let at = match mode {
            AddressMode::Wrap => at.rem_euclid(last + 1),
            AddressMode::Border if !(0..=last).contains(&at) => return None,
            _ => at.clamp(0, last),
        };
        Some(at as u32)
    };
    if !linear {
        return Axis { texels: [texel(at.floor() as i64); 2], weight: 0.0 };
    }
    let fixed = (at * 256.0 - 128.0).round() as i64;
    let (first, weight) = (fixed >> 8, (fixed & 255) as f64 / 256.0);
    Axis { texels: [texel(first), texel(first + 1)], weight }
}

fn channel(texels: &Texels, sampler: &Sampler, index: usize, bits: u32) -> u32 {
    if index >= texels.channels as usize {
        return 0;
    }
    let float = |value: f32| value.to_bits();
    match texels.channel {
        Channel::F32 | Channel::U32 | Channel::S32 => bits,
        Channel::F16 => float(matrix::value(Element::F16, bits) as f32),
        Channel::U8 if sampler.as_floats && sampler.srgb && index < 3 => {
            float(linear(bits as f32 / 255.0))
        }
        Channel::U8 if sampler.as_floats => float(bits as f32 / 255.0),
        Channel::U16 if sampler.as_floats => float(bits as f32 / 65535.0),
        Channel::S8 if sampler.as_floats => float((f32::from(bits as u8 as i8) / 127.0).max(-1.0)),
        Channel::S16 if sampler.as_floats => float((f32::from(bits as u16 as i16) / 32767.0).max(-1.0)),
        Channel::U8 | Channel::U16 => bits,
        Channel::S8 => i32::from(bits as u8 as i8) as u32,
        Channel::S16 => i32::from(bits as u16 as i16) as u32,
    }
}

fn linear(value: f32) -> f32 {
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAMP: [AddressMode; 3] = [AddressMode::Clamp; 3];

    fn texture(address: AddressMode, linear: bool, normalized: bool) -> Texture {
        let texels = Texels {
            address: 0,
            channel: Channel::F32,
            channels: 1,
            dimensions: 1,
            extent: [4, 1, 1],
            layers: None,
            cube: false,
            row_bytes: 16,
            plane_bytes: 16,
        };
        let sampler = Sampler {
            address: [address; 3],
            linear,
            normalized,
            as_floats: false,
            srgb: false,
            border: [-1.0; 4],
        };
        Texture { texels, sampler }
    }

    fn at(texture: &Texture, x: f32) -> f32 {
        let read = |[x, _, _]: [u32; 3]| -> Result<[u32; 4], ()> {
            Ok([(10.0 * (x as f32 + 1.0)).to_bits(), 0, 0, 0])
        };
        f32::from_bits(sample(texture, Place::At([x, 0.0, 0.0]), 0, read).expect("no error")[0])
    }

    #[test]
    fn nearest_sampling_reads_the_containing_texel() {
        let clamp = texture(AddressMode::Clamp, false, false);
        let found = [-5.0, 0.0, 0.99, 1.0, 3.99, 4.0, 1e30].map(|x| at(&clamp, x));
        assert_eq!(found, [10.0, 10.0, 10.0, 20.0, 40.0, 40.0, 40.0]);
        let border = texture(AddressMode::Border, false, false);
        assert_eq!([-0.01, 0.0, 4.0].map(|x| at(&border, x)), [-1.0, 10.0, -1.0]);
        let wrap = texture(AddressMode::Wrap, false, true);
        assert_eq!([-0.25, 0.0, 1.0, 2.6].map(|x| at(&wrap, x)), [40.0, 10.0, 10.0, 30.0]);
        let mirror = texture(AddressMode::Mirror, false, true);
        assert_eq!([-0.2, 0.9, 1.1, 1.9, 2.1].map(|x| at(&mirror, x)), [10.0, 40.0, 40.0, 10.0, 10.0]);
        // Without normalized coordinates, wrapping is clamping.
        assert_eq!(at(&texture(AddressMode::Wrap, false, false), 9.0), 40.0);
        assert_eq!(at(&clamp, f32::NAN), 10.0);
    }

    #[test]
    fn weights_have_eight_bits() {
        let clamp = texture(AddressMode::Clamp, true, false);
        assert_eq!(
            [0.0, 0.5, 1.0, 1.5, 1.75, 9.0].map(|x| at(&clamp, x)),
            [10.0, 10.0, 15.0, 20.0, 22.5, 40.0]
        );
        // The weight of one third is 85/256.
        assert_eq!(at(&clamp, 0.5 + 1.0 / 3.0), 10.0 + 10.0 * 85.0 / 256.0);
        let wrap = texture(AddressMode::Wrap, true, true);
        assert_eq!([0.0, 0.125, 1.0].map(|x| at(&wrap, x)), [25.0, 10.0, 25.0]);
        let border = texture(AddressMode::Border, true, false);
        assert_eq!([0.0, 4.0].map(|x| at(&border, x)), [4.5, 19.5]);
        let mirror = texture(AddressMode::Mirror, true, true);
        assert_eq!([0.0, 1.0].map(|x| at(&mirror, x)), [10.0, 40.0]);
    }

    #[test]
    fn integers_are_normalized_to_floats() {
        let mut texture = texture(AddressMode::Clamp, false, false);
        texture.sampler.address = CLAMP;
        texture.sampler.as_floats = true;
        let mut as_float = |channel: Channel, bits: u32| {
            texture.texels.channel = channel;
            f32::from_bits(super::channel(&texture.texels, &texture.sampler, 0, bits))
        };
        assert_eq!([as_float(Channel::U8, 255), as_float(Channel::U8, 51)], [1.0, 0.2]);
        assert_eq!([as_float(Channel::S8, 0x80), as_float(Channel::S8, 0x7f)], [-1.0, 1.0]);
        assert_eq!([as_float(Channel::U16, 0xffff), as_float(Channel::S16, 0x8001)], [1.0, -1.0]);
        assert_eq!(as_float(Channel::F16, 0x3c00), 1.0);
        texture.sampler.srgb = true;
        let gray = f32::from_bits(super::channel(&texture.texels, &texture.sampler, 0, 0));
        assert_eq!(gray, 0.0);
        assert!((linear(0.5) - 0.214_041).abs() < 1e-5 && linear(1.0) == 1.0);
    }
}
