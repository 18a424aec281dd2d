#!/usr/bin/env python3
"""Writes tests/nn/recipe_goldens.json: what the training recipes (src/ingot/nn/recipe) make of a linear layer.

Formats of 4 and 8 bits are rounded by ml_dtypes and by torch, which must agree; scales follow the definitions that each
function names. Matmuls of the rounded operands are exact (f64). Run with the environment of requirements.txt.
"""
import json
import pathlib

import ml_dtypes
import numpy as np
import torch

ROWS, IN, OUT = 18, 20, 19
MOST = np.float32(3.4028234663852886e38)


def numbers(shape, seed):
    """Exact in f32, some of them outliers; the test makes the same."""
    i = np.arange(np.prod(shape), dtype=np.int64)
    x = ((i * 7919 + seed * 104729) % 2003 - 1001).astype(np.float32) / np.float32(256)
    x[i % 37 == 5] *= np.float32(16)
    return x.reshape(shape)


def bf16(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def fp8(x, e4m3):
    """One scale for the tensor, its largest magnitude becomes the largest number (TransformerEngine's current scaling)."""
    scale = np.float32(448 if e4m3 else 57344) / np.abs(x).max()
    codes = (x * scale).astype(np.float32)
    narrow = codes.astype(ml_dtypes.float8_e4m3fn if e4m3 else ml_dtypes.float8_e5m2)
    check = torch.from_numpy(codes).to(torch.float8_e4m3fn if e4m3 else torch.float8_e5m2)
    assert (check.view(torch.uint8).numpy() == narrow.view(np.uint8)).all()
    return narrow.astype(np.float64) * np.float64(np.float32(1) / scale), narrow.view(np.uint8)


def nvfp4(x, square):
    """NVFP4 by TransformerEngine's definition; returns values, and the numbers times the scales of blocks."""
    whole = min(np.float32(2688) / np.abs(x).max(), MOST)
    blocks = np.zeros_like(x)
    height = 16 if square else 1
    for r in range(0, x.shape[0], height):
        for c in range(0, x.shape[1], 16):
            block = x[r:r + height, c:c + 16]
            wanted = np.float32(np.abs(block).max()) / np.float32(6) * whole
            scale = np.float32(min(wanted, np.float32(448)).astype(ml_dtypes.float8_e4m3fn))
            encode = min(np.float32(1) / (scale * (np.float32(1) / whole)), MOST)
            fp4 = np.clip(block * encode, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
            blocks[r:r + height, c:c + 16] = fp4 * scale
    return blocks.astype(np.float64) * np.float64(np.float32(1) / whole), blocks


def hadamard(x):
    """Sixteen neighbours of a row times D·H / 4, with TransformerEngine's signs."""
    signs = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1], np.float32)
    h = np.ones((1, 1), np.float32)
    while len(h) < 16:
        h = np.block([[h, h], [h, -h]])
    padded = np.zeros((x.shape[0], -(-x.shape[1] // 16) * 16), np.float32)
    padded[:, :x.shape[1]] = x
    return (padded.reshape(-1, 16) @ (signs[:, None] * h / 4)).reshape(padded.shape).astype(np.float32)


def ternary(w):
    scale = np.float32(np.float16(np.abs(w).mean(dtype=np.float64)))
    return np.clip(np.rint(w / scale), -1, 1).astype(np.float64) * scale


def int8(x):
    """BitNet b1.58: a scale for each row."""
    top = np.abs(x).max(axis=1, keepdims=True)
    return np.rint(x * (np.float32(127) / top)).astype(np.float64) * (top / np.float32(127)).astype(np.float64)


def products(x, w, dy_for_x, dy_for_w, x_for_w):
    return {"y": x @ w.T, "dx": dy_for_x @ w, "dw": dy_for_w.T @ x_for_w}


def recipes(x, w, dy):
    wide = {name: values.astype(np.float64) for name, values in {"x": bf16(x), "w": bf16(w), "dy": bf16(dy)}.items()}
    yield "bf16", products(wide["x"], wide["w"], wide["dy"], wide["dy"], wide["x"])
    x8, w8, dy8 = fp8(x, True)[0], fp8(w, True)[0], fp8(dy, False)[0]
    yield "fp8_hybrid", products(x8, w8, dy8, dy8, x8)
    x1, w1, dy1 = int8(x), ternary(w), dy.astype(np.float64)
    yield "bitnet", products(x1, w1, dy1, dy1, x1)
    yield "nvfp4", products(nvfp4(x, False)[0], nvfp4(w, True)[0], nvfp4(dy, False)[0],
                            nvfp4(hadamard(dy.T), False)[0].T, nvfp4(hadamard(x.T), False)[0].T)


def shown(values):
    return [float(f"{v:.7g}") for v in np.asarray(values, np.float64).ravel()]


def main():
    x, w, dy = numbers((ROWS, IN), 1), numbers((OUT, IN), 2), numbers((ROWS, OUT), 3)
    goldens = {
        "rows": ROWS, "in": IN, "out": OUT,
        "e4m3": fp8(x, True)[1].ravel().tolist(), "e5m2": fp8(x, False)[1].ravel().tolist(),
        "nvfp4_rows": shown(nvfp4(x, False)[1]), "nvfp4_square": shown(nvfp4(x, True)[1]),
        "hadamard": shown(hadamard(x.T)),
        "recipes": {name: {key: shown(values) for key, values in made.items()} for name, made in recipes(x, w, dy)},
    }
    path = pathlib.Path(__file__).resolve().parents[2] / "tests" / "nn" / "recipe_goldens.json"
    path.write_text(json.dumps(goldens, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
