#!/usr/bin/env python3
"""Blocks of the GGUF formats and their values as the gguf package has them, for tests/quant.

Needs numpy and gguf (made with gguf 0.19.0, numpy 2.4.6):

    python tools/goldens/quant_blocks.py

blocks.txt: one line per vector, "FORMAT dequantize|quantize HEX-BLOCKS HEX-F32-VALUES". dequantize: random bytes (scales
finite) to values. quantize: values to blocks, for the formats that the package can quantize.
"""
import pathlib

import gguf
import numpy

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "quant" / "goldens" / "blocks.txt"
FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4",
           "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0"]
READ_ONLY = ["IQ4_NL"]  # by the package
# Where each format keeps its f16 numbers.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": [],
          "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
          "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]}


def line(name, what, blocks, values):
    return f"{name} {what} {blocks.tobytes().hex()} {values.astype('<f4').tobytes().hex()}\n"


def main():
    rng = numpy.random.default_rng(5)
    lines = []
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 4 if elements == 32 else 2
        blocks = rng.integers(0, 256, (count, size), dtype=numpy.uint8)
        for at in HALVES[name]:
            scales = (rng.standard_normal(count) * 0.01).astype("<f2")
            scales[-1] = numpy.float16(6e-8)  # the smallest subnormal
            blocks[:, at:at + 2] = scales.view(numpy.uint8).reshape(count, 2)
        if name == "IQ1_M":  # d is in the upper bits of four words; the uppermost are its sign and exponent
            blocks[:, 55] = blocks[:, 55] & 0x8f | 0x20
        lines.append(line(name, "dequantize", blocks, gguf.dequantize(blocks.reshape(-1), kind)))
        if name in READ_ONLY or elements != 32 and not name.startswith("TQ"):
            continue
        values = rng.standard_normal((7, elements)).astype(numpy.float32)
        values[1] *= 1e4
        values[2] *= 1e-6
        values[3] = 0
        values[4] = numpy.abs(values[4])
        values[5] = -numpy.abs(values[5])
        values[6, 1:] = 0
        lines.append(line(name, "quantize", gguf.quantize(values, kind), values))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("".join(lines))


if __name__ == "__main__":
    main()
