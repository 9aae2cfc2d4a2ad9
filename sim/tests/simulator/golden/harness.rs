//! Builds a module around an instruction, runs each row of inputs in its own lane, compares all bits.

use warpfold_sim::{AddressMode, Args, Channel, Config, Gpu, Launch, Module, Sampler, Texels, Texture};

pub(crate) type Row = (Vec<u64>, Vec<u64>);

pub(crate) struct Case {
    /// Register kinds (`p` predicate, `h` 16, `r` 32, `d` 64 bits): outputs before the `=`, then inputs.
    signature: &'static str,
    /// Instructions on `%o0…` and `%i0…`; a `*` marks the one under test, by default the first. Also
    /// declared: `%lane`, `%scratch` (64 bytes of global memory per lane), `%all` (that of lane 0),
    /// `shm`, `loc`, `cst`, `dev`, and `%tex` and `%surf`, a texture and a surface of 8 × 4 words, each
    /// 100 more than its index.
    text: String,
    rows: Vec<Row>,
}

pub(crate) fn case(signature: &'static str, text: &str, rows: &[(&[u64], &[u64])]) -> Case {
    let rows = rows.iter().map(|(inputs, outputs)| (inputs.to_vec(), outputs.to_vec())).collect();
    Case { signature, text: text.to_owned(), rows }
}

pub(crate) fn case_of(signature: &'static str, text: &str, rows: impl IntoIterator<Item = Row>) -> Case {
    Case { signature, text: text.to_owned(), rows: rows.into_iter().collect() }
}

pub(crate) fn lanes<const I: usize, const O: usize>(
    signature: &'static str,
    text: &str,
    inputs: impl Fn(u64) -> [u64; I],
    outputs: impl Fn(u64) -> [u64; O],
) -> Case {
    case_of(signature, text, (0..32).map(|lane| (inputs(lane).to_vec(), outputs(lane).to_vec())))
}

pub(crate) fn sweep2(
    signature: &'static str,
    text: &str,
    values: &[u64],
    f: impl Fn(u64, u64) -> u64,
) -> Case {
    let pairs = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b)));
    case_of(signature, text, pairs.map(|(a, b)| (vec![a, b], vec![f(a, b)])))
}

pub(crate) fn sweep1(
    signature: &'static str,
    text: &str,
    values: &[u64],
    f: impl Fn(u64) -> u64,
) -> Case {
    case_of(signature, text, values.iter().map(|&a| (vec![a], vec![f(a)])))
}

pub(crate) const EDGES16: &[u64] =
    &[0, 1, 2, 7, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0x8001, 0xffff];
pub(crate) const EDGES32: &[u64] = &[
    0,
    1,
    2,
    3,
    31,
    32,
    0xff,
    0xffff,
    0x0001_0000,
    0x7fff_fffe,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xdead_beef,
    0xffff_fffe,
    0xffff_ffff,
];
pub(crate) const EDGES64: &[u64] = &[
    0,
    1,
    3,
    63,
    64,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0x0123_4567_89ab_cdef,
    0xffff_ffff_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];
pub(crate) const FLOATS: &[u64] = &[
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f80_0001,
    0x3eaa_aaab,
    0xc049_0fdb,
    0x4b80_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc1_2345,
    0x7f80_0001,
];
pub(crate) const DOUBLES: &[u64] = &[
    0x0000_0000_0000_0000,
    0x8000_0000_0000_0000,
    0x0000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0001,
    0x3fd5_5555_5555_5555,
    0xc009_21fb_5444_2d18,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
];

impl Case {
    pub(crate) fn opcode(&self) -> String {
        let statements = || self.text.split([';', '{', '}']).map(str::trim);
        let starred = statements().find_map(|statement| statement.strip_prefix('*'));
        let plain = || statements().find(|s| !s.is_empty() && !s.starts_with('.'));
        let statement = starred.or_else(plain).expect("an instruction");
        let words = statement.split_whitespace();
        let word = words.clone().find(|word| !word.starts_with('@') && !word.ends_with(':'));
        word.expect("an opcode").split('.').next().expect("a name").to_owned()
    }

    fn kinds(&self) -> (Vec<char>, Vec<char>) {
        let (outputs, inputs) = self.signature.split_once('=').expect("`outputs = inputs`");
        let kinds = |part: &str| part.chars().filter(|kind| !kind.is_whitespace()).collect();
        (kinds(outputs), kinds(inputs))
    }

    /// Returns the type of a register: untyped bits as LLVM declares them, or the type of the
    /// computation, as libNVVM and nvcc do.
    fn register(&self, kind: char, style: Style) -> &'static str {
        let integers = [".u", ".s"].iter().any(|class| self.text.contains(class));
        let float = |ty: &str| self.text.contains(ty) && !integers;
        match (kind, style) {
            ('p', _) => "pred",
            ('h', Style::Llvm) => "b16",
            ('h', Style::Nvvm) => "u16",
            ('r', Style::Llvm) => "b32",
            ('r', Style::Nvvm) => {
                if float(".f32") {
                    "f32"
                } else {
                    "s32"
                }
            }
            ('d', Style::Llvm) => "b64",
            ('d', Style::Nvvm) => {
                if float(".f64") {
                    "f64"
                } else {
                    "s64"
                }
            }
            (other, _) => panic!("unknown register kind {other}"),
        }
    }

    fn ptx(&self, style: Style) -> String {
        let (outputs, inputs) = self.kinds();
        let mut body = String::new();
        for (name, kinds) in [('o', &outputs), ('i', &inputs)] {
            for (index, kind) in kinds.iter().enumerate() {
                let ty = self.register(*kind, style);
                body += &format!("    .reg .{ty} %{name}{index};\n");
            }
        }
        for (index, kind) in inputs.iter().enumerate() {
            let offset = index * 8;
            body += &match kind {
                'p' => format!(
                    "    ld.global.u32 %h32, [%in+{offset}];\n    setp.ne.u32 %i{index}, %h32, 0;\n"
                ),
                'h' => format!("    ld.global.b16 %i{index}, [%in+{offset}];\n"),
                'r' => format!("    ld.global.b32 %i{index}, [%in+{offset}];\n"),
                _ => format!("    ld.global.b64 %i{index}, [%in+{offset}];\n"),
            };
        }
        body += &format!("    {{\n    {}\n    }}\n", self.text.replace('*', ""));
        for (index, kind) in outputs.iter().enumerate() {
            let offset = index * 8;
            body += &match kind {
                'p' => format!("    selp.b64 %h64, 1, 0, %o{index};\n"),
                'h' => format!("    cvt.u64.u16 %h64, %o{index};\n"),
                'r' => format!("    mov.b32 %h32, %o{index};\n    cvt.u64.u32 %h64, %h32;\n"),
                _ => format!("    mov.b64 %h64, %o{index};\n"),
            };
            body += &format!("    st.global.u64 [%out+{offset}], %h64;\n");
        }
        let ptx = FRAME
            .replace("INPUT_BYTES", &(inputs.len() * 8).to_string())
            .replace("OUTPUT_BYTES", &(outputs.len() * 8).to_string())
            .replace("BODY", &body);
        style.written(ptx)
    }
}

#[derive(Debug, Clone, Copy)]
enum Style {
    /// LLVM: untyped registers, shared arrays at module scope.
    Llvm,
    /// libNVVM and nvcc: typed registers, `_param_N` names, shared arrays inside functions, pointers
    /// converted to global addresses.
    Nvvm,
}

impl Style {
    fn written(self, ptx: String) -> String {
        match self {
            Self::Llvm => ptx,
            Self::Nvvm => convert_pointers(&name_parameters(&move_shared(&ptx)))
                .replace(".version 7.8", ".version 9.0"),
        }
    }
}

fn move_shared(ptx: &str) -> String {
    const SHARED: &str = ".shared .align 16 .b8 shm[2048];\n";
    ptx.replace(SHARED, "").replacen("{\n    .local", &format!("{{\n    {SHARED}    .local"), 1)
}

fn name_parameters(ptx: &str) -> String {
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '.');
    let mut named = String::new();
    let mut rest = ptx;
    while let Some(start) = rest.find(belongs) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c| !belongs(c)).unwrap_or(word.len());
        named += before;
        let names = ["input", "output", "scratch", "count", "texture", "surface"];
        match names.iter().position(|name| *name == &word[..end]) {
            Some(index) => named += &format!("golden_param_{index}"),
            None => named += &word[..end],
        }
        rest = &word[end..];
    }
    named + rest
}

fn convert_pointers(ptx: &str) -> String {
    ["in", "out", "all"].iter().enumerate().fold(ptx.to_owned(), |ptx, (index, name)| {
        let load = format!("ld.param.u64 %{name}, [golden_param_{index}];");
        ptx.replace(&load, &format!("{load}\n    cvta.to.global.u64 %{name}, %{name};"))
    })
}

const FRAME: &str = "
.version 7.8
.target sm_90
.address_size 64
.global .align 8 .b32 dev[4] = {11, 22, 33, 44};
.const .align 8 .b32 cst[4] = {101, 102, 103, 0xfffffff0};
.shared .align 16 .b8 shm[2048];
.visible .entry golden(.param .u64 input, .param .u64 output, .param .u64 scratch, .param .u32 count,
    .param .u64 texture, .param .u64 surface)
{
    .local .align 16 .b8 loc[64];
    .reg .pred %done;
    .reg .b32 %h32, %lane, %row, %block, %count;
    .reg .b64 %h64, %in, %out, %scratch, %all, %tex, %surf;
    mov.u32 %lane, %tid.x;
    mov.u32 %block, %ctaid.x;
    mad.lo.u32 %row, %block, 32, %lane;
    ld.param.u32 %count, [count];
    setp.ge.u32 %done, %row, %count;
    @%done exit;
    ld.param.u64 %in, [input];
    ld.param.u64 %out, [output];
    ld.param.u64 %all, [scratch];
    ld.param.u64 %tex, [texture];
    ld.param.u64 %surf, [surface];
    mad.wide.u32 %in, %row, INPUT_BYTES, %in;
    mad.wide.u32 %out, %row, OUTPUT_BYTES, %out;
    mad.wide.u32 %scratch, %row, 64, %all;
BODY
    ret;
}
";

pub(crate) fn run(case: &Case) {
    for style in [Style::Llvm, Style::Nvvm] {
        run_in(case, style);
    }
}

fn run_in(case: &Case, style: Style) {
    let (outputs, inputs) = case.kinds();
    let ptx = case.ptx(style);
    let module = Module::parse(&ptx).unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    let gpu = Gpu::new(Config { threads: Some(1), step_limit: 1_000_000, ..Config::default() });
    let rows = case.rows.len() as u64;
    let blocks = case.rows.len().div_ceil(32) as u32;
    let alloc = |bytes: u64| gpu.alloc(bytes.max(8)).expect("memory");
    let input = alloc(rows * inputs.len() as u64 * 8);
    let output = alloc(rows * outputs.len() as u64 * 8);
    let scratch = alloc(rows * 64);
    let flat: Vec<u8> = case.rows.iter().flat_map(|row| &row.0).flat_map(|v| v.to_le_bytes()).collect();
    gpu.write(input, &flat).expect("inputs");
    let (texture, surface) = objects(&gpu);
    let args = Args::new().ptr(input).ptr(output).ptr(scratch).u32(rows as u32);
    let args = args.u64(texture).u64(surface);
    // Cases with fewer rows than lanes run in a block of just as many threads, and those of a warpgroup
    // in one of its 128.
    let blocks = if case.opcode() == "wgmma" { 1 } else { blocks };
    let threads = if blocks == 1 { rows as u32 } else { 32 };
    let launch = Launch::linear(blocks, threads);
    if let Err(error) = gpu.launch(&module, "golden", &launch, &args) {
        panic!("{}: {error}", case.text);
    }
    let mut bytes = vec![0; case.rows.len() * outputs.len() * 8];
    gpu.read(output, &mut bytes).expect("outputs");
    let mut got = bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
    for (index, (inputs, expected)) in case.rows.iter().enumerate() {
        assert_eq!(expected.len(), outputs.len(), "row {index} of `{}`", case.text);
        for (place, &expected) in expected.iter().enumerate() {
            let got = got.next().expect("an output");
            assert_eq!(
                got, expected,
                "row {index} of `{}` on {inputs:x?}: output {place} is {got:#x} instead of {expected:#x}",
                case.text
            );
        }
    }
}

fn objects(gpu: &Gpu) -> (u64, u64) {
    let bytes: Vec<u8> = (100..132_u32).flat_map(u32::to_le_bytes).collect();
    let texels = || {
        let address = gpu.alloc(128).expect("memory");
        gpu.write(address, &bytes).expect("texels");
        Texels {
            address,
            channel: Channel::U32,
            channels: 1,
            dimensions: 2,
            extent: [8, 4, 1],
            layers: None,
            cube: false,
            row_bytes: 32,
            plane_bytes: 128,
        }
    };
    let sampler = Sampler {
        address: [AddressMode::Border; 3],
        linear: false,
        normalized: false,
        as_floats: false,
        srgb: false,
        border: [7.0; 4],
    };
    (gpu.create_texture(Texture { texels: texels(), sampler }), gpu.create_surface(texels()))
}
