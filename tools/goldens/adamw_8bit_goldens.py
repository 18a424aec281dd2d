#!/usr/bin/env python3
"""Writes tests/optim/goldens/adamw_8bit.safetensors: the maps of bitsandbytes' 8-bit optimizers, and what its AdamW8bit
makes, on the CPU, of one parameter in some steps: the parameter, and the codes and scales of both moments.

bitsandbytes has several quantizers. Its CPU library's looks codes up in a table of 2^16 places, which is coarser than the
map where values are small; here its portable one takes part, which picks the nearest code as the CUDA kernels do.

Start and gradients are not stored: `drawn` gives numbers that a test can make again, bit by bit. Run with the versions in
requirements.txt:  tools/goldens/adamw_8bit_goldens.py
"""
import pathlib

import bitsandbytes
import numpy as np
import torch
from bitsandbytes.backends.cpu import ops as cpu_ops
from bitsandbytes.functional import create_dynamic_map
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "optim" / "goldens" / "adamw_8bit.safetensors"
COUNT = 4096 + 300  # the last block is not whole
STEPS = 8
OPTIONS = {"lr": 0.01, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def drawn(salt):
    """COUNT numbers in [-0.5, 0.5), times powers of two from 1 to 2^-12, every 50th zero: exact in f32."""
    i = np.arange(COUNT, dtype=np.uint64)
    x = ((i + 1) * 2654435761 + salt * 2246822519) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 2246822519) & 0xFFFFFFFF
    x ^= x >> 13
    value = ((x >> 8).astype(np.float64) / 2**24 - 0.5) * 2.0 ** -(i % 13).astype(np.float64)
    value[i % 50 == 0] = 0
    return torch.from_numpy(value.astype(np.float32))


def quantize_to_nearest(values, code, absmax, codes, blocksize):
    portable = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
    op = torch.ops.bitsandbytes.quantize_blockwise.default
    nearest, scales = op.redispatch(portable, values, code, blocksize)
    codes.copy_(nearest)
    absmax.copy_(scales)


def main():
    cpu_ops._quant_blockwise_fp32_direct = quantize_to_nearest
    parameter = torch.nn.Parameter(drawn(0))
    optimizer = bitsandbytes.optim.AdamW8bit([parameter], **OPTIONS)
    tensors = {"signed_map": create_dynamic_map(True), "unsigned_map": create_dynamic_map(False)}
    for step in range(1, STEPS + 1):
        parameter.grad = drawn(step)
        optimizer.step()
        if step in (1, STEPS):
            state = optimizer.state[parameter]
            kept = {"param": parameter.detach(), "m": state["state1"], "v": state["state2"],
                    "m_scale": state["absmax1"], "v_scale": state["absmax2"]}
            tensors |= {f"{name}_{step}": tensor.clone() for name, tensor in kept.items()}
    save_file(tensors, OUT, metadata={"made_with": f"bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__}"})


if __name__ == "__main__":
    main()
