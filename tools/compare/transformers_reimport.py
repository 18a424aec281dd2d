#!/usr/bin/env python3
"""Opens with transformers what Ingot writes: every model family, exported under its checkpoints' names.

Runs the tests that write each golden model again, then compares, tensor by tensor and bit by bit, the model that
transformers makes of the written directory with the one that it makes of the original; and the logits of both.

    python3 tools/compare/transformers_reimport.py build/tests/models_tests
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/models/goldens"


def load(folder: pathlib.Path) -> torch.nn.Module:
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    eager = {} if config.model_type == "patchtst" else {"experts_implementation": "eager"}
    model, info = kind.from_pretrained(folder, output_loading_info=True, attn_implementation="eager", **eager)
    problems = {key: value for key, value in info.items() if value and key != "error_msgs"}
    if problems:
        raise SystemExit(f"{folder.name}: transformers reports {problems}")
    return model.eval()


def compare(name: str, written: pathlib.Path) -> None:
    golden = GOLDENS / name if (GOLDENS / name).exists() else GOLDENS / "forecast" / name
    original, again = load(golden), load(written)
    theirs, ours = original.state_dict(), again.state_dict()
    if theirs.keys() != ours.keys():
        raise SystemExit(f"{name}: other names: {sorted(theirs.keys() ^ ours.keys())}")
    for key, tensor in theirs.items():
        if not torch.equal(tensor, ours[key]):
            raise SystemExit(f"{name}: {key} differs")
    inputs = torch.arange(23).reshape(1, 23) % 61
    if original.config.model_type == "patchtst":
        inputs = torch.arange(120).reshape(1, 30, 4).sin()
    with torch.no_grad():
        a, b = original(inputs)[0], again(inputs)[0]
    if not torch.equal(a, b):
        raise SystemExit(f"{name}: same tensors, other outputs (by {(a - b).abs().max().item():.2e}): the configuration differs")
    print(f"{name}: {len(theirs)} tensors and the outputs are identical")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", help="the binary models_tests")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.tests, "--gtest_filter=*WhatIsWrittenOpensAgain*", "--gtest_brief=1"], check=True,
                       env={**os.environ, "INGOT_KEEP_MODELS": folder}, stdout=sys.stderr)
        for written in sorted(pathlib.Path(folder).iterdir()):
            compare(written.name, written)


if __name__ == "__main__":
    main()
