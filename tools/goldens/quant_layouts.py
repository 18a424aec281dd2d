#!/usr/bin/env python3
"""Layers in the layouts of AutoGPTQ and AutoAWQ with the values that they stand for, for tests/quant.

Needs numpy and safetensors (made with numpy 2.4.6, safetensors 0.8.0):

    python tools/goldens/quant_layouts.py

Packing follows the loops of AutoGPTQ's QuantLinear.pack and AutoAWQ's WQLinear_GEMM.from_linear, from whole numbers;
the values are computed from those numbers, not from the packed words.
"""
import pathlib

import numpy
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "quant" / "goldens" / "layouts.safetensors"
K, N, GROUP = 64, 16, 32
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack_columns(values, order=range(8)):
    """[R, C] of 0 ... 15 to int32 [R, C / 8]: position i of a word is column order[i]."""
    words = numpy.zeros((values.shape[0], values.shape[1] // 8), dtype=numpy.uint32)
    for word in range(words.shape[1]):
        for place, column in enumerate(order):
            words[:, word] |= values[:, word * 8 + column].astype(numpy.uint32) << numpy.uint32(4 * place)
    return words.view(numpy.int32)


def main():
    rng = numpy.random.default_rng(9)
    codes = rng.integers(0, 16, (K, N))  # [inputs, outputs]
    zeros = rng.integers(1, 16, (K // GROUP, N))
    scales = (rng.random((K // GROUP, N)) * 0.01 + 1e-3).astype(numpy.float16)
    tensors = {}
    for name, group_of in {"plain": numpy.arange(K) // GROUP, "act_order": rng.permutation(numpy.arange(K) // GROUP)}.items():
        values = scales[group_of].astype(numpy.float32) * (codes - zeros[group_of])
        tensors[f"gptq.{name}.qweight"] = numpy.ascontiguousarray(pack_columns(codes.T).T)
        tensors[f"gptq.{name}.qzeros"] = pack_columns(zeros - 1)
        tensors[f"gptq.{name}.scales"] = scales
        tensors[f"gptq.{name}.g_idx"] = group_of.astype(numpy.int32)
        tensors[f"gptq.{name}.values"] = numpy.ascontiguousarray(values.T.astype(numpy.float32))
    values = scales[numpy.arange(K) // GROUP].astype(numpy.float32) * (codes - zeros[numpy.arange(K) // GROUP])
    tensors["awq.qweight"] = pack_columns(codes, AWQ_ORDER)
    tensors["awq.qzeros"] = pack_columns(zeros, AWQ_ORDER)
    tensors["awq.scales"] = scales
    tensors["awq.values"] = numpy.ascontiguousarray(values.T.astype(numpy.float32))
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
