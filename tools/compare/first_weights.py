#!/usr/bin/env python3
"""Puts the first weights that a published forecasting program draws with its seed into an Ingot model, so that Ingot can begin
its fit from them:

    ingot forecast fit ETTh1.csv --model timesnet --split ett --epochs 1 -o first
    tools/compare/first_weights.py timesnet first --original Time-Series-Library
    ingot forecast fit ETTh1.csv --from first --split ett

Look-back, horizon and sizes are those of the Ingot model. Order and dropout stay Ingot's own, and so do FEDformer's
frequencies. Programs and versions as in published_training.py; FEDformer's has an Autoformer, too, that of the published
tables, whose trend window is 24 (--set moving_average=24).
"""
import argparse
import json
import pathlib
import types

import torch
from safetensors.torch import load_file, save_file

import published_training as published
from published_training import goldens

SIZES = ("d_model", "d_ff")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=published.CASES)
    parser.add_argument("into", type=pathlib.Path, help="directory of an Ingot model, whose weights are replaced")
    parser.add_argument("--original", type=pathlib.Path, required=True, help="folder with the published program's `models`")
    parser.add_argument("--seed", type=int, default=2021, help="default: the published programs' own")
    args = parser.parse_args()
    fit = json.loads((args.into / "config.json").read_text())["fit"]
    parts = types.SimpleNamespace(lookback=fit["lookback"], horizon=fit["horizon"])
    _, module, _, settings, _ = published.CASES[args.model]
    torch.manual_seed(args.seed)
    model = published.build(args, module, parts, settings | {key: fit[key] for key in SIZES if key in settings})
    rename = goldens.official_patchtst if args.model == "patchtst" else lambda name: name
    drawn = {rename(name): goldens.real(tensor.detach()).contiguous().clone() for name, tensor in model.state_dict().items()}
    path = args.into / "model.safetensors"
    for name, tensor in load_file(path).items():
        assert drawn[name].shape == tensor.shape, (name, drawn[name].shape, tensor.shape)
    save_file({name: drawn[name] for name in load_file(path)}, path)


if __name__ == "__main__":
    main()
