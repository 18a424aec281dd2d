#!/usr/bin/env python3
"""Times the Python package against the commands that do the same: LLM.generate beside `ingot bench decode`, Trainer.step beside
`ingot train`, in turns, and what a small operation and a DLPack round trip cost.

    OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive PYTHONPATH=build/python python3 tools/bench/python_overhead.py --ingot build/bin/ingot

Medians over turns; a model of 20M parameters with random weights, which the run makes. --torch times PyTorch's operation beside.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ingot


def timed(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def config(folder, name, steps):
    text = "\n\n".join(f"The {a} sat on the {p}." for a in ("cat", "dog", "hen", "fox") for p in ("mat", "hill", "roof") * 60)
    (folder / "text.txt").write_text(text)
    return {
        "architecture": {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8},
        "datasets": [{"path": str(folder / "text.txt")}],
        "vocab_size": 280,
        "sequence_len": 64,
        "micro_batch_size": 4,
        "max_steps": steps,
        "output_dir": str(folder / name),
        "eval_steps": 0,
        "save_steps": 0,
        "report_to": "jsonl",
    }


def decode(o, model):
    """Tokens per second: the command, generate(), and its stream."""
    command, whole, streamed = [], [], []
    with ingot.LLM(model) as llm:
        options = dict(max_tokens=o.tokens, temperature=0, ignore_eos=True)
        first = [5]
        llm.generate(first, **options)
        for _ in range(o.turns):
            arguments = [o.ingot, "bench", "decode", model, "-n", str(o.tokens), "--runs", "1", "--json"]
            result = subprocess.run(arguments, check=True, capture_output=True, text=True)
            command.append(json.loads(result.stdout)["tokens_per_second"])
            whole.append(o.tokens / timed(lambda: llm.generate(first, **options)))
            streamed.append(o.tokens / timed(lambda: list(llm.generate(first, stream=True, **options))))
    return {name: statistics.median(v) for name, v in (("bench decode", command), ("generate", whole), ("stream", streamed))}


def step_seconds(path):
    """Of the steps that a run's metrics.jsonl tells, the first ones left out."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record["seconds"] for record in records if "learning_rate" in record and record["step"] > 3]


def train(o, folder):
    """Seconds of an optimizer step: the command's, and Trainer.step()'s."""
    command, python = [], []
    for turn in range(o.turns):
        name = f"command{turn}"
        path = folder / f"{name}.yaml"
        path.write_text(json.dumps(config(folder, name, o.steps)))
        subprocess.run([o.ingot, "train", str(path)], check=True, capture_output=True)
        command += step_seconds(next((folder / name).rglob("metrics.jsonl")))
        with ingot.Trainer(config(folder, f"python{turn}", o.steps)) as trainer:
            steps = [timed(trainer.step) for _ in range(o.steps)]
            python += steps[3:]
    return {"ingot train": statistics.median(command), "Trainer.step": statistics.median(python)}


def microseconds(function, calls=20000):
    return min(timed(lambda: [function() for _ in range(calls)]) for _ in range(5)) / calls * 1e6


def small_calls(o):
    x, y = ingot.ones(4), ingot.ones(4)
    result = {"x + y": microseconds(lambda: x + y), "DLPack out and in": microseconds(lambda: ingot.from_dlpack(x))}
    if o.torch:
        import torch

        a, b = torch.ones(4), torch.ones(4)
        result["torch: x + y"] = microseconds(lambda: a + b)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ingot", default="ingot", help="the command")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--torch", action="store_true", help="PyTorch's operation beside")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = ingot.Trainer(config(folder, "model", 1)).train()["model"]
        result = {"microseconds": small_calls(o), "tokens per second": decode(o, model), "seconds per step": train(o, folder)}
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
