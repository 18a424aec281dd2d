#!/usr/bin/env python3
"""Times whole ONNX models, ours (bench/onnx_probe) beside ONNX Runtime, in turn, and prints a Markdown table of medians.

    tools/bench/onnx_models.py build/bench/onnx_probe [--threads 1 2] [--turns 15] [--processor-time] [--record MACHINE]
        [NAME...]

The models have random weights and are exported by torch: ResNet-50 and ViT-B of 224 x 224, BERT-base of 128 tokens, a U-Net of
256 x 256, an LSTM of two layers over 128 steps, and ResNet-50 with int8 QuantizeLinear and DequantizeLinear by ONNX Runtime's
quantize_static. They are kept in --models (default: a temporary directory). A ratio above 1 means that Ingot is ahead.
--processor-time compares the processor time of all threads, for a machine with other work; ONNX Runtime's threads, which
spin while they wait, then sleep.
Needs torch, transformers, onnx, onnxscript, onnxruntime.
"""
import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime
import torch
from torch import nn

import results


class UNet(nn.Module):
    """Ronneberger 2015 with padded convolutions and half its channels."""

    def __init__(self, widths=(32, 64, 128, 256, 512)):
        super().__init__()
        pairs = list(zip((3, *widths), widths))
        self.down = nn.ModuleList(self.block(a, b) for a, b in pairs)
        self.spread = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths[:-1], widths[1:]))
        self.up = nn.ModuleList(self.block(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def block(a, b):
        return nn.Sequential(*(part for i in (a, b) for part in (nn.Conv2d(i, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())))

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.up[i](torch.cat([kept[i], self.spread[i](x)], 1))
        return self.head(x)


class HiddenStates(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(256, 512, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Logits(nn.Module):
    """A model of transformers whose output is one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification
    return Logits(ResNetForImageClassification(ResNetConfig())), torch.randn(1, 3, 224, 224)


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    return Logits(ViTForImageClassification(ViTConfig())), torch.randn(1, 3, 224, 224)


def bert():
    from transformers import BertConfig, BertModel
    return Logits(BertModel(BertConfig())), torch.randint(0, 1000, (1, 128))


MODELS = {"ResNet-50": resnet, "ViT-B": vit, "BERT-base, 128 tokens": bert,
          "U-Net, 256 × 256": lambda: (UNet(), torch.randn(1, 3, 256, 256)),
          "LSTM, 2 × 512, 128 steps": lambda: (HiddenStates(), torch.randn(1, 128, 256))}
QUANTIZED = "ResNet-50, int8 QDQ"


def file_of(directory, name):
    return directory / f"{name.split(',')[0].lower()}.onnx" if name != QUANTIZED else directory / "resnet-50-int8.onnx"


def quantize(source, target):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Noise(CalibrationDataReader):
        def __init__(self):
            self.left = 4

        def get_next(self):
            self.left -= 1
            return {"x": numpy.random.default_rng(self.left).normal(size=(1, 3, 224, 224)).astype(numpy.float32)} if self.left >= 0 else None

    quantize_static(source, target, Noise(), quant_format=QuantFormat.QDQ, per_channel=True)


def make(directory, name):
    path = file_of(directory, name)
    if path.exists():
        return path
    if name == QUANTIZED:
        quantize(make(directory, "ResNet-50"), path)
        return path
    torch.manual_seed(0)
    model, example = MODELS[name]()
    torch.onnx.export(model.eval(), (example,), str(path), input_names=["x"], output_names=["y"], dynamo=True, external_data=False)
    return path


def peer_session(path, threads, spins):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if not spins:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    random = numpy.random.default_rng(0)
    x = random.integers(0, 1000, given.shape) if given.type == "tensor(int64)" else random.normal(0, 2, given.shape).astype(numpy.float32)
    return lambda: session.run(None, {given.name: x})


def timed(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def processor_ms(process):
    """What its threads have taken so far."""
    total = 0
    for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e6


REST = 0.3  # seconds, in which threads that spin while they wait for work go to sleep


def measure(probe, path, threads, turns, by_processor):
    """Milliseconds of ours and of theirs, a pair for each turn."""
    # Waiting threads that spin cost processor time; those that sleep are woken late.
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), **({"OMP_WAIT_POLICY": "passive"} if by_processor else {}))
    ours = subprocess.Popen([probe, "--turns", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def turn():
        before = processor_ms(ours.pid)
        ours.stdin.write("\n")
        ours.stdin.flush()
        line = ours.stdout.readline()
        if not line:
            sys.exit(f"{path}: onnx_probe ended")
        return processor_ms(ours.pid) - before if by_processor else float(line)

    run = peer_session(path, threads, spins=not by_processor)

    def peer_turn():
        before = processor_ms(os.getpid())
        took = timed(run)
        return processor_ms(os.getpid()) - before if by_processor else took

    def alone(timed_turn):
        """Of one that follows another of the same program: the other's threads have ceased to spin and hold its caches no more."""
        time.sleep(REST)
        timed_turn()
        return timed_turn()

    for _ in range(2):
        turn(), run()
    pairs = [(alone(turn), alone(peer_turn)) for _ in range(turns)]
    ours.stdin.close()
    ours.wait()
    return pairs


def result_of(name, arguments, threads, pairs):
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    how = f"--threads {threads} --turns {arguments.turns}{' --processor-time' if arguments.processor_time else ''}"
    return {"group": f"ONNX models, {threads} thread{'s' if threads > 1 else ''}", "work": name,
            "command": f"python3 tools/bench/onnx_models.py build/bench/onnx_probe {how}",
            "unit": "ms", "better": "lower", "median": round(statistics.median(ours), 2),
            "spread": [round(min(ours), 2), round(max(ours), 2)],
            "peer": {"name": "ONNX Runtime", "version": onnxruntime.__version__, "median": round(statistics.median(theirs), 2)},
            "ratio": round(statistics.median(b / a for a, b in pairs), 3), "goal": 1.0,
            **({"note": arguments.note} if arguments.note else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", help="bench/onnx_probe of a build")
    parser.add_argument("names", nargs="*", help="models whose names begin so; all by default")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--processor-time", action="store_true", help="not the clock's: for a machine with other work")
    parser.add_argument("--models", type=pathlib.Path, help="where the models are kept")
    parser.add_argument("--record", help="add the results to those of a machine, bench/results/MACHINE")
    parser.add_argument("--note", help="what else decides the results")
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.models or pathlib.Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        print("| model | threads | Ingot | ONNX Runtime | ratio |\n|---|---|---|---|---|")
        for name in [*MODELS, QUANTIZED]:
            if arguments.names and not name.startswith(tuple(arguments.names)):
                continue
            path = make(directory, name)
            for threads in arguments.threads:
                pairs = measure(arguments.probe, path, threads, arguments.turns, arguments.processor_time)
                run = result_of(name, arguments, threads, pairs)
                print(f"| {name} | {threads} | {run['median']} ms | {run['peer']['median']} ms | {run['ratio']:.2f} |", flush=True)
                found.append(run)
    if arguments.record:
        results.append(results.ROOT / arguments.record / f"{datetime.date.today()}.json", found)


if __name__ == "__main__":
    main()
