#!/usr/bin/env python3
"""Installs a wheel of dist/ into a fresh virtual environment of each given Python, without an index, and uses it: import,
gradients, a training run, text from its model, a hand of mahjong, the command.

    python3 tools/wheel_smoke.py dist python3.11 python3.12 python3.13
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

USE = """
import math, pathlib, subprocess, sys, tempfile
import ingot

x = ingot.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(x @ x.T).sum().backward()
assert x.grad.tolist() == [[8.0, 12.0], [8.0, 12.0]], x.grad.tolist()
assert list(memoryview(x.detach()).cast("B").cast("f")) == [1, 2, 3, 4]
try:
    x @ ingot.ones(3, 3)
except ingot.errors.Error as error:
    assert "3" in str(error)
else:
    raise AssertionError("shapes that do not fit gave no error")
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "text.txt").write_text("The cat sat on the mat. " * 200)
    config = {
        "architecture": {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
        "datasets": [{"path": str(folder / "text.txt")}], "vocab_size": 280, "sequence_len": 32, "micro_batch_size": 2,
        "max_steps": 3, "output_dir": str(folder / "out"), "report_to": "none",
    }
    losses = []
    with ingot.Trainer(config, callback=lambda event, record: event == "step" and losses.append(record["loss"])) as trainer:
        model = trainer.train()["model"]
    assert len(losses) == 3 and all(map(math.isfinite, losses)), losses
    with ingot.LLM(model) as llm:
        assert len(llm.generate("The", max_tokens=4, ignore_eos=True).tokens) == 4
        assert len(list(llm.generate("The", max_tokens=4, ignore_eos=True, stream=True))) >= 1
assert ingot.mahjong.score("234m055p678s345s11z", win="2m", riichi=True).ron
command = pathlib.Path(sys.executable).parent / "ingot"
told = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
assert ingot.__version__ in told, told
print(sys.version.split()[0], pathlib.Path(ingot._core.__file__).name)
"""


def smoke(wheels, python):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = str(Path(folder) / "bin" / "python")
        install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--find-links", str(wheels), "ingot"]
        subprocess.run([own, *install], check=True)
        used = subprocess.run([own, "-I", "-c", USE], cwd=folder, capture_output=True, text=True, timeout=300)
    if used.returncode:
        sys.exit(f"{python}: the wheel of {wheels} does not work:\n{used.stderr}")
    print(f"{python}: works ({used.stdout.strip()})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path, help="the folder of wheels")
    parser.add_argument("python", nargs="+", help="interpreters")
    o = parser.parse_args()
    for python in o.python:
        smoke(o.wheels.resolve(), python)


if __name__ == "__main__":
    main()
