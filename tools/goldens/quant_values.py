#!/usr/bin/env python3
"""NF4 as bitsandbytes has it and FP8 E4M3 as PyTorch has it, for tests/quant.

Needs torch, bitsandbytes and safetensors (made with torch 2.15.0, bitsandbytes 0.50.2, safetensors 0.8.0):

    python tools/goldens/quant_values.py
"""
import pathlib

import torch
from bitsandbytes.functional import dequantize_4bit, get_4bit_type, quantize_4bit
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "quant" / "goldens" / "values.safetensors"
ROWS, COLS = 12, 192


def weights(seed):
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(ROWS, COLS, generator=generator)
    w[1] *= 1e-3
    w[2] = 0
    w[3] = 0.25
    w[4] *= torch.linspace(1e-6, 1, COLS)
    return w


def nf4(tensors):
    table = get_4bit_type("nf4", device="cpu")
    w = weights(1)
    packed, state = quantize_4bit(w, blocksize=64, quant_type="nf4")
    packed = packed.view(torch.uint8).flatten()
    tensors["nf4.weight"] = w
    tensors["nf4.codes"] = torch.stack([packed >> 4, packed & 15], dim=1).reshape(ROWS, COLS)
    tensors["nf4.scales"] = state.absmax.reshape(ROWS, COLS // 64).float()
    tensors["nf4.values"] = dequantize_4bit(packed.reshape(-1, 1), state).reshape(ROWS, COLS).float()
    tensors["nf4.table"] = table.float()
    tensors["nf4.table_codes"] = torch.arange(16, dtype=torch.uint8)


def fp8(tensors):
    codes = torch.tensor([c for c in range(256) if c & 0x7F != 0x7F], dtype=torch.uint8)
    w = weights(2)
    scales = w.abs().amax(dim=1, keepdim=True) / torch.finfo(torch.float8_e4m3fn).max
    scaled = torch.where(scales > 0, w / scales, torch.zeros_like(w)).clamp(-448, 448)
    rounded = scaled.to(torch.float8_e4m3fn)
    tensors["fp8.weight"] = w
    tensors["fp8.codes"] = rounded.view(torch.uint8)
    tensors["fp8.scales"] = scales
    tensors["fp8.values"] = rounded.float() * scales
    tensors["fp8.table"] = codes.view(torch.float8_e4m3fn).float()
    tensors["fp8.table_codes"] = codes


def main():
    tensors = {}
    nf4(tensors)
    fp8(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, OUT)


if __name__ == "__main__":
    main()
