#!/usr/bin/env python3
"""Trains TimesNet from the same weights here and in the published program, and prints both losses of every step.

    tools/compare/timesnet_training.py --tslib Time-Series-Library ETTh1.csv

Time-Series-Library at 4e938a1, PyTorch on the CPU. One batch holds all training windows and nothing is dropped, so that no
draw is left but the first weights, which are Ingot's: the two columns should agree to the last digits.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file

LOOKBACK, HORIZON, ROWS, RATE = 48, 24, 500, 1e-3


def ours(ingot, data, folder, epochs, rate):
    settings = {"seed": 5, "learning_rate": rate, "schedule": "constant", "dropout": 0, "batch_size": 100000, "patience": 0,
                "train_fraction": 0.6, "test_fraction": 0.2}
    done = subprocess.run([ingot, "forecast", "fit", data, "--model", "timesnet", "--horizon", str(HORIZON), "--lookback",
                           str(LOOKBACK), "--epochs", str(epochs), "-o", folder, "--json",
                           *(word for item in settings.items() for word in ("--set", "=".join(map(str, item))))],
                          check=True, capture_output=True, text=True)
    return [(e["train_loss"], e["validation_loss"]) for e in json.loads(done.stdout)["epochs"]]


def theirs(tslib, frame, weights, steps):
    sys.path.insert(0, str(tslib))
    from models.TimesNet import Model

    train, validation = int(len(frame) * 0.6), int(len(frame) * 0.2)
    date, table = pd.to_datetime(frame["date"]).dt, frame.iloc[:, 1:].values
    table = ((table - table[:train].mean(0)) / table[:train].std(0)).astype(np.float32)
    marks = np.stack([date.hour / 23, date.day_of_week / 6, (date.day - 1) / 30, (date.day_of_year - 1) / 365], 1) - 0.5
    marks = marks.astype(np.float32)

    def windows(starts):
        cut = lambda values, shift, size: torch.tensor(np.stack([values[i + shift:i + shift + size] for i in starts]))
        return cut(table, 0, LOOKBACK), cut(marks, 0, LOOKBACK), cut(table, LOOKBACK, HORIZON)

    config = types.SimpleNamespace(task_name="long_term_forecast", seq_len=LOOKBACK, label_len=0, pred_len=HORIZON, top_k=5,
                                   d_model=16, d_ff=32, num_kernels=6, e_layers=2, enc_in=7, c_out=7, embed="timeF",
                                   freq="h", dropout=0.0)
    model = Model(config)
    missing = model.load_state_dict(load_file(weights), strict=False)
    assert missing.missing_keys == ["enc_embedding.position_embedding.pe"] and not missing.unexpected_keys, missing
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    loss = lambda x, m, y: ((model(x, m, None, None) - y) ** 2).mean()
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        trained = loss(*windows(range(train - LOOKBACK - HORIZON + 1)))
        trained.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():  # one window at a time: each has periods of its own
            starts = range(train - LOOKBACK, train + validation - LOOKBACK - HORIZON + 1)
            yield trained.item(), np.mean([loss(*windows([i])).item() for i in starts])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--tslib", type=pathlib.Path, required=True)
    parser.add_argument("--ingot", default="build/bin/ingot")
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    frame = pd.read_csv(args.data).head(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/rows.csv"
        frame.to_csv(data, index=False)
        ours(args.ingot, data, f"{folder}/first", 1, 1e-20)  # a rate that moves no weight
        mine = ours(args.ingot, data, f"{folder}/trained", args.steps, RATE)
        print("step  training: Ingot, published   validation: Ingot, published")
        for step, (here, there) in enumerate(zip(mine, theirs(args.tslib, frame, f"{folder}/first/model.safetensors", args.steps))):
            print(f"{step + 1:4d}  {here[0]:.6f}  {there[0]:.6f}            {here[1]:.6f}  {there[1]:.6f}", flush=True)


if __name__ == "__main__":
    main()
