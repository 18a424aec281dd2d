#!/usr/bin/env python3
"""Small GGUF files as gguf-py writes them, for tests/weights.

Needs gguf and numpy (made with gguf 0.19.0, numpy 2.4.6):

    python tools/goldens/gguf_goldens.py

Plain tensors hold 0, 1, 2, ...; next to each quantized tensor stands `<name>.values`, what gguf-py makes of it.
"""
import pathlib

import gguf
import numpy

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "weights" / "goldens"
TYPES = gguf.GGMLQuantizationType
VALUES = gguf.GGUFValueType


def add_metadata(writer):
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_uint32("test.u32", 4000000000)
    writer.add_int32("test.i32", -2000000000)
    writer.add_uint64("test.u64", 2**64 - 1)
    writer.add_int64("test.i64", -(2**63))
    writer.add_float32("test.f32", 1e-5)
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "gr\u00fc\u00df dich")
    writer.add_array("test.strings", ["a", "", "\u4e16\u754c"])
    writer.add_array("test.integers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.5])
    writer.add_array("test.booleans", [True, False])


def plain(writer):
    writer.add_tensor("f32", numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
    writer.add_tensor("f16", numpy.arange(5, dtype=numpy.float16))
    writer.add_tensor("f64", numpy.arange(3, dtype=numpy.float64).reshape(1, 3))
    writer.add_tensor("i8", numpy.arange(3, dtype=numpy.int8))
    writer.add_tensor("i16", numpy.arange(4, dtype=numpy.int16).reshape(2, 2, 1))
    writer.add_tensor("i32", numpy.arange(2, dtype=numpy.int32))
    writer.add_tensor("i64", numpy.arange(8, dtype=numpy.int64).reshape(2, 1, 2, 2))
    bf16 = gguf.quants.quantize(numpy.arange(4, dtype=numpy.float32).reshape(2, 2), TYPES.BF16)
    writer.add_tensor("bf16", bf16, raw_dtype=TYPES.BF16)


def quantized(writer):
    random = numpy.random.default_rng(7)
    for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"):
        block, size = gguf.GGML_QUANT_SIZES[TYPES[kind]]
        if kind.endswith("_K"):  # gguf-py cannot write these: any bits with small scales are a block
            raw = random.integers(0, 256, (2, size), dtype=numpy.uint8)
            scale = numpy.array([0.0625, 0.125], dtype=numpy.float16).view(numpy.uint8)
            at = {"Q2_K": 80, "Q3_K": 108, "Q4_K": 0, "Q5_K": 0, "Q6_K": 208}[kind]
            count = 2 if kind in ("Q3_K", "Q6_K") else 4
            raw[:, at:at + count] = scale[:count]
        else:
            raw = gguf.quants.quantize(random.standard_normal((2, block), dtype=numpy.float32), TYPES[kind])
        writer.add_tensor(kind.lower(), raw, raw_dtype=TYPES[kind])
        writer.add_tensor(kind.lower() + ".values", gguf.quants.dequantize(raw, TYPES[kind]))


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    writer = gguf.GGUFWriter(OUT / "all_types.gguf", "test")
    add_metadata(writer)
    plain(writer)
    write(writer)

    writer = gguf.GGUFWriter(OUT / "quantized.gguf", "test")
    quantized(writer)
    write(writer)

    writer = gguf.GGUFWriter(OUT / "aligned.gguf", "test")
    writer.add_custom_alignment(128)
    writer.add_tensor("a", numpy.arange(3, dtype=numpy.float32))
    writer.add_tensor("b", numpy.arange(2, dtype=numpy.float32))
    write(writer)

    writer = gguf.GGUFWriter(OUT / "split.gguf", "test", split_max_tensors=2)
    for i in range(5):
        writer.add_tensor(f"t{i}", numpy.full(4, i, dtype=numpy.float32))
    write(writer)


if __name__ == "__main__":
    main()
