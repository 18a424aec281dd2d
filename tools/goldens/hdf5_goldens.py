#!/usr/bin/env python3
"""Small HDF5 files as h5py writes them, laid out as Keras does, for tests/weights.

Needs h5py and numpy (made with h5py 3.16.0, numpy 2.4.6):

    python tools/goldens/hdf5_goldens.py

Every dataset holds 0, 1, 2, ...
"""
import pathlib
import zipfile

import h5py
import numpy

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "weights" / "goldens"


def counted(shape, dtype="<f4"):
    return numpy.arange(int(numpy.prod(shape))).astype(dtype).reshape(shape)


def keras2(path, **options):
    """keras.Model.save of version 2: model_weights/<layer>/<variable>."""
    with h5py.File(path, "w", **options) as file:
        file.attrs["keras_version"] = "2.15.0"
        file.attrs["backend"] = numpy.bytes_("tensorflow")
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = [b"dense", b"batch_normalization"]
        dense = weights.create_group("dense")
        dense.attrs["weight_names"] = [b"dense/kernel:0", b"dense/bias:0"]
        dense["dense/kernel:0"] = counted([2, 3])
        dense["dense/bias:0"] = counted([3])
        norm = weights.create_group("batch_normalization")
        for name in ("gamma", "beta", "moving_mean", "moving_variance"):
            norm[f"batch_normalization/{name}:0"] = counted([3])
        for i in range(40):  # more than one node of the tree that indexes a group
            weights[f"many/layer_{i:02}/kernel:0"] = numpy.full(2, i, dtype="<f4")


def types(path):
    with h5py.File(path, "w", track_order=False) as file:
        for name in ("<f2", "<f4", "<f8", ">f4", "<i8", "<i4", "<i2", "|i1", "|u1", ">i4", "<u2"):
            file[{"<": "little_", ">": "big_", "|": "byte_"}[name[0]] + name[1:]] = counted([2, 3], name)
        file["bool"] = numpy.array([True, False, True])
        file["scalar"] = numpy.float32(7)
        file["empty"] = numpy.zeros((0, 4), dtype="<f4")
        file["text"] = "words"
        file.create_dataset("chunked", data=counted([5, 7]), chunks=(2, 3))
        file.create_dataset("deflated", data=counted([50, 7]), chunks=(20, 3), compression="gzip", shuffle=True,
                            fletcher32=True)
        file.create_dataset("one_axis", data=counted([10]), chunks=(4,), compression="gzip")
        file.create_dataset("unwritten", shape=(1000, 1000), dtype="<f4")


def links(path):
    with h5py.File(path, "w") as file:
        file["scalar"] = numpy.float32(7)
        file["again"] = file["scalar"]
        file["soft"] = h5py.SoftLink("/scalar")
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/x")


def keras3(path):
    """keras.Model.save of version 3: a zip archive around <layer>/vars/<number>."""
    inner = path.with_suffix(".h5")
    with h5py.File(inner, "w") as file:
        file["layers/dense/vars/0"] = counted([2, 3])
        file["layers/dense/vars/1"] = counted([3])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("metadata.json", b'{"keras_version": "3.11.0"}'), ("config.json", b"{}"),
                           ("model.weights.h5", inner.read_bytes())):
            archive.writestr(zipfile.ZipInfo(name), data)
    inner.unlink()


if __name__ == "__main__":
    keras2(OUT / "keras2.h5")
    keras2(OUT / "keras2_latest.h5", libver="latest")
    types(OUT / "types.h5")
    links(OUT / "links.h5")
    keras3(OUT / "model.keras")
