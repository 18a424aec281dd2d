#!/usr/bin/env python3
"""Measures what `--trace` costs: the processor time of the same work with and without it, in turns, so that other work on the machine
hits both alike.

    OMP_NUM_THREADS=1 tools/bench/trace_cost.py build/bin/ingot build/bench/scope_probe [--record MACHINE]

Trains a model of 20M parameters and decodes with it. On: the median ratio of turns, and the ratio of the least times, which other work
on the machine disturbs less. Off: scopes of a run times what one costs while
nothing records (bench/scope_probe.cpp), as a share of the run.
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import record
import results

CONFIG = {
    "from_scratch": True,
    "architecture": {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8},
    "vocab_size": 280,
    "sequence_len": 64,
    "micro_batch_size": 4,
    "eval_steps": 0,
    "save_steps": 0,
    "report_to": ["none"],
}


def processor_seconds(command):
    """Seconds of user and system time of a command that has to succeed."""
    with open(os.devnull, "wb") as nothing:
        child = subprocess.Popen(command, stdout=nothing, stderr=subprocess.PIPE)
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: {said.decode()}")
    return usage.ru_utime + usage.ru_stime


def events_of(path):
    """Scopes and kernels of a trace."""
    return sum(1 for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X")


def measure(command, trace, turns, made):
    """(seconds without, ratio with : without of each turn, that of the least times, events). `made`: a directory to remove before each
    run, or None."""
    traced = [*command, "--trace", str(trace)]
    off, on = [], []
    for turn in range(turns):
        order = (command, traced) if turn % 2 == 0 else (traced, command)
        for one in order:
            if made:
                shutil.rmtree(made, ignore_errors=True)
            (on if one is traced else off).append(processor_seconds(one))
    return statistics.median(off), [b / a for a, b in zip(off, on)], min(on) / min(off), events_of(trace)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ingot", help="the binary")
    parser.add_argument("probe", help="bench/scope_probe, built")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--record", metavar="MACHINE", help="a folder of bench/results to add the results to")
    o = parser.parse_args()
    scope_ns = float(subprocess.run([o.probe], capture_output=True, text=True, check=True).stdout)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("The cat sat on the mat. The dog ran up the hill.\n\n" * 400)
        config = {**CONFIG, "datasets": [{"path": str(folder / "text.txt")}], "max_steps": o.steps, "output_dir": str(folder / "run")}
        (folder / "train.yaml").write_text(json.dumps(config))
        works = {f"training, 20M parameters, {o.steps} steps": [o.ingot, "train", str(folder / "train.yaml"), "--json"],
                 f"decoding, 20M parameters, {o.tokens} tokens": [o.ingot, "generate", str(folder / "run/model"), "-p", "The", "--ignore-eos",
                                                                    "-n", str(o.tokens)]}
        runs = []
        for work, command in works.items():
            seconds, ratios, least, events = measure(command, folder / "trace.json", o.turns, folder / "run" if command[1] == "train" else None)
            on, off = statistics.median(ratios), events * scope_ns * 1e-9 / seconds
            print(f"{work}: {events} events in {seconds:.3g} s; on {100 * (on - 1):+.2f} % "
                  f"({100 * (min(ratios) - 1):+.2f} to {100 * (max(ratios) - 1):+.2f}; least times {100 * (least - 1):+.2f}), off at most {100 * off:.4f} %")
            runs.append({"group": "What --trace costs", "work": work, "command": f"tools/bench/trace_cost.py ingot scope_probe --turns {o.turns}",
                         "unit": "processor time, with : without", "better": "lower", "median": round(on, 4),
                         "spread": [round(min(ratios), 4), round(max(ratios), 4)], "limit": 1.05, "limit_of": "what it may cost",
                         "note": f"{events} events; least times {round(least, 4)}; off {100 * off:.4f} % at {scope_ns:g} ns a scope", **record.commit_of(o.ingot)})
    if o.record:
        results.append(results.ROOT / o.record / f"{datetime.date.today()}.json", runs)


if __name__ == "__main__":
    main()
