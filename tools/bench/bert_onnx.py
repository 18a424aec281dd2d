#!/usr/bin/env python3
"""Times BERT-base inference in ONNX Runtime on the CPU, f32 and dynamically quantised to int8: the int8 peer of
bench/bert_bench.

The int8 model is made as ONNX Runtime's own tools advise: fused by its transformer optimizer, then quantize_dynamic.
--per-channel gives each column of a weight a scale of its own. Run it in the same session as bench/bert_bench, with
OMP_NUM_THREADS=2 python3 tools/bench/bert_onnx.py --batch 1 8. Needs torch, transformers, onnx, onnxruntime.
"""
import argparse
import pathlib
import statistics
import tempfile
import time

import numpy
import onnxruntime
import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer


def export(path: pathlib.Path, length: int) -> None:
    config = transformers.BertConfig()
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.BertModel(config, add_pooling_layer=False).float().eval()
    tokens = torch.randint(0, config.vocab_size, (2, length))
    names = {"input_names": ["input_ids", "attention_mask"], "output_names": ["hidden"]}
    axes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch"}, "hidden": {0: "batch"}}
    torch.onnx.export(model, (tokens, torch.ones_like(tokens)), path, dynamo=False, opset_version=17, dynamic_axes=axes, **names)


def measure(path: pathlib.Path, batch: int, length: int, threads: int, runs: int) -> float:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    tokens = numpy.random.default_rng(0).integers(0, 30522, (batch, length), dtype=numpy.int64)
    feed = {"input_ids": tokens, "attention_mask": numpy.ones_like(tokens)}
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
        plain, fused = folder / "bert.onnx", folder / "bert-fused.onnx"
        int8 = folder / ("bert-int8-channel.onnx" if args.per_channel else "bert-int8.onnx")
        if not fused.exists():
            export(plain, args.length)
            optimizer.optimize_model(str(plain), model_type="bert", num_heads=12, hidden_size=768).save_model_to_file(str(fused))
        if not int8.exists():
            quantize_dynamic(str(fused), str(int8), per_channel=args.per_channel, weight_type=QuantType.QInt8)
        for name, path in (("f32", fused), ("int8", int8)):
            for batch in args.batch:
                seconds = measure(path, batch, args.length, args.threads, args.runs)
                print(f"onnxruntime {onnxruntime.__version__} {name}: batch {batch} x {args.length}: "
                      f"median {seconds * 1e3:.1f} ms of {args.runs}", flush=True)


main()
