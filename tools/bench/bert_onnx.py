#!/usr/bin/env python3
"""Times BERT-base inference in ONNX Runtime on the CPU, f32 and dynamically quantized to int8: the int8 baseline of
bench/bert_bench.

The f32 graph is what ONNX Runtime's transformer optimizer makes of an exported BERT: its own fused operators for attention,
for residual + normalization, and for bias + GELU; random weights. (It is written down directly, since that optimizer knows
the graphs of some versions of transformers and leaves others half fused.) int8 is its quantize_dynamic; --per-channel gives
each column of a weight a scale of its own. Run it in the same session as bench/bert_bench, with
OMP_NUM_THREADS=2 python3 tools/bench/bert_onnx.py --batch 1 8. Needs numpy, onnx, onnxruntime.
"""
import argparse
import pathlib
import statistics
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

WIDTH, INNER, HEADS, LAYERS, WORDS = 768, 3072, 12, 12, 30522
MICROSOFT = "com.microsoft"


class Graph:
    def __init__(self) -> None:
        self.nodes, self.weights, self.random = [], [], numpy.random.default_rng(0)

    def weight(self, name: str, *shape: int, constant: float | None = None) -> str:
        values = self.random.normal(0, 0.02, shape) if constant is None else numpy.full(shape, constant)
        self.weights.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def norm(self, at: str, x: str, y: str, bias: str) -> str:
        """LayerNorm(x + y + bias)."""
        gamma, beta = self.weight(at + ".gamma", WIDTH, constant=1), self.weight(at + ".beta", WIDTH, constant=0)
        return self.node("SkipLayerNormalization", [x, y, gamma, beta, bias], at, MICROSOFT, epsilon=1e-12)

    def layer(self, at: str, x: str) -> str:
        attended = self.node("Attention", [x, self.weight(at + ".qkv", WIDTH, 3 * WIDTH), self.weight(at + ".qkv_bias", 3 * WIDTH),
                                           "mask"], at + ".attention", MICROSOFT, num_heads=HEADS)
        mixed = self.node("MatMul", [attended, self.weight(at + ".o", WIDTH, WIDTH)], at + ".mixed")
        x = self.norm(at + ".norm1", mixed, x, self.weight(at + ".o_bias", WIDTH))
        inner = self.node("MatMul", [x, self.weight(at + ".up", WIDTH, INNER)], at + ".inner")
        inner = self.node("BiasGelu", [inner, self.weight(at + ".up_bias", INNER)], at + ".gelu", MICROSOFT)
        inner = self.node("MatMul", [inner, self.weight(at + ".down", INNER, WIDTH)], at + ".outer")
        return self.norm(at + ".norm2", inner, x, self.weight(at + ".down_bias", WIDTH))


def write_model(path: pathlib.Path, length: int) -> None:
    graph = Graph()
    words = graph.node("Gather", [graph.weight("words", WORDS, WIDTH), "ids"], "word_vectors")
    x = graph.node("Add", [words, graph.weight("positions", 1, length, WIDTH)], "placed")
    x = graph.node("LayerNormalization", [x, graph.weight("gamma", WIDTH, constant=1), graph.weight("beta", WIDTH, constant=0)],
                   "embedded", epsilon=1e-12)
    for i in range(LAYERS):
        x = graph.layer(f"layer{i}", x)
    graph.node("Identity", [x], "hidden")
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", length]),
              helper.make_tensor_value_info("mask", TensorProto.INT32, ["batch", length])]
    outputs = [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", length, WIDTH])]
    model = helper.make_model(helper.make_graph(graph.nodes, "bert", inputs, outputs, graph.weights),
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)], ir_version=8)
    onnx.save(model, path)


def measure(path: pathlib.Path, batch: int, length: int, threads: int, runs: int) -> float:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    tokens = numpy.random.default_rng(0).integers(0, WORDS, (batch, length), dtype=numpy.int64)
    feed = {"ids": tokens, "mask": numpy.ones(tokens.shape, dtype=numpy.int32)}
    times = []
    for i in range(runs + 3):
        start = time.perf_counter()
        session.run(None, feed)
        if i >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--per-channel", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="folder to keep the models in and take them from")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        fused = folder / "bert.onnx"
        int8 = folder / ("bert-int8-channel.onnx" if args.per_channel else "bert-int8.onnx")
        if not fused.exists():
            write_model(fused, args.length)
        if not int8.exists():
            # It cannot infer what type the fused operators give.
            quantize_dynamic(str(fused), str(int8), per_channel=args.per_channel, weight_type=QuantType.QInt8,
                             extra_options={"DefaultTensorType": TensorProto.FLOAT})
        for name, path in (("f32", fused), ("int8", int8)):
            for batch in args.batch:
                seconds = measure(path, batch, args.length, args.threads, args.runs)
                print(f"onnxruntime {onnxruntime.__version__} {name}: batch {batch} x {args.length}: "
                      f"median {seconds * 1e3:.1f} ms of {args.runs}", flush=True)


main()
