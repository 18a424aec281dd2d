#!/usr/bin/env python3
"""Times opening and converting a gigabyte of weights, beside the safetensors library and a plain copy.

    tools/compare/weights_speed.py build/bin/ingot DIRECTORY [ROUNDS]

Makes DIRECTORY/source.safetensors (1 GiB of f32 in 128 tensors) where it is not there. Prints medians of turns taken one
after another, and the most memory that `ingot convert` held, the part of its source that it had mapped then included.
"""
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

TENSORS, ELEMENTS = 128, 1 << 21


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def library(path):
    with safe_open(path, "numpy") as file:
        for name in file.keys():
            file.get_slice(name).get_shape()


def copy(source, target):
    with open(source, "rb") as a, open(target, "wb") as b:
        while block := a.read(1 << 22):
            b.write(block)
        b.flush()
        os.fsync(b.fileno())


def main():
    ingot, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    source = directory / "source.safetensors"
    if not source.exists():
        random = numpy.random.default_rng(1)
        save_file({f"layer.{i}.weight": random.standard_normal((1024, ELEMENTS // 1024), "float32")
                   for i in range(TENSORS)}, source)
    with open(source, "rb") as file:  # into the page cache; not all at once, which a child's resident set would show
        while file.read(1 << 22):
            pass

    def run(*arguments):
        subprocess.run([ingot, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    out = directory / "out.safetensors"
    half = directory / "half.safetensors"
    work = {
        "ingot inspect": lambda: run("inspect", source),
        "ingot --help": lambda: run("--help"),
        "safetensors, open and shapes": lambda: library(source),
        "ingot convert, f32": lambda: run("convert", source, out),
        "copy and sync": lambda: copy(source, out),
        "ingot convert, bf16": lambda: run("convert", source, half, "--dtype", "bf16"),
    }
    times = {name: [] for name in work}
    for _ in range(rounds):
        for name, body in work.items():
            times[name].append(timed(body))
    for name, all_times in times.items():
        median = statistics.median(all_times)
        print(f"{name:30} {median * 1e3:9.1f} ms   {TENSORS * ELEMENTS * 4 / median / 1e9:6.2f} GB/s")
    print(f"largest resident set of a child: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")
    out.unlink()
    half.unlink()


if __name__ == "__main__":
    main()
