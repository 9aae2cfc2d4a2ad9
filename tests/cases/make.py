"""Writes the input files of cases.jsonl into a folder: make.py FOLDER. Needs NumPy and pyarrow."""

import io
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)


def npy(name, values, dtype):
    np.save(out / f"{name}.npy", np.array(values, dtype=dtype))


def raw_npy(name, descr, shape, data, version=(1, 0)):
    """Writes an array with a header that NumPy does not write, but other programs do."""
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    (out / f"{name}.npy").write_bytes(b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(head)) + head + data)


# Means of integers whose sums wrap around.
npy("i64_top", [2**63 - 1, 1], "i8")
npy("i64_quarter", [2**62] * 4, "i8")
npy("u64_top", [2**64 - 1, 1], "u8")
npy("i64_ids", [20150515061816532] * 500, "i8")
# Norms of integers whose squares or magnitudes wrap around.
npy("i32_low", [-(2**31)] * 2, "i4")
npy("i64_p32", [2**32], "i8")
npy("i64_low", [-(2**63)], "i8")
npy("u32_top", [2**32 - 1] * 2, "u4")
# Variances near a large mean.
npy("f32_p24", [16777216, 16777218] * 2, "f4")
npy("f32_mean_p24", 2.0**24 + 4 * np.random.default_rng(7).standard_normal(20000), "f4")
npy("f64_p53", [2.0**53, 2.0**53 + 2] * 2, "f8")
# Finite results whose intermediate sums or squares overflow or underflow.
npy("f32_3e38", [3e38] * 4, "f4")
npy("f64_1e308", [1e308] * 4, "f8")
npy("f32_1e20", [1e20, -1e20] * 2, "f4")
npy("f64_p511", [2.0**511, -(2.0**511)] * 2, "f8")
npy("f64_far", [1.7e308, -1.7e308], "f8")
npy("f64_1e200", [1e200] * 2, "f8")
npy("f64_1em300", [1e-300] * 2, "f8")
npy("f32_3e38_3", [3e38] * 3, "f4")
# Infinities and NaN, in any order and alone.
npy("inf_first", [np.inf, 1, 2], "f8")
npy("inf_last", [1, 2, np.inf], "f8")
npy("one_nan", [np.nan], "f8")
npy("one_inf", [np.inf], "f8")
npy("singles", [[1.0], [np.nan], [np.inf]], "f8")
npy("small", [2, 0, -5], "i4")
npy("empty_rows", np.zeros((0, 3)), "f8")
npy("ones8", np.ones((2,) * 8), "f8")

# Type names that NumPy accepts in a header.
floats, doubles = struct.pack("<3f", 1, 2, 3), struct.pack("<3d", 1, 2, 3)
for name, descr, data in [
    ("u1", "'<u1'", b"\1\2\3"),
    ("i1", "'<i1'", b"\1\2\3"),
    ("b1", "'<b1'", b"\1\0\1"),
    ("bare_f4", "'f4'", floats),
    ("eq_f4", "'=f4'", floats),
    ("d", "'<d'", doubles),
    ("name_f4", "'float32'", floats),
    ("q", "'?'", b"\1\0\1"),
]:
    raw_npy(f"descr_{name}", descr, "(3,)", data)
raw_npy("long_shape", "'<f4'", "(3L,)", floats)

one = io.BytesIO()
np.save(one, np.arange(5, dtype="f4"))
for name, how in [("bzip2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)]:
    with zipfile.ZipFile(out / f"{name}.npz", "w", how) as archive:
        archive.writestr("x.npy", one.getvalue())
with zipfile.ZipFile(out / "bare_member.npz", "w") as archive:
    archive.writestr("x", one.getvalue())


def arrow(name, table, **options):
    with pa.OSFile(str(out / name), "wb") as file:
        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table)


keys = pa.array([True, True, False])
codes = pa.array([5, 5, 7]).dictionary_encode()
columns = pa.table({"n": pa.nulls(3), "v": [1.0, 2.0, 4.0], "k": keys, "c": codes})
pq.write_table(columns, out / "columns.parquet")
pq.write_table(pa.table({"v": [1.0, 2.0, 4.0]}), out / "brotli.parquet", compression="brotli")
arrow("null.arrow", pa.table({"n": pa.nulls(3)}))
# A page with one flipped bit, so that its checksum is wrong.
long = pa.table({"v": pa.array([float(i) for i in range(4096)])})
pq.write_table(long, out / "crc.parquet", write_page_checksum=True, compression="none", use_dictionary=False)
damaged = bytearray((out / "crc.parquet").read_bytes())
damaged[200] ^= 1
(out / "crc.parquet").write_bytes(damaged)
# An Arrow file whose compressed buffer has a header with a size of 2^40 bytes.
arrow("lz4_lies.arrow", long, compression="lz4")
lies = bytearray((out / "lz4_lies.arrow").read_bytes())
at = lies.find(struct.pack("<q", 4096 * 8))
lies[at : at + 8] = struct.pack("<q", 1 << 40)
(out / "lz4_lies.arrow").write_bytes(lies)


def ptx(name, body):
    (out / f"{name}.ptx").write_text(f".version 8.0\n.target sm_80\n.address_size 64\n{body}\n")


def fatbin(name, flags, stored, whole, head=80):
    """Writes a fat binary with one part of PTX, and these values in the header of the part."""
    part = bytearray(80)
    struct.pack_into("<HHIQ", part, 0, 1, 0x101, head, len(stored))
    struct.pack_into("<I", part, 16, len(stored) if flags else 0)
    struct.pack_into("<I", part, 28, 80)
    struct.pack_into("<Q", part, 40, flags)
    struct.pack_into("<Q", part, 56, whole)
    part += stored
    (out / f"{name}.fatbin").write_bytes(struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(part)) + part)


LZ4, ZSTD = 0x2000, 0x8000
text = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
fatbin("plain", 0, text, 0)
fatbin("lz4", LZ4, pa.compress(text, "lz4_raw", asbytes=True), len(text))
fatbin("zstd", ZSTD, pa.compress(text, "zstd", asbytes=True), len(text))
# A part of zero bytes, at which a loop over parts does not advance.
(out / "loop.fatbin").write_bytes(bytes.fromhex("50ed55ba010010004000000000000000") + bytes(64))
# Parts whose headers have a size of 64 MiB after decompression, which is wrong, and one that has this size.
fatbin("lz4_lies", LZ4, pa.compress(text, "lz4_raw", asbytes=True), 64 << 20)
fatbin("zstd_lies", ZSTD, pa.compress(text, "zstd", asbytes=True), 64 << 20)
fatbin("zstd_bomb", ZSTD, pa.compress(text + b" " * (64 << 20), "zstd", asbytes=True), len(text) + (64 << 20))
# A kernel that is launched with very many short blocks, one that loops over barriers, and one that never ends.
ptx("grid", ".visible .entry empty()\n{\n ret;\n}")
ptx("barriers", ".visible .entry barriers()\n{\n L: bar.sync 0;\n bra L;\n}")
ptx("endless", ".visible .entry endless()\n{\n L: bra L;\n}")
# Names that demangle to 2^30 parts, or that a parser can read in 2^40 ways.
digits = "0123456789ABCDEFGHIJKLMNOPQRST"
doubled = "_Z1f1aIiiE" + "".join(f"S_IS{digit}_S{digit}_E" for digit in digits)
many = "_ZptDt" + "da" * 40 + "sZWTc"
ptx("names", "".join(f".visible .entry {name}() {{ ret; }}\n" for name in (doubled, many)))
# Declarations of very much memory.
ptx("much_global", ".global .b8 much[1099511627776];\n.visible .entry k() { .reg .b64 %a; mov.u64 %a, much; ret; }")
ptx("much_local", ".visible .entry k() { .local .align 4 .b8 some[524288]; .reg .b64 %a; .reg .b32 %b; mov.u64 %a, some; ld.local.u32 %b, [%a]; ret; }")
ptx("much_registers", ".visible .entry k() { .reg .b64 %r<4294967295>; mov.u64 %r4294967294, 0; ret; }")
ptx("source", '.visible .entry k()\n{\n .loc 1 7 1\n ret;\n}\n.file 1 "/dev/zero"')
