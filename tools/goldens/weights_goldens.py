#!/usr/bin/env python3
"""Small weight files as the original libraries write them, for tests/weights.

Needs numpy, torch and safetensors (made with safetensors 0.8.0, numpy 2.4.6):

    python tools/goldens/weights_goldens.py

Every tensor holds 0, 1, 2, ... (booleans: 0, 1, 0, ...), so the tests know the values without a second file.
"""
import pathlib

import numpy
import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "weights" / "goldens"


def counted(shape, dtype):
    n = 1
    for size in shape:
        n *= size
    values = torch.arange(n, dtype=torch.float32)
    if dtype == torch.bool:
        values = values % 2
    return values.to(dtype).reshape(shape)


def safetensors_files():
    tensors = {
        "f32": counted([2, 3], torch.float32),
        "f64": counted([3], torch.float64),
        "f16": counted([1, 5], torch.float16),
        "bf16": counted([2, 1, 2], torch.bfloat16),
        "f8e4m3": counted([7], torch.float8_e4m3fn),
        "f8e5m2": counted([3], torch.float8_e5m2),
        "i64": counted([2], torch.int64),
        "i32": counted([2], torch.int32),
        "i16": counted([3], torch.int16),
        "i8": counted([1], torch.int8),
        "u8": counted([3], torch.uint8),
        "bool": counted([3], torch.bool),
        "scalar": counted([], torch.float32) + 7,
        "empty": counted([0, 4], torch.float32),
        'quote"d \\ \u00fc/name': counted([1], torch.float32),
    }
    save_file(tensors, OUT / "all_dtypes.safetensors", metadata={"format": "pt"})
    save_file({"a": counted([3], torch.float32)}, OUT / "no_metadata.safetensors")
    save_file({"a": counted([3], torch.uint16)}, OUT / "unsigned.safetensors", metadata={"format": "pt"})


def npy_files():
    numpy.save(OUT / "f4.npy", numpy.arange(6, dtype="<f4").reshape(2, 3))
    numpy.save(OUT / "f8_scalar.npy", numpy.float64(2.5))
    numpy.save(OUT / "f2_vector.npy", numpy.arange(3, dtype="<f2"))
    numpy.save(OUT / "i8_big_endian.npy", numpy.arange(4, dtype=">i8"))
    numpy.save(OUT / "f4_fortran.npy", numpy.asfortranarray(numpy.arange(24, dtype="<f4").reshape(2, 3, 4)))
    numpy.save(OUT / "b1.npy", numpy.array([True, False, True]))
    numpy.save(OUT / "u1_empty.npy", numpy.zeros((0, 3), dtype="u1"))
    numpy.save(OUT / "u2.npy", numpy.arange(3, dtype="<u2"))
    with open(OUT / "version2.npy", "wb") as file:
        numpy.lib.format.write_array(file, numpy.arange(2, dtype="<i4"), version=(2, 0))


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    safetensors_files()
    npy_files()
    for path in OUT.iterdir():
        path.chmod(0o644)
