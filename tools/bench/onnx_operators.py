#!/usr/bin/env python3
"""Times single ONNX operators on 64 x 112 x 112 floats, ours (bench/onnx_probe) beside ONNX Runtime, as a Markdown table: the
shortest of 15 runs each, one after the other.

OMP_NUM_THREADS=1 python3 tools/bench/onnx_operators.py build/bench/onnx_probe [NAME...]. Needs numpy, onnx, onnxruntime.
"""
import argparse
import pathlib
import subprocess
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SHAPE = [1, 64, 112, 112]


def ints(*values: int) -> numpy.ndarray:
    return numpy.array(values, numpy.int64)


def floats(*values: float) -> numpy.ndarray:
    return numpy.array(values, numpy.float32)


def scalar(value: float) -> numpy.ndarray:
    return numpy.array(value, numpy.float32)


POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
PADS = ints(0, 0, 1, 1, 0, 0, 1, 1)
# Name: operators with their attributes, each of which takes the one before it and these constants.
CASES = {
    "MaxPool, 3 x 3, stride 2": [("MaxPool", POOL, [])],
    "AveragePool, 3 x 3, stride 2": [("AveragePool", POOL, [])],
    "Resize, nearest, x 2": [("Resize", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
                              [None, floats(1, 1, 2, 2)])],
    "Resize, nearest, x 1.5": [("Resize", {"mode": "nearest"}, [None, floats(1, 1, 1.5, 1.5)])],
    "Resize, linear, x 2": [("Resize", {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
                             [None, floats(1, 1, 2, 2)])],
    "Pad, constant": [("Pad", {}, [PADS])],
    "Pad, reflect": [("Pad", {"mode": "reflect"}, [PADS])],
    "ConvTranspose, 64 to 32, 2 x 2, stride 2": [("ConvTranspose", {"strides": [2, 2]}, [numpy.zeros((64, 32, 2, 2), numpy.float32)])],
    "QuantizeLinear, DequantizeLinear": [("QuantizeLinear", {}, [scalar(0.1), numpy.array(3, numpy.uint8)]),
                                         ("DequantizeLinear", {}, [scalar(0.1), numpy.array(3, numpy.uint8)])],
    "Tile, channels x 2": [("Tile", {}, [ints(1, 2, 1, 1)])],
    "TopK, 5 of 112": [("TopK", {}, [ints(5)])],
    "Floor": [("Floor", {}, [])],
    "Sign": [("Sign", {}, [])],
    "Pow, 3": [("Pow", {}, [scalar(3)])],
    "ScatterND": [("ScatterND", {}, [numpy.zeros((1, 1), numpy.int64), numpy.zeros(SHAPE, numpy.float32)])],
    "DepthToSpace, 2": [("DepthToSpace", {"blocksize": 2}, [])],
    "SpaceToDepth, 2": [("SpaceToDepth", {"blocksize": 2}, [])],
    "ArgMax of the channels": [("ArgMax", {"axis": 1}, []), ("Cast", {"to": TensorProto.FLOAT}, [])],
}


def write(path: pathlib.Path, operators: list) -> None:
    nodes, constants, last = [], [], "x"
    for n, (operator, attributes, values) in enumerate(operators):
        names = [""] * len(values)
        for i, value in enumerate(values):
            if value is not None:
                names[i] = f"c{n}_{i}"
                constants.append(numpy_helper.from_array(value, names[i]))
        outputs = [f"y{n}"] + (["places"] if operator == "TopK" else [])
        nodes.append(helper.make_node(operator, [last, *names], outputs, **attributes))
        last = outputs[0]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)], initializer=constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def peer(path: pathlib.Path) -> float:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options)
    x = numpy.random.default_rng(0).normal(0, 2, SHAPE).astype(numpy.float32)
    times = []
    for _ in range(15):
        start = time.perf_counter()
        session.run(None, {"x": x})
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", help="bench/onnx_probe of a build")
    parser.add_argument("names", nargs="*", help="operators whose names begin so; all by default")
    arguments = parser.parse_args()
    print(f"| operator | Ingot | ONNX Runtime {onnxruntime.__version__} | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model.onnx"
        for name, operators in CASES.items():
            if arguments.names and not name.startswith(tuple(arguments.names)):
                continue
            write(path, operators)
            ours = float(subprocess.run([arguments.probe, path], check=True, capture_output=True, text=True).stdout.split()[-1])
            theirs = peer(path)
            print(f"| {name} | {ours:.2f} ms | {theirs:.2f} ms | {ours / theirs:.1f} |", flush=True)


if __name__ == "__main__":
    main()
