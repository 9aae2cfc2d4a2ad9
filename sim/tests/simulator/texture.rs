//! Textures and surfaces against the formulas of the CUDA manual.

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{
    AddressMode, Args, Channel, Config, Error, Exploration, Gpu, HazardKind, Hazards, Launch, Module,
    Sampler, Texels, Texture,
};

const PLAIN: Sampler = Sampler {
    address: [AddressMode::Clamp; 3],
    linear: false,
    normalized: false,
    as_floats: false,
    srgb: false,
    border: [0.0; 4],
};

fn gpu() -> Gpu {
    Gpu::new(Config { threads: Some(1), ..device() })
}

struct Image {
    texels: Texels,
    bytes: Vec<u8>,
}

impl Image {
    fn new(channel: Channel, channels: u32, dimensions: u32, extent: [u32; 3]) -> Self {
        let row = extent[0] * channels * channel.bytes() + 32;
        let plane = row * extent[1] + 64;
        let texels = Texels {
            address: 0,
            channel,
            channels,
            dimensions,
            extent,
            layers: None,
            cube: false,
            row_bytes: row.into(),
            plane_bytes: plane.into(),
        };
        Self { texels, bytes: Vec::new() }
    }

    /// Fills each channel of each texel with the lowest bits of a value.
    fn fill(mut self, gpu: &Gpu, bits: impl Fn([u32; 3], u32) -> u32) -> Self {
        let planes = self.texels.planes();
        self.bytes = vec![0; (self.texels.plane_bytes * u64::from(planes)) as usize];
        let [width, height, _] = self.texels.extent;
        for z in 0..planes {
            for y in 0..height {
                for x in 0..width {
                    for channel in 0..self.texels.channels {
                        let at = self.offset([x, y, z], channel);
                        let bytes = self.texels.channel.bytes() as usize;
                        let bits = bits([x, y, z], channel).to_le_bytes();
                        self.bytes[at..at + bytes].copy_from_slice(&bits[..bytes]);
                    }
                }
            }
        }
        self.texels.address = gpu.alloc(self.bytes.len() as u64).expect("memory");
        gpu.write(self.texels.address, &self.bytes).expect("live memory");
        self
    }

    fn offset(&self, [x, y, z]: [u32; 3], channel: u32) -> usize {
        let within = u64::from((x * self.texels.channels + channel) * self.texels.channel.bytes());
        (u64::from(z) * self.texels.plane_bytes + u64::from(y) * self.texels.row_bytes + within) as usize
    }
}

/// Runs an instruction on the lanes of a warp and returns `%o0` to `%o3`; `%i0` to `%i3` are the inputs,
/// `%h` is the handle.
fn attempt(gpu: &Gpu, text: &str, handle: u64, inputs: &[[u32; 4]]) -> Result<Vec<[u32; 4]>, Error> {
    let module = module(&kernel(text));
    let threads = inputs.len();
    let flat: Vec<u32> = inputs.iter().flatten().copied().collect();
    let (from, to) = (u32s(gpu, &flat), u32s(gpu, &vec![0xdead; 4 * threads]));
    let args = Args::new().ptr(from).ptr(to).u64(handle);
    gpu.launch(&module, "k", &Launch::linear(1, threads as u32), &args)?;
    let words = read_u32s(gpu, to, 4 * threads);
    Ok(words.chunks_exact(4).map(|four| four.try_into().expect("four")).collect())
}

fn kernel(text: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 from, .param .u64 to, .param .u64 handle) {{
         .reg .b32 %o<4>, %i<4>, %t; .reg .b64 %a, %b, %h, %d; .reg .b16 %s; .reg .pred %p;
         ld.param.u64 %a, [from]; ld.param.u64 %b, [to]; ld.param.u64 %h, [handle]; mov.u32 %t, %tid.x;
         mad.wide.u32 %a, %t, 16, %a; mad.wide.u32 %b, %t, 16, %b; ld.global.v4.u32 {{%i0, %i1, %i2, %i3}}, [%a];
         mov.u32 %o0, 0; mov.u32 %o1, 0; mov.u32 %o2, 0; mov.u32 %o3, 0;
         {text}
         st.global.v4.u32 [%b], {{%o0, %o1, %o2, %o3}}; ret; }}\n"
    )
}

fn run(gpu: &Gpu, text: &str, handle: u64, inputs: &[[u32; 4]]) -> Vec<[u32; 4]> {
    attempt(gpu, text, handle, inputs).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the texel that the manual assigns to an integer coordinate, or `None` for the border.
fn addressed(at: i64, count: i64, mode: AddressMode) -> Option<i64> {
    match mode {
        AddressMode::Clamp => Some(at.clamp(0, count - 1)),
        AddressMode::Border => (0..count).contains(&at).then_some(at),
        AddressMode::Wrap => Some(at.rem_euclid(count)),
        AddressMode::Mirror => {
            let at = at.rem_euclid(2 * count);
            Some(if at < count { at } else { 2 * count - 1 - at })
        }
    }
}

/// Returns the first of two texels and the weight of the second one: 8 bits, ties away from zero.
fn between(coordinate: f64) -> (i64, f64) {
    let fixed = ((coordinate - 0.5) * 256.0).round();
    ((fixed / 256.0).floor() as i64, (fixed / 256.0) - (fixed / 256.0).floor())
}

/// Samples a texture of floats at coordinates in texels, by the manual's formulas over all dimensions.
fn reference(
    texels: &Texels,
    sampler: &Sampler,
    at: [f32; 3],
    value: &dyn Fn([u32; 3], u32) -> f32,
    channel: u32,
) -> f32 {
    let scaled: Vec<f64> = (0..3)
        .map(|axis| match sampler.normalized {
            true => f64::from(at[axis]) * f64::from(texels.extent[axis]),
            false => f64::from(at[axis]),
        })
        .collect();
    let texel = |at: [i64; 3]| {
        let mut found = [0; 3];
        for axis in 0..texels.dimensions as usize {
            match addressed(at[axis], texels.extent[axis].into(), sampler.address[axis]) {
                Some(at) => found[axis] = at as u32,
                None => return f64::from(sampler.border[channel as usize]),
            }
        }
        f64::from(value(found, channel))
    };
    if !sampler.linear {
        return texel([0, 1, 2].map(|axis: usize| scaled[axis].floor() as i64)) as f32;
    }
    let axes: Vec<(i64, f64)> = scaled.iter().map(|&at| between(at)).collect();
    let mut sum = 0.0;
    for corner in 0..1 << texels.dimensions {
        let (mut at, mut weight) = ([0; 3], 1.0);
        for (axis, &(first, alpha)) in axes.iter().enumerate().take(texels.dimensions as usize) {
            let next = corner >> axis & 1;
            at[axis] = first + next;
            weight *= if next == 1 { alpha } else { 1.0 - alpha };
        }
        sum += weight * texel(at);
    }
    sum as f32
}

fn value([x, y, z]: [u32; 3], channel: u32) -> f32 {
    (x * 3 + y * 50 + z * 1000 + channel * 7) as f32 + 0.25
}

const MODES: [AddressMode; 4] =
    [AddressMode::Clamp, AddressMode::Border, AddressMode::Wrap, AddressMode::Mirror];

#[test]
fn floats_are_read_as_the_manual_says() {
    let gpu = gpu();
    let mut compared = 0;
    for (dimensions, extent, geometry, place) in [
        (1, [11, 1, 1], "1d", "{%i0}"),
        (2, [6, 5, 1], "2d", "{%i0, %i1}"),
        (3, [5, 4, 3], "3d", "{%i0, %i1, %i2, %i2}"),
    ] {
        for channels in [1, 2, 4] {
            let image = Image::new(Channel::F32, channels, dimensions, extent)
                .fill(&gpu, |at, channel| value(at, channel).to_bits());
            for mode in MODES {
                for (linear, normalized) in [(false, false), (true, false), (false, true), (true, true)]
                {
                    if !normalized && matches!(mode, AddressMode::Wrap | AddressMode::Mirror) {
                        continue;
                    }
                    let address = [mode, if normalized { AddressMode::Wrap } else { mode }, mode];
                    let sampler =
                        Sampler { address, linear, normalized, border: [-3.0, 9.0, 1.5, 2.0], ..PLAIN };
                    let texture = gpu.create_texture(Texture { texels: image.texels, sampler });
                    let inputs: Vec<[u32; 4]> = (0..32_u32)
                        .map(|lane| {
                            let along = |axis: usize, step: f32| {
                                // Avoids edges, where address modes may choose the texel on either side.
                                let at = lane as f32 * step - 2.99;
                                let scale = if normalized { extent[axis] as f32 } else { 1.0 };
                                (at / scale).to_bits()
                            };
                            [along(0, 0.53125), along(1, 0.4375), along(2, 0.28125), 0]
                        })
                        .collect();
                    let text =
                        format!("tex.{geometry}.v4.f32.f32 {{%o0, %o1, %o2, %o3}}, [%h, {place}];");
                    let found = run(&gpu, &text, texture, &inputs);
                    for (input, found) in inputs.iter().zip(found) {
                        let at = [0, 1, 2].map(|axis: usize| f32::from_bits(input[axis]));
                        for channel in 0..4_u32 {
                            let expected = match channel < channels {
                                true => reference(&image.texels, &sampler, at, &value, channel),
                                // Channels that the texture lacks are not compared.
                                false => continue,
                            };
                            let found = f32::from_bits(found[channel as usize]);
                            assert_eq!(
                                found, expected,
                                "{text} {sampler:?} at {at:?}, channel {channel}"
                            );
                            compared += 1;
                        }
                    }
                    assert!(gpu.destroy_texture(texture) && !gpu.destroy_texture(texture));
                }
            }
        }
    }
    assert_eq!(compared, 3 * 7 * 12 * 32);
}

#[test]
fn integers_are_read_raw_or_normalized() {
    let gpu = gpu();
    let text = "tex.1d.v4.s32.s32 {%o0, %o1, %o2, %o3}, [%h, {%i0}];";
    let inputs: Vec<[u32; 4]> = (0..7_u32).map(|lane| [lane.wrapping_sub(1), 0, 0, 0]).collect();
    let bits = |at: [u32; 3], channel: u32| {
        0x8001_807f_u32.wrapping_mul(at[0] + 1).wrapping_add(channel * 0x55)
    };
    type Widen = fn(u32) -> i32;
    let kinds: [(Channel, Widen); 6] = [
        (Channel::U8, |bits| i32::from(bits as u8)),
        (Channel::S8, |bits| i32::from(bits as u8 as i8)),
        (Channel::U16, |bits| i32::from(bits as u16)),
        (Channel::S16, |bits| i32::from(bits as u16 as i16)),
        (Channel::U32, |bits| bits as i32),
        (Channel::S32, |bits| bits as i32),
    ];
    for (channel, widen) in kinds {
        let image = Image::new(channel, 4, 1, [5, 1, 1]).fill(&gpu, bits);
        let texture = gpu.create_texture(Texture { texels: image.texels, sampler: PLAIN });
        for (lane, found) in run(&gpu, text, texture, &inputs).into_iter().enumerate() {
            let expected = |index: u32| match lane {
                1..=5 => widen(bits([lane as u32 - 1, 0, 0], index)) as u32,
                _ => 0,
            };
            assert_eq!(found, [0, 1, 2, 3].map(expected), "{channel:?} {lane}");
        }
    }
    // 8-bit values between two texels: 0.25 of one and 0.75 of the other.
    let image = Image::new(Channel::U8, 1, 1, [2, 1, 1]).fill(&gpu, |at, _| [51, 255][at[0] as usize]);
    let sampler = Sampler { as_floats: true, linear: true, ..PLAIN };
    let texture = gpu.create_texture(Texture { texels: image.texels, sampler });
    let text = "tex.1d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0}];";
    let found = run(&gpu, text, texture, &[[1.25_f32.to_bits(), 0, 0, 0]])[0];
    assert_eq!(found, [(0.25 * 0.2_f32 + 0.75).to_bits(), 0, 0, 0]);
    let image = Image::new(Channel::F16, 2, 1, [2, 1, 1]).fill(&gpu, |at, i| 0x3c00 + at[0] * 0x400 + i);
    let texture = gpu.create_texture(Texture { texels: image.texels, sampler: PLAIN });
    let found = run(&gpu, text, texture, &[[1.5_f32.to_bits(), 0, 0, 0]])[0];
    assert_eq!(found, [2.0_f32.to_bits(), 2.001_953_1_f32.to_bits(), 0, 0]);
    let text = "tex.1d.v2.f16x2.f32 {%o0, %o1}, [%h, {%i0}];";
    assert_eq!(run(&gpu, text, texture, &[[0.5_f32.to_bits(), 0, 0, 0]])[0], [0x3c01_3c00, 0, 0, 0]);
}

#[test]
fn layers_and_faces_are_planes() {
    let gpu = gpu();
    let mut image = Image::new(Channel::F32, 1, 2, [4, 3, 1]);
    image.texels.layers = Some(5);
    let image = image.fill(&gpu, |at, channel| value(at, channel).to_bits());
    let sampler = Sampler { linear: true, ..PLAIN };
    let texture = gpu.create_texture(Texture { texels: image.texels, sampler });
    let text = "tex.a2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0, %i1, %i2, %i2}];";
    // A layer past the last one is clamped to the last.
    let inputs: Vec<[u32; 4]> =
        (0..7).map(|layer| [layer, 1.75_f32.to_bits(), 2.0_f32.to_bits(), 0]).collect();
    for (layer, found) in run(&gpu, text, texture, &inputs).into_iter().enumerate() {
        let plane = (layer as u32).min(4);
        let of_layer = |[x, y, _]: [u32; 3], channel| value([x, y, plane], channel);
        let expected = reference(&image.texels, &sampler, [1.75, 2.0, 0.0], &of_layer, 0);
        assert_eq!(f32::from_bits(found[0]), expected, "layer {layer}");
    }
    // Faces in the order +x, -x, +y, -y, +z, -z, and the texel to which a direction leads.
    let mut image = Image::new(Channel::F32, 1, 2, [8, 8, 1]);
    image.texels.cube = true;
    let image = image.fill(&gpu, |[x, y, face], _| ((100 * face + 10 * y + x) as f32).to_bits());
    let texture = gpu.create_texture(Texture {
        texels: image.texels,
        sampler: Sampler { normalized: true, ..PLAIN },
    });
    let text = "tex.cube.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0, %i1, %i2, %i2}];";
    // Per face: the signed major axis, and the signed axes of s and t.
    let faces = [
        ([1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, -1.0, 0.0]),
        ([-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]),
        ([0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]),
        ([0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]),
        ([0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]),
        ([0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]),
    ];
    for (face, (major, s, t)) in faces.into_iter().enumerate() {
        for (column, row) in [(0, 0), (7, 2), (3, 6)] {
            // The centre of the texel, from -1 to 1. The direction may have any length.
            let along = |at: i32| (at as f32 + 0.5) / 4.0 - 1.0;
            let direction: Vec<u32> = (0..3)
                .map(|i| (2.5 * (major[i] + s[i] * along(column) + t[i] * along(row))).to_bits())
                .collect();
            let found = run(&gpu, text, texture, &[[direction[0], direction[1], direction[2], 0]])[0][0];
            assert_eq!(
                f32::from_bits(found),
                (100 * face as i32 + 10 * row + column) as f32,
                "face {face}"
            );
        }
    }
}

#[test]
fn surface_reads_return_earlier_writes() {
    let gpu = gpu();
    let image =
        Image::new(Channel::U32, 1, 3, [8, 4, 3]).fill(&gpu, |[x, y, z], _| x + 10 * y + 100 * z);
    let surface = gpu.create_surface(image.texels);
    let inputs: Vec<[u32; 4]> = (0..32).map(|lane| [4 * (lane % 8), lane / 8, lane % 3, lane]).collect();
    let text = "suld.b.3d.b32.trap {%o0}, [%h, {%i0, %i1, %i2, %i2}]; add.u32 %o1, %o0, 5000;
                sust.b.3d.b32.trap [%h, {%i0, %i1, %i2, %i2}], {%o1}; sured.b.max.3d.u32.trap [%h, {%i0, %i1, %i2, %i2}], 6000;
                suld.b.3d.b32.trap %o2, [%h, {%i0, %i1, %i2, %i2}];";
    for (input, found) in inputs.iter().zip(run(&gpu, text, surface, &inputs)) {
        let before = input[0] / 4 + 10 * input[1] + 100 * input[2];
        assert_eq!(found[..3], [before, before + 5000, 6000]);
    }
    let mut bytes = vec![0; image.bytes.len()];
    gpu.read(image.texels.address, &mut bytes).expect("live memory");
    for input in &inputs {
        let at = image.offset([input[0] / 4, input[1], input[2]], 0);
        assert_eq!(bytes[at..at + 4], 6000_u32.to_le_bytes());
    }
    let mut image = Image::new(Channel::U8, 4, 1, [16, 1, 1]);
    image.texels.layers = Some(2);
    let image = image.fill(&gpu, |[x, _, layer], channel| 100 * layer + 4 * x + channel);
    let surface = gpu.create_surface(image.texels);
    let text = "suld.b.a1d.v4.b32.trap {%o0, %o1, %o2, %o3}, [%h, {%i0, %i1}];";
    let found = run(&gpu, text, surface, &[[1, 16, 0, 0]])[0];
    assert_eq!(found[0].to_le_bytes(), [116, 117, 118, 119]);
    assert_eq!(found[3].to_le_bytes(), [128, 129, 130, 131]);
    let text = "suld.b.a1d.b8.trap {%s}, [%h, {%i0, %i1}]; cvt.u32.u16 %o0, %s;";
    assert_eq!(run(&gpu, text, surface, &[[0, 63, 0, 0]])[0][0], 63);
    let text = "suld.b.a1d.b64.trap {%d}, [%h, {%i0, %i1}]; mov.b64 {%o0, %o1}, %d;";
    assert_eq!(run(&gpu, text, surface, &[[0, 8, 0, 0]])[0][1].to_le_bytes(), [12, 13, 14, 15]);
}

#[test]
fn out_of_range_surface_access_follows_its_mode() {
    let gpu = gpu();
    let image = Image::new(Channel::U32, 1, 2, [4, 2, 1]).fill(&gpu, |[x, y, _], _| 1 + x + 10 * y);
    let surface = gpu.create_surface(image.texels);
    let minus = |at: i32| at as u32;
    let places = [[minus(-4), 0, 0, 0], [16, 1, 0, 0], [8, 2, 0, 0], [8, minus(-1), 0, 0], [4, 1, 0, 0]];
    let load = |how: &str| {
        run(&gpu, &format!("suld.b.2d.b32.{how} {{%o0}}, [%h, {{%i0, %i1}}];"), surface, &places)
            .iter()
            .map(|found| found[0])
            .collect::<Vec<u32>>()
    };
    assert_eq!(load("zero"), [0, 0, 0, 0, 12]);
    assert_eq!(load("clamp"), [1, 14, 13, 3, 12]);
    run(&gpu, "sust.b.2d.b32.zero [%h, {%i0, %i1}], {%i3};", surface, &places[..4]);
    assert_eq!(load("clamp"), [1, 14, 13, 3, 12]);
    run(&gpu, "mov.u32 %i3, 77; sust.b.2d.b32.clamp [%h, {%i0, %i1}], {%i3};", surface, &places[..2]);
    assert_eq!(load("clamp"), [77, 77, 13, 3, 12]);
    let said = attempt(&gpu, "suld.b.2d.b32.trap {%o0}, [%h, {%i0, %i1}];", surface, &places[2..]);
    let said = said.expect_err("outside").to_string();
    assert!(
        said.ends_with(
            "load of 4 bytes at byte 8, row 2, plane 0 is outside of the surface, which has 16 bytes, 2 \
             rows, 1 planes"
        ),
        "{said}"
    );
}

#[test]
fn unknown_and_mismatched_handles_are_faults() {
    let gpu = gpu();
    let image = Image::new(Channel::F32, 1, 2, [4, 2, 1]).fill(&gpu, |_, _| 0);
    let texture = gpu.create_texture(Texture { texels: image.texels, sampler: PLAIN });
    let said = |text: &str, handle: u64| {
        attempt(&gpu, text, handle, &[[0; 4]]).expect_err("a fault").to_string()
    };
    let tex = "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0, %i1}];";
    assert!(said(tex, 0).ends_with(
        "0x0 is not a texture of the device; allowed is the handle of a texture that is not destroyed"
    ));
    assert!(
        said("suld.b.2d.b32.trap {%o0}, [%h, {%i0, %i1}];", texture)
            .contains("is not a surface of the device")
    );
    assert!(
        said("tex.3d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0, %i1, %i2, %i2}];", texture).ends_with(
            "`.3d` does not match a texture or surface of 2 dimensions; allowed is the geometry that it \
             was created with"
        )
    );
    gpu.free(image.texels.address).expect("live memory");
    assert!(said(tex, texture).contains("load of 4 bytes at global address"));
    gpu.destroy_texture(texture);
    assert!(said(tex, texture).contains("is not a texture of the device"));
}

#[test]
fn invalid_texture_instructions_are_refused() {
    let refused = |text: &str| Module::parse(&kernel(text)).expect_err("refused").message;
    assert_eq!(
        refused("tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0}];"),
        "1 coordinates are given, but 2 are needed for `.2d`"
    );
    assert_eq!(
        refused("tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, %h, {%i0, %i1}];"),
        "separate operands for texture and sampler are not supported; give one texture handle"
    );
    assert_eq!(
        refused("tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h];"),
        "`tex` needs a handle and coordinates in brackets"
    );
    assert_eq!(
        refused("sust.p.2d.b32.trap [%h, {%i0, %i1}], {%i2};"),
        "formatted surface access (`.p`) is not supported; use byte access (`.b`)"
    );
    assert_eq!(refused("ld.global.u32 %o0, [%h, {%i0, %i1}];"), "the address must be in brackets");
    assert!(
        Module::parse(&kernel("tex.level.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0, %i1}], %i2;"))
            .is_ok()
    );
    let gradients =
        "tex.grad.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%h, {%i0, %i1}], {%i2, %i2}, {%i3, %i3};";
    assert!(Module::parse(&kernel(gradients)).is_ok());
}

#[test]
fn surface_races_are_found_but_not_explored() {
    let hazards = Hazards::new();
    let gpu = gpu();
    let image = Image::new(Channel::U32, 1, 1, [64, 1, 1]).fill(&gpu, |_, _| 0);
    let surface = gpu.create_surface(image.texels);
    let kinds = |text: &str| {
        let module = module(&kernel(text));
        let data = u32s(&gpu, &[0; 256]);
        let args = Args::new().ptr(data).ptr(data).u64(surface);
        gpu.launch_observed(&module, "k", &Launch::linear(1, 64), &args, &hazards.launch())
            .expect("runs");
        hazards.findings().iter().map(|finding| finding.kind).collect::<Vec<HazardKind>>()
    };
    assert_eq!(kinds("shl.b32 %i0, %t, 2; sust.b.1d.b32.trap [%h, {%i0}], {%t};"), []);
    assert!(
        kinds("mov.u32 %i0, 0; sust.b.1d.b32.trap [%h, {%i0}], {%t};")
            .contains(&HazardKind::WriteWriteRace)
    );
    let module = module(&kernel("sust.b.1d.b32.trap [%h, {%t}], {%t};"));
    let data = u32s(&gpu, &[0; 4]);
    let args = Args::new().ptr(data).ptr(data).u64(surface);
    let exploration = Exploration::new(&gpu).launch(&module, "k", &Launch::linear(1, 1), &args);
    let refused = exploration.expect("a launch").run(|_| Ok(())).expect_err("it is not explored");
    let why = "the kernel has textures or surfaces, which explorations do not support";
    assert!(refused.to_string().contains(why), "{refused}");
}
