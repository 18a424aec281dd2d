#!/usr/bin/env python3
"""Small files as torch.save and numpy.savez write them, for tests/weights.

Needs torch and numpy (made with torch 2.15.0, numpy 2.4.6):

    python tools/goldens/torch_goldens.py

Every tensor holds 0, 1, 2, ... unless said otherwise.
"""
import collections
import os
import pathlib
import zipfile

import numpy
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "weights" / "goldens"
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}
NEWER = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "u16": torch.uint16}


def counted(shape, dtype=torch.float32):
    return torch.arange(int(numpy.prod(shape)), dtype=torch.float32).to(dtype).reshape(shape)


def state_dict(legacy):
    tensors = collections.OrderedDict()
    for name, dtype in (DTYPES if legacy else DTYPES | NEWER).items():
        tensors[name] = counted([2, 3], dtype)
    tensors["bool"] = torch.tensor([True, False, True])
    tensors["scalar"] = torch.tensor(7.0)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["transposed"] = counted([2, 3]).t()  # [[0, 3], [1, 4], [2, 5]]
    whole = counted([4, 3])
    tensors["whole"] = whole
    tensors["rows"] = whole[1:3]  # 3 ... 8, in the same storage
    tensors["column"] = whole[:, 1]  # 1, 4, 7, 10
    tensors["expanded"] = torch.tensor([5.0]).expand(2, 2)
    tensors["parameter"] = torch.nn.Parameter(counted([2]))
    return tensors


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/ingot-was-here",)


def main():
    torch.save(state_dict(False), OUT / "all_dtypes.pt")
    torch.save(state_dict(True), OUT / "legacy.pt", _use_new_zipfile_serialization=False)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    for i, p in enumerate(model.state_dict().values()):
        p.copy_(torch.full_like(p, i))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(4, 2)).sum().backward()
    optimizer.step()
    for i, p in enumerate(model.state_dict().values()):
        p.copy_(torch.full_like(p, i))
    torch.save({"epoch": 3, "note": "hello", "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()},
               OUT / "checkpoint.pt")
    torch.save(model.state_dict(), OUT / "protocol4.pt", pickle_protocol=4)
    torch.save({"a": torch.zeros(2), "b": Evil()}, OUT / "evil.pt")
    torch.save({"a": torch.zeros(2), "b": Evil()}, OUT / "evil_legacy.pt", _use_new_zipfile_serialization=False)

    arrays = {"a": numpy.arange(6, dtype="<f4").reshape(2, 3), "layer/b": numpy.arange(4, dtype=">i8"),
              "c": numpy.asfortranarray(numpy.arange(6, dtype="<f8").reshape(2, 3)), "scalar": numpy.float32(2.5)}
    numpy.savez(OUT / "arrays.npz", **arrays)
    numpy.savez_compressed(OUT / "compressed.npz", **arrays, zeros=numpy.zeros((100, 100), dtype="<f4"))
    for path in OUT.glob("*.npz"):  # without the time of day
        rewrite(path)


def rewrite(path):
    with zipfile.ZipFile(path) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for info, data in entries:
            fixed = zipfile.ZipInfo(info.filename)
            fixed.compress_type = info.compress_type
            archive.writestr(fixed, data)


if __name__ == "__main__":
    main()
