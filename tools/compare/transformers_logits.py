#!/usr/bin/env python3
"""Opens a model directory that Ingot wrote in transformers, and compares tokens and logits.

    python3 tools/compare/transformers_logits.py MODEL 'Some text' [--ingot build/bin/ingot]

Prints the largest difference of the logits; fails where the token ids differ, or the logits by more than 1e-4.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--ingot", default="build/bin/ingot")
    args = parser.parse_args()
    ids = transformers.AutoTokenizer.from_pretrained(args.model)(args.text)["input_ids"]
    ours = subprocess.run([args.ingot, "tokenize", args.model, "--text", args.text], capture_output=True, text=True,
                          check=True).stdout.strip()
    if ours != ",".join(map(str, ids)):
        print(f"tokens differ:\n  transformers {ids}\n  ingot        {ours}")
        return 1
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model).float().eval()
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "logits.npy"
        subprocess.run([args.ingot, "logits", args.model, "--tokens", ours, "-o", path], check=True, capture_output=True)
        actual = numpy.load(path)
    difference = float(numpy.abs(actual - expected).max())
    print(f"{len(ids)} equal tokens; logits differ by at most {difference:.2e} (largest {numpy.abs(expected).max():.2f})")
    return 0 if difference <= 1e-4 else 1


sys.exit(main())
